/* test_timeline.c - what is told of a trace over time, against numbers worked out by hand. */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/record/coll_kind.h"
#include "diag/record/counter.h"
#include "diag/trace/analysis.h"
#include "diag/trace/findings.h"
#include "diag/trace/timeline.h"
#include "tools/trace/formats.h"
#include "traced.h"
#include "traced_job.h"

#define BINS TWI_TIMELINE_BINS

/* A message of `bytes` from start to end, on the wire from `wire` on for `wire_ns`. */
static struct twi_span *message(struct twt_build *b, size_t rank, unsigned kind, size_t peer,
				uint64_t bytes, uint64_t start, uint64_t end, uint32_t queue_ns,
				uint32_t wire_ns)
{
	struct twi_span *span = twt_build_span(b, rank, 0, kind, start, end);

	span->bytes = bytes;
	span->peer = (uint32_t)peer + 1;
	span->queue_ns = queue_ns;
	span->wire_ns = wire_ns;
	span->lane = TWI_LANE_TCP;
	return span;
}

/* 120 bins of 10 ns. 100 bytes on the wire from 5 to 25: a quarter, a half, a quarter. */
static void bytes_are_spread(void **state)
{
	struct twt_build b;
	struct twi_timeline t;
	const struct twi_timeline_flow *flow;

	(void)state;
	twt_build_init(&b, 2, 1, 8, 1000, 1000 + 10 * BINS);
	message(&b, 0, TWI_SPAN_SEND, 1, 100, 1000, 1050, 5, 20);
	message(&b, 1, TWI_SPAN_RECV, 0, 100, 1000, 1060, 8, 20);
	message(&b, 0, TWI_SPAN_SEND, 1, 7, 1990, 2000, 0, 0); /* when is not known: at its end */
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.bin_ns, 10);
	assert_true(t.links[TWI_PATH_NETWORK].used);
	assert_false(t.links[TWI_PATH_HOST].used);
	flow = t.links[TWI_PATH_NETWORK].bins;
	assert_int_equal(flow[0].tx_bytes, 25);
	assert_int_equal(flow[1].tx_bytes, 50);
	assert_int_equal(flow[2].tx_bytes, 25);
	assert_int_equal(flow[100].tx_bytes, 7);
	assert_int_equal(flow[BINS + 0].rx_bytes, 10);
	assert_int_equal(flow[BINS + 1].rx_bytes, 50);
	assert_int_equal(flow[BINS + 2].rx_bytes, 40);
	/* the best bin: 50 bytes in 10 ns */
	assert_true(t.links[TWI_PATH_NETWORK].limit_bps == 40000000000u);
	/* The receive is the other side of a send that is there: two transfers, not three. */
	assert_int_equal(t.transfer_count, 2);
	assert_int_equal(t.transfer_bytes, 107);
	assert_int_equal(t.classes[0].count, 1);
	assert_int_equal(t.classes[1].count, 1);
	assert_int_equal(t.classes[1].p50_ns, 50);
	assert_int_equal(t.sizes[7], 1);
	assert_int_equal(t.sizes[3], 1);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* Alone, a rank shows what it receives, from its match on. */
static void one_side_only(void **state)
{
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1200);
	b.trace.ranks[0].peers[0].rank = 9;
	message(&b, 0, TWI_SPAN_RECV, 0, 4096, 0, 700, 600, 50);
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.transfer_count, 1);
	assert_int_equal(t.classes[2].p50_ns, 100);
	assert_int_equal(t.pair_count, 1);
	assert_int_equal(t.pairs[0].from, 9);
	assert_int_equal(t.pairs[0].to, 0);
	/* in flight for 10 of the 120 bins */
	assert_int_equal(t.bins[59].flight_max, 0);
	assert_int_equal(t.bins[60].flight_max, 1);
	assert_true(t.bins[65].flight_mean > 0.999 && t.bins[65].flight_mean < 1.001);
	assert_int_equal(t.bins[69].flight_bytes_max, 4096);
	assert_int_equal(t.bins[70].flight_max, 0);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* A step of 1000: waits 200, of 500 under way 150 are in the wait. */
