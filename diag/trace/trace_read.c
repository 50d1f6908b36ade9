/*
 * trace_read.c - reads one rank's trace from the rings of its diag.
 *
 * A ring is read once and then divided by owner: each owner's part is a thread of the trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/span_ring.h"
#include "diag/record/tag.h"
#include "diag/trace/trace.h"
#include "diag/trace/trace_build.h"

int twi_trace_identify(struct twi_diag *diag, const struct twi_trace_about *about)
{
	struct twi_span_table *table = diag->spans;
	char *job = strdup(about->job != NULL ? about->job : "");

	if (job == NULL)
		return twi_error(TOW_ENOMEM, "no memory for diagnostics");
	pthread_mutex_lock(&table->lock);
	free(table->job);
	table->job = job;
	table->rank = about->rank;
	table->world = about->world;
	table->clock = about->clock;
	table->compare = about->compare;
	table->unfinished = about->unfinished;
	table->clock_arg = about->arg;
	pthread_mutex_unlock(&table->lock);
	return TOW_OK;
}

static int by_start(const void *a, const void *b)
{
	const struct twi_span *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	/* A span that encloses another comes first. */
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int add_thread(struct twi_diag *diag, struct twi_trace_rank *rank,
		      const struct twi_span_owner *owner, struct twi_span *spans, size_t count,
		      uint64_t lost)
{
	struct twi_trace_thread *threads =
		realloc(rank->threads, (rank->thread_count + 1) * sizeof(*threads));
	struct twi_trace_thread *thread;

	if (threads == NULL)
		return TOW_ENOMEM;
	rank->threads = threads;
	thread = &threads[rank->thread_count];
	*thread = (struct twi_trace_thread){ .tid = owner->tid, .lost = lost, .span_count = count };
	snprintf(thread->name, sizeof(thread->name), "%s", owner->name);
	thread->spans = calloc(twi_max(count, (size_t)1), sizeof(*spans));
	if (thread->spans == NULL)
		return TOW_ENOMEM;
	for (size_t i = 0; i < count; i++)
		thread->spans[i] = spans[i];
	qsort(thread->spans, count, sizeof(*spans), by_start);
	rank->thread_count++;
	return twi_trace_name_spans(diag, rank, thread);
}

/* Copies the ring's known owners, oldest first. */
static unsigned copy_owners(struct twi_span_table *table, const struct twi_span_ring *ring,
			    struct twi_span_owner *out)
{
	uint64_t known;

	pthread_mutex_lock(&table->lock);
	known = twi_min(ring->owner_count, (uint64_t)TWI_SPAN_OWNERS);
	for (uint64_t i = 0; i < known; i++)
		out[i] = ring->owners[(ring->owner_count - known + i) % TWI_SPAN_OWNERS];
	pthread_mutex_unlock(&table->lock);
	return (unsigned)known;
}

int twi_trace_add_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			const struct twi_span_ring *ring, struct twi_span *spans,
			const uint64_t *numbers, size_t count, uint64_t lost)
{
	struct twi_span_owner owners[TWI_SPAN_OWNERS];
	unsigned owner_count = copy_owners(diag->spans, ring, owners), owner = 0;
	size_t at = 0;

	while (at < count || lost > 0) {
		size_t first = at;
		int status;

		while (owner + 1 < owner_count && at < count &&
		       numbers[at] >= owners[owner + 1].first)
			owner++;
		while (at < count &&
		       (owner + 1 == owner_count || numbers[at] < owners[owner + 1].first))
			at++;
		status = add_thread(diag, rank, &owners[owner], &spans[first], at - first, lost);
		if (status < 0)
			return status;
		lost = 0;
	}
	return TOW_OK;
}

