/*
 * store_client.h - a rank's client of the job's store.
 *
 * Calls block until a deadline. They survive a broken connection: the client sends the request
 * again over a new one, and the store knows what it has done already.
 *
 * A client makes one call at a time. A rank may have several clients, which have the same
 * `instance` and so are one member to the store.
 */
#ifndef TWI_STORE_CLIENT_H
#define TWI_STORE_CLIENT_H

#include <stdint.h>

#include "transport/job/store_codec.h"
#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

struct twi_store_client;

struct twi_store_join {
	const char *addresses; /* HOST:PORT, or several separated by commas */
	const char *job;
	uint32_t rank, world_size, restarts;
	uint64_t instance; /* random, the same for all clients of this process in the job; not 0 */
	uint64_t session;  /* of the store that an earlier client has met; 0: there was none */
	const struct twi_job_key *key;
	struct twi_diag
		*diag; /* its log says when rank 0 has been waited for late_ns; NULL: none */
	uint64_t late_ns;
	/* Called at each failure to reach rank 0's store, with the reason. NULL: no calls. */
	void (*unreached)(void *arg, const char *why);
	void *arg;
};

/*
 * Connects, proves that the process is of the job, and greets. Retries until the deadline, as rank
 * 0 may start later; for some seconds where an earlier client has met the store. TOW_OK;
 * TOW_EDEADLINE with the last failure; TOW_EAUTH; TOW_EMISMATCH; TOW_EPEER; TOW_ECANCELED;
 * TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_store_client_open(const struct twi_store_join *join, const struct twi_until *until,
			  struct twi_store_client **out);

/* Another descriptor of the connection, to wait for its end; -1: there is none. */
int twi_store_client_copy(const struct twi_store_client *client);

/* Makes a connection that has ended anew. TOW_OK; else as a call, below. */
int twi_store_client_mend(struct twi_store_client *client, const struct twi_until *until);

/*
 * Closes the client. Sends BYE first, and waits at most linger_ns for the reply; 0: no BYE. NULL is
 * legal.
 */
void twi_store_client_close(struct twi_store_client *client, uint64_t linger_ns);

/* Returns the session: random, and the same at all ranks. */
uint64_t twi_store_client_session(const struct twi_store_client *client);

/* Returns the numeric host of this side of the connection. False: it is not known. */
bool twi_store_client_host(const struct twi_store_client *client, char out[TOW_ADDRESS_MAX]);

/*
 * Each call returns TOW_OK, the status with which the store refuses, TOW_EDEADLINE, TOW_EPEER or
 * TOW_ECANCELED.
 */
int twi_store_set(struct twi_store_client *client, const char *key, const void *value,
		  uint32_t bytes, const struct twi_until *until);

/*
 * Waits until the key has a value. A value that is longer than `room` is cut; *bytes_out is its
 * full length.
 */
int twi_store_get(struct twi_store_client *client, const char *key, void *value_out, uint32_t room,
		  uint32_t *bytes_out, const struct twi_until *until);

int twi_store_add(struct twi_store_client *client, const char *key, uint64_t add, uint64_t *sum_out,
		  const struct twi_until *until);

int twi_store_delete(struct twi_store_client *client, const char *key, bool *was_out,
		     const struct twi_until *until);

/* A group that its members make by themselves. All members pass the same key and ranks. */
struct twi_meeting {
	const char *key;       /* the parent group, a colon and the name */
	const uint32_t *ranks; /* ranks in the job, in the order of the new group */
	uint32_t count, index;
};

/* Waits until all members have come. *group_out is a number that no other group has. */
int twi_store_meet(struct twi_store_client *client, const struct twi_meeting *meeting,
		   const struct twi_until *until, uint64_t *group_out);

/* The members that are missing in a gather that others wait in, as rank 0's store has reported. */
struct twi_absent {
	uint32_t missing;
	uint64_t refused; /* connections that the store has refused so far */
	uint32_t count;   /* length of `members`, the first of the missing ones */
	uint16_t members[TWI_STORE_ABSENT_MAX];
	char text[200]; /* the store's own text */
};

/* One member's value, and the function that gets the values of all. */
struct twi_gather {
	const char *key;
	uint32_t index, members, generation;
	const void *value;
	uint32_t bytes; /* at most TWI_STORE_GATHERED_MAX */
	/*
	 * Called for each member, in order. A status below 0 ends the call with it. NULL: a fence.
	 */
	int (*each)(void *arg, uint32_t index, const uint8_t *value, uint32_t bytes);
	/*
	 * Called about once a second during the wait, less often in large jobs. NULL: the client
	 * waits in one piece, as it must for a gather that has generations (store_codec.h).
	 */
	void (*absent)(void *arg, const struct twi_absent *absent);
	void *arg;
};

int twi_store_gather(struct twi_store_client *client, const struct twi_gather *gather,
		     const struct twi_until *until);

#endif
