/*
 * diag.c - the blocks: made at a thread's first record, kept when the thread ends, summed by
 * readers.
 */
#include "diag/record/diag.h"

#include <pthread.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/latency.h"
#include "diag/record/log.h"
#include "diag/record/probes.h"
#include "diag/record/registry.h"
#include "diag/record/span_ring.h"

__thread struct twi_diag_block_cache twi_diag_block_cache
	__attribute__((tls_model("initial-exec"), aligned(8)));

static _Atomic uint64_t next_thread = 1;
static _Atomic uint32_t next_diag = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
/* Guards the list of all diags and the owners of blocks; taken when a thread starts or ends. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct twi_diag *all;

/* Frees the blocks of a thread that has ended for the next thread. */
static void release_blocks(void *arg)
{
	uint64_t number = (uint64_t)(uintptr_t)arg;

	pthread_mutex_lock(&lock);
	for (struct twi_diag *diag = all; diag != NULL; diag = diag->next) {
		struct twi_diag_block *block =
			atomic_load_explicit(&diag->blocks, memory_order_acquire);

		for (; block != NULL; block = block->next) {
			if (block->owner == number)
				block->owner = 0;
		}
	}
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < TWI_DIAG_BLOCKS; i++)
		twi_diag_block_cache.id[i] = 0;
}

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void init_once(void)
{
	pthread_key_create(&thread_end, release_blocks);
	pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* This thread's number, kept only in the key whose destructor needs it: TLS is scarce. */
static uint64_t own_number(void)
{
	uint64_t number = (uint64_t)(uintptr_t)pthread_getspecific(thread_end);

	if (number == 0) {
		number = atomic_fetch_add_explicit(&next_thread, 1, memory_order_relaxed);
		pthread_setspecific(thread_end, (void *)(uintptr_t)number);
	}
	return number;
}

/* A block without an owner, or a new one; the lock is held. */
static struct twi_diag_block *take_block(struct twi_diag *diag, uint64_t number)
{
	struct twi_diag_block *first = atomic_load_explicit(&diag->blocks, memory_order_acquire);
	struct twi_diag_block *block;

	for (block = first; block != NULL; block = block->next) {
		if (block->owner == number)
			return block;
	}
	for (block = first; block != NULL; block = block->next) {
		if (block->owner == 0)
			break;
	}
	if (block == NULL) {
		block = aligned_alloc(64, twi_align_up(sizeof(*block), 64));
		if (block == NULL)
			return NULL;
		*block = (struct twi_diag_block){ .next = first };
		atomic_store_explicit(&diag->blocks, block, memory_order_release);
	}
	block->open_count = 0; /* the last owner may have left some open */
	twi_span_ring_adopt(diag, block);
	block->owner = number;
	return block;
}

struct twi_diag_block *twi_diag_block_find(struct twi_diag *diag)
{
	uint32_t place = diag->id % TWI_DIAG_BLOCKS;
	struct twi_diag_block *block;
	uint64_t number;

	pthread_once(&once, init_once);
	number = own_number();
	pthread_mutex_lock(&lock);
	block = take_block(diag, number);
	pthread_mutex_unlock(&lock);
	if (block == NULL) {
		atomic_fetch_add_explicit(&diag->lost, 1, memory_order_relaxed);
		return NULL;
	}
	twi_diag_block_cache.id[place] = diag->id;
	twi_diag_block_cache.block[place] = block;
	return block;
}

uint64_t twi_diag_held(struct twi_diag *diag)
{
	uint64_t held = atomic_load_explicit(&diag->held, memory_order_relaxed);
	struct twi_diag_block *block = atomic_load_explicit(&diag->blocks, memory_order_acquire);

	for (; block != NULL; block = block->next)
		held += atomic_load_explicit(&block->held, memory_order_relaxed);
	return held;
}

int twi_diag_create(struct twi_diag **out)
{
	struct twi_diag *diag = calloc(1, sizeof(*diag));

	pthread_once(&once, init_once);
	*out = NULL;
	if (diag == NULL)
		return twi_error(TOW_ENOMEM, "no memory for diagnostics");
	do
		diag->id = atomic_fetch_add_explicit(&next_diag, 1, memory_order_relaxed);
	while (diag->id == 0);
	diag->start_ns = twi_now_ns();
	atomic_init(&diag->log_level, 2);
	diag->latencies = twi_latencies_create();
	diag->log = twi_log_create();
	twi_labels_init(&diag->labels);
	diag->spans = twi_span_table_create();
	atomic_init(&diag->span_mask, TWI_SPAN_SAMPLE - 1);
	if (diag->log == NULL || diag->spans == NULL || diag->latencies == NULL ||
	    twi_registry_create(&diag->registry) < 0) {
		twi_log_destroy(diag->log);
		twi_span_table_destroy(diag->spans);
		twi_latencies_destroy(diag->latencies);
		twi_labels_fini(&diag->labels);
		free(diag);
		return twi_error(TOW_ENOMEM, "no memory for diagnostics");
	}
	pthread_mutex_lock(&lock);
	diag->next = all;
	all = diag;
	pthread_mutex_unlock(&lock);
	*out = diag;
	return TOW_OK;
}

static void free_block(struct twi_diag_block *block)
{
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++)
			free(atomic_load_explicit(&block->latencies[lane][i],
						  memory_order_relaxed));
	}
	twi_sites_fini(&block->sites);
	twi_span_ring_free(block);
	free(block);
}

