/* cell.c - what a cell of the conformance suite is. */
#include "cell.h"

const struct twt_lane twt_lanes[] = {
#define TWT_LANE(text, here, there, one, pair_one)                                                 \
	{ .name = text, .address = { here, there }, .one_runtime = one },
#define TWT_VARIANT(text, here, there, driven_by, keyed)                                           \
	{ .name = text, .address = { here, there }, .poller = driven_by, .encrypted = keyed },
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

const char *const twt_memories[] = { "pool", "registered", "plain", "unreadable" };

const char *const twt_drivings[] = { "wait",     "test",       "progress",   "tow_fd",
				     "callback", "own-thread", "40-threads", "queue" };

uint64_t twt_cell_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool twt_by_itself(const struct twt_cell *cell)
{
	return cell->driving == TWT_CALLBACK || cell->driving == TWT_OWN_THREAD ||
	       cell->driving == TWT_QUEUE;
}

void twt_idle(struct twt_end *end)
{
	if (twt_by_itself(end->cell)) {
		usleep(200);
		return;
	}
	if (end->cell->driving == TWT_FD) {
		struct pollfd wait = { .fd = end->fd, .events = POLLIN };

		poll(&wait, 1, 1);
	} else {
		usleep(20);
	}
	if (tow_progress(end->runtime) < 0)
		twt_wrong(end->cell, "tow_progress: %s", tow_error_message());
}

void twt_meet(struct twt_end *end)
{
	struct twt_end *other = &end->cell->ends[1 - end->which];
	unsigned turn = atomic_fetch_add(&end->met, 1) + 1;
	uint64_t until = twt_cell_now() + 2 * TWT_CELL_NS;

	while (atomic_load(&other->met) < turn) {
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "end %d waits for the other in vain, after: %.120s",
				  end->which, twt_last(end));
		twt_idle(end);
	}
}
