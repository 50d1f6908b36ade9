/*
 * alloclog_keep.c - windows and gaps; alloclog_keep.h has the concept. All that changes windows
 * runs under keep_lock.
 *
 * A request for a chunk pops SLICE records, and drops windows until some chunks are free. While
 * there are windows to drop, two gaps are joined only if they have at most JOIN records. That takes
 * about 1 ms. After that larger gaps are joined and the log is thinned, which may take some 10 ms.
 * That is rare, because it needs live blocks that nearly fill the log.
 */
#include "memreg/alloclog/alloclog_keep.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "memreg/alloclog/alloclog_impl.h"
#include <internal/base.h>

#define SLICE       4096u
#define JOIN        16384u
#define POP_PART    4  /* with fewer free chunks than this part, the rings are popped */
#define DROP_PART   16 /* this part of the chunks is made free */
#define EDGE_PART   8  /* part of the chunks in the first windows, and in the latest */
#define WINDOW_PART 64 /* part of the chunks in the longest window */
#define WINDOW_MOST 64 /* chunks of the longest window, at most */
#define NOBODY      UINT32_MAX

static uint32_t longest_window(const struct twi_alloclog *log)
{
	return twi_max(twi_min(log->chunks_max / WINDOW_PART, (uint32_t)WINDOW_MOST), 2u);
}

static bool has_mark(const uint64_t *bits, uint32_t at)
{
	return (bits[at / 64] >> at % 64 & 1) != 0;
}

static void set_mark(uint64_t *bits, uint32_t at)
{
	bits[at / 64] |= (uint64_t)1 << at % 64;
}

/* --- the open window --- */

static int open_window(struct twi_alloclog *log, uint64_t ns)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	uint32_t records = longest_window(log) * log->chunk_events;
	struct twi_alloclog_window *window;
	uint64_t *paired;

	if (twi_alloclog_area_grow(&keeper->windows, (keeper->count + 1) * sizeof(*window)) < 0)
		return TOW_ENOMEM;
	keeper->window = keeper->windows.at;
	paired = calloc(records / 64 + 1, sizeof(*paired));
	if (paired == NULL || twi_alloclog_match_begin(&keeper->open, records) < 0) {
		free(paired);
		return TOW_ENOMEM;
	}
	keeper->window[keeper->count++] = (struct twi_alloclog_window){
		.paired = paired,
		.shift = atomic_load_explicit(&log->shift, memory_order_relaxed),
		.begin_ns = ns,
		.end_ns = ns,
		.peak_bytes = keeper->taken_bytes,
	};
	keeper->is_open = true;
	return TOW_OK;
}

/* Makes the open window ready for the record. Closes it if it is full, or long enough at a step. */
static bool ready_window(struct twi_alloclog *log, const struct twi_alloclog_rec *rec)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	uint32_t most = longest_window(log) * log->chunk_events;

	if (keeper->is_open) {
		uint32_t count = keeper->window[keeper->count - 1].count;

		keeper->is_open = count < most && (count < most / 4 ||
						   twi_alloclog_rec_kind(rec) != TWI_ALLOC_STEP);
	}
	return keeper->is_open || open_window(log, rec->ns) == TOW_OK;
}

static bool push_rec(struct twi_alloclog *log, struct twi_alloclog_window *window,
		     const struct twi_alloclog_rec *rec)
{
	uint32_t count = window->count % log->chunk_events;

	if (count == 0) {
		struct twi_alloclog_chunk *chunk = twi_alloclog_take_chunk(log);

		if (chunk == NULL)
			return false;
		if (window->last != NULL)
			window->last->next = chunk;
		else
			window->first = chunk;
		window->last = chunk;
		window->chunks++;
	}
	window->last->rec[count] = *rec;
	window->count++;
	return true;
}