void twi_diag_destroy(struct twi_diag *diag)
{
	struct twi_diag_block *block;

	if (diag == NULL)
		return;
	pthread_mutex_lock(&lock);
	for (struct twi_diag **at = &all; *at != NULL; at = &(*at)->next) {
		if (*at == diag) {
			*at = diag->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	block = atomic_load_explicit(&diag->blocks, memory_order_acquire);
	while (block != NULL) {
		struct twi_diag_block *next = block->next;

		free_block(block);
		block = next;
	}
	twi_latencies_destroy(diag->latencies);
	twi_registry_destroy(diag->registry);
	twi_log_destroy(diag->log);
	twi_span_table_destroy(diag->spans);
	twi_labels_fini(&diag->labels);
	free(diag);
}

#ifndef TWI_NO_DIAGNOSTICS
/* This thread's histogram of a lane and size class; made at its first record. */
static struct twi_latency *latency_cell(struct twi_diag *diag, struct twi_diag_block *block,
					enum twi_lane_id lane, unsigned size_class)
{
	struct twi_latency *latency =
		atomic_load_explicit(&block->latencies[lane][size_class], memory_order_relaxed);

	if (twi_likely(latency != NULL))
		return latency;
	latency = calloc(1, sizeof(*latency));
	if (latency == NULL) {
		atomic_fetch_add_explicit(&diag->lost, 1, memory_order_relaxed);
		return NULL;
	}
	/* release: readers see it zeroed */
	atomic_store_explicit(&block->latencies[lane][size_class], latency, memory_order_release);
	return latency;
}
#endif

/* Marks the step, so that readers skip the steps without readings, which are in no cache. */
static void bucket_add(struct twi_latency *latency, unsigned index, uint64_t n)
{
	uint64_t steps = atomic_load_explicit(&latency->steps, memory_order_relaxed);
	uint64_t step = 1ull << index / TWI_HIST_SUB;

	twi_cell_add(&latency->counts[index], n);
	if (twi_unlikely((steps & step) == 0))
		atomic_store_explicit(&latency->steps, steps | step, memory_order_relaxed);
}

void twi_latency_add(struct twi_latency *latency, uint64_t ns)
{
	bucket_add(latency, twi_hist_index(ns), 1);
	twi_cell_add(&latency->sum_ns, ns);
	if (ns > atomic_load_explicit(&latency->max_ns, memory_order_relaxed))
		atomic_store_explicit(&latency->max_ns, ns, memory_order_relaxed);
}

void twi_latency_record(struct twi_diag *diag, enum twi_lane_id lane, uint64_t bytes,
			uint64_t latency_ns)
{
#ifndef TWI_NO_DIAGNOSTICS
	struct twi_diag_block *block = twi_diag_block_of(diag);
	struct twi_latency *latency;

	twi_probe_rpc_done((int)lane, bytes, latency_ns);
	if (block == NULL)
		return;
	latency = latency_cell(diag, block, lane, twi_size_class(bytes));
	if (latency == NULL)
		return;
	twi_latency_add(latency, latency_ns);
	twi_cell_add(&latency->bytes, bytes);
#else
	(void)diag, (void)lane, (void)bytes, (void)latency_ns;
#endif
}

#ifndef TWI_NO_DIAGNOSTICS
/* Records one event: at its reason, at its call site, and in the two counters of its kind. */
static void record_reason(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes,
			  uint64_t ns, struct twi_site site, enum twi_counter events,
			  enum twi_counter event_bytes)
{
	struct twi_diag_block *block = twi_diag_block_of(diag);

	if (block == NULL)
		return;
	twi_cell_add(&block->reasons[reason].count, 1);
	twi_cell_add(&block->reasons[reason].bytes, bytes);
	twi_cell_add(&block->reasons[reason].ns, ns);
	twi_cell_add(&block->counters[events], 1);
	twi_cell_add(&block->counters[event_bytes], bytes);
	twi_sites_record(&block->sites, reason, bytes, ns, site);
	if (twi_span_wanted(diag, bytes)) {
		struct twi_span span = { .end_ns = twi_now_ns(),
					 .bytes = bytes,
					 .name = site.tag,
					 .lane = TWI_SPAN_NO_LANE,
					 .detail = (uint8_t)reason,
					 .kind = events == TWI_C_fallback_copies
							 ? TWI_SPAN_COPY
							 : TWI_SPAN_REGISTER };

		span.start_ns = span.end_ns - twi_min(ns, span.end_ns);
		twi_span_record(diag, &span);
	}
}
#endif

void twi_copy_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		     struct twi_site site)
{
#ifndef TWI_NO_DIAGNOSTICS
	twi_probe_copy((int)reason, bytes, ns);
	record_reason(diag, reason, bytes, ns, site, TWI_C_fallback_copies,
		      TWI_C_fallback_copy_bytes);
#else
	(void)diag, (void)reason, (void)bytes, (void)ns, (void)site;
#endif
}

void twi_late_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		     struct twi_site site)
{
#ifndef TWI_NO_DIAGNOSTICS
	twi_probe_late_registration((int)reason, bytes, ns);
	record_reason(diag, reason, bytes, ns, site, TWI_C_late_registrations,
		      TWI_C_late_registration_bytes);
#else
	(void)diag, (void)reason, (void)bytes, (void)ns, (void)site;
#endif
}