static void steps_are_split(void **state)
{
	struct twt_build b;
	struct twi_timeline t;
	const struct twi_timeline_split *split;

	(void)state;
	twt_build_init(&b, 1, 2, 8, 0, 1200);
	twt_build_span(&b, 0, 0, TWI_SPAN_STEP, 100, 1100)->id = 17;
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, 1, 600, 800);
	twt_build_coll(&b, 0, 1, TWI_COLL_ALL_REDUCE, 1, 8, 250, 0, 750);
	twt_build_wait(&b, 0, 1, TWI_SPAN_SEND, 1, 900, 1000); /* another thread's: not its own */
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.step_count, 1);
	assert_int_equal(t.steps[0].number, 17);
	split = &t.steps[0].mean;
	assert_int_equal(split->step_ns, 1000);
	assert_int_equal(split->exposed_ns, 200);
	assert_int_equal(split->hidden_ns, 350);
	assert_int_equal(split->compute_ns, 450);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* Rank 2 computes 900 of 1000, the others 500 and 600: it holds the step up by 400 or 300. */
static void steps_held_up(void **state)
{
	static const uint64_t waits[] = { 500, 400, 100 };
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 3, 1, 8, 0, 1200);
	for (size_t r = 0; r < 3; r++) {
		b.trace.ranks[r].clock_error_ns = UINT64_MAX; /* durations need no common clock */
		twt_build_span(&b, r, 0, TWI_SPAN_STEP, 0, 1000)->id = 1;
		twt_build_wait(&b, r, 0, TWI_SPAN_COLL, 5, 1000 - waits[r], 1000);
	}
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.steps[0].slowest, 2);
	assert_int_equal(t.steps[0].late_ns, 400); /* the lower median of 500 and 600 */
	assert_int_equal(t.ranks[2].slowest_steps, 1);
	assert_int_equal(t.ranks[0].slowest_steps, 0);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

static void enter(struct twt_build *b, uint64_t seq, const uint64_t *at)
{
	for (size_t r = 0; r < b->trace.rank_count; r++)
		twt_build_coll(b, r, 0, TWI_COLL_BARRIER, seq, 0, at[r], 0, 1000);
}

/* Only what is beyond the clocks' errors is told, and only of collectives that are all there. */
static void who_came_last(void **state)
{
	static const uint64_t clear[] = { 100, 120, 400 }, close[] = { 100, 395, 400 };
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 3, 1, 16, 0, 1200);
	b.trace.ranks[1].clock_error_ns = 10;
	b.trace.ranks[2].clock_error_ns = 20;
	enter(&b, 1, clear);
	enter(&b, 2, close);
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, 3, 0, 500, 0, 600); /* of three, one is here */
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.entries.judged, 2);
	assert_int_equal(t.entries.told, 1);
	assert_int_equal(t.entries.partial, 1);
	assert_int_equal(t.ranks[2].last_count, 1);
	/* 280 after rank 1, which may be 30 wrong; 300 after rank 0, which may be 20 wrong */
	assert_int_equal(t.ranks[2].last_ns, 250);
	twi_timeline_fini(&t);
	b.trace.ranks[1].clock_error_ns = UINT64_MAX;
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.entries.unknown, 2);
	assert_int_equal(t.entries.told, 0);
	assert_int_equal(t.ranks[2].last_count, 0);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* Of waits 200..400 and 500..600, what lies before the last rank came at 350. */
