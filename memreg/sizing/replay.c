/*
 * replay.c - runs a compiled log in a pool of addresses. replay.h has the concept,
 * replay_program.c makes the program, replay_search.c finds the smallest pool.
 *
 *   run_each      threads, each on a CPU of its own --take the next pool--> twi_replay_run
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "memreg/arena/arena.h"
#include "memreg/sizing/replay_slim.h"
#include <internal/base.h>
#include <towline/status.h>

#define PAGE       4096u
#define ALONE_MOST 20000 /* with fewer events, a second thread is not worth it */
#define AHEAD      16    /* events of another order to prefetch */

/* The addresses of a pool, and its provider. */
struct arena {
	const struct twi_arena_ops *ops;
	void *reserved, *ctx;
	size_t reserved_bytes;
	void **block; /* by slot; NULL: not live, or it did not fit */
};

static void arena_close(struct arena *arena)
{
	if (arena->ctx != NULL)
		arena->ops->destroy(arena->ctx);
	if (arena->reserved != NULL)
		munmap(arena->reserved, arena->reserved_bytes);
	free(arena->block);
}

static int arena_open(struct arena *arena, const struct twi_replay *replay,
		      const struct twi_replay_pool *pool)
{
	uint64_t bytes = twi_align_up(pool->bytes, PAGE);
	void *base;
	int status;

	*arena = (struct arena){ .ops = pool->ops };
	arena->block = calloc(replay->slots + 1u, sizeof(arena->block[0]));
	if (arena->block == NULL)
		return twi_error(TOW_ENOMEM, "replay: no memory for %u blocks", replay->slots);
	arena->reserved_bytes = bytes + TWI_ALIGN_MAX;
	base = mmap(NULL, arena->reserved_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		status = twi_error_errno(TOW_ENOMEM, errno, "replay: addresses for %llu bytes",
					 (unsigned long long)bytes);
		arena_close(arena);
		return status;
	}
	arena->reserved = base;
	base = (void *)(uintptr_t)twi_align_up((uintptr_t)base, TWI_ALIGN_MAX);
	status = pool->ops->create(base, bytes, &arena->ctx);
	if (status == TOW_OK)
		return TOW_OK;
	arena->ctx = NULL;
	arena_close(arena);
	return twi_error(status, "replay: no tables for a pool of %llu bytes",
			 (unsigned long long)bytes);
}

static void arena_take(struct arena *arena, uint64_t bytes, uint8_t align_log2, uint32_t slot,
		       struct twi_replay_result *out)
{
	size_t align = (size_t)1 << align_log2;

	if (arena->ops->alloc(arena->ctx, bytes, align, &arena->block[slot]) == TOW_OK)
		return;
	arena->block[slot] = NULL;
	out->missed++;
	out->missed_bytes += bytes;
}

static void arena_give(struct arena *arena, uint32_t slot)
{
	void *p = arena->block[slot];

	if (p == NULL)
		return;
	arena->block[slot] = NULL;
	arena->ops->give(arena->ctx, p);
}

/*
 * Tests whether the run ends after the event. At the peak, a look reads the provider's statistics.
 * That call also trims the arena, so only a run for a look makes it.
 */
static bool ends_here(struct arena *arena, enum twi_replay_how how, bool is_peak,
		      struct twi_replay_result *out)
{
	struct twi_arena_stats stats;

	if (how == TWI_REPLAY_FITS || how == TWI_REPLAY_WHOLE || !is_peak)
		return how == TWI_REPLAY_FITS && out->missed > 0;

	arena->ops->stats(arena->ctx, &stats);
	out->allocated_bytes = stats.allocated_bytes;
	out->waste_bytes = stats.waste_bytes;
	out->free_bytes = stats.free_bytes;
	out->largest_free_bytes = stats.largest_free_bytes;
	return how == TWI_REPLAY_LOOK;
}

/*
 * The CPUs of threads. The front cache of each CPU keeps the blocks that were freed there, so it
 * determines the addresses of blocks. In some runs threads never move; in others they move after a
 * few calls.
 */
#define MOVERS 64

struct moves {
	uint64_t seed, turn;
	uint32_t rarely; /* one in 2^this calls follows a move */
	bool known[MOVERS];
	uint32_t cpu[MOVERS];
};

static void moves_init(struct moves *moves, uint64_t seed)
{
	static const uint8_t rarely[] = { 2, 4, 6, 63 };

	*moves = (struct moves){ .seed = seed, .rarely = rarely[seed % sizeof(rarely)] };
}

/* Sets the CPU for the next event of the thread with this number. */
static void stay_at(struct arena *arena, struct moves *moves, uint32_t number)
{
	uint32_t at = number % MOVERS;
	uint64_t chance = twi_hash_word(moves->seed * 0x9e3779b97f4a7c15u + ++moves->turn);

	if (!moves->known[at] || chance >> (64 - moves->rarely) == 0)
		moves->cpu[at] = (uint32_t)chance % MOVERS;
	moves->known[at] = true;
	arena->ops->stay(arena->ctx, moves->cpu[at]);
}

static void run_events(const struct twi_replay *replay, struct arena *arena, uint64_t seed,
		       enum twi_replay_how how, struct twi_replay_result *out)
{
	struct moves moves;

