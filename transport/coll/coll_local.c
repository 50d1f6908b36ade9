/*
 * coll_local.c - collectives in the memory of one host. See coll_local.h.
 *
 * Only its owner writes a slot. It writes `phase` last, with release; a rank that acquires `phase`
 * sees the rest. A slot is used again for the seq TWI_COLL_SLOTS further on, but not before every
 * rank of the host has `finished` the old one.
 *
 * What other ranks write is not trusted. The window checks where their buffers are; a phase that is
 * out of order only makes this rank wait.
 */
#include "transport/coll/coll_local.h"

#include <sched.h>

#include "diag/base/error.h"
#include "transport/coll/coll_line.h"
#include "transport/engine/engine.h"

#define NOT_SHOWN   UINT64_MAX
#define OFFSET_BITS 56
#define LEFT        UINT8_MAX /* in place of the number of SYNCs: the run has failed there */
/* How long a failed run waits for the ranks that use its memory. */
#define LEAVE_NS (1000ull * 1000 * 1000)

static struct twi_coll_slot *own_slot(const struct twi_coll_run *run)
{
	return &run->coll->region->slots[run->seq % TWI_COLL_SLOTS];
}

static const struct twi_coll_slot *slot_of(const struct twi_coll_run *run,
					   const struct twi_coll_local *local)
{
	return &local->region->slots[run->seq % TWI_COLL_SLOTS];
}

void twi_coll_wake_locals(struct twi_coll_group *coll)
{
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (!coll->locals[i].self && coll->locals[i].peer != NULL)
			coll->locals[i].windows->wrote(coll->locals[i].peer);
	}
}

int twi_coll_show_memory(struct twi_coll_group *coll, const void *memory, uint64_t bytes,
			 _Atomic uint64_t *where)
{
	uint64_t offset = 0;
	uint32_t extent = 0;

	atomic_store_explicit(where, NOT_SHOWN, memory_order_relaxed);
	if (bytes == 0)
		return TOW_OK;
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		const struct twi_coll_local *local = &coll->locals[i];

		if (!local->self &&
		    !local->windows->expose(local->peer, memory, bytes, &extent, &offset))
			return TOW_AGAIN;
	}
	atomic_store_explicit(where, (uint64_t)extent << OFFSET_BITS | offset,
			      memory_order_relaxed);
	return TOW_OK;
}

/* Sets the locations, also to NOT_SHOWN: values of an earlier use must not remain. */
static int show_buffers(struct twi_coll_run *run, struct twi_coll_slot *slot)
{
	const struct twi_coll_entry *entry = run->entry;
	uint64_t in_bytes = entry->in_bytes, out_bytes = entry->shares_out ? entry->out_bytes : 0;
	int status;

	if (run->outside)
		in_bytes = out_bytes = 0;
	atomic_store_explicit(&slot->outside, run->outside ? run->seq : 0, memory_order_relaxed);
	atomic_store_explicit(&slot->halved, run->seq << 8 | run->halved, memory_order_relaxed);
	status = twi_coll_show_memory(run->coll, run->in, in_bytes, &slot->in_where);
	if (status == TOW_OK)
		status = twi_coll_show_memory(run->coll, run->out, out_bytes, &slot->out_where);
	return status;
}

int twi_coll_sync_post(struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;
	struct twi_coll_slot *slot;
	int status = TOW_OK;

	if (run->coll->locals_n == 0) { /* alone on its host, in a plan for several */
		run->syncs++;
		return TOW_OK;
	}
	slot = own_slot(run);
	if (run->syncs == 0 && entry->shares)
		status = show_buffers(run, slot);
	if (status != TOW_OK) /* TOW_AGAIN, too */
		return status;
	if (run->coll->crowd)
		atomic_store_explicit(&run->coll->region->cpu, (uint32_t)sched_getcpu(),
				      memory_order_relaxed);
	if (run->syncs == 0)
		atomic_store_explicit(&slot->signature, entry->signature, memory_order_relaxed);
	run->syncs++;
	run->synced = 0;
	/* release: orders the slot, the cell and writes to others' memory before it */
	atomic_store_explicit(&slot->phase, run->seq << 8 | run->syncs, memory_order_release);
	twi_coll_wake_locals(run->coll);
	/* The other ranks have the next slot in their caches since its last use. Fetched for
	 * writing now, it is in this rank's cache alone when it is written. */
	__builtin_prefetch(&run->coll->region->slots[(run->seq + 1) % TWI_COLL_SLOTS], 1, 3);
	return TOW_OK;
}

