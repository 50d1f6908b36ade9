/*
 * store_table.h - the private parts of a store: its entries by key, its ranks and its clients.
 */
#ifndef TWI_STORE_TABLE_H
#define TWI_STORE_TABLE_H

#include <internal/list.h>

#include "transport/job/store.h"

#define TWI_STORE_BUCKETS 1024u
#define TWI_STORE_NOBODY  UINT32_MAX
#define TWI_STORE_ADDED   8u

/* One member's part of a gather. */
struct twi_store_part {
	uint8_t *value;
	uint32_t bytes;
	uint32_t rank;     /* the rank that gave it; TWI_STORE_NOBODY: not given */
	uint32_t number;   /* of the request that gave it first */
	uint64_t since_ns; /* when it was first given */
};

struct twi_store_entry {
	struct twi_list link; /* in its bucket */
	uint8_t *value;       /* the value of SET and ADD */
	uint32_t bytes;
	struct twi_store_part *parts; /* the parts of GATHER; NULL: a value */
	/* Those of the generation before, all of them; NULL: no member can want them any more. */
	struct twi_store_part *before;
	uint32_t members, given;
	uint32_t generation;
	uint64_t since_ns;     /* GATHER: when the first part was given; 0: none waits */
	uint64_t tell_ns;      /* when late members are next reported */
	uint64_t drop_ns;      /* a deleted GATHER is dropped then; 0: it stays */
	struct twi_list going; /* on store->going when drop_ns is set */
	uint32_t key_bytes;
	char key[];
};

/* The result of an ADD, for the request that is repeated because its reply was lost. */
struct twi_store_added {
	uint32_t number; /* 0: none */
	uint64_t sum;
};

struct twi_store_rank {
	uint64_t instance; /* the process that is this rank; 0: none has made a request */
	uint64_t gone_ns;  /* when its last connection broke; 0: it has not */
	uint32_t clients;  /* its connections that are members */
	/* Its last ones, in turn: of several clients, one may repeat an ADD after others' ADDs. */
	struct twi_store_added added[TWI_STORE_ADDED];
	uint32_t added_next;
	bool done; /* has sent BYE, or has got the store's failure */
	bool left; /* has sent BYE */
};

struct twi_store_connection {
	bool used, waiting;
	bool member;       /* the rank is this client's; see twi_store_claim */
	uint32_t rank;     /* the rank in its greeting; TWI_STORE_NOBODY: not greeted */
	uint32_t from;     /* GATHER: the first index of the reply */
	uint64_t instance; /* the instance in its greeting */
	uint64_t until_ns;
	struct twi_store_frame request; /* its key points to `key` below */
	char key[TWI_STORE_KEY_MAX];
	struct twi_store_meet *meet; /* MEET: set while the client waits (store_meet.h) */
	uint32_t meet_index;
};

struct twi_store {
	struct twi_store_config config;
	struct twi_list buckets[TWI_STORE_BUCKETS];
	struct twi_store_rank *ranks;
	struct twi_store_connection *clients;
	uint64_t bytes, strangers;
	uint32_t waiting, done, gone, left;
	struct twi_list meets, made; /* meetings that wait, and that have ended */
	uint32_t made_count;
	uint64_t made_bytes;
	struct twi_list going; /* entries with drop_ns, in ascending order */
	int failed;            /* below 0: the store has failed; `text` is the reason */
	bool lost;             /* a rank has gone, so other ranks may still meet */
	char text[TWI_STORE_TEXT];
	char refused[TWI_STORE_REFUSED_TEXT]; /* why the last connection was refused */
	uint8_t reply[TWI_STORE_VALUE_MAX];
};

struct twi_store_entry *twi_store_find(struct twi_store *store, const char *key, uint32_t bytes);

/*
 * Finds or makes an entry. NULL: *status_out is TOW_ENOMEM or TOW_EBUSY, with the thread's error.
 */
struct twi_store_entry *twi_store_make(struct twi_store *store, const char *key, uint32_t bytes,
				       int *status_out);
void twi_store_drop(struct twi_store *store, struct twi_store_entry *entry);

/* Checks that a greeting is of this job. A failure's text is the thread's error. */
int twi_store_judge_hello(const struct twi_store *store, const struct twi_store_frame *frame);

/*
 * Gives the client the rank of its greeting, or returns TOW_EMISMATCH. A rank is free until a
 * process makes a request in its name. Then it belongs to that process alone, as no other process
 * knows the random instance. TOW_EREFUSED: that process has left or gone, so this one is of a later
 * start of the job; it comes again until rank 0 of that start serves a store.
 */
int twi_store_claim(struct twi_store *store, uint32_t client);

/* Accounts for `bytes` more in the store. TOW_OK, or TOW_EBUSY when the store is full. */
int twi_store_charge(struct twi_store *store, uint64_t bytes);

/*
 * store.c. answer: answers the client's request. refuse: does so with a failure, whose text is the
 * thread's error. wait: lets the request wait.
 */
void twi_store_answer(struct twi_store *store, uint32_t client, struct twi_store_frame reply);
int twi_store_refuse(struct twi_store *store, uint32_t client, int status);
void twi_store_wait(struct twi_store *store, uint32_t client, uint64_t now_ns);

/* Sets the value of an entry or of a part. */
int twi_store_put(struct twi_store *store, uint8_t **value, uint32_t *bytes, const uint8_t *from,
		  uint32_t count);

/*
 * begin: makes an entry a gather of `members`, or begins its next generation. The parts of the one
 * before stay: a member may have them not yet, or not all. end: all members have given, and so they
 * have those of the generation before.
 */
int twi_store_gather_begin(struct twi_store *store, struct twi_store_entry *entry, uint32_t members,
			   uint32_t generation);
void twi_store_gather_end(struct twi_store *store, struct twi_store_entry *entry);

/* Writes "2, 5, 7 and 3 more": the members that have not given. */
void twi_store_missing(const struct twi_store_entry *entry, char *out, size_t bytes);
/* Lists the first of these members. Returns the length of the list. */
uint32_t twi_store_absent(const struct twi_store_entry *entry, uint16_t out[TWI_STORE_ABSENT_MAX]);

#endif