uint64_t twi_counter_sum(struct twi_diag *diag, enum twi_counter counter)
{
	const struct twi_diag_block *block =
		atomic_load_explicit(&diag->blocks, memory_order_acquire);
	uint64_t sum = 0;

	for (; block != NULL; block = block->next)
		sum += atomic_load_explicit(&block->counters[counter], memory_order_relaxed);
	if (counter == TWI_C_telemetry_lost)
		sum += atomic_load_explicit(&diag->lost, memory_order_relaxed);
	return sum;
}

void twi_reason_sum(struct twi_diag *diag, enum twi_reason reason, struct twi_reason_sum *out)
{
	const struct twi_diag_block *block =
		atomic_load_explicit(&diag->blocks, memory_order_acquire);

	*out = (struct twi_reason_sum){ 0 };
	for (; block != NULL; block = block->next) {
		const struct twi_reason_cell *cell = &block->reasons[reason];

		out->count += atomic_load_explicit(&cell->count, memory_order_relaxed);
		out->bytes += atomic_load_explicit(&cell->bytes, memory_order_relaxed);
		out->ns += atomic_load_explicit(&cell->ns, memory_order_relaxed);
	}
}

_Static_assert(TWI_HIST_BUCKETS / TWI_HIST_SUB <= 64, "a bit for each step");

/* Adds the buckets to `into`, and returns how many readings they have. */
static uint64_t buckets_add(const struct twi_latency *latency, uint64_t into[TWI_HIST_BUCKETS])
{
	uint64_t steps = atomic_load_explicit(&latency->steps, memory_order_relaxed), count = 0;

	for (; steps != 0; steps &= steps - 1) {
		unsigned first = (unsigned)__builtin_ctzll(steps) * TWI_HIST_SUB;

		for (unsigned i = first; i < first + TWI_HIST_SUB; i++) {
			uint64_t n =
				atomic_load_explicit(&latency->counts[i], memory_order_relaxed);

			into[i] += n;
			count += n;
		}
	}
	return count;
}

static void latency_add_up(const struct twi_latency *latency, struct twi_latency_sum *out)
{
	uint64_t max = atomic_load_explicit(&latency->max_ns, memory_order_relaxed);

	out->count += buckets_add(latency, out->counts);
	out->sum_ns += atomic_load_explicit(&latency->sum_ns, memory_order_relaxed);
	out->max_ns = twi_max(out->max_ns, max);
	out->bytes += atomic_load_explicit(&latency->bytes, memory_order_relaxed);
}

bool twi_latency_read(const struct twi_latency *latency, struct twi_latency_sum *out)
{
	*out = (struct twi_latency_sum){ 0 };
	latency_add_up(latency, out);
	return out->count > 0;
}

void twi_latency_sum_add(struct twi_latency_sum *into, const struct twi_latency_sum *from)
{
	twi_hist_merge(into->counts, from->counts);
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	into->max_ns = twi_max(into->max_ns, from->max_ns);
	into->bytes += from->bytes;
}

void twi_latency_merge(struct twi_latency *into, const struct twi_latency *from)
{
	struct twi_latency_sum sum;

	if (!twi_latency_read(from, &sum))
		return;
	twi_cell_add(&into->sum_ns, sum.sum_ns);
	twi_cell_add(&into->bytes, sum.bytes);
	if (sum.max_ns > atomic_load_explicit(&into->max_ns, memory_order_relaxed))
		atomic_store_explicit(&into->max_ns, sum.max_ns, memory_order_relaxed);
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++) {
		if (sum.counts[i] > 0)
			bucket_add(into, i, sum.counts[i]);
	}
}

bool twi_latency_sum_blocks(struct twi_diag *diag, enum twi_lane_id lane, unsigned size_class,
			    struct twi_latency_sum *out)
{
	const struct twi_diag_block *block =
		atomic_load_explicit(&diag->blocks, memory_order_acquire);

	*out = (struct twi_latency_sum){ 0 };
	for (; block != NULL; block = block->next) {
		const struct twi_latency *latency = atomic_load_explicit(
			&block->latencies[lane][size_class], memory_order_acquire);

		if (latency != NULL)
			latency_add_up(latency, out);
	}
	return out->count > 0;
}

bool twi_latency_sum(struct twi_diag *diag, enum twi_lane_id lane, unsigned size_class,
		     struct twi_latency_sum *out)
{
	twi_latency_sum_blocks(diag, lane, size_class, out);
	twi_latencies_add(diag->latencies, lane, size_class, out);
	return out->count > 0;
}
