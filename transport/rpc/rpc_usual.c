/*
 * rpc_usual.c - estimates how long a request lay unread at the server. See rpc_usual.h.
 */
#include "transport/rpc/rpc_usual.h"

#include <string.h>

#include <internal/base.h>

#define CLEAR_SHARE 4u    /* a call is clear of waits if it waited at most this part of its time */
#define SMALL_BYTES 4096u /* up to here a request takes as long as its answer */

static void least_take(struct twi_rpc_least *least, const struct twi_rpc_way *way)
{
	if (!least->known || way->wire_ns < least->wire_ns)
		least->wire_ns = way->wire_ns;
	least->known = true;
	if (way->error_ns <= INT64_MAX / 2) {
		int64_t request_ns = way->request_ns - (int64_t)way->error_ns;
		int64_t answer_ns = way->answer_ns + (int64_t)way->error_ns;

		if (!least->request_known || request_ns < least->request_ns)
			least->request_ns = request_ns;
		if (!least->request_known || answer_ns < least->answer_ns)
			least->answer_ns = answer_ns;
		least->request_known = true;
	}
}

static void least_join(struct twi_rpc_least *into, const struct twi_rpc_least *from)
{
	if (from->known && (!into->known || from->wire_ns < into->wire_ns))
		into->wire_ns = from->wire_ns;
	if (from->request_known && (!into->request_known || from->request_ns < into->request_ns))
		into->request_ns = from->request_ns;
	if (from->request_known && (!into->request_known || from->answer_ns < into->answer_ns))
		into->answer_ns = from->answer_ns;
	into->known |= from->known;
	into->request_known |= from->request_known;
}

/* Adds a call that did not wait. Old times are dropped only when there are newer ones. */
static void usual_take(struct twi_rpc_usual *usual, unsigned size, const struct twi_rpc_way *way)
{
	if (usual->since_ns == 0 || way->at_ns - usual->since_ns >= TWI_RPC_USUAL_NS) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
			if (usual->now[i].known)
				usual->before[i] = usual->now[i];
		}
		memset(usual->now, 0, sizeof(usual->now));
		usual->since_ns = twi_max(way->at_ns, (uint64_t)1);
	}
	least_take(&usual->now[size], way);
}

/* All calls have waited: a request takes no longer than an answer does. */
static void least_even(struct twi_rpc_least *least)
{
	int64_t answer_ns = twi_max(least->answer_ns, (int64_t)0);

	least->request_ns = twi_min(least->request_ns, answer_ns);
	least->wire_ns = twi_min(least->wire_ns, 2 * (uint64_t)answer_ns);
}

uint64_t twi_rpc_usual_wait(struct twi_rpc_usual *usual, const struct twi_rpc_way *way)
{
	unsigned size = twi_size_class(way->bytes);
	struct twi_rpc_least least;
	uint64_t wait;

	least_take(&usual->all[size], way);
	if (way->unread_ns <= way->wire_ns / CLEAR_SHARE)
		usual_take(usual, size, way);
	least = usual->now[size];
	least_join(&least, &usual->before[size]);
	if (!least.known) {
		least = usual->all[size];
		if (least.request_known && way->bytes <= SMALL_BYTES)
			least_even(&least);
	}
	wait = way->wire_ns - twi_min(way->wire_ns, least.wire_ns);
	if (least.request_known && way->error_ns <= INT64_MAX / 2) {
		int64_t beyond = way->request_ns + (int64_t)way->error_ns - least.request_ns;

		wait = twi_min(wait, (uint64_t)twi_max(beyond, (int64_t)0));
	}
	return twi_min(wait, way->unread_ns);
}
