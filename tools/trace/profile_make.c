/*
 * profile_make.c - makes the rows of a profile from the collectives of a trace.
 *
 *	COLL spans  -> samples    by group: the number of hosts of its ranks
 *	SEND, RECV  -> messages   by collective: the lanes that it used
 *	samples     -> rows       by kind, size, ranks, hosts and lane; and by name, too
 *
 * A collective is one sample at each rank. Each sort is over all samples, so the time grows only a
 * little faster than the size of the trace.
 */
#include "tools/trace/profile_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/trace_view.h"
#include "tools/trace/document_trace.h"

#define LANE_UNKNOWN TWI_LANE_COUNT
#define LANE_MIXED   (TWI_LANE_COUNT + 1)
/* Larger messages are in each trace (docs/spans.md). */
#define NEVER_PASSED_OVER TWI_SPAN_SMALL_MESSAGE

struct sample {
	const struct twi_span *span;
	const char *name;
	size_t rank;
	uint32_t host;  /* the number of its host in the trace */
	uint32_t hosts; /* number of hosts of the group; 0: unknown */
	unsigned lane;
	bool complete;             /* sampling left out nothing of its rank */
	int64_t start_at, done_at; /* on the common time axis of all ranks */
	double latency_us, moving_us;
};

/* A message of a collective. */
struct message {
	uint64_t id;
	unsigned lane;
};

struct making {
	struct sample *samples;
	struct message *messages;
	double *values; /* space for the times of all samples */
	size_t sample_count, message_count;
};

static bool is_measured(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_COLL && span->status >= 0 && span->ranks > 0 &&
	       span->detail < TWI_COLL_KINDS && span->end_ns > span->start_ns;
}

static bool is_message(const struct twi_span *span)
{
	return (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_RECV) && span->parent != 0;
}

static int compare_hosts(const void *a, const void *b)
{
	const struct twi_trace_rank *const *left = a, *const *right = b;

	return strcmp((*left)->host, (*right)->host);
}

/* Gives each rank the number of its host. */
static int number_hosts(const struct twi_trace *trace, uint32_t *hosts)
{
	const struct twi_trace_rank **ranks = calloc(trace->rank_count + 1, sizeof(*ranks));
	uint32_t number = 0;

	if (ranks == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %zu ranks", trace->rank_count);
	for (size_t r = 0; r < trace->rank_count; r++)
		ranks[r] = &trace->ranks[r];
	qsort(ranks, trace->rank_count, sizeof(*ranks), compare_hosts);
	for (size_t r = 0; r < trace->rank_count; r++) {
		number += r == 0 || compare_hosts(&ranks[r - 1], &ranks[r]) != 0;
		hosts[ranks[r] - trace->ranks] = number;
	}
	free(ranks);
	return TOW_OK;
}

static void take_span(struct making *m, const struct twi_trace_rank *rank,
		      const struct twi_span *span, size_t r, uint32_t host)
{
	uint64_t ns = twi_span_ns(span);

	if (is_message(span))
		m->messages[m->message_count++] =
			(struct message){ span->parent,
					  span->lane < TWI_LANE_COUNT ? span->lane : LANE_UNKNOWN };
	if (!is_measured(span))
		return;
	m->samples[m->sample_count++] = (struct sample){
		.span = span,
		.name = twi_view_name(rank, span),
		.rank = r,
		.host = host,
		.complete = rank->sampled_out == 0,
		.latency_us = (double)ns / 1e3,
		.moving_us = (double)ns / 1e3,
	};
}

static int gather_spans(const struct twi_trace *trace, const struct twi_view *view,
			struct making *m)
{
	uint32_t *hosts = calloc(trace->rank_count + 1, sizeof(*hosts));
	size_t samples = 1, messages = 1;
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	int status = TOW_ENOMEM;

	while ((span = twi_view_next(trace, &walk)) != NULL) {
		samples += is_measured(span);
		messages += is_message(span);
	}
	m->samples = calloc(samples, sizeof(*m->samples));
	m->messages = calloc(messages, sizeof(*m->messages));
	m->values = calloc(samples, sizeof(*m->values));
	if (hosts != NULL && m->samples != NULL && m->messages != NULL && m->values != NULL)
		status = number_hosts(trace, hosts);
	if (status < 0) {
		free(hosts);
		return twi_error(status, "no memory for %zu collectives", samples);
	}
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];

		for (size_t t = 0; t < rank->thread_count; t++)
			for (size_t i = 0; i < rank->threads[t].span_count; i++)
				take_span(m, rank, &rank->threads[t].spans[i], r, hosts[r]);
	}
	for (size_t i = 0; i < m->sample_count; i++) {
		struct sample *sample = &m->samples[i];

		sample->start_at = twi_view_at(view, sample->rank, sample->span->start_ns);
		sample->done_at = twi_view_at(view, sample->rank, sample->span->end_ns);
	}
	free(hosts);
	return TOW_OK;
}

