/* wait_log.c - adds up waits, and marks and reports the sums. See wait_log.h. */
#include "transport/engine/wait_log.h"

#include <sys/resource.h>

#include <internal/base.h>

#include "transport/engine/step.h"

#define BLOCK_BYTES 512u /* of ru_inblock (getrusage(2)) */

static uint64_t read_sum(const _Atomic uint64_t *sum)
{
	return atomic_load_explicit(sum, memory_order_relaxed);
}

/* Only the followed thread writes. A sum that is lost as another takes its place does no harm. */
static void add_sum(_Atomic uint64_t *sum, uint64_t ns)
{
	atomic_store_explicit(sum, read_sum(sum) + ns, memory_order_relaxed);
}

/*
 * Each peer has a row of its own as long as there is room. The others are in the sum of all alone.
 */
static void add_peer(struct twi_wait_log *log, const void *peer, uint64_t ns)
{
	for (unsigned i = 0; i < TWI_WAIT_LOG_PEERS; i++) {
		const void *have = atomic_load_explicit(&log->peers[i].peer, memory_order_relaxed);

		if (have == NULL)
			atomic_store_explicit(&log->peers[i].peer, peer, memory_order_relaxed);
		if (have == NULL || have == peer) {
			add_sum(&log->peers[i].ns, ns);
			return;
		}
	}
}

void twi_wait_log_add(struct twi_wait_log *log, enum twi_waited kind, const void *peer, uint64_t ns)
{
	uint32_t waits = atomic_load_explicit(&log->waits, memory_order_relaxed);

	add_sum(&log->ns[kind], ns);
	atomic_store_explicit(&log->waits, waits + 1, memory_order_relaxed);
	if (peer != NULL)
		add_peer(log, peer, ns);
}

static void take_sums(const struct twi_wait_log *log, const struct twi_step *step, uint64_t now_ns,
		      struct twi_wait_mark *out)
{
	struct rusage usage;

	*out = (struct twi_wait_mark){
		.at_ns = now_ns,
		.waits = atomic_load_explicit(&log->waits, memory_order_relaxed),
		.steps = atomic_load_explicit(&step->ended, memory_order_relaxed),
		.step_ns = read_sum(&step->took_ns),
	};
	for (unsigned i = 0; i < TWI_WAITED_KINDS; i++)
		out->ns[i] = read_sum(&log->ns[i]);
	for (unsigned i = 0; i < TWI_WAIT_LOG_PEERS; i++)
		out->peer_ns[i] = read_sum(&log->peers[i].ns);
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		out->major_faults = (uint64_t)usage.ru_majflt;
		out->read_bytes = (uint64_t)usage.ru_inblock * BLOCK_BYTES;
	}
}

static const struct twi_wait_mark *mark_at(const struct twi_wait_log *log, uint32_t back)
{
	return &log->marks[(log->made - 1 - back) % TWI_WAIT_LOG_MARKS];
}

/* Frees the rows of peers that have not been waited for since the oldest mark. */
static void drop_peers(struct twi_wait_log *log)
{
	const struct twi_wait_mark *oldest;

	if (log->made < TWI_WAIT_LOG_MARKS)
		return;
	oldest = mark_at(log, TWI_WAIT_LOG_MARKS - 1);
	for (unsigned i = 0; i < TWI_WAIT_LOG_PEERS; i++) {
		if (read_sum(&log->peers[i].ns) == oldest->peer_ns[i])
			atomic_store_explicit(&log->peers[i].peer, NULL, memory_order_relaxed);
	}
}

void twi_wait_log_mark(struct twi_wait_log *log, int thread, const struct twi_step *step,
		       uint64_t now_ns)
{
	atomic_store_explicit(&log->thread, thread, memory_order_relaxed);
	if (log->made > 0 && now_ns < mark_at(log, 0)->at_ns + TWI_WAIT_LOG_STEP)
		return;
	drop_peers(log);
	take_sums(log, step, now_ns, &log->marks[log->made++ % TWI_WAIT_LOG_MARKS]);
}

/* Keeps the ranks that were waited for longest, in falling order. */
static void add_awaited(struct twi_state_waited *out, uint32_t rank, uint64_t ns)
{
	uint32_t at = out->awaited_count;

	if (rank == TWI_STATE_NO_RANK || ns == 0 ||
	    (at == TWI_STATE_AWAITED && out->awaited[at - 1].ns >= ns))
		return;
	if (at < TWI_STATE_AWAITED)
		out->awaited_count++;
	else
		at--;
	for (; at > 0 && out->awaited[at - 1].ns < ns; at--)
		out->awaited[at] = out->awaited[at - 1];
	out->awaited[at].rank = rank;
	out->awaited[at].ns = ns;
}

static void tell_since(const struct twi_wait_log *log, const struct twi_wait_log_ask *ask,
		       const struct twi_wait_mark *now, const struct twi_wait_mark *since,
		       struct twi_state_waited *out)
{
	uint64_t window = now->at_ns - twi_min(since->at_ns, now->at_ns);

	*out = (struct twi_state_waited){ .window_ns = window,
					  .waits = now->waits - since->waits,
					  .steps = now->steps - since->steps,
					  .step_ns = now->step_ns - since->step_ns,
					  .major_faults = now->major_faults - since->major_faults,
					  .read_bytes = now->read_bytes - since->read_bytes };
	for (unsigned i = 0; i < TWI_WAITED_KINDS; i++)
		out->ns[i] = now->ns[i] - since->ns[i];
	out->ns[ask->open_kind] += twi_min(ask->open_ns, window);
	for (unsigned i = 0; i < TWI_WAIT_LOG_PEERS; i++) {
		const void *peer = atomic_load_explicit(&log->peers[i].peer, memory_order_relaxed);

		if (peer != NULL)
			add_awaited(out, ask->rank_of(ask->arg, peer),
				    now->peer_ns[i] - since->peer_ns[i]);
	}
}

void twi_wait_log_tell(const struct twi_wait_log *log, const struct twi_wait_log_ask *ask,
		       struct twi_rank_state *out)
{
	uint32_t count = twi_min(log->made, TWI_WAIT_LOG_MARKS), back = 0;
	struct twi_wait_mark now;

	if (count == 0)
		return;
	take_sums(log, ask->step, ask->now_ns, &now);
	while (back + 1 < count &&
	       mark_at(log, back)->at_ns + TWI_WAIT_LOG_LATE * TWI_WAIT_LOG_STEP > ask->now_ns)
		back++;
	tell_since(log, ask, &now, mark_at(log, back), &out->lately);
	tell_since(log, ask, &now, mark_at(log, count - 1), &out->longer);
}