static void waited_for_others(void **state)
{
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1200);
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, 1, 0, 100, 0, 600)->match_ns = 250;
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, 2, 0, 110, 0, 600)->match_ns = 240;
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, 1, 200, 400);
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, 2, 500, 600);
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.ranks[0].others_ns, 150);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* Sends are timed from their start, receives from their match: one says nothing of the other. */
static void sends_and_receives_apart(void **state)
{
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 1, 1, 64, 0, 12000);
	b.trace.ranks[0].peers[0].rank = 1;
	for (uint64_t i = 0; i < 10; i++) {
		message(&b, 0, TWI_SPAN_SEND, 0, 1000, i * 1000, i * 1000 + 500, 0, 0);
		message(&b, 0, TWI_SPAN_RECV, 0, 1000, i * 1000, i * 1000 + 500, 450, 0);
	}
	message(&b, 0, TWI_SPAN_SEND, 0, 1000, 0, 11000, 0, 0); /* nor is one outlier a slow pair */
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.pair_count, 2);
	assert_false(t.pairs[0].slow || t.pairs[1].slow);
	assert_int_equal(t.pairs[0].typical_ns, 5500);
	assert_int_equal(t.pairs[0].usual_ns, 5500);
	assert_true(t.pairs[1].received);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* 0 to 1 takes 300 where the others take 100. */
static void slow_pairs(void **state)
{
	struct twt_build b;
	struct twi_timeline t;
	char text[64];

	(void)state;
	twt_build_init(&b, 3, 1, 64, 0, 12000);
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t at = i * 1000;

		message(&b, 0, TWI_SPAN_SEND, 1, 1000, at, at + 300, 0, 0);
		message(&b, 1, TWI_SPAN_SEND, 2, 1000, at, at + 100, 0, 0);
		message(&b, 2, TWI_SPAN_SEND, 0, 1000, at, at + 100, 0, 0);
	}
	message(&b, 2, TWI_SPAN_SEND, 1, 1000, 0, 9000, 0, 0); /* one swallow is no summer */
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.pair_count, 4);
	assert_true(t.pairs[0].slow);
	assert_int_equal(t.pairs[0].from, 0);
	assert_int_equal(t.pairs[0].to, 1);
	assert_int_equal(t.pairs[0].usual_ns, 1000);
	assert_int_equal(t.pairs[0].latency.sum_ns, 3000);
	for (size_t i = 1; i < 4; i++)
		assert_false(t.pairs[i].slow);
	twi_findings_pair(&t.pairs[0], text, sizeof(text));
	assert_string_equal(text, "0 \xe2\x86\x92 1");
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

static const struct twi_finding *find(const struct twi_findings *found, const char *kind)
{
	for (size_t i = 0; i < found->count; i++) {
		if (strcmp(found->rows[i].kind, kind) == 0)
			return &found->rows[i];
	}
	return NULL;
}

/*
 * Rank 1 is late to ask for what 0 sends it: by its delivery, and over shm, which does not hear of
 * that, by its receive. Its pair is not slow, and its time is told as the receiver's.
 */
static void late_receivers(void **state)
{
	struct twi_findings found;
	const struct twi_finding *row;
	struct twt_build b;
	struct twi_timeline t;
	struct twi_slack slack;

	(void)state;
	for (int by_receive = 0; by_receive < 2; by_receive++) {
		twt_build_init(&b, 3, 1, 64, 0, 12000);
		for (uint64_t i = 0; i < 10; i++) {
			uint64_t at = i * 1000;
			struct twi_span *span;

			message(&b, 0, TWI_SPAN_SEND, 1, 1 << 20, at, at + 300, 0, 0)->id = i + 1;
			message(&b, 1, TWI_SPAN_SEND, 2, 1 << 20, at, at + 100, 0, 0);
			message(&b, 2, TWI_SPAN_SEND, 0, 1 << 20, at, at + 100, 0, 0);
			if (by_receive) {
				span = message(&b, 1, TWI_SPAN_RECV, 0, 1 << 20, at, at + 300,
					       at + 200, 100);
			} else {
				span = message(&b, 0, TWI_SPAN_DELIVERY, 1, 1 << 20, at, at + 300,
					       0, 100);
				span->match_ns = 200;
			}
			span->id = i + 1;
		}
		assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
		assert_int_equal(t.pair_count, 3);
		for (size_t i = 0; i < 3; i++) {
			assert_false(t.pairs[i].slow);
			assert_int_equal(t.pairs[i].typical_ns, 1000);
			assert_int_equal(t.pairs[i].waited_ns, t.pairs[i].to == 1 ? 2000 : 0);
		}
		assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
		twi_findings_make(&b.trace, &t, &slack, &found);
		assert_null(find(&found, "pair"));
		row = find(&found, "receiver");
		assert_non_null(row);
		assert_non_null(strstr(row->what, "0 \xe2\x86\x92 1 waited for their receiver for "
						  "200 ns of 300 ns each"));
		assert_int_equal(strncmp(row->cause, "Rank 1 had not asked", 20), 0);
		twi_slack_fini(&slack);
		twi_timeline_fini(&t);
		twt_build_fini(&b);
	}
}