/* The rank has made another call, or has failed. Sends it this rank's call; it breaks the group. */
static void note_disagreement(struct twi_coll_run *run, uint32_t rank)
{
	if (run->challenged)
		return;
	run->challenged = true;
	twi_coll_challenge(run, rank);
}

int twi_coll_sync_test(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;
	uint64_t want = run->seq << 8 | run->syncs, phase;

	for (; run->synced < coll->locals_n; run->synced++) {
		const struct twi_coll_local *local = &coll->locals[run->synced];
		const struct twi_coll_slot *slot;

		if (local->self)
			continue;
		slot = slot_of(run, local);
		/* acquire: pairs with the release in twi_coll_sync_post */
		phase = atomic_load_explicit(&slot->phase, memory_order_acquire);
		/* A rank that has left has not done its part. It tells all (twi_coll_break). */
		if (phase < want || twi_unlikely(phase == (run->seq << 8 | LEFT)))
			return twi_likely(!local->gone)
				       ? TOW_AGAIN
				       : twi_error(TOW_EPEER, "rank %u has gone", local->rank);
		if (run->syncs == 1 &&
		    twi_unlikely(atomic_load_explicit(&slot->signature, memory_order_relaxed) !=
				 run->entry->signature)) {
			note_disagreement(run, local->rank);
			return TOW_AGAIN;
		}
	}
	if (run->entered_ns == 0)
		run->entered_ns = twi_engine_batch_now(coll->engine);
	return TOW_OK;
}

bool twi_coll_sync_elsewhere(const struct twi_coll_run *run)
{
	const struct twi_coll_group *coll = run->coll;
	uint64_t want = run->seq << 8 | run->syncs;
	uint32_t here = (uint32_t)sched_getcpu();

	for (uint32_t i = run->synced; i < coll->locals_n; i++) {
		const struct twi_coll_local *local = &coll->locals[i];

		if (!local->self &&
		    atomic_load_explicit(&local->region->cpu, memory_order_relaxed) == here &&
		    atomic_load_explicit(&slot_of(run, local)->phase, memory_order_relaxed) < want)
			return false;
	}
	return true;
}

struct twi_coll_local *twi_coll_local_of(struct twi_coll_group *coll, uint32_t rank)
{
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (coll->locals[i].rank == rank)
			return &coll->locals[i];
	}
	return NULL;
}

int twi_coll_resolve_window(struct twi_coll_run *run, const struct twi_coll_local *local,
			    const struct twi_plan_ref *ref, uint64_t further, uint64_t bytes,
			    bool write, void **out)
{
	const struct twi_coll_slot *slot = slot_of(run, local);
	uint64_t where =
		atomic_load_explicit(ref->space == TWI_PLAN_IN ? &slot->in_where : &slot->out_where,
				     memory_order_relaxed);
	uint64_t offset = where & ((1ull << OFFSET_BITS) - 1);
	int status = TOW_OK;

	if (where == NOT_SHOWN || ref->offset > UINT64_MAX >> 8)
		return twi_error(TOW_EPROTOCOL,
				 "rank %u does not offer its memory to a "
				 "collective",
				 local->rank);
	/* acquire: its memory may be in other use. A rank that was stopped finds that here. */
	if (twi_unlikely(atomic_load_explicit(&slot->left, memory_order_acquire) == run->seq))
		return TOW_AGAIN;
	*out = local->windows->at(local->peer, (uint32_t)(where >> OFFSET_BITS),
				  offset + ref->offset + further, bytes, write, &status);
	if (*out != NULL)
		return TOW_OK;
	/* The lane's message has an address; the user knows ranks. */
	return status == TOW_EPEER ? twi_error(TOW_EPEER, "rank %u has gone", local->rank) : status;
}