/* Adds the record to the open window. False: there is no room, and the caller tries again later. */
static bool add_rec(struct twi_alloclog *log, const struct twi_alloclog_rec *rec)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	struct twi_alloclog_window *window;
	unsigned kind = twi_alloclog_rec_kind(rec);
	uint64_t taken = 0;
	uint32_t alloc;

	if (!ready_window(log, rec))
		return false;
	window = &keeper->window[keeper->count - 1];
	if (!push_rec(log, window, rec))
		return false;
	window->end_ns = twi_max(window->end_ns, rec->ns);
	window->steps += kind == TWI_ALLOC_STEP;
	alloc = twi_alloclog_match_add(&keeper->open, rec, &taken);
	if (alloc != TWI_ALLOCLOG_NO_MATCH) {
		set_mark(window->paired, alloc);
		set_mark(window->paired, window->count - 1);
	}
	if (kind == TWI_ALLOC_ALLOC)
		keeper->taken_bytes += twi_alloclog_rec_taken(rec);
	else if (kind == TWI_ALLOC_FREE)
		keeper->taken_bytes -= twi_min(taken != 0 ? taken : twi_alloclog_rec_bytes(rec),
					       keeper->taken_bytes);
	window->peak_bytes = twi_max(window->peak_bytes, keeper->taken_bytes);
	return true;
}

/* --- popping the rings --- */

/* The oldest unpopped record of a ring. NULL: there is none up to until_ns. */
static struct twi_alloclog_rec *ring_head(struct twi_alloclog *log, struct twi_alloclog_ring *ring,
					  uint64_t until_ns)
{
	struct twi_alloclog_chunk *chunk = twi_alloclog_oldest(log, ring);
	/* Acquire: pairs with the release of the thread that writes into the chunk. */
	uint32_t count =
		chunk != NULL ? atomic_load_explicit(&chunk->count, memory_order_acquire) : 0;

	if (chunk == NULL || chunk->popped == count || chunk->rec[chunk->popped].ns > until_ns)
		return NULL;
	return &chunk->rec[chunk->popped];
}

static bool find_active(struct twi_alloclog *log, uint64_t until_ns)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	/* Acquire: pairs with the release of the thread that has added a ring. */
	struct twi_alloclog_ring *ring = atomic_load_explicit(&log->rings, memory_order_acquire);

	keeper->actives = 0;
	for (; ring != NULL; ring = ring->next) {
		if (ring_head(log, ring, until_ns) == NULL)
			continue;
		if (twi_alloclog_area_grow(&keeper->rings,
					   (keeper->actives + 1) * sizeof(keeper->active[0])) < 0)
			return false;
		keeper->active = keeper->rings.at;
		keeper->active[keeper->actives++] = ring;
	}
	return keeper->actives > 0;
}

/* The ring with the oldest record. It may be popped up to *turn_ns_out before another ring. */
static struct twi_alloclog_ring *oldest_ring(struct twi_alloclog *log, uint64_t until_ns,
					     uint64_t *turn_ns_out)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	struct twi_alloclog_ring *best = NULL;
	uint64_t best_ns = until_ns, next_ns = until_ns;

	for (uint32_t i = 0; i < keeper->actives; i++) {
		const struct twi_alloclog_rec *head = ring_head(log, keeper->active[i], until_ns);

		if (head == NULL) {
			keeper->active[i--] = keeper->active[--keeper->actives];
			continue;
		}
		if (best == NULL || head->ns < best_ns) {
			next_ns = best != NULL ? best_ns : next_ns;
			best_ns = head->ns;
			best = keeper->active[i];
		} else {
			next_ns = twi_min(next_ns, head->ns);
		}
	}
	*turn_ns_out = next_ns;
	return best;
}

static bool keeps_rec(const struct twi_alloclog *log, const struct twi_alloclog_rec *rec)
{
	uint32_t shift = atomic_load_explicit(&log->shift, memory_order_relaxed);
	uint64_t salt = atomic_load_explicit(&log->salt, memory_order_relaxed);

	return twi_alloclog_rec_kind(rec) == TWI_ALLOC_STEP ||
	       twi_alloclog_keeps(rec->address, shift, salt);
}

/*
 * Pops up to SLICE records of the time until now into windows, in the order of time. False: there
 * was no record, or no room for one.
 */
