/*
 * timeline_links.c - computes what each rank sent and received in each bin, against the limit of
 * its link. It also finds the regions in which a link was full while threads waited for it.
 *
 * If no limit is given, the best rate seen serves: of a rank in a bin, or of one long transfer. The
 * transfer counts so that a mostly idle link does not look full in its busiest bin.
 */
#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/trace/timeline.h"

#define RATE_BYTES (256u << 10)
#define RATE_NS    10000u
#define BIT_NS     8000000000u /* a byte per nanosecond, in bits per second */

static enum twi_timeline_path path_of(const struct twi_span *span)
{
	const struct twi_lane_info *lane = twi_lane_describe(span->lane);

	return lane != NULL && lane->reach != TWI_REACH_NETWORK ? TWI_PATH_HOST : TWI_PATH_NETWORK;
}

static void put_flow(struct twi_timeline_flow *flow, bool sends, uint64_t bytes)
{
	if (sends)
		flow->tx_bytes += bytes;
	else
		flow->rx_bytes += bytes;
}

/* Spreads bytes evenly over [from, to) of the axis. The sum is exact. */
static void spread_flow(const struct twi_timeline *out, struct twi_timeline_flow *bins, bool sends,
			int64_t from, int64_t to, uint64_t bytes)
{
	uint64_t last = twi_timeline_bin_of(out, to), given = 0;

	for (uint64_t bin = twi_timeline_bin_of(out, from); bin < last; bin++) {
		int64_t edge = (int64_t)((bin + 1) * out->bin_ns);
		uint64_t until = (uint64_t)((twi_wide)bytes * (uint64_t)(edge - from) /
					    (uint64_t)(to - from));

		put_flow(&bins[bin], sends, until - given);
		given = until;
	}
	put_flow(&bins[last], sends, bytes - given);
}

static uint64_t rate_of(uint64_t bytes, uint64_t ns)
{
	twi_wide bps = ns > 0 ? (twi_wide)bytes * BIT_NS / ns : 0;

	return bps > UINT64_MAX ? UINT64_MAX : (uint64_t)bps;
}

static int add_link_span(struct twi_timeline *out, size_t r, const struct twi_span *span)
{
	struct twi_timeline_link *link = &out->links[path_of(span)];
	bool sends = span->kind == TWI_SPAN_SEND;
	uint64_t from = span->start_ns + twi_span_part(span, span->queue_ns);
	uint64_t ns = twi_min((uint64_t)span->wire_ns, twi_span_ns(span) - (from - span->start_ns));
	int64_t begin;

	if ((!sends && span->kind != TWI_SPAN_RECV) || span->bytes == 0)
		return TOW_OK;
	if (link->bins == NULL)
		link->bins = calloc(out->rank_count * TWI_TIMELINE_BINS, sizeof(*link->bins));
	if (link->bins == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the links of %zu ranks",
				 out->rank_count);
	link->used = true;
	/* Bytes that arrived all at once, or at unknown times, count at the end. */
	if (ns == 0)
		from = twi_max(span->start_ns, span->end_ns);
	begin = twi_view_at(&out->view, r, from);
	spread_flow(out, &link->bins[r * TWI_TIMELINE_BINS], sends, begin, begin + (int64_t)ns,
		    span->bytes);
	put_flow(&link->total, sends, span->bytes);
	put_flow(&out->ranks[r].flow, sends, span->bytes);
	if (span->bytes >= RATE_BYTES && ns >= RATE_NS && !link->limit_given)
		link->limit_bps = twi_max(link->limit_bps, rate_of(span->bytes, ns));
	return TOW_OK;
}

static void find_limit(const struct twi_timeline *out, struct twi_timeline_link *link)
{
	for (size_t i = 0; link->used && i < out->rank_count * TWI_TIMELINE_BINS; i++) {
		uint64_t most = twi_max(link->bins[i].tx_bytes, link->bins[i].rx_bytes);

		link->limit_bps = twi_max(link->limit_bps, rate_of(most, out->bin_ns));
	}
}

/* --- regions --- */

