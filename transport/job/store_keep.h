/*
 * store_keep.h - keeps a rank's client connected to the job's store while it has no request.
 *
 * To the store, a rank whose connection has broken has gone if it does not come back within
 * TWI_STORE_GRACE_NS. A client makes a new connection when it has a request, and a rank may compute
 * for an hour before that. Meanwhile a firewall may reset connections that say nothing. So a thread
 * sleeps until the connection ends, and makes the next one.
 */
#ifndef TWI_STORE_KEEP_H
#define TWI_STORE_KEEP_H

#include <pthread.h>
#include <stdbool.h>

#include "transport/job/store_client.h"

struct twi_store_keep {
	struct twi_store_client *client;
	pthread_mutex_t *lock; /* who holds it has the client */
	struct twi_diag *diag;
	pthread_t thread;
	int stop_fd;
	bool runs;
};

/* Starts the thread; without one, which the log says, the client is as it was. */
void twi_store_keep_start(struct twi_store_keep *keep, struct twi_store_client *client,
			  pthread_mutex_t *lock, struct twi_diag *diag);

/* Ends the thread, if it runs. The lock is not held. */
void twi_store_keep_stop(struct twi_store_keep *keep);

#endif
