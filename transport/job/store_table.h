/*
 * store_table.h - the inside of a store: its entries by key, and its books of ranks and clients.
 */
#ifndef TWI_STORE_TABLE_H
#define TWI_STORE_TABLE_H

#include <internal/list.h>

#include "transport/job/store.h"

#define TWI_STORE_BUCKETS 1024u
#define TWI_STORE_NOBODY  UINT32_MAX

/* One member's part of a gather. */
struct twi_store_part {
	uint8_t *value;
	uint32_t bytes;
	uint32_t rank;     /* who gave it; TWI_STORE_NOBODY: not yet */
	uint64_t since_ns; /* when it did so first */
};

struct twi_store_entry {
	struct twi_list link; /* in its bucket */
	uint8_t *value;       /* of SET and ADD */
	uint32_t bytes;
	struct twi_store_part *parts; /* of GATHER; NULL: it is a value */
	uint32_t members, given;
	uint32_t generation;
	uint64_t since_ns;     /* GATHER: when the first has given; 0: nobody waits */
	uint64_t tell_ns;      /* when it is next told of that others are late */
	uint64_t drop_ns;      /* GATHER that was deleted: it goes then; 0: it stays */
	struct twi_list going; /* of store->going, with drop_ns */
	uint32_t key_bytes;
	char key[];
};

struct twi_store_rank {
	uint64_t instance; /* of the process that is this rank; 0: none has asked for anything */
	uint64_t gone_ns;  /* its connection broke then; 0: it has not */
	uint32_t clients;  /* its connections now, of those that are members */
	uint32_t number;   /* of its last ADD, and what that gave */
	uint64_t sum;
	bool done; /* has said BYE, or has been told that all has failed */
	bool left; /* has said BYE */
};

struct twi_store_connection {
	bool used, waiting;
	bool member;       /* the rank is this one's: see twi_store_claim */
	uint32_t rank;     /* what it says; TWI_STORE_NOBODY: it has not greeted */
	uint32_t from;     /* GATHER */
	uint64_t instance; /* as its greeting says */
	uint64_t until_ns;
	struct twi_store_frame request; /* its key is the entry's, or `key` here */
	char key[TWI_STORE_KEY_MAX];
	struct twi_store_meet *meet; /* MEET, while it waits: store_meet.h */
	uint32_t meet_index;
};

struct twi_store {
	struct twi_store_config config;
	struct twi_list buckets[TWI_STORE_BUCKETS];
	struct twi_store_rank *ranks;
	struct twi_store_connection *clients;
	uint64_t bytes, strangers;
	uint32_t waiting, done, gone, left;
	struct twi_list meets, made; /* of store_meet.h: that wait for members, and that are over */
	uint32_t made_count;
	uint64_t made_bytes;
	struct twi_list going; /* entries with drop_ns, the first to go in front */
	int failed;            /* below 0: so it is, and the text says why */
	bool lost;             /* it has failed because a rank has gone: others may still meet */
	char text[TWI_STORE_TEXT];
	char refused[TWI_STORE_REFUSED_TEXT]; /* why the last connection was refused */
	uint8_t reply[TWI_STORE_VALUE_MAX];
};

struct twi_store_entry *twi_store_find(struct twi_store *store, const char *key, uint32_t bytes);

/* Found or made; NULL with TOW_ENOMEM or TOW_EBUSY as the thread's error, in *status_out. */
struct twi_store_entry *twi_store_make(struct twi_store *store, const char *key, uint32_t bytes,
				       int *status_out);
void twi_store_drop(struct twi_store *store, struct twi_store_entry *entry);

/* Whether a greeting is of this job; what is wrong with it is the thread's error. */
int twi_store_judge_hello(const struct twi_store *store, const struct twi_store_frame *frame);

/*
 * The rank that the client has greeted as becomes its own, or TOW_EMISMATCH. A rank is free until
 * somebody asks for something in its name, and from then on its process's alone: the instance is
 * random, and nobody else is told it.
 */
int twi_store_claim(struct twi_store *store, uint32_t client);

/* Accounts for `bytes` more in the store. TOW_OK, or TOW_EBUSY when it is full. */
int twi_store_charge(struct twi_store *store, uint64_t bytes);

/* Of store.c: answers the request that a client has out; a refusal's text is the thread's error. */
void twi_store_answer(struct twi_store *store, uint32_t client, struct twi_store_frame reply);
int twi_store_refuse(struct twi_store *store, uint32_t client, int status);
void twi_store_wait(struct twi_store *store, uint32_t client, uint64_t now_ns);

/* Sets the value of an entry or of a part. */
int twi_store_put(struct twi_store *store, uint8_t **value, uint32_t *bytes, const uint8_t *from,
		  uint32_t count);

/* Makes an entry a gather of so many, or begins its next generation. */
int twi_store_gather_begin(struct twi_store *store, struct twi_store_entry *entry, uint32_t members,
			   uint32_t generation);

/* "2, 5, 7 and 3 more": of the members that have not given. */
void twi_store_missing(const struct twi_store_entry *entry, char *out, size_t bytes);
/* The first of them; how many there are in the list. */
uint32_t twi_store_absent(const struct twi_store_entry *entry, uint16_t out[TWI_STORE_ABSENT_MAX]);

#endif
