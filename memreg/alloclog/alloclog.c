/*
 * alloclog.c - recording, and what it is recorded into. alloclog.h has the concept, alloclog_impl.h
 * the locks.
 *
 * Switching off while threads record: who records marks its ring busy and then looks whether the
 * log is on; who switches off says so and then waits until no ring is busy. Both in the one order
 * of seq_cst, so one of the two sees the other; then nobody is in a chunk any more and they can go.
 *
 * Budget of an event: the clock, a store of 40 bytes, one exchange; no allocation, lock or system
 * call but once in a chunk.
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
#define TRIES        8  /* chunks thinned at most for one that is wanted */
#define SKIP         63 /* events lost before the next try */
#define SEEN_WORDS   64

struct ring_cache {
	uint64_t id;
	struct twi_alloclog_ring *ring;
};

/* Of the log that this thread used last: one, since static TLS is scarce. */
static __thread struct ring_cache ring_cache __attribute__((tls_model("initial-exec"), aligned(8)));
static uint64_t next_thread = 1, next_log = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct twi_alloclog *all;

/* The rings of a thread that has ended are free for the next one. */
static void release_rings(void *arg)
{
	uint64_t number = (uint64_t)(uintptr_t)arg;

	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog *log = all; log != NULL; log = log->next) {
		for (struct twi_alloclog_ring *ring = log->rings; ring != NULL; ring = ring->next) {
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

/* This thread's, which stands only where its end will find it: TLS is scarce. The lock is held. */
static uint64_t own_number(void)
{
	uint64_t number = (uint64_t)(uintptr_t)pthread_getspecific(thread_end);

	if (number == 0) {
		number = next_thread++;
		pthread_setspecific(thread_end, (void *)(uintptr_t)number);
	}
	return number;
}

/* This thread's ring, one without an owner, or a new one; rings_lock is held. */
static struct twi_alloclog_ring *take_ring(struct twi_alloclog *log)
{
	uint64_t number = own_number();
	struct twi_alloclog_ring *ring;

	for (ring = log->rings; ring != NULL; ring = ring->next) {
		if (ring->owner == number)
			return ring;
	}
	for (ring = log->rings; ring != NULL && ring->owner != 0; ring = ring->next)
		;
	if (ring == NULL) {
		ring = aligned_alloc(64, sizeof(*ring));
		if (ring == NULL)
			return NULL;
		*ring = (struct twi_alloclog_ring){ .next = log->rings };
		log->rings = ring;
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

static bool keeps_rec(const struct twi_alloclog_rec *rec, uint32_t shift, uint64_t salt)
{
	return twi_alloclog_rec_kind(rec) == TWI_ALLOC_STEP ||
	       twi_alloclog_keeps(rec->address, shift, salt);
}

/* Drops from a sealed chunk what is no longer kept. chunks_lock is held, as for all of these. */
static void thin_chunk(struct twi_alloclog_chunk *chunk, uint32_t shift, uint64_t salt)
{
	uint32_t count = atomic_load_explicit(&chunk->count, memory_order_relaxed), kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (keeps_rec(&chunk->rec[i], shift, salt))
			chunk->rec[kept++] = chunk->rec[i];
	}
	atomic_store_explicit(&chunk->count, kept, memory_order_relaxed);
	chunk->shift = shift;
}

/*
 * Whether enough addresses would be left at `shift` to stand for the others: looked up in some of
 * the chunks. A program that uses the same few addresses again and again would vanish from its log.
 */
static bool worth_thinning(const struct twi_alloclog *log, uint32_t shift, uint64_t salt)
{
	uint64_t seen[SEEN_WORDS] = { 0 };
	unsigned addresses = 0, looked = 0;

	for (uint32_t i = 0; i < twi_min(log->chunk_count, (uint32_t)TRIES); i++) {
		const struct twi_alloclog_chunk *chunk = log->chunks[i];
		uint32_t count = atomic_load_explicit(&chunk->count, memory_order_acquire);

		for (uint32_t k = 0; k < count; k++) {
			uint64_t address = chunk->rec[k].address;
			uint64_t mark = (address >> 6) * 0xd6e8feb86659fd93u >> 52;

			looked++;
			if (!keeps_rec(&chunk->rec[k], shift, salt) ||
			    (seen[mark / 64] >> mark % 64 & 1) != 0)
				continue;
			seen[mark / 64] |= (uint64_t)1 << mark % 64;
			addresses++;
		}
	}
	return addresses >= twi_min(64u, looked / 16);
}

static struct twi_alloclog_chunk *new_chunk(struct twi_alloclog *log, uint32_t shift)
{
	struct twi_alloclog_chunk *chunk;

	if (log->chunk_count == log->chunks_max)
		return NULL;
	chunk = calloc(1, sizeof(*chunk) + log->chunk_events * sizeof(chunk->rec[0]));
	if (chunk == NULL)
		return NULL;
	chunk->shift = shift;
	log->chunks[log->chunk_count++] = chunk;
	log->cursor = log->chunk_count; /* none of them is worth thinning to this shift */
	return chunk;
}

/* A sealed chunk in which thinning has made room. */
static struct twi_alloclog_chunk *thinned_chunk(struct twi_alloclog *log)
{
	uint32_t shift = atomic_load_explicit(&log->shift, memory_order_relaxed);
	uint64_t salt = atomic_load_explicit(&log->salt, memory_order_relaxed);

	for (int tries = 0; tries < TRIES; tries++) {
		struct twi_alloclog_chunk *chunk;

		if (log->cursor == log->chunk_count) {
			if (log->chunk_count == 0 || shift == TWI_ALLOCLOG_SHIFT_MAX ||
			    !worth_thinning(log, shift + 1, salt))
				return NULL;
			atomic_store_explicit(&log->shift, ++shift, memory_order_relaxed);
			log->cursor = 0;
		}
		chunk = log->chunks[log->cursor++];
		if (!chunk->sealed || chunk->shift >= shift)
			continue;
		thin_chunk(chunk, shift, salt);
		if (atomic_load_explicit(&chunk->count, memory_order_relaxed) <=
		    log->chunk_events - log->chunk_events / 4) {
			chunk->sealed = false;
			return chunk;
		}
	}
	return NULL;
}

/* This thread's chunk is full, or it has none. */
static struct twi_alloclog_chunk *next_chunk(struct twi_alloclog *log,
					     struct twi_alloclog_ring *ring)
{
	pthread_mutex_lock(&log->chunks_lock);
	if (ring->chunk != NULL)
		ring->chunk->sealed = true;
	ring->chunk = new_chunk(log, atomic_load_explicit(&log->shift, memory_order_relaxed));
	if (ring->chunk == NULL)
		ring->chunk = thinned_chunk(log);
	pthread_mutex_unlock(&log->chunks_lock);
	ring->skip = ring->chunk == NULL ? SKIP : 0;
	return ring->chunk;
}

/* Stores rec when the log is on; the ring is busy. False: there was no room. */
static bool store_rec(struct twi_alloclog *log, struct twi_alloclog_ring *ring,
		      const struct twi_alloclog_rec *rec)
{
	struct twi_alloclog_chunk *chunk = ring->chunk;
	uint32_t count;

	if (twi_unlikely(chunk == NULL && ring->skip > 0)) {
		ring->skip--;
		return false;
	}
	if (twi_unlikely(chunk == NULL ||
			 atomic_load_explicit(&chunk->count, memory_order_relaxed) ==
				 log->chunk_events)) {
		chunk = next_chunk(log, ring);
		if (chunk == NULL)
			return false;
	}
	count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
	chunk->rec[count] = *rec;
	/* Release: pairs with the acquire of who takes a snapshot or thins. */
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
	rec->thread = ring->tid;
	atomic_store_explicit(&ring->busy, 1, memory_order_seq_cst);
	if (twi_unlikely(atomic_load_explicit(&log->gate.on, memory_order_seq_cst) == 0)) {
		atomic_store_explicit(&ring->busy, 0, memory_order_release);
		return;
	}
	stored = store_rec(log, ring, rec);
	if (twi_unlikely(!stored))
		twi_cell_add(&ring->lost, 1);
	/* Release: who waits for it, to free the chunks, sees that we are done with ours. */
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
	unsigned align_log2 = (unsigned)__builtin_ctzll(align != 0 ? align : TWI_ALIGN_DEFAULT);
	struct twi_alloclog_rec rec = {
		.address = (uintptr_t)p,
		.what = (uint64_t)TWI_ALLOC_ALLOC << 62 |
			(uint64_t)align_log2 << TWI_ALLOCLOG_BYTES_BITS | twi_min(bytes, most),
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
	log->chunk_count = log->cursor = 0;
	pthread_mutex_unlock(&log->chunks_lock);
	atomic_store_explicit(&log->shift, 0, memory_order_relaxed);
	atomic_store_explicit(&log->salt, twi_now_ns() * 0xd6e8feb86659fd93u, memory_order_relaxed);
	atomic_store_explicit(&log->gate.on, 1, memory_order_seq_cst);
	return TOW_OK;
}

void twi_alloclog_off(struct twi_alloclog *log)
{
	atomic_store_explicit(&log->gate.on, 0, memory_order_seq_cst);
	/* A ring that comes after this lock finds the log off. */
	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog_ring *ring = log->rings; ring != NULL; ring = ring->next) {
		/* A recording takes about 20 ns, a few us with a new chunk. */
		while (atomic_load_explicit(&ring->busy, memory_order_seq_cst) != 0)
			sched_yield();
		ring->chunk = NULL;
		ring->skip = 0;
	}
	pthread_mutex_unlock(&rings_lock);
	pthread_mutex_lock(&log->chunks_lock);
	for (uint32_t i = 0; i < log->chunk_count; i++)
		free(log->chunks[i]);
	free(log->chunks);
	log->chunks = NULL;
	log->chunk_count = log->cursor = 0;
	pthread_mutex_unlock(&log->chunks_lock);
}

uint64_t twi_alloclog_lost(struct twi_alloclog *log)
{
	uint64_t lost = atomic_load_explicit(&log->lost, memory_order_relaxed);

	pthread_mutex_lock(&rings_lock);
	for (struct twi_alloclog_ring *ring = log->rings; ring != NULL; ring = ring->next)
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
	for (struct twi_alloclog_ring *ring = log->rings, *next; ring != NULL; ring = next) {
		next = ring->next;
		free(ring);
	}
	pthread_mutex_destroy(&log->chunks_lock);
	pthread_mutex_destroy(&log->control);
	free(log);
}
