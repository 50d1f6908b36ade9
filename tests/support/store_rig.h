/*
 * store_rig.h - a job's store without a network: connections say requests, and replies are kept.
 */
#ifndef TWT_STORE_RIG_H
#define TWT_STORE_RIG_H

#include <stdint.h>

#include "transport/job/store.h"

#define TWT_STORE_RANKS   4
#define TWT_STORE_CLIENTS 12

/* What a connection was answered. */
struct twt_store_reply {
	int count; /* since last asked for */
	int status;
	uint32_t number;
	uint64_t a;
	char text[256];
	uint32_t bytes;
	uint8_t value[TWI_STORE_VALUE_MAX];
};

extern struct twt_store_reply twt_store_replies[TWT_STORE_CLIENTS];

/* Keeps a reply in twt_store_replies: for the configuration of a store. */
void twt_store_keep(void *arg, uint32_t client, const struct twi_store_frame *frame);

struct twi_store *twt_store_make(void);

/* So many answers since last asked; the last of them. */
const struct twt_store_reply *twt_store_take(uint32_t client, int count);

struct twi_store_frame twt_store_request(uint8_t kind, const char *key);

int twt_store_ask(struct twi_store *store, uint32_t client, struct twi_store_frame frame,
		  uint64_t now);

int twt_store_hello(struct twi_store *store, uint32_t client, uint32_t rank, uint32_t world,
		    uint64_t instance, const char *job, uint32_t version, uint32_t restarts);

/* A connection that has greeted as `rank`, and has asked for something. */
uint32_t twt_store_member(struct twi_store *store, uint32_t rank);

struct twi_store_frame twt_store_gather(const char *key, uint32_t index, uint32_t members,
					uint32_t generation, const char *value);

/* The texts of a gather's reply, each with a blank behind it. */
const char *twt_store_texts(const struct twt_store_reply *reply);

#endif
