/*
 * test_analysis.c - slack and the timeline of random traces are what slow references say, and
 * whatever numbers a trace holds, every analysis and page of it ends well.
 *
 * The references look at each nanosecond by itself, which a short trace allows.
 */
#include "twt.h"

#include <string.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/analysis.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"
#include "tools/trace/formats.h"
#include "traced.h"
#include "traces.h"

#define CASES 300u
#define END   2400u /* ns */

static uint64_t seed;

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&seed, bound);
}

static unsigned cases(void)
{
	const char *text = getenv("TOW_ANALYSIS_CASES");

	return text != NULL ? (unsigned)strtoul(text, NULL, 0) : CASES;
}

/* Any spans at all within the window, in any threads. */
static void scatter(struct twt_build *b, size_t ranks, size_t threads)
{
	static const uint8_t kinds[] = { TWI_SPAN_COLL, TWI_SPAN_WAIT, TWI_SPAN_SEND,
					 TWI_SPAN_RECV, TWI_SPAN_STEP, TWI_SPAN_CALL };

	twt_build_init(b, ranks, threads, 64, 0, END);
	for (size_t r = 0; r < ranks; r++) {
		b->trace.ranks[r].clock_error_ns = below(40);
		for (size_t n = 20 + below(40); n > 0; n--) {
			uint64_t start = below(END - 400), end = start + below(400);
			struct twi_span *span =
				twt_build_span(b, r, below(threads), kinds[below(6)], start, end);

			span->id = 1 + below(12);
			span->bytes = below(100000);
			span->queue_ns = (uint32_t)below(200);
			span->wire_ns = (uint32_t)below(200);
			span->peer = (uint32_t)(1 + below(ranks));
			span->lane = (uint8_t)below(TWI_LANE_COUNT + 1);
			if (span->kind == TWI_SPAN_WAIT)
				span->detail = (uint8_t)below(TWI_SPAN_KINDS);
			if (span->kind == TWI_SPAN_COLL) {
				span->detail = (uint8_t)below(TWI_COLL_KINDS);
				span->ranks = (uint32_t)(1 + below(ranks + 1));
			}
		}
	}
}

static void mark(uint8_t *set, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end && at < END; at++)
		set[at] = 1;
}

static uint64_t marked(const uint8_t *set, uint64_t start, uint64_t end)
{
	uint64_t count = 0;

	for (uint64_t at = start; at < end && at < END; at++)
		count += set[at];
	return count;
}

static bool waits_for_network(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_WAIT && span->detail != TWI_SPAN_WAIT &&
	       span->detail <= TWI_SPAN_COLL;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* One row by the words of slack.h. */
static void check_row(const struct twi_trace *trace, const struct twi_slack_row *row)
{
	uint8_t network[END] = { 0 };
	uint64_t from = UINT64_MAX, to = 0, waited = 0;
	const struct twi_span *own = NULL;

	for (size_t t = 0; t < trace->ranks[row->rank].thread_count; t++) {
		const struct twi_trace_thread *thread = &trace->ranks[row->rank].threads[t];

		for (size_t i = 0; i < thread->span_count; i++) {
			const struct twi_span *span = &thread->spans[i];
			uint64_t ns = span->end_ns - span->start_ns;

			if (span->kind == TWI_SPAN_COLL)
				mark(network, span->start_ns,
				     span->start_ns + least(ns, span->queue_ns));
			if (waits_for_network(span))
				mark(network, span->start_ns, span->end_ns);
			if (span->kind == TWI_SPAN_COLL && span->id == row->id &&
			    span->start_ns == row->start_ns && span->bytes == row->bytes)
				own = span;
			if (span->kind != TWI_SPAN_WAIT || span->detail != TWI_SPAN_COLL ||
			    span->id != row->id)
				continue;
			waited += ns;
			if (span->end_ns < to || (span->end_ns == to && span->start_ns >= from))
				continue;
			from = span->start_ns; /* of those that end last the one that began first */
			to = span->end_ns;
		}
	}
	assert_non_null(own);
	if (from == UINT64_MAX)
		from = to = own->end_ns;
	assert_int_equal(row->wait_ns, waited);
	assert_int_equal(row->send_ns, least(own->end_ns - own->start_ns, own->queue_ns));
	assert_int_equal(row->observed_ns, to > row->start_ns ? to - row->start_ns : 0);
	assert_int_equal(row->slack_ns,
			 from > row->start_ns
				 ? from - row->start_ns - marked(network, row->start_ns, from)
				 : 0);
}

static void slack_of_anything(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cases(); i++) {
		struct twt_build b;
		struct twi_slack slack;

		scatter(&b, 1 + below(3), 1 + below(3));
		assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
		for (size_t row = 0; row < slack.row_count; row++)
			check_row(&b.trace, &slack.rows[row]);
		twi_slack_fini(&slack);
		twt_build_fini(&b);
	}
}

/*
 * One thread, whose calls follow each other: XProf's own way, which walks its events and takes from
 * each collective's gap the durations of all it has visited since its send, that one included.
 */
static void slack_as_xprof_walks(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cases(); i++) {
		uint64_t now = 0, visited = 0, starts[8] = { 0 }, before[8], want[8] = { 0 };
		struct twt_build b;
		struct twi_slack slack;
		unsigned open = 0, next = 0;

		twt_build_init(&b, 1, 1, 32, 0, 100000);
		while (next < 8 || open != 0) {
			unsigned which = (unsigned)below(8);
			uint64_t ns = 1 + below(500);

			now += below(1000);
			if (next < 8 && below(2)) {
				starts[next] = now;
				before[next] = visited;
				twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, next, 64, now,
					       (uint32_t)ns, now + ns);
				open |= 1u << next++;
			} else if (open & 1u << which) {
				want[which] = now - starts[which] - (visited - before[which]);
				twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, which, now, now + ns);
				open &= ~(1u << which);
			} else {
				continue;
			}
			visited += ns;
			now += ns;
		}
		assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
		assert_int_equal(slack.row_count, 8);
		for (unsigned row = 0; row < 8; row++)
			assert_int_equal(slack.rows[row].slack_ns, want[slack.rows[row].id]);
		twi_slack_fini(&slack);
		twt_build_fini(&b);
	}
}

