/*
 * store_meet.h - the part of a store where ranks meet to make a group by themselves (MEET).
 *
 *	rank 1: MEET "0:x", list 1 3 4 --+
 *	rank 4: MEET "0:x", list 1 3 4 --+--> a meeting --all have come--> answers, with a number
 *	rank 3: MEET "0:x", list 1 3 4 --+
 *
 * A meeting has a key (the parent group and a name), a list of ranks of the job, and the clients
 * that wait in it. It exists while at least one client waits. A client that goes, or whose time is
 * over, is taken out of it. Several meetings of one key and list may exist, when threads of a rank
 * come at once. Each rank is in each of them once.
 *
 * When all have come the meeting is *made*. The store keeps it for TWI_STORE_KEEP_NS, within the
 * bounds below. A member whose answer was lost with its connection gets it then when it asks again.
 * So nothing in the store grows with the number of groups that were made.
 *
 * Two meetings of one key disagree when a member of each waits for a member that waits in the
 * other. If they have a name, or the same ranks in another order, both fail at once. If not,
 * threads of a rank may be on their way to both, so only members whose time ends learn of it. A
 * meeting that has failed is kept like one that was made, and members that come to it later are
 * told once each.
 */
#ifndef TWI_STORE_MEET_H
#define TWI_STORE_MEET_H

#include "transport/job/store_table.h"

#define TWI_STORE_MADE_MAX   256u
#define TWI_STORE_MADE_BYTES (4ull << 20)

#define TWI_MEET_CHARS 120u /* length of a list in a message */

struct twi_meet_member {
	uint32_t client; /* client that waits; TWI_STORE_NOBODY: none */
	uint32_t number; /* number of its request; 0: it never came */
	uint16_t rank;   /* rank in the job */
	uint16_t sorted; /* not of this member: all ranks in ascending order */
};

struct twi_store_meet {
	struct twi_list link; /* on store->meets or store->made */
	uint32_t count, come;
	uint64_t since_ns;          /* since when the first member waits */
	uint64_t tell_ns;           /* when late members are next reported */
	uint64_t forget_ns;         /* a meeting that has ended is kept until then */
	uint64_t group;             /* after the end: the group's number; 0: failed */
	char doubt[TWI_STORE_TEXT]; /* how it disagrees with another meeting; "": it does not */
	uint32_t key_bytes;
	char *key;
	struct twi_meet_member members[];
};

/* Serves a request MEET, as twi_store_request does. */
int twi_store_on_meet(struct twi_store *store, uint32_t client, const struct twi_store_frame *frame,
		      uint64_t now_ns);

/* Takes the client out of its meeting, if it waits in one. */
void twi_store_meet_leave(struct twi_store *store, uint32_t client);

/*
 * The time of a client in a meeting is over. Returns the status to reply, whose text is the
 * thread's error.
 */
int twi_store_meet_expired(struct twi_store *store, uint32_t client);

/* Ends meetings with ranks that have gone, and forgets old ones. Returns when to call again. */
uint64_t twi_store_meets_turn(struct twi_store *store, uint64_t now_ns);

/* Tests whether a rank's connection broke, and the rank has not returned in TWI_STORE_GRACE_NS. */
bool twi_store_rank_lost(const struct twi_store *store, uint32_t rank, uint64_t now_ns);

void twi_store_meets_free(struct twi_store *store);

/* --- store_meet_judge.c --- */

bool twi_meet_same_list(const struct twi_store_meet *a, const struct twi_store_meet *b,
			bool sorted);
bool twi_meet_same_key(const struct twi_store_meet *a, const struct twi_store_meet *b);
bool twi_meet_has_name(const struct twi_store_meet *meet);

/* Tests whether two meetings disagree. If so, the thread's error says how. */
bool twi_meets_disagree(const struct twi_store_meet *a, const struct twi_store_meet *b);

enum twi_meet_whom {
	TWI_MEET_ALL,
	TWI_MEET_NEW,   /* members that have never come */
	TWI_MEET_ABSENT /* members that do not wait; some have given up */
};

/* Writes "1, 3-5": ranks of the job, in the order of the list. Returns their number. */
uint32_t twi_meet_list_text(const struct twi_store_meet *meet, enum twi_meet_whom whom,
			    char out[TWI_MEET_CHARS]);

/* Writes " 'NAME'": the part of the key behind the colon. "": the meeting has no name. */
void twi_meet_name_text(const struct twi_store_meet *meet, char *out, size_t bytes);

#endif
