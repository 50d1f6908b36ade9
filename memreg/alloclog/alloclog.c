/*
 * alloclog.c - records events, into the rings of threads. alloclog.h has the concept,
 * alloclog_impl.h the locks.
 *
 * A thread may switch the log off while others record. A recording thread marks its ring busy,
 * and then reads whether the log is on. The other thread clears `on`, and then waits until no ring
 * is busy. Both use the single order of seq_cst, so one of the two sees the other. Afterwards no
 * thread uses a chunk, and the chunks can be freed.
 *
 * Budget of an event: the clock, a store of 40 bytes, one exchange. Once in a chunk there may be
 * an allocation, a lock or a system call.
 */
#include "memreg/alloclog/alloclog.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog_impl.h"
#include "memreg/arena/arena.h"
#include "memreg/pool/pool.h"

#define CHUNK_EVENTS 1024
#define CHUNKS_MIN   64
#define EVENTS_MIN   1024
#define SLACK_MOST   (((uint64_t)1 << TWI_ALLOCLOG_SLACK_BITS) - 1)
#define SKIP         63 /* events to lose before the next try */

struct ring_cache {
	uint64_t id;
	struct twi_alloclog_ring *ring;
};

/* The ring of the log that this thread used last; only one, because static TLS is scarce. */
static __thread struct ring_cache ring_cache __attribute__((tls_model("initial-exec"), aligned(8)));
static uint64_t next_thread = 1, next_log = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct twi_alloclog *all;

/* rings_lock is held, so a relaxed load is enough. */
static struct twi_alloclog_ring *first_ring(struct twi_alloclog *log)
{
	return atomic_load_explicit(&log->rings, memory_order_relaxed);
}

/* Releases the rings of a thread that ends, so that other threads can use them. */
static void release_rings(void *arg)
{
	uint64_t number = (uint64_t)(uintptr_t)arg;

	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog *log = all; log != NULL; log = log->next) {
		for (struct twi_alloclog_ring *ring = first_ring(log); ring != NULL;
		     ring = ring->next) {
			if (ring->owner == number)
				ring->owner = 0;
		}
	}
	pthread_mutex_unlock(&rings_lock);
	ring_cache.id = 0;
}

static void lock_for_fork(void)
{
	pthread_mutex_lock(&rings_lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&rings_lock);
}

