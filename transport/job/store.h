/*
 * store.h - the job's store: what ranks tell each other before they can speak to each other. Pure:
 * requests in, replies out through a function, time as an argument; the thread that serves it is
 * store_server.c, and who asks is store_client.c.
 *
 * Everybody greets first (HELLO). A process that means another job, restart, world or protocol is
 * refused alone, with both sides named: it may be a process that an earlier start of the job left
 * behind, or a stranger, and neither may end the job of the others. A rank that misses it until its
 * deadline learns how many were refused, and why the last one was.
 *
 * A greeting alone gives nobody a rank: the first *request* does (twi_store_claim). So somebody
 * who only says that it is rank N neither keeps rank N out nor is missed when it goes.
 *
 * Members can make the store *fail*: all who wait and all who ask later are told why. Those are
 * members that disagree about a gather (TOW_EMISMATCH), and one that has gone without a word and
 * has not come back in TWI_STORE_GRACE_NS (TOW_EPEER).
 *
 * When a rank has gone, others may still meet to make groups without it (store_meet.h).
 *
 * Bounds: clients, bytes of all keys and values, one waiting request for each client.
 */
#ifndef TWI_STORE_H
#define TWI_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_codec.h"

#define TWI_STORE_GRACE_NS     3000000000ull
#define TWI_STORE_REST_NS      250000000ull /* who lingers waits no longer for one that has gone */
#define TWI_STORE_KEEP_NS      10000000000ull /* what is over, for who asks again */
#define TWI_STORE_TOTAL_MAX    (64ull << 20)  /* and TWI_STORE_RANK_BYTES for each rank */
#define TWI_STORE_RANK_BYTES   2048ull
#define TWI_STORE_TEXT         480
#define TWI_STORE_REFUSED_TEXT 160

struct twi_store;

struct twi_store_config {
	uint32_t world_size;
	uint32_t restarts;
	uint32_t clients_max;
	uint64_t session; /* random: told to all */
	const char *job;  /* kept by the caller */
	/* Sends a reply; what it points to is read at once. */
	void (*reply)(void *arg, uint32_t client, const struct twi_store_frame *frame);
	/*
	 * Members of a gather have waited for late_ns for others: "3, 5", by their numbers in it.
	 * Called by twi_store_expire, then again after twice that time, four times, and so on.
	 * NULL: nobody is told.
	 */
	void (*late)(void *arg, const char *key, const char *missing, uint64_t waited_ns);
	uint64_t late_ns;
	void *arg;
};

int twi_store_create(const struct twi_store_config *config, struct twi_store **out);
void twi_store_destroy(struct twi_store *store);

/* A connection more: its number, below clients_max; UINT32_MAX when there are too many. */
uint32_t twi_store_enter(struct twi_store *store);

/* It has gone. */
void twi_store_leave(struct twi_store *store, uint32_t client, uint64_t now_ns);

/*
 * TOW_OK. Below 0 the connection is to be closed: TOW_EPROTOCOL, or TOW_EMISMATCH, when it has been
 * told why it is refused.
 */
int twi_store_request(struct twi_store *store, uint32_t client, const struct twi_store_frame *frame,
		      uint64_t now_ns);

/* Ends what has waited too long; when to call again, UINT64_MAX: not before a request. */
uint64_t twi_store_expire(struct twi_store *store, uint64_t now_ns);

/*
 * For whoever waits to close: whether every rank has said BYE, has been told of the failure, or has
 * gone and did not come back in TWI_STORE_REST_NS, within which a broken connection is made anew.
 * Then *again_ns_out is when to ask again at the latest, UINT64_MAX: not before a connection ends.
 */
bool twi_store_is_done(const struct twi_store *store, uint64_t now_ns, uint64_t *again_ns_out);
bool twi_store_failed(const struct twi_store *store);

/*
 * Everything fails: all who wait and all who ask later are told the thread's error. `lost`: because
 * a rank has gone, so that others may still meet. Nothing if it has failed already.
 */
void twi_store_fail(struct twi_store *store, int status, bool lost);

/* Bytes that keys and values hold now. */
uint64_t twi_store_bytes(const struct twi_store *store);

/* Whether the client is a rank's: it has asked for something, or its process has before. */
bool twi_store_is_member(const struct twi_store *store, uint32_t client);

/* A connection was refused, and why: said where ranks are missing. */
void twi_store_refused(struct twi_store *store, const char *why);

#endif