static bool pop_slice(struct twi_alloclog *log)
{
	uint64_t until_ns = twi_now_ns() - TWI_ALLOCLOG_SKEW_NS, turn_ns;
	uint32_t left = SLICE;
	struct twi_alloclog_ring *ring;

	if (!find_active(log, until_ns))
		return false;
	while (left > 0 && (ring = oldest_ring(log, until_ns, &turn_ns)) != NULL) {
		struct twi_alloclog_rec *head = ring_head(log, ring, turn_ns);

		while (left > 0 && head != NULL) {
			if (keeps_rec(log, head) && !add_rec(log, head))
				return left < SLICE;
			ring->popping->popped++;
			left--;
			head = ring_head(log, ring, turn_ns);
		}
	}
	return left < SLICE;
}

/* --- dropping --- */

typedef bool (*rec_wanted)(const void *arg, uint32_t index, const struct twi_alloclog_rec *rec);

/* Moves the wanted records to the begin of the window, and frees the chunks behind them. */
static void pack_window(struct twi_alloclog *log, struct twi_alloclog_window *window,
			rec_wanted wanted, const void *arg)
{
	struct twi_alloclog_chunk *from = window->first, *to = window->first;
	uint32_t kept = 0, each = log->chunk_events;

	for (uint32_t i = 0; i < window->count; i++) {
		const struct twi_alloclog_rec *rec = &from->rec[i % each];

		if (wanted(arg, i, rec)) {
			to->rec[kept % each] = *rec;
			if (++kept % each == 0)
				to = to->next;
		}
		if ((i + 1) % each == 0)
			from = from->next;
	}
	window->count = kept;
	twi_alloclog_trim_window(log, window);
}

static bool is_unpaired(const void *arg, uint32_t index, const struct twi_alloclog_rec *rec)
{
	return !has_mark(arg, index) && twi_alloclog_rec_kind(rec) != TWI_ALLOC_STEP;
}

static void drop_window(struct twi_alloclog *log, struct twi_alloclog_window *window)
{
	uint32_t before = window->count;

	pack_window(log, window, is_unpaired, window->paired);
	free(window->paired);
	window->paired = NULL;
	window->left_steps = window->steps;
	window->left_events = before - window->count - window->steps;
	window->steps = 0;
	log->keeper.gap_peak_bytes = twi_max(log->keeper.gap_peak_bytes, window->peak_bytes);
}

/* Appends the records of the second window to the first one, in the chunks of both. */
static void append_window(struct twi_alloclog *log, struct twi_alloclog_window *first,
			  struct twi_alloclog_window *second)
{
	struct twi_alloclog_chunk *from = second->first, *to = first->last;
	uint32_t each = log->chunk_events;

	if (second->count == 0)
		return;
	if (first->last != NULL)
		first->last->next = second->first;
	else
		first->first = second->first;
	if (first->count % each == 0)
		to = second->first;
	for (uint32_t i = 0; i < second->count; i++) {
		to->rec[first->count % each] = from->rec[i % each];
		if (++first->count % each == 0)
			to = to->next;
		if ((i + 1) % each == 0)
			from = from->next;
	}
	first->last = second->last;
	first->chunks += second->chunks;
}

