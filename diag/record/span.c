/*
 * span.c - the rings: made at a thread's first span, written by that thread, read by any thread.
 */
#include "diag/record/span.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/record/span_ring.h"

struct twi_span_table *twi_span_table_create(void)
{
	struct twi_span_table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		return NULL;
	pthread_mutex_init(&table->lock, NULL);
	table->sample = TWI_SPAN_SAMPLE;
	table->rank = -1;
	return table;
}

void twi_span_table_destroy(struct twi_span_table *table)
{
	if (table == NULL)
		return;
	for (uint32_t i = 0; i < table->peer_count; i++)
		free(table->peers[i].name);
	free(table->peers);
	free(table->job);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

static void apply_sample(struct twi_diag *diag)
{
	const struct twi_span_table *table = diag->spans;
	uint32_t sample = 1;

	while (table->captures == 0 && sample < table->sample)
		sample *= 2;
	atomic_store_explicit(&diag->span_mask, sample - 1, memory_order_relaxed);
}

void twi_span_sample(struct twi_diag *diag, uint32_t one_in)
{
	pthread_mutex_lock(&diag->spans->lock);
	diag->spans->sample = one_in;
	apply_sample(diag);
	pthread_mutex_unlock(&diag->spans->lock);
}

void twi_span_capture(struct twi_diag *diag, bool begin)
{
	pthread_mutex_lock(&diag->spans->lock);
	diag->spans->captures += begin ? 1u : -1u;
	apply_sample(diag);
	pthread_mutex_unlock(&diag->spans->lock);
}

uint32_t twi_span_captures(struct twi_diag *diag)
{
	uint32_t captures;

	pthread_mutex_lock(&diag->spans->lock);
	captures = diag->spans->captures;
	pthread_mutex_unlock(&diag->spans->lock);
	return captures;
}

static void adopt_ring(struct twi_span_table *table, struct twi_span_ring *ring)
{
	struct twi_span_owner *owner;

	pthread_mutex_lock(&table->lock);
	owner = &ring->owners[ring->owner_count++ % TWI_SPAN_OWNERS];
	*owner = (struct twi_span_owner){ .first = twi_span_ring_head(ring), .tid = gettid() };
	if (pthread_getname_np(pthread_self(), owner->name, sizeof(owner->name)) != 0)
		owner->name[0] = '\0';
	pthread_mutex_unlock(&table->lock);
}

void twi_span_ring_adopt(struct twi_diag *diag, struct twi_diag_block *block)
{
	struct twi_span_ring *ring = atomic_load_explicit(&block->spans, memory_order_relaxed);

	if (ring != NULL)
		adopt_ring(diag->spans, ring);
}

#ifndef TWI_NO_DIAGNOSTICS
static struct twi_span_ring *make_ring(struct twi_diag *diag, struct twi_diag_block *block)
{
	/* All zero, with memory only for rows that are written: most threads record little. */
	struct twi_span_ring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ring == MAP_FAILED) {
		atomic_fetch_add_explicit(&diag->lost, 1, memory_order_relaxed);
		return NULL;
	}
	adopt_ring(diag->spans, ring);
	/* release: readers see it complete */
	atomic_store_explicit(&block->spans, ring, memory_order_release);
	return ring;
}
#endif

void twi_span_ring_free(struct twi_diag_block *block)
{
	struct twi_span_ring *ring = atomic_load_explicit(&block->spans, memory_order_relaxed);

	if (ring != NULL)
		munmap(ring, sizeof(*ring));
}

void twi_span_record(struct twi_diag *diag, const struct twi_span *span)
{
#ifndef TWI_NO_DIAGNOSTICS
	struct twi_diag_block *block = twi_diag_block_of(diag);
	struct twi_span_ring *ring;
	const uint64_t *from = (const uint64_t *)(const void *)span;
	uint64_t number;

	if (twi_unlikely(block == NULL))
		return;
	ring = atomic_load_explicit(&block->spans, memory_order_relaxed);
	if (twi_unlikely(ring == NULL))
		ring = make_ring(diag, block);
	if (twi_unlikely(ring == NULL))
		return;
	number = atomic_load_explicit(&ring->head, memory_order_relaxed);
	if (twi_unlikely(number % TWI_SPAN_ROWS == 0))
		atomic_store_explicit(&ring->laps[number / TWI_SPAN_ROWS % TWI_SPAN_LAPS],
				      span->end_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->reserved, number + 1, memory_order_relaxed);
	for (unsigned i = 0; i < TWI_SPAN_WORDS; i++) /* release: span_ring.h */
		atomic_store_explicit(&ring->rows[number % TWI_SPAN_ROWS][i], from[i],
				      memory_order_release);
	atomic_store_explicit(&ring->head, number + 1, memory_order_release);
	twi_cell_add(&block->counters[TWI_C_spans], 1);
#else
	(void)diag, (void)span;
#endif
}

uint64_t twi_span_ring_head(const struct twi_span_ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_acquire);
}

size_t twi_span_ring_read(const struct twi_span_ring *ring, uint64_t *cursor, struct twi_span *out,
			  size_t room, uint64_t *lost_out)
{
	uint64_t head = twi_span_ring_head(ring), first = *cursor, end, reserved, gone = 0;

	if (head > TWI_SPAN_ROWS)
		first = twi_max(first, head - TWI_SPAN_ROWS);
	end = twi_min(head, first + room);
	for (uint64_t i = first; i < end; i++) {
		uint64_t *to = (uint64_t *)(void *)&out[i - first];

		for (unsigned w = 0; w < TWI_SPAN_WORDS; w++) /* acquire: span_ring.h */
			to[w] = atomic_load_explicit(&ring->rows[i % TWI_SPAN_ROWS][w],
						     memory_order_acquire);
	}
	reserved = atomic_load_explicit(&ring->reserved, memory_order_relaxed);
	if (reserved > TWI_SPAN_ROWS && reserved - TWI_SPAN_ROWS > first)
		gone = twi_min(reserved - TWI_SPAN_ROWS, end) - first;
	for (uint64_t i = 0; gone > 0 && first + gone + i < end; i++)
		out[i] = out[gone + i];
	*lost_out = first + gone - *cursor;
	*cursor = end;
	return (size_t)(end - first - gone);
}

uint64_t twi_span_ring_since(const struct twi_span_ring *ring, uint64_t first, uint64_t begin_ns)
{
	uint64_t last_lap = first / TWI_SPAN_ROWS, lap = last_lap;

	/* Go back to the lap that began before begin_ns: it may hold the first such span. Meanwhile
	 * the lap after the last one may have begun, and it takes the place of the oldest. */
	while (lap > 0 && last_lap - lap < TWI_SPAN_LAPS - 2 &&
	       atomic_load_explicit(&ring->laps[lap % TWI_SPAN_LAPS], memory_order_relaxed) >=
		       begin_ns)
		lap--;
	if (lap > 0 && last_lap - lap == TWI_SPAN_LAPS - 2)
		return first;
	return first - lap * TWI_SPAN_ROWS;
}
