/*
 * store_client.h - a rank's side of the job's store. Calls block until a deadline, and survive that
 * the connection breaks: the request goes out again over a new one, and the store knows what it has
 * done already.
 *
 * One call at a time for each client. A rank may have several clients, which are one member to the
 * store: then they have the same `instance`.
 */
#ifndef TWI_STORE_CLIENT_H
#define TWI_STORE_CLIENT_H

#include <stdint.h>

#include "transport/job/store_codec.h"
#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

struct twi_store_client;

struct twi_store_join {
	const char *addresses; /* HOST:PORT, several with commas between them */
	const char *job;
	uint32_t rank, world_size, restarts;
	uint64_t instance; /* random, of this process and job; not 0 */
	const struct twi_job_key *key;
	struct twi_diag
		*diag; /* its log says when rank 0 has been waited for that long; NULL: none */
	uint64_t late_ns;
	/* Rank 0's store was not to be had, and why: each time. NULL: nobody is told. */
	void (*unreached)(void *arg, const char *why);
	void *arg;
};

/*
 * Connects, proves that it is of the job, greets. Retries until the deadline, as rank 0 may come
 * later than we do. TOW_OK; TOW_EDEADLINE with what happened last; TOW_EAUTH; TOW_EMISMATCH;
 * TOW_EPEER; TOW_ECANCELED; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_store_client_open(const struct twi_store_join *join, const struct twi_until *until,
			  struct twi_store_client **out);

/* Says goodbye, if that takes no more than linger_ns; NULL is legal. */
void twi_store_client_close(struct twi_store_client *client, uint64_t linger_ns);

/* Random, and the same at all ranks. */
uint64_t twi_store_client_session(const struct twi_store_client *client);

/* The numeric host of this side of the connection. */
bool twi_store_client_host(const struct twi_store_client *client, char out[TOW_ADDRESS_MAX]);

/* Each: TOW_OK; what the store refuses with; TOW_EDEADLINE; TOW_EPEER; TOW_ECANCELED. */
int twi_store_set(struct twi_store_client *client, const char *key, const void *value,
		  uint32_t bytes, const struct twi_until *until);

/* Waits until it is there. *bytes_out may be above `room`: then it is cut. */
int twi_store_get(struct twi_store_client *client, const char *key, void *value_out, uint32_t room,
		  uint32_t *bytes_out, const struct twi_until *until);

int twi_store_add(struct twi_store_client *client, const char *key, uint64_t add, uint64_t *sum_out,
		  const struct twi_until *until);

int twi_store_delete(struct twi_store_client *client, const char *key, bool *was_out,
		     const struct twi_until *until);

/* A group that its members make by themselves: what all of them say, and who this one is. */
struct twi_meeting {
	const char *key;       /* the parent group, a colon, and the name */
	const uint32_t *ranks; /* of the job, in the order of the new group */
	uint32_t count, index;
};

/* Waits until all have come. *group_out: a number that no other group has. */
int twi_store_meet(struct twi_store_client *client, const struct twi_meeting *meeting,
		   const struct twi_until *until, uint64_t *group_out);

/* Who has not come to a gather that others wait in, as rank 0's store has said. */
struct twi_absent {
	uint32_t missing;
	uint64_t refused; /* connections, by the store, so far */
	uint32_t count;   /* of `members`: the first of those that are missing */
	uint16_t members[TWI_STORE_ABSENT_MAX];
	char text[200]; /* the store's own words */
};

/* One member's part, and where all parts go. */
struct twi_gather {
	const char *key;
	uint32_t index, members, generation;
	const void *value;
	uint32_t bytes; /* at most TWI_STORE_GATHERED_MAX */
	/* Called for each member, in order. TOW_OK, or what the call returns. NULL: a fence. */
	int (*each)(void *arg, uint32_t index, const uint8_t *value, uint32_t bytes);
	/*
	 * Called about once a second while it waits, less often in large jobs. NULL: it waits in
	 * one piece, as is right for a gather that has generations (store_codec.h).
	 */
	void (*absent)(void *arg, const struct twi_absent *absent);
	void *arg;
};

int twi_store_gather(struct twi_store_client *client, const struct twi_gather *gather,
		     const struct twi_until *until);

#endif