/* --- the number of hosts of a group --- */

static uint64_t group_of(const struct sample *sample)
{
	return sample->span->id >> 32;
}

static int compare_groups(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;

	if (group_of(left) != group_of(right))
		return group_of(left) < group_of(right) ? -1 : 1;
	if (left->host != right->host)
		return left->host < right->host ? -1 : 1;
	return (left->rank > right->rank) - (left->rank < right->rank);
}

static void count_hosts(struct making *m)
{
	size_t next;

	qsort(m->samples, m->sample_count, sizeof(*m->samples), compare_groups);
	for (size_t first = 0; first < m->sample_count; first = next) {
		uint32_t hosts = 0, ranks = 0;

		for (next = first; next < m->sample_count &&
				   group_of(&m->samples[next]) == group_of(&m->samples[first]);
		     next++) {
			const struct sample *at = &m->samples[next], *last = at - 1;

			hosts += next == first || at->host != last->host;
			ranks += next == first || at->rank != last->rank;
		}
		for (size_t i = first; i < next; i++)
			m->samples[i].hosts = ranks == m->samples[i].span->ranks ? hosts : 0;
	}
}

/* --- the lane of a collective --- */

static int compare_messages(const void *a, const void *b)
{
	const struct message *left = a, *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return (left->lane > right->lane) - (left->lane < right->lane);
}

static int compare_ids(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;

	return (left->span->id > right->span->id) - (left->span->id < right->span->id);
}

/*
 * Returns the lane of a collective without messages. In a group of one host this is shared memory,
 * if sampling cannot have left out messages.
 */
static unsigned lane_without(const struct sample *sample)
{
	bool sure = sample->complete || sample->span->bytes > NEVER_PASSED_OVER;

	return sure && sample->hosts == 1 ? TWI_LANE_SHM : LANE_UNKNOWN;
}

/* Finds the lane of each sample, in one pass over samples and messages. */
static void find_lanes(struct making *m)
{
	size_t at = 0, next = 0;

	qsort(m->samples, m->sample_count, sizeof(*m->samples), compare_ids);
	qsort(m->messages, m->message_count, sizeof(*m->messages), compare_messages);
	for (size_t i = 0; i < m->sample_count; i++) {
		uint64_t id = m->samples[i].span->id;

		if (i == 0 || m->samples[i - 1].span->id != id) {
			for (at = next; at < m->message_count && m->messages[at].id < id; at++)
				;
			for (next = at; next < m->message_count && m->messages[next].id == id;
			     next++)
				;
		}
		if (next == at)
			m->samples[i].lane = lane_without(&m->samples[i]);
		else
			m->samples[i].lane = m->messages[at].lane == m->messages[next - 1].lane
						     ? m->messages[at].lane
						     : LANE_MIXED;
	}
}

/* True: no rank can end before the last one has started. */
static bool waits_for_all(const struct twi_span *span)
{
	switch (span->detail) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_ALL_GATHER_V:
	case TWI_COLL_ALL_TO_ALL:
	case TWI_COLL_ALL_TO_ALL_V:
	case TWI_COLL_BARRIER:
		return true;
	default:
		return false;
	}
}

/* One collective, all of whose ranks are in the trace. */
struct occurrence {
	const struct sample *samples;
	size_t count;
	const struct sample *last; /* the rank that started last */
	double shortest_us;
};

/*
 * Returns the time from the start of the last rank to the end of this one.
 *
 * The clocks give this time if their error is at most a tenth of it. Otherwise it is the shortest
 * time of all ranks, because the last rank has waited for no other. match_ns of a rank cannot give
 * it. Over a network, a rank learns of another one's arrival by its data, which are part of the
 * collective.
 */
static double moving_of(const struct twi_view *view, const struct occurrence *occurrence,
			const struct sample *sample)
{
	uint64_t error = twi_view_error(view, occurrence->last->rank, sample->rank);
	int64_t left = sample->done_at - occurrence->last->start_at;

	if (left <= 0 || error > (uint64_t)left / 10)
		return occurrence->shortest_us;
	return twi_min((double)left / 1e3, sample->latency_us);
}

static struct occurrence find_occurrence(const struct making *m, size_t first)
{
	struct occurrence occurrence = { .samples = &m->samples[first],
					 .last = &m->samples[first] };