/* Of all steps of a rank, whose step is in thread `t`. */
static void split_step(const struct twi_trace_rank *rank, const struct twi_trace_thread *own,
		       const struct twi_span *step, struct twi_timeline_split *sum)
{
	uint8_t waits[END] = { 0 }, busy[END] = { 0 };
	uint64_t exposed;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];
			uint64_t ns = span->end_ns - span->start_ns;

			if (span->kind == TWI_SPAN_RECV)
				mark(busy, span->start_ns + least(ns, span->queue_ns),
				     span->end_ns);
			if (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_CALL ||
			    span->kind == TWI_SPAN_COLL)
				mark(busy, span->start_ns, span->end_ns);
			if (&rank->threads[t] == own && waits_for_network(span)) {
				mark(waits, span->start_ns, span->end_ns);
				mark(busy, span->start_ns, span->end_ns);
			}
		}
	}
	exposed = marked(waits, step->start_ns, step->end_ns);
	sum->step_ns += step->end_ns - step->start_ns;
	sum->exposed_ns += exposed;
	sum->hidden_ns += marked(busy, step->start_ns, step->end_ns) - exposed;
}

static void check_rank(const struct twi_trace_rank *rank, const struct twi_timeline_rank *got)
{
	struct twi_timeline_split sum = { 0 };
	uint64_t steps = 0;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			if (rank->threads[t].spans[i].kind != TWI_SPAN_STEP)
				continue;
			split_step(rank, &rank->threads[t], &rank->threads[t].spans[i], &sum);
			steps++;
		}
	}
	assert_int_equal(got->steps, steps);
	assert_int_equal(got->sum.step_ns, sum.step_ns);
	assert_int_equal(got->sum.exposed_ns, sum.exposed_ns);
	assert_int_equal(got->sum.hidden_ns, sum.hidden_ns);
	assert_int_equal(got->sum.compute_ns, sum.step_ns - sum.exposed_ns - sum.hidden_ns);
}

/* Whatever is sent and received is in the bins, to the byte; what is under way, too. */
static void check_sums(const struct twi_trace *trace, const struct twi_timeline *t)
{
	uint64_t sent = 0, received = 0, tx = 0, rx = 0, classes = 0, bins = 0, pairs = 0,
		 flown = 0;
	double flight = 0;

	for (size_t r = 0; r < trace->rank_count; r++) {
		for (size_t k = 0; k < trace->ranks[r].thread_count; k++) {
			for (size_t i = 0; i < trace->ranks[r].threads[k].span_count; i++) {
				const struct twi_span *span = &trace->ranks[r].threads[k].spans[i];

				if (span->kind == TWI_SPAN_SEND) {
					sent += span->bytes;
					flown += span->end_ns - span->start_ns;
				} else if (span->kind == TWI_SPAN_RECV) {
					received += span->bytes;
				}
			}
		}
	}
	for (unsigned path = 0; path < TWI_PATHS; path++) {
		const struct twi_timeline_link *link = &t->links[path];

		for (size_t i = 0; link->used && i < trace->rank_count * TWI_TIMELINE_BINS; i++) {
			tx += link->bins[i].tx_bytes;
			rx += link->bins[i].rx_bytes;
		}
	}
	for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++)
		classes += t->classes[c].count;
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		flight += t->bins[bin].flight_mean * (double)t->bin_ns;
		for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++)
			bins += t->bins[bin].latency[c].count;
	}
	for (size_t i = 0; i < t->pair_count; i++)
		pairs += t->pairs[i].latency.count;
	assert_int_equal(tx, sent);
	assert_int_equal(rx, received);
	assert_int_equal(classes, t->transfer_count);
	assert_int_equal(bins, t->transfer_count);
	assert_int_equal(pairs, t->transfer_count);
	/* all senders are here, so sends are all transfers */
	assert_true(flight > (double)flown - 1 && flight < (double)flown + 1);
}

static void timeline_of_anything(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cases(); i++) {
		struct twt_build b;
		struct twi_timeline t;

		scatter(&b, 2 + below(3), 1 + below(3));
		assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
		check_sums(&b.trace, &t);
		for (size_t r = 0; r < b.trace.rank_count; r++)
			check_rank(&b.trace.ranks[r], &t.ranks[r]);
		twi_timeline_fini(&t);
		twt_build_fini(&b);
	}
}

/* Numbers of strangers: nothing is promised of what is said, but that it is said. */
static void any_numbers(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cases() / 4; i++) {
		struct twi_trace trace = { 0 };
		char *bytes;
		size_t count;

		twt_trace_random(seed + i, &trace);
		assert_int_equal(twi_analysis_json(&trace, &bytes, &count), 0);
		assert_int_equal(strlen(bytes), count);
		free(bytes);
		assert_int_equal(twi_report_html(&trace, &bytes, &count), 0);
		assert_non_null(strstr(bytes, "</html>"));
		free(bytes);
		twi_trace_fini(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slack_of_anything),
		cmocka_unit_test(slack_as_xprof_walks),
		cmocka_unit_test(timeline_of_anything),
		cmocka_unit_test(any_numbers),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