static void init_once(void)
{
	pthread_key_create(&thread_end, release_rings);
	pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* This thread's number. Only a thread key has it, because TLS is scarce. rings_lock is held. */
static uint64_t own_number(void)
{
	uint64_t number = (uint64_t)(uintptr_t)pthread_getspecific(thread_end);

	if (number == 0) {
		number = next_thread++;
		pthread_setspecific(thread_end, (void *)(uintptr_t)number);
	}
	return number;
}

/* This thread's ring, or one without an owner, or a new one. rings_lock is held. */
static struct twi_alloclog_ring *take_ring(struct twi_alloclog *log)
{
	uint64_t number = own_number();
	struct twi_alloclog_ring *ring;

	for (ring = first_ring(log); ring != NULL; ring = ring->next) {
		if (ring->owner == number)
			return ring;
	}
	for (ring = first_ring(log); ring != NULL && ring->owner != 0; ring = ring->next)
		;
	if (ring == NULL) {
		ring = aligned_alloc(64, sizeof(*ring));
		if (ring == NULL)
			return NULL;
		*ring = (struct twi_alloclog_ring){ .next = first_ring(log) };
		/* Release: pairs with the acquire of a thread that pops without rings_lock. */
		atomic_store_explicit(&log->rings, ring, memory_order_release);
	}
	ring->owner = number;
	ring->tid = (uint32_t)gettid();
	return ring;
}

static struct twi_alloclog_ring *find_ring(struct twi_alloclog *log)
{
	struct twi_alloclog_ring *ring;

	pthread_mutex_lock(&rings_lock);
	ring = take_ring(log);
	pthread_mutex_unlock(&rings_lock);
	if (ring != NULL)
		ring_cache = (struct ring_cache){ log->id, ring };
	return ring;
}

static struct twi_alloclog_ring *ring_of(struct twi_alloclog *log)
{
	return twi_likely(ring_cache.id == log->id) ? ring_cache.ring : find_ring(log);
}

/* Takes a chunk; chunks_lock is held. */
static struct twi_alloclog_chunk *any_chunk(struct twi_alloclog *log)
{
	struct twi_alloclog_chunk *chunk = log->free;

	if (chunk != NULL) {
		log->free = chunk->next;
		log->free_count--;
		*chunk = (struct twi_alloclog_chunk){ 0 };
		return chunk;
	}
	if (log->chunk_count == log->chunks_max)
		return NULL;
	chunk = calloc(1, sizeof(*chunk) + log->chunk_events * sizeof(chunk->rec[0]));
	if (chunk != NULL)
		log->chunks[log->chunk_count++] = chunk;
	return chunk;
}

static void free_chunk(struct twi_alloclog *log, struct twi_alloclog_chunk *chunk)
{
	chunk->next = log->free;
	log->free = chunk;
	log->free_count++;
}

struct twi_alloclog_chunk *twi_alloclog_take_chunk(struct twi_alloclog *log)
{
	struct twi_alloclog_chunk *chunk;

	pthread_mutex_lock(&log->chunks_lock);
	chunk = any_chunk(log);
	pthread_mutex_unlock(&log->chunks_lock);
	return chunk;
}

uint32_t twi_alloclog_room(struct twi_alloclog *log)
{
	uint32_t room;

	pthread_mutex_lock(&log->chunks_lock);
	room = log->chunks_max - log->chunk_count + log->free_count;
	pthread_mutex_unlock(&log->chunks_lock);
	return room;
}

struct twi_alloclog_chunk *twi_alloclog_oldest(struct twi_alloclog *log,
					       struct twi_alloclog_ring *ring)
{
	struct twi_alloclog_chunk *chunk = ring->popping;

	if (chunk != NULL && chunk->popped < log->chunk_events)
		return chunk;
	pthread_mutex_lock(&log->chunks_lock);
	chunk = ring->oldest;
	while (chunk != NULL && chunk->popped == log->chunk_events && chunk != ring->chunk) {
		ring->oldest = chunk->next;
		free_chunk(log, chunk);
		chunk = ring->oldest;
	}
	pthread_mutex_unlock(&log->chunks_lock);
	ring->popping = chunk;
	return chunk;
}

void twi_alloclog_trim_window(struct twi_alloclog *log, struct twi_alloclog_window *window)
{
	uint32_t wanted = (window->count + log->chunk_events - 1) / log->chunk_events;
	struct twi_alloclog_chunk *last = NULL, *chunk = window->first;

	pthread_mutex_lock(&log->chunks_lock);
	for (uint32_t i = 0; i < window->chunks; i++) {
		struct twi_alloclog_chunk *next = i + 1 < window->chunks ? chunk->next : NULL;

		if (i < wanted)
			last = chunk;
		else
			free_chunk(log, chunk);
		chunk = next;
	}
	pthread_mutex_unlock(&log->chunks_lock);
	window->first = wanted > 0 ? window->first : NULL;
	window->last = last;
	window->chunks = wanted;
}

/* Gives this thread a chunk, when its chunk is full or it has none. */
static struct twi_alloclog_chunk *next_chunk(struct twi_alloclog *log,
					     struct twi_alloclog_ring *ring)
{
	struct twi_alloclog_chunk *chunk;

	twi_alloclog_keep(log);
	pthread_mutex_lock(&log->chunks_lock);
	chunk = any_chunk(log);
	if (chunk != NULL) {
		if (ring->oldest == NULL)
			ring->oldest = chunk;
		else
			ring->chunk->next = chunk;
		ring->chunk = chunk;
	}
	pthread_mutex_unlock(&log->chunks_lock);
	ring->skip = chunk == NULL ? SKIP : 0;
	return chunk;
}

/* Stores the record. The ring is busy, and the log is on. False: there was no room. */
static bool store_rec(struct twi_alloclog *log, struct twi_alloclog_ring *ring,
		      const struct twi_alloclog_rec *rec)
{
	struct twi_alloclog_chunk *chunk = ring->chunk;
	uint32_t count;

	if (twi_unlikely(chunk == NULL ||
			 atomic_load_explicit(&chunk->count, memory_order_relaxed) ==
				 log->chunk_events)) {
		if (ring->skip > 0) {
			ring->skip--;
			return false;
		}
		chunk = next_chunk(log, ring);
		if (chunk == NULL)
			return false;
	}
	count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
	chunk->rec[count] = *rec;
	/* Release: pairs with the acquire of a thread that takes a snapshot or pops. */
	atomic_store_explicit(&chunk->count, count + 1, memory_order_release);
	return true;
}

static void record_rec(struct twi_alloclog *log, struct twi_alloclog_rec *rec)
{
	struct twi_alloclog_ring *ring = ring_of(log);
	bool stored = true;

	if (ring == NULL) {
		atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
		twi_count(log->diag, TWI_C_alloclog_lost, 1);
		return;
	}
	/* This thread is recording already: the recording itself took memory from the pool. */
	if (twi_unlikely(atomic_load_explicit(&ring->busy, memory_order_relaxed) != 0)) {
		twi_cell_add(&ring->lost, 1);
		twi_count(log->diag, TWI_C_alloclog_lost, 1);
		return;
	}
	rec->thread = ring->tid;
	atomic_store_explicit(&ring->busy, 1, memory_order_seq_cst);
	if (twi_unlikely(atomic_load_explicit(&log->gate.on, memory_order_seq_cst) == 0)) {
		atomic_store_explicit(&ring->busy, 0, memory_order_release);
		return;
	}
	stored = store_rec(log, ring, rec);
	if (twi_unlikely(!stored))
		twi_cell_add(&ring->lost, 1);
	/* Release: the thread that waits to free the chunks sees that this one has finished. */
	atomic_store_explicit(&ring->busy, 0, memory_order_release);
	twi_count(log->diag, stored ? TWI_C_alloclog_events : TWI_C_alloclog_lost, 1);
}

static bool kept_now(const struct twi_alloclog *log, const void *p)
{
	return twi_alloclog_keeps((uintptr_t)p,
				  atomic_load_explicit(&log->shift, memory_order_relaxed),
				  atomic_load_explicit(&log->salt, memory_order_relaxed));
}

void twi_alloclog_record_alloc(struct twi_alloclog *log, const void *p, uint64_t bytes,
			       uint64_t align, struct twi_site site)
{
	uint64_t most = ((uint64_t)1 << TWI_ALLOCLOG_BYTES_BITS) - 1;
	uint64_t taken = log->pool != NULL ? twi_pool_bytes_at(log->pool, p) : 0;
	uint64_t slack = (taken - twi_min(twi_align_up(bytes, TWI_ALLOCLOG_UNIT), taken)) /
			 TWI_ALLOCLOG_UNIT;
	unsigned align_log2 = (unsigned)__builtin_ctzll(align != 0 ? align : TWI_ALIGN_DEFAULT);
	struct twi_alloclog_rec rec = {
		.address = (uintptr_t)p,
		.what = (uint64_t)TWI_ALLOC_ALLOC << 62 |
			(uint64_t)align_log2 << TWI_ALLOCLOG_ALIGN_BIT |
			twi_min(slack, SLACK_MOST) << TWI_ALLOCLOG_BYTES_BITS |
			twi_min(bytes, most),
		.caller = (uintptr_t)site.caller,
		.tag = site.tag,
	};

	if (!kept_now(log, p))
		return;
	rec.ns = twi_now_ns();
	record_rec(log, &rec);
}

struct twi_alloclog_begun twi_alloclog_begin_on(struct twi_alloclog *log, const void *p)
{
	struct twi_alloclog_begun begun = { 0, 0 };

	if (!kept_now(log, p))
		return begun;
	begun.bytes = log->pool != NULL ? twi_pool_bytes_at(log->pool, p) : 0;
	begun.ns = twi_now_ns();
	return begun;
}

void twi_alloclog_record_free(struct twi_alloclog *log, const void *p,
			      struct twi_alloclog_begun begun, struct twi_site site)
{
	struct twi_alloclog_rec rec = {
		.ns = begun.ns,
		.address = (uintptr_t)p,
		.what = (uint64_t)TWI_ALLOC_FREE << 62 | begun.bytes,
		.caller = (uintptr_t)site.caller,
		.tag = site.tag,
	};

	record_rec(log, &rec);
}

void twi_alloclog_step(struct twi_alloclog *log, uint64_t number, struct twi_site site)
{
	struct twi_alloclog_rec rec = {
		.address = number,
		.what = (uint64_t)TWI_ALLOC_STEP << 62,
		.caller = (uintptr_t)site.caller,
		.tag = site.tag,
	};

	if (!twi_alloclog_is_on(log))
		return;
	rec.ns = twi_now_ns();
	record_rec(log, &rec);
}

int twi_alloclog_on(struct twi_alloclog *log)
{
	struct twi_alloclog_chunk **chunks =
		calloc(log->chunks_max, sizeof(struct twi_alloclog_chunk *));

	if (chunks == NULL)
		return twi_error(TOW_ENOMEM, "allocation log: no memory for a table of %u chunks",
				 log->chunks_max);
	pthread_mutex_lock(&log->chunks_lock);
	log->chunks = chunks;
	log->free = NULL;
	log->chunk_count = log->free_count = 0;
	pthread_mutex_unlock(&log->chunks_lock);
	atomic_store_explicit(&log->shift, 0, memory_order_relaxed);
	atomic_store_explicit(&log->salt, twi_now_ns() * 0xd6e8feb86659fd93u, memory_order_relaxed);
	atomic_store_explicit(&log->gate.on, 1, memory_order_seq_cst);
	return TOW_OK;
}

void twi_alloclog_off(struct twi_alloclog *log)
{
	atomic_store_explicit(&log->gate.on, 0, memory_order_seq_cst);
	/* A ring that is made after this lock finds the log off. */
	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog_ring *ring = first_ring(log); ring != NULL; ring = ring->next) {
		/* A recording takes about 20 ns, or some ms if it makes room. */
		while (atomic_load_explicit(&ring->busy, memory_order_seq_cst) != 0)
			sched_yield();
	}
	/* A thread that makes room touches all rings. So no ring is reset before all are idle. */
	for (struct twi_alloclog_ring *ring = first_ring(log); ring != NULL; ring = ring->next) {
		ring->chunk = ring->oldest = ring->popping = NULL;
		ring->skip = 0;
	}
	pthread_mutex_unlock(&rings_lock);
	twi_alloclog_keeper_fini(&log->keeper);
	pthread_mutex_lock(&log->chunks_lock);
	for (uint32_t i = 0; i < log->chunk_count; i++)
		free(log->chunks[i]);
	free(log->chunks);
	log->chunks = NULL;
	log->free = NULL;
	log->chunk_count = log->free_count = 0;
	pthread_mutex_unlock(&log->chunks_lock);
}