	occurrence.shortest_us = occurrence.last->latency_us;
	while (first + occurrence.count < m->sample_count) {
		const struct sample *sample = &occurrence.samples[occurrence.count];

		if (sample->span->id != occurrence.samples->span->id)
			break;
		if (sample->start_at > occurrence.last->start_at)
			occurrence.last = sample;
		occurrence.shortest_us = twi_min(occurrence.shortest_us, sample->latency_us);
		occurrence.count++;
	}
	return occurrence;
}

/* Subtracts the waits for the last rank. The samples are sorted by collective. */
static void join_ranks(struct making *m, const struct twi_view *view)
{
	for (size_t first = 0; first < m->sample_count;) {
		struct occurrence occurrence = find_occurrence(m, first);
		const struct twi_span *span = occurrence.samples->span;
		bool whole = occurrence.count == span->ranks && waits_for_all(span);

		for (size_t i = first; i < first + occurrence.count && whole; i++)
			m->samples[i].moving_us = moving_of(view, &occurrence, &m->samples[i]);
		first += occurrence.count;
	}
}

/* --- rows --- */

static int compare_what(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	const struct twi_span *l = left->span, *r = right->span;

	if (l->detail != r->detail)
		return l->detail < r->detail ? -1 : 1;
	if (l->bytes != r->bytes)
		return l->bytes < r->bytes ? -1 : 1;
	if (l->ranks != r->ranks)
		return l->ranks < r->ranks ? -1 : 1;
	if (left->hosts != right->hosts)
		return left->hosts < right->hosts ? -1 : 1;
	return (left->lane > right->lane) - (left->lane < right->lane);
}

static int compare_calls(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order != 0 ? order : compare_what(a, b);
}

static const char *lane_text(unsigned lane)
{
	if (lane == LANE_UNKNOWN)
		return "";
	return lane == LANE_MIXED ? "mixed" : twi_lane_name((enum twi_lane_id)lane);
}

/* Adds one row for `count` samples with the same key. */
static int add_row(const struct making *m, const struct sample *samples, size_t count, bool named,
		   struct tool_profile *out)
{
	const struct twi_span *span = samples->span;
	struct tool_profile_row row = {
		.bytes = span->bytes, .ranks = span->ranks, .hosts = samples->hosts, .count = count
	};
	char why[TOOL_PROFILE_WHY];

	snprintf(row.kind, sizeof(row.kind), "%s", twi_coll_kind_name(span->detail));
	snprintf(row.lane, sizeof(row.lane), "%s", lane_text(samples->lane));
	if (named)
		snprintf(row.name, sizeof(row.name), "%s", samples->name);
	for (size_t i = 0; i < count; i++)
		m->values[i] = samples[i].latency_us;
	row.latency = tool_profile_times_of(m->values, count);
	for (size_t i = 0; i < count; i++)
		m->values[i] = samples[i].moving_us;
	row.moving = tool_profile_times_of(m->values, count);
	return tool_profile_add(out, &row, why) == 0 ? TOW_OK
						     : twi_error(TOW_EINVAL, "profile: %s", why);
}

static int add_rows(struct making *m, bool named, struct tool_profile *out)
{
	int (*compare)(const void *, const void *) = named ? compare_calls : compare_what;
	int status = TOW_OK;
	size_t next;

	qsort(m->samples, m->sample_count, sizeof(*m->samples), compare);
	for (size_t first = 0; first < m->sample_count && status == TOW_OK; first = next) {
		for (next = first + 1; next < m->sample_count; next++)
			if (compare(&m->samples[first], &m->samples[next]) != 0)
				break;
		if (!named || m->samples[first].name[0] != '\0')
			status = add_row(m, &m->samples[first], next - first, named, out);
	}
	return status;
}

static int make_profile(const struct twi_trace *trace, struct tool_profile *out)
{
	struct making m = { 0 };
	struct twi_view view;
	int status = twi_view_init(trace, &view);

	if (status < 0)
		return status;
	status = gather_spans(trace, &view, &m);
	if (status == TOW_OK) {
		count_hosts(&m);
		find_lanes(&m);
		join_ranks(&m, &view); /* needs the order that find_lanes leaves */
		status = add_rows(&m, false, out);
	}
	if (status == TOW_OK)
		status = add_rows(&m, true, out);
	free(m.samples);
	free(m.messages);
	free(m.values);
	twi_view_fini(&view);
	return status;
}

int trace_document_profile(const struct trace_document *document, struct tool_profile *out)
{
	struct twi_trace clean;
	int status = twi_clean_make(trace_document_trace(document), &clean);

	if (status < 0)
		return status;
	status = make_profile(&clean, out);
	twi_clean_fini(&clean);
	return status;
}