static int read_ring(struct twi_diag *diag, const struct twi_span_ring *ring, uint64_t begin_ns,
		     struct twi_trace_rank *rank)
{
	struct twi_span *spans = calloc(TWI_SPAN_ROWS, sizeof(*spans));
	uint64_t *numbers = calloc(TWI_SPAN_ROWS, sizeof(*numbers));
	uint64_t cursor = 0, lost = 0, first;
	size_t count, kept = 0;
	int status = TOW_ENOMEM;

	if (spans != NULL && numbers != NULL) {
		count = twi_span_ring_read(ring, &cursor, spans, TWI_SPAN_ROWS, &lost);
		first = cursor - count;
		if (count == 0 || spans[0].end_ns >= begin_ns)
			lost = twi_span_ring_since(ring, first, begin_ns);
		else
			lost = 0;
		for (size_t i = 0; i < count; i++) {
			if (spans[i].end_ns < begin_ns)
				continue;
			spans[kept] = spans[i];
			numbers[kept++] = first + i;
		}
		status = twi_trace_add_spans(diag, rank, ring, spans, numbers, kept, lost);
	}
	free(numbers);
	free(spans);
	return status;
}

static int64_t unix_offset_ns(void)
{
	struct timespec now;
	uint64_t before = twi_now_ns(), after;

	clock_gettime(CLOCK_REALTIME, &now);
	after = twi_now_ns();
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
	       (int64_t)(before + (after - before) / 2);
}

static int copy_peers(struct twi_span_table *table, struct twi_trace_rank *rank)
{
	rank->peers = calloc(twi_max(table->peer_count, 1u), sizeof(*rank->peers));
	if (rank->peers == NULL)
		return TOW_ENOMEM;
	for (; rank->peer_count < table->peer_count; rank->peer_count++) {
		const struct twi_span_peer_row *row = &table->peers[rank->peer_count];
		struct twi_trace_peer *peer = &rank->peers[rank->peer_count];

		peer->rank = row->rank;
		peer->name = strdup(row->name);
		if (peer->name == NULL)
			return TOW_ENOMEM;
	}
	return TOW_OK;
}

/* Copies the texts of all tags. Spans name tags by number, and numbers begin at 1 without gaps. */
static int copy_names(struct twi_trace_rank *rank)
{
	size_t count = 0;

	while (twi_tag_text((uint32_t)count + 1) != NULL)
		count++;
	rank->names = calloc(twi_max(count, (size_t)1), sizeof(*rank->names));
	if (rank->names == NULL)
		return TOW_ENOMEM;
	for (; rank->name_count < count; rank->name_count++) {
		char *name = strdup(twi_tag_text((uint32_t)rank->name_count + 1));

		if (name == NULL)
			return TOW_ENOMEM;
		rank->names[rank->name_count] = name;
	}
	return TOW_OK;
}

int twi_trace_describe(struct twi_diag *diag, struct twi_trace_rank *rank)
{
	struct twi_span_table *table = diag->spans;
	bool (*clock)(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out);
	char host[256] = "";
	void *arg;
	int status;

	gethostname(host, sizeof(host) - 1);
	rank->pid = getpid();
	twi_clock_steer();
	rank->unix_ns = unix_offset_ns();
	rank->clock_error_ns = UINT64_MAX;
	rank->host = strdup(host);
	pthread_mutex_lock(&table->lock);
	rank->job = strdup(table->job != NULL ? table->job : "");
	rank->rank = table->rank;
	rank->world = table->world;
	clock = table->clock;
	arg = table->clock_arg;
	status = copy_peers(table, rank);
	pthread_mutex_unlock(&table->lock);
	/* Without the lock: the thread that holds the engine may want it. */
	if (clock != NULL && !clock(arg, &rank->clock_offset_ns, &rank->clock_error_ns)) {
		rank->clock_offset_ns = 0;
		rank->clock_error_ns = UINT64_MAX;
	}
	if (status == TOW_OK)
		status = copy_names(rank);
	return rank->host == NULL || rank->job == NULL ? TOW_ENOMEM : status;
}

