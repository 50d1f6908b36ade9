/*
 * store_server.h - the thread that serves the job's store, in rank 0.
 *
 * The thread is of the control path: it sleeps in epoll_wait and shares nothing with the engine.
 *
 * Bounds: two connections for each rank and 64 more, and 64 strangers. store_wire.h bounds what one
 * connection holds. A stranger is a connection that has not proved the job's key yet; without a
 * key, one that has made no request as a rank. It has five seconds. But when all 64 places are
 * taken, the oldest stranger that has had 50 ms is dropped. So even if many connect and send
 * nothing, a rank is served once those before it are dropped: 64 of them in 50 ms. While the thread
 * itself had no CPU, a stranger's time runs for one second at most, as no stranger could prove
 * anything then.
 */
#ifndef TWI_STORE_SERVER_H
#define TWI_STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

#define TWI_STORE_STRANGERS   64u
#define TWI_STORE_STRANGER_NS 5000000000ull
#define TWI_STORE_EVICT_NS    50000000ull /* a younger stranger is not dropped */

struct twi_diag;
struct twi_store_server;

struct twi_store_serve {
	const char *address; /* as in twi_net_listen */
	uint32_t world_size, restarts;
	const char *job; /* copied, as the key is */
	const struct twi_job_key *key;
	struct twi_diag *diag; /* for its log and counters; NULL: none */
	uint64_t late_ns;      /* the log names ranks that others have waited for this long */
};

int twi_store_server_start(const struct twi_store_serve *serve, const struct twi_until *until,
			   struct twi_store_server **out);

uint16_t twi_store_server_port(const struct twi_store_server *server);

/*
 * True when the store listens on all interfaces, as its address is not of this machine, or none was
 * given.
 */
bool twi_store_server_any(const struct twi_store_server *server);

/*
 * Fails the store: all clients that wait and all that come later get this failure. Called at most
 * once.
 */
void twi_store_server_fail(struct twi_store_server *server, int status, const char *text);

/*
 * Ends the thread; NULL is legal. Before, the thread serves for at most linger_ns, until every rank
 * has sent BYE, has got the failure, or has gone (twi_store_is_done).
 */
void twi_store_server_stop(struct twi_store_server *server, uint64_t linger_ns);

#endif