/* Joins two adjacent gaps. False: no memory. */
static bool join_gaps(struct twi_alloclog *log, uint32_t at)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	struct twi_alloclog_window *first = &keeper->window[at], *second = first + 1;
	uint32_t all = first->count + second->count, before = all, index = 0;
	const struct twi_alloclog_chunk *chunk;
	size_t words = all / 64 + 1;
	uint64_t *paired, taken;

	if (twi_alloclog_area_grow(&keeper->marks, words * sizeof(*paired)) < 0 ||
	    twi_alloclog_match_begin(&keeper->other, all) < 0)
		return false;
	paired = memset(keeper->marks.at, 0, words * sizeof(*paired));
	append_window(log, first, second);
	chunk = first->first;
	for (; index < all; index++) {
		uint32_t alloc = twi_alloclog_match_add(
			&keeper->other, &chunk->rec[index % log->chunk_events], &taken);

		if (alloc != TWI_ALLOCLOG_NO_MATCH) {
			set_mark(paired, alloc);
			set_mark(paired, index);
		}
		if ((index + 1) % log->chunk_events == 0)
			chunk = chunk->next;
	}
	pack_window(log, first, is_unpaired, paired);
	first->end_ns = twi_max(first->end_ns, second->end_ns);
	first->peak_bytes = twi_max(first->peak_bytes, second->peak_bytes);
	first->left_events += second->left_events + before - first->count;
	first->left_steps += second->left_steps;
	first->shift = twi_min(first->shift, second->shift);
	keeper->count--;
	for (uint32_t i = at + 1; i < keeper->count; i++)
		keeper->window[i] = keeper->window[i + 1];
	return true;
}

static bool may_join(const struct twi_alloclog_keeper *keeper, uint32_t at, uint32_t most)
{
	return at + 1 < keeper->count && keeper->window[at].paired == NULL &&
	       keeper->window[at + 1].paired == NULL &&
	       keeper->window[at].count + keeper->window[at + 1].count <= most;
}

static void join_around(struct twi_alloclog *log, uint32_t at, uint32_t most)
{
	if (may_join(&log->keeper, at, most))
		join_gaps(log, at);
	if (at > 0 && may_join(&log->keeper, at - 1, most))
		join_gaps(log, at - 1);
}

/* The window to drop next: the one with the lowest peak, and the latest among equal ones. */
static uint32_t lowest_window(const struct twi_alloclog *log)
{
	const struct twi_alloclog_keeper *keeper = &log->keeper;
	uint32_t edge = log->chunks_max / EDGE_PART, begin = 0, end = keeper->count, best = NOBODY;
	uint32_t seen = 0;

	while (begin < end && seen + keeper->window[begin].chunks <= edge)
		seen += keeper->window[begin++].chunks;
	seen = 0;
	while (end > begin && seen < edge)
		seen += keeper->window[--end].chunks;
	for (uint32_t i = begin; i < end; i++) {
		const struct twi_alloclog_window *window = &keeper->window[i];

		if (window->paired != NULL &&
		    (best == NOBODY || window->peak_bytes <= keeper->window[best].peak_bytes))
			best = i;
	}
	return best;
}

/* --- the last resort: thinning --- */

static bool is_sampled(const void *arg, uint32_t index, const struct twi_alloclog_rec *rec)
{
	(void)index;
	return keeps_rec(arg, rec);
}

/*
 * Tests whether the next rate would leave enough addresses to represent the others. A program that
 * reuses a few addresses would vanish from its log.
 */
static bool worth_thinning(const struct twi_alloclog *log)
{
	uint32_t shift = atomic_load_explicit(&log->shift, memory_order_relaxed) + 1;
	uint64_t salt = atomic_load_explicit(&log->salt, memory_order_relaxed), looked = 0,
		 kept = 0;

	if (shift > TWI_ALLOCLOG_SHIFT_MAX)
		return false;
	for (uint32_t i = 0; i < log->keeper.count; i++) {
		const struct twi_alloclog_window *window = &log->keeper.window[i];
		const struct twi_alloclog_chunk *chunk = window->first;

		/* The records of a gap are live blocks, or frees of older blocks. */
		for (uint32_t k = 0; window->paired == NULL && k < window->count; k++) {
			const struct twi_alloclog_rec *rec = &chunk->rec[k % log->chunk_events];

			looked++;
			kept += twi_alloclog_keeps(rec->address, shift, salt);
			if ((k + 1) % log->chunk_events == 0)
				chunk = chunk->next;
		}
	}
	return kept >= twi_min((uint64_t)64, looked / 16);
}