/* Time that was waited for a rank that had not come is told as that: bandwidth would not help. */
static void late_ranks(void **state)
{
	struct twi_findings found;
	const struct twi_finding *row;
	struct twi_slack slack;
	struct twi_timeline t;
	struct twt_build b;

	(void)state;
	for (int late = 0; late < 2; late++) {
		twt_build_init(&b, 2, 1, 64, 0, 10000);
		for (uint64_t i = 0; i < 8; i++) {
			uint64_t at = i * 1000;

			twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, i + 1, 100, at, 0, at + 800)
				->match_ns = late ? 700 : 10;
			twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, i + 1, at, at + 800);
		}
		assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
		assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
		twi_findings_make(&b.trace, &t, &slack, &found);
		row = find(&found, "exposed");
		assert_non_null(row);
		assert_true(late ==
			    (strstr(row->cause, "% of it is for ranks that had not come") != NULL));
		assert_true(late == (strstr(row->cure, "bandwidth would not help") != NULL));
		twi_slack_fini(&slack);
		twi_timeline_fini(&t);
		twt_build_fini(&b);
	}
}

/* Full for bins 10..19, waited for in 10..14; a link at a tenth of it is none. */
static void bound_by_bandwidth(void **state)
{
	struct twi_findings found;
	struct twi_slack slack;
	struct twt_build b;
	struct twi_timeline t;

	(void)state;
	twt_build_init(&b, 2, 1, 8, 0, 1000 * BINS);
	message(&b, 0, TWI_SPAN_SEND, 1, 1000000, 10000, 20000, 0, 10000);
	message(&b, 1, TWI_SPAN_SEND, 0, 100000, 10000, 20000, 0, 10000);
	twt_build_wait(&b, 0, 0, TWI_SPAN_SEND, 1, 10000, 15000);
	twt_build_wait(&b, 1, 0, TWI_SPAN_SEND, 1, 10000, 15000);
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.region_count, 1);
	assert_int_equal(t.regions[0].rank, 0);
	assert_int_equal(t.regions[0].start_ns, 10000);
	assert_int_equal(t.regions[0].end_ns, 15000);
	assert_int_equal(t.regions[0].bytes, 500000);
	assert_int_equal(t.regions[0].waited_ns, 5000);
	assert_int_equal(t.ranks[0].bound_ns[TWI_PATH_NETWORK], 5000);
	assert_int_equal(t.ranks[1].bound_ns[TWI_PATH_NETWORK], 0);
	assert_true(t.links[TWI_PATH_NETWORK].bins[10].bound);
	assert_false(t.links[TWI_PATH_NETWORK].bins[15].bound);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	twi_findings_make(&b.trace, &t, &slack, &found);
	assert_non_null(find(&found, "link"));
	assert_non_null(strstr(find(&found, "link")->what, "of 1 rank was full for 5 \xc2\xb5s"));
	twi_slack_fini(&slack);
	twi_timeline_fini(&t);
	/* Against a link of ten times that, nothing is full. */
	assert_int_equal(twi_timeline_make(&b.trace, 8000000000000u, &t), 0);
	assert_true(t.links[TWI_PATH_NETWORK].limit_given);
	assert_int_equal(t.region_count, 0);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

