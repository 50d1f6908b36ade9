/*
 * store.h - the job's store, by which ranks exchange values before they can send messages.
 *
 * The store is pure: it takes requests, gives replies through a function, and gets the time as an
 * argument. The thread that serves it is in store_server.c, the clients are in store_client.c.
 *
 * Each client greets first (HELLO). A process of another job, restart, world size or protocol is
 * refused alone, with a message that names both sides. It may be left over from an earlier start of
 * the job, or be a stranger. Neither may end the job of the other ranks. A rank whose deadline ends
 * while ranks are missing learns how many clients were refused, and why the last one was.
 *
 * A greeting alone gives no rank to a process. Its first *request* does (twi_store_claim). So a
 * process that only says that it is rank N does not keep rank N out, and is not missed when it
 * goes.
 *
 * Members can make the store *fail*. Then all clients that wait, and all that ask later, get the
 * reason. There are two such reasons: members disagree about a gather (TOW_EMISMATCH), or a member
 * has gone without BYE and has not returned in TWI_STORE_GRACE_NS (TOW_EPEER).
 *
 * When a rank has gone, other ranks may still meet to make groups without it (store_meet.h).
 *
 * Bounds: clients, bytes of all keys and values, one waiting request for each client.
 */
#ifndef TWI_STORE_H
#define TWI_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_codec.h"

#define TWI_STORE_GRACE_NS     3000000000ull
#define TWI_STORE_REST_NS      250000000ull   /* a close waits so long for a rank that has gone */
#define TWI_STORE_KEEP_NS      10000000000ull /* how long results are kept for repeated requests */
#define TWI_STORE_TOTAL_MAX    (64ull << 20)  /* plus TWI_STORE_RANK_BYTES for each rank */
#define TWI_STORE_RANK_BYTES   2048ull
#define TWI_STORE_TEXT         480
#define TWI_STORE_REFUSED_TEXT 160

struct twi_store;

struct twi_store_config {
	uint32_t world_size;
	uint32_t restarts;
	uint32_t clients_max;
	uint64_t session; /* random; all clients get it */
	const char *job;  /* the caller keeps it until the store is destroyed */
	/* Sends a reply, and does not keep its pointers. */
	void (*reply)(void *arg, uint32_t client, const struct twi_store_frame *frame);
	/*
	 * Called when members of a gather have waited for late_ns: `missing` lists the others, as
	 * "3, 5", by their numbers in it. twi_store_expire calls it, and repeats the call each time
	 * the wait is three times as long. NULL: no calls.
	 */
	void (*late)(void *arg, const char *key, const char *missing, uint64_t waited_ns);
	uint64_t late_ns;
	void *arg;
};

int twi_store_create(const struct twi_store_config *config, struct twi_store **out);
void twi_store_destroy(struct twi_store *store);

/*
 * Adds a connection. Returns its number, below clients_max, or UINT32_MAX when there are too many.
 */
uint32_t twi_store_enter(struct twi_store *store);

/* Removes a connection that has gone. */
void twi_store_leave(struct twi_store *store, uint32_t client, uint64_t now_ns);

/*
 * Serves a request. TOW_OK. With any other status the caller must close the connection:
 * TOW_EPROTOCOL, or TOW_EMISMATCH after a reply that says why it is refused.
 */
int twi_store_request(struct twi_store *store, uint32_t client, const struct twi_store_frame *frame,
		      uint64_t now_ns);

/*
 * Ends requests that have waited too long. Returns when to call again; UINT64_MAX: not before a
 * request.
 */
uint64_t twi_store_expire(struct twi_store *store, uint64_t now_ns);

/*
 * Tests whether the store may be closed: every rank has sent BYE, got the failure, or has gone and
 * did not return in TWI_STORE_REST_NS. A rank remakes a broken connection within that time. If not,
 * *again_ns_out is when to ask again at the latest; UINT64_MAX: not before a connection ends.
 */
bool twi_store_is_done(const struct twi_store *store, uint64_t now_ns, uint64_t *again_ns_out);
bool twi_store_failed(const struct twi_store *store);

/*
 * Fails the store: all clients that wait, and all that ask later, get the thread's error. `lost`: a
 * rank has gone, so other ranks may still meet. Does nothing if the store has failed already.
 */
void twi_store_fail(struct twi_store *store, int status, bool lost);

/* Returns the bytes that keys and values hold now. */
uint64_t twi_store_bytes(const struct twi_store *store);

/*
 * Tests whether the client is a rank's: its process has made a request, by this or another client.
 */
bool twi_store_is_member(const struct twi_store *store, uint32_t client);

/* Counts a refused connection, and keeps the reason for reports of missing ranks. */
void twi_store_refused(struct twi_store *store, const char *why);

#endif