void twi_trace_compare_clocks(struct twi_diag *diag, bool wait)
{
	struct twi_span_table *table = diag->spans;
	void (*compare)(void *arg, bool wait);
	void *arg;

	pthread_mutex_lock(&table->lock);
	compare = table->compare;
	arg = table->clock_arg;
	pthread_mutex_unlock(&table->lock);
	if (compare != NULL)
		compare(arg, wait);
}

int twi_trace_ask_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank)
{
	struct twi_span_table *table = diag->spans;
	size_t (*unfinished)(void *arg, struct twi_span *out, size_t room), count;
	void *arg;

	pthread_mutex_lock(&table->lock);
	unfinished = table->unfinished;
	arg = table->clock_arg;
	pthread_mutex_unlock(&table->lock);
	if (unfinished == NULL)
		return TOW_OK;
	rank->unfinished = calloc(TWI_TRACE_UNFINISHED_MAX, sizeof(*rank->unfinished));
	if (rank->unfinished == NULL)
		return TOW_ENOMEM;
	count = unfinished(arg, rank->unfinished, TWI_TRACE_UNFINISHED_MAX);
	rank->unfinished_count = twi_min(count, (size_t)TWI_TRACE_UNFINISHED_MAX);
	twi_count(diag, TWI_C_spans_lost, count - rank->unfinished_count);
	return TOW_OK;
}

int twi_trace_end_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank)
{
	struct twi_trace_thread all = { .spans = rank->unfinished,
					.span_count = rank->unfinished_count };

	for (size_t i = 0; i < all.span_count; i++) {
		struct twi_span *span = &all.spans[i];

		span->end_ns = twi_max(rank->end_ns, span->start_ns);
		span->status = TOW_AGAIN;
	}
	if (all.span_count > 0)
		qsort(all.spans, all.span_count, sizeof(*all.spans), by_start);
	return twi_trace_name_spans(diag, rank, &all);
}

static int read_rings(struct twi_diag *diag, uint64_t begin_ns, struct twi_trace_rank *rank)
{
	struct twi_diag_block *block = atomic_load_explicit(&diag->blocks, memory_order_acquire);
	int status = TOW_OK;

	for (; block != NULL && status == TOW_OK; block = block->next) {
		const struct twi_span_ring *ring =
			atomic_load_explicit(&block->spans, memory_order_acquire);

		if (ring != NULL)
			status = read_ring(diag, ring, begin_ns, rank);
	}
	return status;
}

static int read_rank(struct twi_diag *diag, uint64_t begin_ns, bool unfinished,
		     struct twi_trace *out)
{
	struct twi_trace_rank *rank = calloc(1, sizeof(*rank));
	int status = TOW_OK;

	*out = (struct twi_trace){ .rank_count = rank != NULL, .ranks = rank };
	if (rank == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a trace");
	rank->begin_ns = twi_max(begin_ns, diag->start_ns);
	if (unfinished) /* before peers and names are copied, as it may add some */
		status = twi_trace_ask_unfinished(diag, rank);
	rank->end_ns = twi_now_ns();
	rank->sampled_out = twi_counter_sum(diag, TWI_C_spans_sampled_out);
	if (status == TOW_OK)
		status = twi_trace_describe(diag, rank);
	if (status == TOW_OK)
		status = twi_trace_end_unfinished(diag, rank);
	if (status == TOW_OK)
		status = read_rings(diag, begin_ns, rank);
	if (status < 0) {
		twi_trace_fini(out);
		return twi_error(TOW_ENOMEM, "no memory for a trace");
	}
	return TOW_OK;
}

int twi_trace_read(struct twi_diag *diag, uint64_t begin_ns, struct twi_trace *out)
{
	return read_rank(diag, begin_ns, false, out);
}

int twi_trace_read_all(struct twi_diag *diag, struct twi_trace *out)
{
	return read_rank(diag, 0, true, out);
}