static void reasons_and_losses(void **state)
{
	struct twt_build b;
	struct twi_timeline t;
	struct twi_span *span;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1200);
	span = twt_build_span(&b, 0, 0, TWI_SPAN_COPY, 100, 140);
	span->bytes = 10;
	span->detail = TWI_R_unregistered_send;
	span = twt_build_span(&b, 0, 0, TWI_SPAN_REGISTER, 200, 205);
	span->detail = TWI_R_COUNT; /* in time */
	span = twt_build_span(&b, 0, 0, TWI_SPAN_REGISTER, 300, 320);
	span->detail = TWI_R_late_extent;
	span->status = -1;
	b.trace.ranks[0].threads[0].lost = 5;
	b.trace.ranks[0].sampled_out = 6;
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(t.bins[14].copies, 1);
	assert_int_equal(t.bins[14].copy_ns, 40);
	assert_int_equal(t.bins[32].late, 1);
	assert_int_equal(t.reasons[TWI_R_unregistered_send].bytes, 10);
	assert_int_equal(t.ranks[0].late, 1);
	assert_int_equal(t.ranks[0].lost, 5);
	assert_int_equal(t.ranks[0].sampled_out, 6);
	assert_int_equal(t.failed[TWI_SPAN_REGISTER], 1);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* What is planted is found, with who and how much; a quiet trace has no findings. */
static void what_is_found(void **state)
{
	static const char *const kinds[] = { "exposed", "straggler",     "last", "pair",
					     "copies",  "registrations", "lost" };
	struct twt_build b;
	struct twi_timeline t;
	struct twi_slack slack;
	struct twi_findings found;

	(void)state;
	twt_job_make(&b, 1, 4, 12);
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	twi_findings_make(&b.trace, &t, &slack, &found);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bool cheap =
			strcmp(kinds[i], "copies") == 0 || strcmp(kinds[i], "registrations") == 0;

		/* On one of four ranks, so below 1 % of all their time. */
		assert_true((find(&found, kinds[i]) != NULL) == !cheap);
	}
	assert_non_null(strstr(find(&found, "straggler")->what, "Rank 3 (host0) held up 12 of 12"));
	assert_non_null(strstr(find(&found, "last")->what, "Rank 3 came last to 36 of 36"));
	assert_non_null(strstr(find(&found, "exposed")->cure, "bandwidth would not help"));
	assert_non_null(strstr(find(&found, "pair")->what, "Transfers 0 \xe2\x86\x92 1 are on"));
	for (size_t i = 1; i < found.count; i++)
		assert_true(found.rows[i].cost_ns <= found.rows[i - 1].cost_ns);
	twi_slack_fini(&slack);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
	twt_build_init(&b, 2, 1, 4, 0, 1200);
	assert_int_equal(twi_timeline_make(&b.trace, 0, &t), 0);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	twi_findings_make(&b.trace, &t, &slack, &found);
	assert_int_equal(found.count, 0);
	twi_slack_fini(&slack);
	twi_timeline_fini(&t);
	twt_build_fini(&b);
}

