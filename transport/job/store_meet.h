/*
 * store_meet.h - the part of a store where ranks meet to make a group by themselves (MEET).
 *
 *	rank 1: MEET "0:x", list 1 3 4 --+
 *	rank 4: MEET "0:x", list 1 3 4 --+--> a meeting --all have come--> answers, with a number
 *	rank 3: MEET "0:x", list 1 3 4 --+
 *
 * A meeting has a key (the parent group and a name), a list of ranks of the job, and the clients
 * that wait in it. It exists while at least one waits: who goes, or whose time is over, is taken
 * out of it. Several of one key and list may exist, when threads of a rank come at once: each rank
 * is in each of them once.
 *
 * When all have come it is *made*. It is kept for TWI_STORE_KEEP_NS, within the bounds below, so
 * that a member whose answer was lost with its connection gets it when it asks again. So nothing in
 * the store grows with the groups that were made.
 *
 * Two meetings of one key disagree when a member of each waits for one that waits in the other.
 * With a name, or with the same ranks in another order, that is a failure at once. Without, threads
 * of a rank may be on their way to both; so it is told to those whose time ends. A meeting that has
 * failed is kept as one that was made is, and members that come to it later are told, once each.
 */
#ifndef TWI_STORE_MEET_H
#define TWI_STORE_MEET_H

#include "transport/job/store_table.h"

#define TWI_STORE_MADE_MAX   256u
#define TWI_STORE_MADE_BYTES (4ull << 20)

#define TWI_MEET_CHARS 120u /* of a list in a message */

struct twi_meet_member {
	uint32_t client; /* that waits; TWI_STORE_NOBODY: it has not come */
	uint32_t number; /* of its request */
	uint16_t rank;   /* of the job */
	uint16_t sorted; /* the ranks of all members, in ascending order */
};

struct twi_store_meet {
	struct twi_list link; /* of store->meets or store->made */
	uint32_t count, come;
	uint64_t since_ns;          /* the first waits since then */
	uint64_t tell_ns;           /* when it is next said that others are late */
	uint64_t forget_ns;         /* it is over, and kept until then */
	uint64_t group;             /* of one that is over: its number; 0: it has failed */
	char doubt[TWI_STORE_TEXT]; /* how it disagrees with another one; "": in no way */
	uint32_t key_bytes;
	char *key;
	struct twi_meet_member members[];
};

/* A request of this kind; as twi_store_request. */
int twi_store_on_meet(struct twi_store *store, uint32_t client, const struct twi_store_frame *frame,
		      uint64_t now_ns);

/* The client waits no longer, if it waits in a meeting. */
void twi_store_meet_leave(struct twi_store *store, uint32_t client);

/* Its time is over: the status, whose text is the thread's error. */
int twi_store_meet_expired(struct twi_store *store, uint32_t client);

/* Ends meetings with ranks that have gone, and forgets old ones; when to call again. */
uint64_t twi_store_meets_turn(struct twi_store *store, uint64_t now_ns);

/* Whether a rank's connection broke, and it has not come back in time. */
bool twi_store_rank_lost(const struct twi_store *store, uint32_t rank, uint64_t now_ns);

void twi_store_meets_free(struct twi_store *store);

/* --- store_meet_judge.c --- */

bool twi_meet_same_list(const struct twi_store_meet *a, const struct twi_store_meet *b,
			bool sorted);
bool twi_meet_same_key(const struct twi_store_meet *a, const struct twi_store_meet *b);
bool twi_meet_has_name(const struct twi_store_meet *meet);

/* Whether they disagree; then the thread's error is how. */
bool twi_meets_disagree(const struct twi_store_meet *a, const struct twi_store_meet *b);

enum twi_meet_whom {
	TWI_MEET_ALL,
	TWI_MEET_NEW,   /* who has never come */
	TWI_MEET_ABSENT /* who is not waiting: some have come and given up */
};

/* "1, 3-5": ranks of the job, in the order of the list. How many they are. */
uint32_t twi_meet_list_text(const struct twi_store_meet *meet, enum twi_meet_whom whom,
			    char out[TWI_MEET_CHARS]);

/* " 'NAME'", of what stands behind the colon of the key; "": it has no name. */
void twi_meet_name_text(const struct twi_store_meet *meet, char *out, size_t bytes);

#endif