	moves_init(&moves, seed);
	for (uint64_t i = 0; i < replay->count; i++) {
		uint32_t index = twi_replay_index(replay, i);
		const struct twi_replay_packed *op = &replay->op[index];
		uint8_t kind = twi_replay_kind(op);

		if (replay->order != NULL && i + AHEAD < replay->count)
			twi_replay_ask(replay, i + AHEAD);
		if (seed != 0)
			stay_at(arena, &moves, replay->actor[twi_replay_actor(op)].number);
		if (kind == TWI_ALLOC_ALLOC)
			arena_take(arena, twi_replay_value(op), twi_replay_align_log2(op),
				   twi_replay_slot(replay, index), out);
		else if (kind == TWI_ALLOC_FREE)
			arena_give(arena, twi_replay_slot(replay, index));
		if (ends_here(arena, how, i == replay->peak_op, out))
			return;
	}
}

/* Runs the events of a slim program. */
static void run_slim(struct arena *arena, struct twi_replay_cursor *cursor, enum twi_replay_how how,
		     struct twi_replay_result *out)
{
	uint64_t peak = cursor->replay->slim_peak;
	struct twi_replay_event event;

	while (twi_replay_next(cursor, &event)) {
		if (event.kind == TWI_ALLOC_ALLOC)
			arena_take(arena, event.bytes, event.align_log2, event.slot, out);
		else
			arena_give(arena, event.slot);
		if (ends_here(arena, how, cursor->position == peak + 1, out))
			return;
	}
}

/* Pins the thread to its present CPU, or to number `lane` of the allowed CPUs. */
static void stay_on_cpu(const cpu_set_t *allowed, int lane)
{
	int cpu = lane < 0 ? sched_getcpu() : -1;
	cpu_set_t one;

	for (int i = 0; cpu < 0 && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, allowed) && lane-- == 0)
			cpu = i;
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

int twi_replay_run(const struct twi_replay *replay, const struct twi_replay_pool *pool,
		   enum twi_replay_how how, struct twi_replay_result *out)
{
	bool moves = true;
	struct twi_replay_cursor cursor;
	struct arena arena;
	void *reserve = NULL;
	cpu_set_t allowed;
	int status;

	*out = (struct twi_replay_result){ .reserve_fits = true };
	twi_assert(replay->slim == NULL || pool->moves == 0);
	status = twi_replay_cursor_init(&cursor, replay);
	if (status < 0)
		return status;
	status = arena_open(&arena, replay, pool);
	if (status < 0) {
		twi_replay_cursor_fini(&cursor);
		return status;
	}
	moves = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
	if (moves)
		stay_on_cpu(&allowed, -1);
	arena.ops->stay(arena.ctx, 0);
	if (pool->reserve_bytes > 0)
		out->reserve_fits =
			arena.ops->alloc(arena.ctx, pool->reserve_bytes, PAGE, &reserve) == TOW_OK;
	if (!out->reserve_fits && how == TWI_REPLAY_FITS)
		;
	else if (replay->slim != NULL)
		run_slim(&arena, &cursor, how, out);
	else
		run_events(replay, &arena, pool->moves, how, out);
	twi_replay_cursor_fini(&cursor);
	if (moves)
		(void)sched_setaffinity(0, sizeof(allowed), &allowed);
	arena_close(&arena);
	return TOW_OK;
}

/* State that the threads of run_each share. */
struct crew {
	const struct twi_replay *replay;
	const struct twi_replay_pool *pool;
	struct twi_replay_result *out;
	enum twi_replay_how how;
	uint32_t count;
	cpu_set_t allowed;
	_Atomic uint32_t next, lane;
	_Atomic int status;
};

static void *work_crew(void *arg)
{
	struct crew *crew = arg;
	uint32_t i;

	stay_on_cpu(&crew->allowed,
		    (int)atomic_fetch_add_explicit(&crew->lane, 1, memory_order_relaxed));
	while ((i = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) <
	       crew->count) {
		int status = twi_replay_run(crew->replay, &crew->pool[i], crew->how, &crew->out[i]);

		if (status < 0)
			atomic_store_explicit(&crew->status, status, memory_order_relaxed);
	}
	return NULL;
}

uint32_t twi_replay_lanes(const struct twi_replay *replay)
{
	cpu_set_t allowed;

	if (replay->count < ALONE_MOST || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return 1;
	return twi_min((uint32_t)CPU_COUNT(&allowed), (uint32_t)TWI_REPLAY_LANES_MAX);
}

int twi_replay_run_each(const struct twi_replay *replay, const struct twi_replay_pool *pool,
			uint32_t count, enum twi_replay_how how, struct twi_replay_result *out)
{
	uint32_t lanes = twi_min(twi_replay_lanes(replay), count), started = 0;
	struct crew crew = {
		.replay = replay, .pool = pool, .out = out, .how = how, .count = count
	};
	pthread_t thread[TWI_REPLAY_LANES_MAX];

	if (sched_getaffinity(0, sizeof(crew.allowed), &crew.allowed) != 0)
		lanes = 1;
	while (lanes > 1 && started < lanes &&
	       pthread_create(&thread[started], NULL, work_crew, &crew) == 0)
		started++;
	if (started == 0) {
		int status = TOW_OK;

		for (uint32_t i = 0; i < count && status == TOW_OK; i++)
			status = twi_replay_run(replay, &pool[i], how, &out[i]);
		return status;
	}
	for (uint32_t i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	if (crew.status < 0)
		return twi_error(crew.status, "replay: no memory for %u replays at once", started);
	return TOW_OK;
}
