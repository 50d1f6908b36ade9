/*
 * memreg_orders.c - headroom: the threads of a program do not run the same way twice. The log is
 * replayed in other orders that could have been, and what 95 % of these fit in is added to the
 * size, within bounds (memreg_size.c says which).
 */
#include "bench/memreg/memreg_size.h"
#include <internal/base.h>
#include <towline/status.h>

#define ORDERS         32
#define ORDERS_LARGE   4
#define ORDER_PERMILLE 50
#define HEADROOM_PART  14 /* of the size: the most that other orders may add */

/* What headroom may not do: make the log itself not fit, or 90 % of it be enough. */
static void settle_headroom(struct memreg_sizing *sizing, uint64_t most)
{
	uint64_t step = sizing->found.step_bytes;

	while (most > sizing->smallest &&
	       (!memreg_arena_fits(sizing, most) || memreg_arena_fits(sizing, most / 10 * 9)))
		most -= twi_min(step, most - sizing->smallest);
	sizing->headroom = most > sizing->smallest ? most - sizing->smallest : 0;
}

/* The largest needs of other orders, the smallest of them last. */
struct needs {
	uint64_t bytes[ORDERS];
	uint32_t kept;
};

static void keep_need(struct needs *needs, uint64_t bytes)
{
	uint32_t i = needs->kept - 1;

	if (bytes <= needs->bytes[i])
		return;
	for (; i > 0 && needs->bytes[i - 1] < bytes; i--)
		needs->bytes[i] = needs->bytes[i - 1];
	needs->bytes[i] = bytes;
}

/*
 * One other order. What is asked for is the size that 95 % of the orders fit in, so only an order
 * that does not fit in what is known to be needed so far has to be searched for.
 */
static int try_order(struct memreg_sizing *sizing, uint32_t number, struct needs *needs)
{
	struct twi_replay_found found;
	struct twi_replay *varied;
	int rc;

	if (twi_replay_vary(sizing->job.replay, number + 1, ORDER_PERMILLE, &varied) < 0)
		return memreg_sizing_failed(sizing);
	rc = memreg_search_size(sizing, varied, needs->bytes[needs->kept - 1], true, &found);
	twi_replay_destroy(varied);
	if (rc != 0)
		return rc;
	sizing->orders++;
	keep_need(needs, found.bytes);
	return 0;
}

int memreg_try_orders(struct memreg_sizing *sizing)
{
	const struct twi_replay *replay = sizing->job.replay;
	uint32_t orders = replay->count > MEMREG_LARGE_LOG ? ORDERS_LARGE : ORDERS;
	uint64_t most = sizing->smallest, cap = most + most / HEADROOM_PART;
	struct needs needs = { .kept = 1 + orders / 20 };
	int rc = 0;

	cap = twi_max(most, cap / sizing->found.step_bytes * sizing->found.step_bytes);
	for (uint32_t i = 0; i < needs.kept; i++)
		needs.bytes[i] = most;
	for (uint32_t i = 0; replay->threads > 1 && i < orders && rc == 0 && most < cap; i++) {
		memreg_progress("other orders of the threads", 25 + i * 25 / orders, 100);
		rc = try_order(sizing, i, &needs);
		most = needs.bytes[needs.kept - 1];
	}
	sizing->capped = most > cap;
	if (rc == 0)
		settle_headroom(sizing, twi_min(most, cap));
	return rc;
}

uint64_t memreg_any_order(const struct memreg_sizing *sizing)
{
	const struct memreg_job *job = &sizing->job;

	if (job->strategy[0] != '\0' || job->sampled > 1 || job->lost > 0)
		return 0;
	return job->replay->apart_rounded + sizing->own_most_bytes;
}
