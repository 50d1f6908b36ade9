/*
 * timeline_transfers.c - computes the latencies and sizes of transfers, how many are in flight, and
 * which pairs of ranks are slower than others.
 *
 * The usual time of a size class is the lower median of the pairs' medians. So each pair has one
 * vote, however much it sends, and of two pairs the faster one sets the usual time. If only the
 * receiver of a transfer is in the trace, its time begins at another moment. Such transfers are
 * compared among themselves only.
 *
 * A pair is judged by the time its messages were on their way. Waits for credit, or for the
 * receiver's request, belong to the receiver and not to the link.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/trace/delivery.h"
#include "diag/trace/timeline.h"

/* A transfer shows a rate if it has at least so many bytes and takes so long. */
#define RATE_BYTES (256u << 10)
#define RATE_NS    10000u

struct transfer {
	int64_t from, to; /* as in struct twi_timeline_pair */
	const char *from_name, *to_name;
	int64_t start, end; /* on the axis, while in flight */
	uint64_t latency, bytes, wire_ns;
	uint64_t way; /* the part of the latency on the way */
	uint16_t bin;
	uint8_t size_class;
	bool received;
};

struct transfers {
	struct transfer *rows;
	size_t count;
	uint64_t *values; /* scratch, one for each */
};

static bool in_trace(const struct twi_trace *trace, int64_t rank)
{
	size_t low = 0, high = trace->rank_count;

	while (rank >= 0 && low < high) {
		size_t middle = low + (high - low) / 2;

		if (trace->ranks[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return rank >= 0 && low < trace->rank_count && trace->ranks[low].rank == rank;
}

/* Further spans of a trace that tell about its messages. */
struct known {
	struct twi_deliveries deliveries, arrivals;
};

/*
 * The part of a latency in which the message was on its way. For a large message its receive is the
 * best source, as it has the time from when both sides were there. For a small one it has 0.
 */
static uint64_t way_of(const struct known *known, const struct twi_trace_rank *rank,
		       const struct twi_span *span, const struct twi_span *delivery,
		       uint64_t latency)
{
	const struct twi_span *arrival =
		span->kind == TWI_SPAN_SEND ? twi_delivery_of(&known->arrivals, rank, span) : NULL;
	uint64_t way = latency;

	if (delivery != NULL)
		way -= twi_min(way, (uint64_t)delivery->queue_ns + delivery->match_ns);
	if (arrival != NULL && arrival->status >= 0 && arrival->wire_ns > 0)
		way = twi_min(way, (uint64_t)arrival->wire_ns);
	return way;
}

/* Takes the latency from the DELIVERY span, as /v1/latency does, where the trace has that span. */
static void time_it(const struct twi_timeline *out, const struct twi_trace *trace, size_t r,
		    const struct twi_span *span, const struct known *known, struct transfer *row)
{
	const struct twi_span *delivery =
		twi_delivery_of(&known->deliveries, &trace->ranks[r], span);
	uint64_t idle = row->received ? twi_span_part(span, span->queue_ns) : 0;

	row->start = twi_view_at(&out->view, r, span->start_ns + idle);
	row->end = twi_view_at(&out->view, r, span->end_ns);
	row->latency = delivery != NULL ? twi_span_ns(delivery) : twi_span_ns(span) - idle;
	row->way = way_of(known, &trace->ranks[r], span, delivery, row->latency);
}

static void add_transfer(const struct twi_trace *trace, struct twi_timeline *out, size_t r,
			 const struct twi_span *span, const struct known *known,
			 struct transfers *all)
{
	const struct twi_trace_peer *peer = twi_view_peer(&trace->ranks[r], span);
	int64_t other = peer != NULL ? peer->rank : -1;
	const char *name = peer != NULL && other < 0 && peer->name != NULL ? peer->name : "";
	struct transfer *row = &all->rows[all->count];
	const char *own = trace->ranks[r].rank < 0 ? "here" : "";

	if (span->status < 0)
		return; /* it moved nothing */
	if (span->kind == TWI_SPAN_RECV) {
		if (in_trace(trace, other))
			return;
		*row = (struct transfer){
			.from = other, .to = trace->ranks[r].rank, .from_name = name, .to_name = own
		};
	} else if (span->kind == TWI_SPAN_SEND) {
		*row = (struct transfer){
			.from = trace->ranks[r].rank, .to = other, .from_name = own, .to_name = name
		};
	} else {
		return;
	}
	row->received = span->kind == TWI_SPAN_RECV;
	time_it(out, trace, r, span, known, row);
	row->bytes = span->bytes;
	row->wire_ns = span->wire_ns;
	row->bin = (uint16_t)twi_timeline_bin_of(out, row->end);
	row->size_class = (uint8_t)twi_size_class(span->bytes);
	out->sizes[span->bytes <= 1 ? 0
				    : twi_min(64u - (unsigned)__builtin_clzll(span->bytes - 1),
					      TWI_TIMELINE_SIZES - 1)]++;
	out->transfer_bytes += span->bytes;
	all->count++;
}

static int gather_transfers(const struct twi_trace *trace, struct twi_timeline *out,
			    struct transfers *all)
{
	size_t spans = out->kinds[TWI_SPAN_SEND].count + out->kinds[TWI_SPAN_RECV].count;
	struct known known;
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	int status;

	all->rows = calloc(spans + 1, sizeof(*all->rows));
	all->values = calloc(spans + 1, sizeof(*all->values));
	if (all->rows == NULL || all->values == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu transfers", spans);
	status = twi_deliveries_make(trace, &known.deliveries);
	if (status < 0)
		return status;
	status = twi_arrivals_make(trace, &known.arrivals);
	while (status == TOW_OK && (span = twi_view_next(trace, &walk)) != NULL)
		add_transfer(trace, out, walk.rank, span, &known, all);
	twi_deliveries_fini(&known.arrivals);
	twi_deliveries_fini(&known.deliveries);
	out->transfer_count = all->count;
	return status;
}

/* --- latency by class, and by class and bin --- */

static int by_class(const void *a, const void *b)
{
	const struct transfer *left = a, *right = b;

	if (left->size_class != right->size_class)
		return (int)left->size_class - (int)right->size_class;
	return (left->latency > right->latency) - (left->latency < right->latency);
}

static int by_class_and_bin(const void *a, const void *b)
{
	const struct transfer *left = a, *right = b;

	if (left->size_class != right->size_class)
		return (int)left->size_class - (int)right->size_class;
	if (left->bin != right->bin)
		return (int)left->bin - (int)right->bin;
	return (left->latency > right->latency) - (left->latency < right->latency);
}

/* Quantiles of rows [first, next), which are in order of latency. */
static void row_quantiles(struct transfers *all, size_t first, size_t next,
			  struct twi_timeline_quantiles *out)
{
	for (size_t i = first; i < next; i++) {
		all->values[i - first] = all->rows[i].latency;
		out->bytes += all->rows[i].bytes;
	}
	twi_timeline_quantiles(all->values, next - first, out);
}

static void make_latencies(struct transfers *all, struct twi_timeline *out)
{
	size_t next;

	qsort(all->rows, all->count, sizeof(*all->rows), by_class);
	for (size_t i = 0; i < all->count; i = next) {
		for (next = i + 1; next < all->count; next++) {
			if (all->rows[next].size_class != all->rows[i].size_class)
				break;
		}
		row_quantiles(all, i, next, &out->classes[all->rows[i].size_class]);
	}
	qsort(all->rows, all->count, sizeof(*all->rows), by_class_and_bin);
	for (size_t i = 0; i < all->count; i = next) {
		const struct transfer *row = &all->rows[i];

		for (next = i + 1; next < all->count; next++) {
			if (all->rows[next].size_class != row->size_class ||
			    all->rows[next].bin != row->bin)
				break;
		}
		row_quantiles(all, i, next, &out->bins[row->bin].latency[row->size_class]);
	}
}

/* --- in flight --- */

struct event {
	int64_t at;
	int64_t bytes; /* negative: a transfer ends */
	int ends;
};

static int by_time(const void *a, const void *b)
{
	const struct event *left = a, *right = b;

	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return right->ends - left->ends; /* ends come before starts */
}

struct flight {
	int64_t now, count;
	twi_wide_signed bytes;
};

/* Adds the time from f->now until `to`, in which nothing changes, to its bins. */
static void fly_until(struct twi_timeline *out, struct flight *f, int64_t to)
{
	to = twi_min(to, out->view.end_ns);
	while (f->now < to) {
		uint64_t index = twi_timeline_bin_of(out, f->now);
		struct twi_timeline_bin *bin = &out->bins[index];
		int64_t edge = index + 1 < TWI_TIMELINE_BINS ? (int64_t)((index + 1) * out->bin_ns)
							     : out->view.end_ns;
		int64_t until = twi_min(edge, to);
		double share = (double)(until - f->now) / (double)out->bin_ns;

		bin->flight_mean += (double)f->count * share;
		bin->flight_bytes_mean += (double)f->bytes * share;
		bin->flight_max = twi_max(bin->flight_max, (uint64_t)f->count);
		bin->flight_bytes_max = twi_max(bin->flight_bytes_max, (uint64_t)f->bytes);
		f->now = twi_max(until, f->now + 1);
	}
}

static int make_flight(const struct transfers *all, struct twi_timeline *out)
{
	struct event *events = calloc(2 * all->count + 1, sizeof(*events));
	struct flight f = { 0 };
	size_t count = 0;

	if (events == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu transfers", all->count);
	for (size_t i = 0; i < all->count; i++) {
		const struct transfer *row = &all->rows[i];
		int64_t bytes = (int64_t)twi_min(row->bytes, (uint64_t)INT64_MAX);

		if (row->end <= row->start)
			continue;
		events[count++] = (struct event){ row->start, bytes, 0 };
		events[count++] = (struct event){ row->end, -bytes, 1 };
	}
	qsort(events, count, sizeof(*events), by_time);
	for (size_t i = 0; i < count; i++) {
		fly_until(out, &f, events[i].at);
		f.count += events[i].ends ? -1 : 1;
		f.bytes += events[i].bytes;
	}
	free(events);
	return TOW_OK;
}

/* --- pairs --- */

static int by_class_and_way(const struct transfer *left, const struct transfer *right)
{
	if (left->size_class != right->size_class)
		return (int)left->size_class - (int)right->size_class;
	return (left->way > right->way) - (left->way < right->way);
}

static int by_pair(const void *a, const void *b)
{
	const struct transfer *left = a, *right = b;
	int order;

	if (left->received != right->received)
		return left->received ? 1 : -1;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	if (left->to != right->to)
		return left->to < right->to ? -1 : 1;
	order = strcmp(left->from_name, right->from_name);
	if (order == 0)
		order = strcmp(left->to_name, right->to_name);
	return order != 0 ? order : by_class_and_way(left, right);
}

static bool same_pair(const struct transfer *left, const struct transfer *right)
{
	return left->received == right->received && left->from == right->from &&
	       left->to == right->to && strcmp(left->from_name, right->from_name) == 0 &&
	       strcmp(left->to_name, right->to_name) == 0;
}

static int values_ascend(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* The end of the pair that begins at `first`, or of its size class. */
static size_t end_of(const struct transfers *all, size_t first, bool of_class)
{
	size_t next = first + 1;

	while (next < all->count && same_pair(&all->rows[first], &all->rows[next]) &&
	       (!of_class || all->rows[next].size_class == all->rows[first].size_class))
		next++;
	return next;
}

/* The median time on the way; the rows are one class of one pair, in order. */
static uint64_t median_of(const struct transfers *all, size_t first, size_t next)
{
	return all->rows[first + (next - first + 1) / 2 - 1].way;
}

/* Finds the usual time of each class. The rows are in order of pair, class, time on the way. */
static void find_usual(struct transfers *all, bool received, uint64_t usual[TWI_SIZE_CLASSES])
{
	for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++) {
		size_t votes = 0, next;

		for (size_t i = 0; i < all->count; i = next) {
			next = end_of(all, i, true);
			if (all->rows[i].size_class == c && all->rows[i].received == received)
				all->values[votes++] = median_of(all, i, next);
		}
		qsort(all->values, votes, sizeof(*all->values), values_ascend);
		usual[c] = votes > 0 ? all->values[(votes + 1) / 2 - 1] : 0;
	}
}

static void make_pair(struct transfers *all, size_t first, size_t next, const uint64_t *usual,
		      struct twi_timeline_pair *pair)
{
	const struct transfer *row = &all->rows[first];
	size_t end;

	*pair = (struct twi_timeline_pair){ .from = row->from,
					    .to = row->to,
					    .from_name = row->from_name,
					    .to_name = row->to_name };
	for (size_t i = first; i < next; i++) {
		row = &all->rows[i];
		all->values[i - first] = row->latency;
		pair->latency.bytes += row->bytes;
		pair->waited_ns += row->latency - row->way;
		if (row->bytes >= RATE_BYTES && row->wire_ns >= RATE_NS)
			pair->best_bps =
				twi_max(pair->best_bps, (uint64_t)((twi_wide)row->bytes *
								   8000000000u / row->wire_ns));
	}
	for (size_t i = first; i < next; i = end) {
		end = end_of(all, i, true);
		pair->typical_ns += (end - i) * median_of(all, i, end);
		pair->usual_ns += (end - i) * usual[all->rows[i].size_class];
	}
	pair->received = row->received;
	qsort(all->values, next - first, sizeof(*all->values), values_ascend);
	twi_timeline_quantiles(all->values, next - first, &pair->latency);
	pair->slow = next - first >= TWI_TIMELINE_SLOW_COUNT && pair->typical_ns > pair->usual_ns &&
		     (twi_wide)pair->typical_ns * 100 >=
			     (twi_wide)pair->usual_ns * TWI_TIMELINE_SLOW_PERCENT;
}

static uint64_t excess_of(const struct twi_timeline_pair *pair)
{
	return pair->slow ? pair->typical_ns - pair->usual_ns : 0;
}

static int by_excess(const void *a, const void *b)
{
	const struct twi_timeline_pair *left = a, *right = b;

	if (excess_of(left) != excess_of(right))
		return excess_of(left) > excess_of(right) ? -1 : 1;
	if (left->latency.sum_ns != right->latency.sum_ns)
		return left->latency.sum_ns > right->latency.sum_ns ? -1 : 1;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return (left->to > right->to) - (left->to < right->to);
}

static int make_pairs(struct transfers *all, struct twi_timeline *out)
{
	uint64_t usual[2][TWI_SIZE_CLASSES]; /* of sends, of receives */
	size_t pairs = 0, next;

	qsort(all->rows, all->count, sizeof(*all->rows), by_pair);
	for (size_t i = 0; i < all->count; i = end_of(all, i, false))
		pairs++;
	out->pairs = calloc(pairs + 1, sizeof(*out->pairs));
	if (out->pairs == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu pairs", pairs);
	find_usual(all, false, usual[0]);
	find_usual(all, true, usual[1]);
	for (size_t i = 0; i < all->count; i = next) {
		next = end_of(all, i, false);
		make_pair(all, i, next, usual[all->rows[i].received],
			  &out->pairs[out->pair_count++]);
	}
	qsort(out->pairs, out->pair_count, sizeof(*out->pairs), by_excess);
	return TOW_OK;
}

int twi_timeline_transfers(const struct twi_trace *trace, struct twi_timeline *out)
{
	struct transfers all = { 0 };
	int status = gather_transfers(trace, out, &all);

	if (status == TOW_OK) {
		make_latencies(&all, out);
		status = make_flight(&all, out);
	}
	if (status == TOW_OK)
		status = make_pairs(&all, out);
	free(all.rows);
	free(all.values);
	return status;
}
