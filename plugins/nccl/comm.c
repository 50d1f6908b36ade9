/*
 * comm.c - creates comms, and ends them.
 *
 * Closing the channel ends the operations in flight. The memory of the requests is freed when the
 * last callback has run. The caller may unmap its buffers when close has returned.
 */
#include "plugins/nccl/plugin.h"
#include "plugins/nccl/profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CLOSE_WAIT_NS (UINT64_C(10) * 1000000000)
#define SPINS         1000
#define NAP_NS        50000

/* The comm becomes a user of the state, and takes over the caller's use of the link. */
struct twn_comm *twn_comm_create(struct twn_link *link, bool sends)
{
	struct twn_comm *comm = calloc(1, sizeof(*comm));

	if (comm == NULL)
		return NULL;
	pthread_mutex_init(&comm->grow, NULL);
	comm->number = ++twn.last_number;
	comm->link = link;
	comm->peer = link->peer;
	comm->runtime = twn.runtime;
	comm->sends = sends;
	comm->chunks_max = sends ? TWN_CHUNKS_SEND : TWN_CHUNKS_RECV;
	comm->request_bytes = (uint32_t)(sizeof(struct twn_request) +
					 (sends ? 1 : TWN_GROUP) * sizeof(struct twn_part));
	twn.users++;
	return comm;
}

void twn_comm_name(struct twn_comm *comm, uint64_t comm_id)
{
	if (comm_id == 0 || !twp_comm_name(comm_id, comm->name))
		comm->name[0] = '\0';
}

/* False: an operation has not ended, so no memory of the comm may be freed. */
static bool wait_for_callbacks(struct twn_comm *comm)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t until_ns = twn_now_ns() + CLOSE_WAIT_NS;

	/* acquire: pairs with the release of the last callback */
	for (int i = 0; atomic_load_explicit(&comm->in_flight, memory_order_acquire) > 0; i++) {
		if (tow_progress(comm->runtime) == TOW_OK || i < SPINS)
			continue;
		if (twn_now_ns() > until_ns)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/* Keeps the first failure of any thread. */
void twn_comm_fail(struct twn_comm *comm, int status, const char *why)
{
	if (atomic_exchange_explicit(&comm->failing, true, memory_order_relaxed))
		return;
	snprintf(comm->why, sizeof(comm->why), "%s", why == NULL ? "" : why);
	/* release: a thread that reads the status reads `why` */
	atomic_store_explicit(&comm->failed, status, memory_order_release);
}

static void comm_free(struct twn_comm *comm)
{
	for (uint32_t i = 0; i < TWN_CHUNKS_SEND; i++)
		free(atomic_load_explicit(&comm->chunks[i], memory_order_relaxed));
	pthread_mutex_destroy(&comm->grow);
	free(comm);
}

void twn_comm_destroy(struct twn_comm *comm)
{
	if (comm->channel != NULL)
		tow_channel_close(comm->channel);
	twn_link_leave(comm->link);
	comm_free(comm);
	twn_release();
}

enum nccl_result twn_comm_close(struct twn_comm *comm)
{
	bool ended;

	if (comm == NULL)
		return NCCL_INVALID_ARGUMENT;
	if (comm->channel != NULL)
		tow_channel_close(comm->channel);
	comm->channel = NULL;
	ended = wait_for_callbacks(comm);
	pthread_mutex_lock(&twn.lock);
	twn_memory_retry();
	if (comm->link->device->endpoint != NULL)
		twn_links_accept(comm->link->device); /* links that other sides closed end, too */
	if (ended) {
		twn_comm_destroy(comm);
	} else {
		twn_log(NCCL_LOG_WARN,
			"a closed connection with %s%s%s has operations that do not end",
			comm->link->address, comm->name[0] != '\0' ? " of " : "", comm->name);
		twn_link_leave(comm->link);
		twn_release();
	}
	pthread_mutex_unlock(&twn.lock);
	return NCCL_SUCCESS;
}