static int waits_of(const struct twi_trace_rank *rank, struct twi_cover *waits)
{
	int status = TOW_OK;

	*waits = (struct twi_cover){ 0 };
	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t k = 0; k < rank->threads[t].span_count && status == TOW_OK; k++) {
			const struct twi_span *span = &rank->threads[t].spans[k];

			if (twi_view_is_wait(span))
				status = twi_cover_add(waits, span->start_ns, span->end_ns);
		}
	}
	twi_cover_seal(waits);
	return status;
}

static uint64_t waited_in(const struct twi_timeline *out, size_t r, const struct twi_cover *waits,
			  uint64_t bin)
{
	uint64_t from = out->view.ranks[r].origin + bin * out->bin_ns;

	return twi_cover_within(waits, from, from + out->bin_ns);
}

static bool is_bound(const struct twi_timeline *out, const struct twi_timeline_link *link,
		     const struct twi_timeline_flow *flow, uint64_t waited_ns)
{
	uint64_t most = twi_max(flow->tx_bytes, flow->rx_bytes);

	return most > 0 && waited_ns >= out->bin_ns / 100 * TWI_TIMELINE_WAITED_PERCENT &&
	       rate_of(most, out->bin_ns) >= link->limit_bps / 100 * TWI_TIMELINE_FULL_PERCENT;
}

/* Joins adjacent bound bins of one rank and link. So at most every second bin begins a region. */
static void find_regions(struct twi_timeline *out, size_t r, enum twi_timeline_path path,
			 const struct twi_cover *waits)
{
	const struct twi_timeline_link *link = &out->links[path];
	struct twi_timeline_region *open = NULL;

	for (uint64_t bin = 0; link->used && bin < TWI_TIMELINE_BINS; bin++) {
		struct twi_timeline_flow *flow = &link->bins[r * TWI_TIMELINE_BINS + bin];
		uint64_t waited = waited_in(out, r, waits, bin);

		if (!is_bound(out, link, flow, waited)) {
			open = NULL;
			continue;
		}
		if (open == NULL) {
			open = &out->regions[out->region_count++];
			*open = (struct twi_timeline_region){
				.rank = r, .path = path, .start_ns = (int64_t)(bin * out->bin_ns)
			};
		}
		open->end_ns = (int64_t)((bin + 1) * out->bin_ns);
		open->bytes += twi_max(flow->tx_bytes, flow->rx_bytes);
		open->waited_ns += waited;
		flow->bound = true;
		out->ranks[r].bound_ns[path] += out->bin_ns;
		out->ranks[r].bound_waited_ns[path] += waited;
	}
}

static int by_duration(const void *a, const void *b)
{
	const struct twi_timeline_region *left = a, *right = b;
	int64_t l = left->end_ns - left->start_ns, r = right->end_ns - right->start_ns;

	if (l != r)
		return l > r ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

static int make_regions(const struct twi_trace *trace, struct twi_timeline *out)
{
	int status = TOW_OK;

	out->regions = calloc(trace->rank_count * TWI_PATHS * (TWI_TIMELINE_BINS / 2 + 1) + 1,
			      sizeof(*out->regions));
	if (out->regions == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse a trace of %zu ranks",
				 trace->rank_count);
	for (size_t r = 0; r < trace->rank_count && status == TOW_OK; r++) {
		struct twi_cover waits;

		status = waits_of(&trace->ranks[r], &waits);
		for (unsigned i = 0; status == TOW_OK && i < TWI_PATHS; i++)
			find_regions(out, r, i, &waits);
		twi_cover_fini(&waits);
	}
	qsort(out->regions, out->region_count, sizeof(*out->regions), by_duration);
	return status;
}

int twi_timeline_links(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out)
{
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	int status = TOW_OK;

	out->links[TWI_PATH_NETWORK].limit_given = limit_bps > 0;
	out->links[TWI_PATH_NETWORK].limit_bps = limit_bps;
	while (status == TOW_OK && (span = twi_view_next(trace, &walk)) != NULL)
		status = add_link_span(out, walk.rank, span);
	if (status < 0)
		return status;
	for (unsigned i = 0; i < TWI_PATHS; i++) {
		if (!out->links[i].limit_given)
			find_limit(out, &out->links[i]);
	}
	return make_regions(trace, out);
}