int twi_coll_resolve(struct twi_coll_run *run, const struct twi_coll_chain *chain,
		     const struct twi_plan_ref *ref, uint64_t bytes, bool write, void **out)
{
	struct twi_coll_group *coll = run->coll;
	const struct twi_plan *plan = run->entry->plan;
	const struct twi_plan_program *program = &plan->programs[chain->program];
	const struct twi_coll_local *local;
	uint64_t stride;

	if (ref->rank == coll->rank) {
		switch (ref->space) {
		case TWI_PLAN_IN:
			*out = (uint8_t *)(uintptr_t)run->in + ref->offset +
			       chain->repeat * program->in_stride;
			return TOW_OK;
		case TWI_PLAN_OUT:
			*out = run->out + ref->offset + chain->repeat * program->out_stride;
			return TOW_OK;
		case TWI_PLAN_SCRATCH:
			*out = (uint8_t *)((uintptr_t)run->scratch.memory + ref->offset +
					   (uint64_t)(chain - run->chains) * plan->scratch_bytes);
			return TOW_OK;
		default:
			*out = own_slot(run)->cell + ref->offset;
			return TOW_OK;
		}
	}
	local = twi_coll_local_of(coll, ref->rank);
	twi_assert(local != NULL); /* a plan names no other ranks */
	if (ref->space != TWI_PLAN_CELL) {
		stride = ref->space == TWI_PLAN_IN ? program->in_stride : program->out_stride;
		return twi_coll_resolve_window(run, local, ref, chain->repeat * stride, bytes,
					       write, out);
	}
	*out = (uint8_t *)(uintptr_t)slot_of(run, local)->cell + ref->offset;
	return TOW_OK;
}

bool twi_coll_slot_free(struct twi_coll_group *coll, uint64_t seq)
{
	if (seq <= TWI_COLL_SLOTS)
		return true;
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		struct twi_coll_local *local = &coll->locals[i];

		if (local->self || local->finished + TWI_COLL_SLOTS >= seq)
			continue;
		/* acquire: that rank's reads of the slot come before */
		local->finished =
			atomic_load_explicit(&local->region->finished, memory_order_acquire);
		if (local->finished + TWI_COLL_SLOTS < seq)
			return false;
	}
	return true;
}

void twi_coll_finished(struct twi_coll_group *coll)
{
	if (coll->region == NULL)
		return;
	/* release: this rank's reads and writes come before */
	atomic_store_explicit(&coll->region->finished, coll->series.finished, memory_order_release);
	twi_coll_wake_locals(coll);
}

static void pass_barrier(const struct twi_coll_group *coll)
{
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (!coll->locals[i].self && coll->locals[i].peer != NULL) {
			coll->locals[i].windows->barrier(coll->locals[i].peer);
			return; /* it is for all of them: they are of one lane */
		}
	}
}

void twi_coll_slot_leave(struct twi_coll_run *run)
{
	struct twi_coll_slot *slot;

	if (run->left || run->coll->region == NULL || run->coll->locals_n == 0)
		return;
	slot = own_slot(run);
	run->left = true;
	run->leave_ns = twi_engine_clock(run->coll->engine) + LEAVE_NS;
	/* A rank that comes later finds another signature, and goes no further. */
	atomic_store_explicit(&slot->signature, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->left, run->seq, memory_order_release);
	atomic_store_explicit(&slot->phase, run->seq << 8 | LEFT, memory_order_release);
	/* A rank that begins just now sees that, or is seen (twi_coll_slot_in_use). */
	pass_barrier(run->coll);
	twi_coll_wake_locals(run->coll);
}

/*
 * Other ranks of this host may be in a step on this rank's memory until they have left, too. The
 * wait for a rank that does not run is short: its step is at most one piece (coll_step.c).
 */
bool twi_coll_slot_in_use(const struct twi_coll_run *run)
{
	const struct twi_coll_group *coll = run->coll;

	if (!run->left || !run->entry->shares || run->syncs == 0 ||
	    twi_engine_clock(coll->engine) >= run->leave_ns)
		return false;
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		const struct twi_coll_local *local = &coll->locals[i];
		const struct twi_coll_slot *slot;

		if (local->self || local->gone)
			continue;
		slot = slot_of(run, local);
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) >> 8 == run->seq &&
		    atomic_load_explicit(&slot->left, memory_order_acquire) != run->seq &&
		    atomic_load_explicit(&local->region->finished, memory_order_acquire) < run->seq)
			return true;
	}
	return false;
}