uint64_t twi_alloclog_lost(struct twi_alloclog *log)
{
	uint64_t lost = atomic_load_explicit(&log->lost, memory_order_relaxed);

	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog_ring *ring = first_ring(log); ring != NULL; ring = ring->next)
		lost += atomic_load_explicit(&ring->lost, memory_order_relaxed);
	pthread_mutex_unlock(&rings_lock);
	return lost;
}

int twi_alloclog_create(struct twi_diag *diag, uint64_t max_events, struct twi_alloclog **out)
{
	struct twi_alloclog *log;
	int status;

	*out = NULL;
	if (max_events < EVENTS_MIN || max_events > TWI_ALLOCLOG_EVENTS_MAX / 2)
		return twi_error(TOW_EINVAL, "alloclog_events = %llu is not from %d to %llu",
				 (unsigned long long)max_events, EVENTS_MIN,
				 (unsigned long long)TWI_ALLOCLOG_EVENTS_MAX / 2);
	log = aligned_alloc(64, twi_align_up(sizeof(*log), 64));
	if (log == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the allocation log");
	*log = (struct twi_alloclog){ .diag = diag };
	log->chunk_events = (uint32_t)twi_min(max_events / CHUNKS_MIN, (uint64_t)CHUNK_EVENTS);
	log->chunks_max = (uint32_t)(max_events / log->chunk_events);
	pthread_mutex_init(&log->chunks_lock, NULL);
	pthread_mutex_init(&log->keep_lock, NULL);
	pthread_mutex_init(&log->control, NULL);
	pthread_once(&once, init_once);
	pthread_mutex_lock(&rings_lock);
	log->id = next_log++;
	log->next = all;
	all = log;
	pthread_mutex_unlock(&rings_lock);
	status = twi_alloclog_sources_add(log);
	if (status < 0) {
		twi_alloclog_destroy(log);
		return status;
	}
	*out = log;
	return TOW_OK;
}

void twi_alloclog_destroy(struct twi_alloclog *log)
{
	if (log == NULL)
		return;
	twi_alloclog_sources_remove(log);
	if (log->pool != NULL)
		twi_pool_on_return(log->pool, NULL, NULL);
	if (log->users > 0)
		twi_alloclog_off(log);
	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog **at = &all; *at != NULL; at = &(*at)->next) {
		if (*at == log) {
			*at = log->next;
			break;
		}
	}
	pthread_mutex_unlock(&rings_lock);
	for (struct twi_alloclog_ring *ring = first_ring(log), *next; ring != NULL; ring = next) {
		next = ring->next;
		free(ring);
	}
	pthread_mutex_destroy(&log->chunks_lock);
	pthread_mutex_destroy(&log->keep_lock);
	pthread_mutex_destroy(&log->control);
	free(log);
}