/* The JSON parses and adds up; the page has all its parts, and nothing of a name is markup. */
static void documents(void **state)
{
	static const char *const parts[] = { "What was found",
					     "Over time",
					     "By rank",
					     "Collectives: slack and stall",
					     "Ranks that the others waited for",
					     "Transfers by size",
					     "Pairs of ranks",
					     "Copies and late registrations",
					     "What was recorded",
					     "</html>" };
	static const char *const banned[] = { "<script", "<b>7b",   "http:", "https:",
					      "//",      "@import", "url(",  "\xe2\x80\xae",
					      "onload",  "nan",     "inf\"" };
	struct twt_build b;
	json_t *root, *timeline;
	char *bytes;
	size_t count;

	(void)state;
	twt_job_make(&b, 1, 2, 8);
	assert_int_equal(twi_analysis_json(&b.trace, &bytes, &count), 0);
	assert_int_equal(strlen(bytes), count);
	root = json_loads(bytes, 0, NULL);
	assert_non_null(root);
	timeline = json_object_get(root, "timeline");
	assert_int_equal(json_array_size(json_object_get(timeline, "steps")), 8);
	assert_int_equal(json_array_size(json_object_get(timeline, "ranks")), 2);
	assert_true(json_array_size(json_object_get(timeline, "findings")) > 3);
	assert_int_equal(json_array_size(json_object_get(json_object_get(root, "slack"), "groups")),
			 3);
	json_decref(root);
	free(bytes);
	assert_int_equal(twi_report_html(&b.trace, &bytes, &count), 0);
	assert_int_equal(strlen(bytes), count);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		assert_non_null(strstr(bytes, parts[i]));
	for (size_t i = 0; i < sizeof(banned) / sizeof(banned[0]); i++) {
		if (strstr(bytes, banned[i]) != NULL)
			fail_msg("the page has %s: %.60s", banned[i], strstr(bytes, banned[i]));
	}
	free(bytes);
	twt_build_fini(&b);
	twt_build_init(&b, 0, 0, 0, 0, 0); /* nothing at all is a page, too */
	assert_int_equal(twi_report_html(&b.trace, &bytes, &count), 0);
	assert_non_null(strstr(bytes, "</html>"));
	free(bytes);
	assert_int_equal(twi_analysis_json(&b.trace, &bytes, &count), 0);
	free(bytes);
	twt_build_fini(&b);
}

/* Collectives in the memory of a host send nothing: their results are told in place of a zero. */
static void html_of_collectives(void **state)
{
	struct twt_build b;
	char *bytes;
	size_t count;

	(void)state;
	twt_build_init(&b, 2, 1, 1, 0, 1000000);
	for (unsigned r = 0; r < 2; r++)
		twt_build_coll(&b, r, 0, TWI_COLL_ALL_REDUCE, 1, 1000000, 0, 0, 900000);
	assert_int_equal(twi_report_html(&b.trace, &bytes, &count), 0);
	assert_non_null(strstr(bytes, "Results of collectives, a rank, in hosts</span><b>"));
	assert_non_null(strstr(bytes, "Collectives</span><b>2</b>"));
	assert_null(strstr(bytes, "Transfers</span><b>0</b>"));
	free(bytes);
	twt_build_fini(&b);
}

static void html_text(void **state)
{
	struct twi_emit e;
	char *text;

	(void)state;
	twi_emit_init(&e);
	twi_emit_html(&e, "a<b>&\"'\x01\xff\xe2\x80\xaez\xc3\xa9");
	assert_int_equal(twi_emit_take(&e, &text), 0);
	assert_string_equal(text, "a&#60;b&#62;&#38;&#34;&#39;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
				  "z\xc3\xa9");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_spread),    cmocka_unit_test(one_side_only),
		cmocka_unit_test(steps_are_split),     cmocka_unit_test(steps_held_up),
		cmocka_unit_test(who_came_last),       cmocka_unit_test(slow_pairs),
		cmocka_unit_test(late_receivers),      cmocka_unit_test(late_ranks),
		cmocka_unit_test(bound_by_bandwidth),  cmocka_unit_test(reasons_and_losses),
		cmocka_unit_test(what_is_found),       cmocka_unit_test(documents),
		cmocka_unit_test(html_of_collectives), cmocka_unit_test(html_text),
		cmocka_unit_test(waited_for_others),   cmocka_unit_test(sends_and_receives_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
