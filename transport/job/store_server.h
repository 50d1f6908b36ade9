/*
 * store_server.h - the thread that serves the job's store, in rank 0. Control path: it sleeps in
 * epoll_wait and shares nothing with the engine.
 *
 * Bounds: two connections for each rank and 64 more; 64 strangers; what one connection holds is
 * bounded by store_wire.h. A stranger is a connection that has not shown the job's key yet; without
 * a key, one that has not asked for anything as a rank. It has five seconds, but when all 64 places
 * are taken, the oldest that has had 50 ms gives way: however many connect and say nothing, a rank
 * is heard within the time that it takes to end those before it, 64 in 50 ms. Of a time in which
 * the thread itself had no CPU one second counts at most, as nobody could prove anything then.
 */
#ifndef TWI_STORE_SERVER_H
#define TWI_STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

#define TWI_STORE_STRANGERS   64u
#define TWI_STORE_STRANGER_NS 5000000000ull
#define TWI_STORE_EVICT_NS    50000000ull /* so long none has to give way */

struct twi_diag;
struct twi_store_server;

struct twi_store_serve {
	const char *address; /* as of twi_net_listen */
	uint32_t world_size, restarts;
	const char *job; /* copied, as the key is */
	const struct twi_job_key *key;
	struct twi_diag *diag; /* for its log and counters; NULL: none */
	uint64_t late_ns;      /* ranks that others have waited for so long stand in the log */
};

int twi_store_server_start(const struct twi_store_serve *serve, const struct twi_until *until,
			   struct twi_store_server **out);

uint16_t twi_store_server_port(const struct twi_store_server *server);

/* It listens on all interfaces, as its address is none of this machine's, or none was given. */
bool twi_store_server_any(const struct twi_store_server *server);

/* All who wait and all who come are told of this failure. Once. */
void twi_store_server_fail(struct twi_store_server *server, int status, const char *text);

/*
 * Ends the thread; NULL is legal. First it serves on, for at most linger_ns, until every rank has
 * said goodbye, has been told of the failure, or has gone (twi_store_is_done).
 */
void twi_store_server_stop(struct twi_store_server *server, uint64_t linger_ns);

#endif