/* Thins the next gap of an older rate; without one, sets the next rate. False: nothing helps. */
static bool thin_window(struct twi_alloclog *log)
{
	struct twi_alloclog_keeper *keeper = &log->keeper;
	uint32_t shift = atomic_load_explicit(&log->shift, memory_order_relaxed);

	for (uint32_t i = 0; i < keeper->count; i++) {
		struct twi_alloclog_window *window = &keeper->window[i];

		/* Marks are by position, so a window that is not dropped keeps all its records. */
		if (window->paired != NULL || window->shift >= shift)
			continue;
		pack_window(log, window, is_sampled, log);
		window->shift = shift;
		return true;
	}
	if (!worth_thinning(log))
		return false;
	atomic_store_explicit(&log->shift, shift + 1, memory_order_relaxed);
	return true;
}

/* Joins adjacent gaps until that has made room. False: no two gaps are adjacent. */
static bool join_any(struct twi_alloclog *log)
{
	uint32_t chunks = twi_alloclog_room(log);
	bool joined = false;

	for (uint32_t i = 0; i + 1 < log->keeper.count && twi_alloclog_room(log) <= chunks; i++)
		joined = (may_join(&log->keeper, i, UINT32_MAX) && join_gaps(log, i)) || joined;
	return joined;
}

/* Works until `wanted` chunks are free, or nothing helps. */
static void make_room(struct twi_alloclog *log, uint32_t wanted)
{
	while (twi_alloclog_room(log) < wanted) {
		uint32_t lowest = lowest_window(log);

		if (lowest != NOBODY) {
			drop_window(log, &log->keeper.window[lowest]);
			join_around(log, lowest, JOIN);
		} else if (!pop_slice(log) && !join_any(log) && !thin_window(log)) {
			return;
		}
	}
}

void twi_alloclog_keep(struct twi_alloclog *log)
{
	uint32_t room = twi_alloclog_room(log), few = log->chunks_max / DROP_PART;

	if (room >= log->chunks_max / POP_PART)
		return;
	/* Another thread does this work, and enough chunks are left for now. */
	if (room > few / 2 && pthread_mutex_trylock(&log->keep_lock) != 0)
		return;
	if (room <= few / 2)
		pthread_mutex_lock(&log->keep_lock);
	pop_slice(log);
	make_room(log, few);
	pthread_mutex_unlock(&log->keep_lock);
}

size_t twi_alloclog_kept(const struct twi_alloclog *log, uint64_t since_ns, uint64_t until_ns,
			 struct twi_alloclog_rec *out, size_t room)
{
	size_t count = 0;

	for (uint32_t i = 0; i < log->keeper.count; i++) {
		const struct twi_alloclog_window *window = &log->keeper.window[i];
		const struct twi_alloclog_chunk *chunk = window->first;
		uint64_t begin_ns = twi_max(window->begin_ns, since_ns);
		uint64_t end_ns = twi_min(window->end_ns, until_ns);

		if (window->paired == NULL && begin_ns <= end_ns && count < room)
			out[count++] = (struct twi_alloclog_rec){
				.ns = begin_ns,
				.address = window->left_steps,
				.caller = window->left_events,
				.what = TWI_ALLOCLOG_GAP,
				.thread = (uint32_t)(end_ns - begin_ns),
				.tag = (uint32_t)((end_ns - begin_ns) >> 32),
			};
		for (uint32_t k = 0; k < window->count && count < room; k++) {
			const struct twi_alloclog_rec *rec = &chunk->rec[k % log->chunk_events];

			if (rec->ns >= since_ns && rec->ns <= until_ns)
				out[count++] = *rec;
			if ((k + 1) % log->chunk_events == 0)
				chunk = chunk->next;
		}
	}
	return count;
}

void twi_alloclog_keeper_fini(struct twi_alloclog_keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->count; i++)
		free(keeper->window[i].paired);
	twi_alloclog_area_fini(&keeper->windows);
	twi_alloclog_area_fini(&keeper->rings);
	twi_alloclog_area_fini(&keeper->marks);
	twi_alloclog_area_fini(&keeper->open.area);
	twi_alloclog_area_fini(&keeper->other.area);
	*keeper = (struct twi_alloclog_keeper){ 0 };
}
