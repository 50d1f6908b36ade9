/*
 * perf_run.c - the measured loops and the protocol around them.
 *
 * A measurement has three phases. Rank 0 orders each phase, and rank 1 reports on it:
 *
 *   warm    untimed; tells how many rounds fill --seconds
 *   timed   the figures; its `lead` rounds run before the clock starts
 *   check   one window each way, every message with a buffer and a pattern of its own
 *
 *   rank 0   ORDER ->        fills          <- READY   loop            <- REPORT
 *   rank 1        -> ORDER   clears         READY ->   loop   verifies REPORT ->
 *
 * So filling, clearing and verifying are not timed. The loops are those of the side-by-side
 * baselines. Latency uses blocking send and receive. A stream is a window of messages, then an
 * acknowledgement of one byte.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/pattern.h"
#include "bench/perf/perf.h"

#define ORDER_MAGIC  UINT64_C(0x746f777065726631) /* differs with the byte order of the host */
#define SEED_STRIDE  (UINT64_C(1) << 32)          /* more than the buffers of a phase */
#define BACK         (UINT64_C(1) << 31)          /* offset for the seeds of the other direction */
#define ROUNDS_LIMIT UINT64_C(10000000)
#define RATE_TURN    256 /* messages of a rate between two clock readings */

enum { TAG_PING = 1, TAG_DATA, TAG_ACK, TAG_ORDER, TAG_READY, TAG_REPORT };
enum phase { PHASE_WARM, PHASE_TIMED, PHASE_CHECK, PHASE_QUIT };

struct order {
	uint64_t magic, phase, op;
	uint64_t bytes, window, slots;
	uint64_t lead, rounds; /* untimed rounds, timed rounds */
	uint64_t seed;
};

struct report {
	double cpu_s; /* of the timed rounds; 0 when rank 0 counts the same process */
	uint64_t wrong;
};

struct timing {
	double seconds, cpu_s;
	double *samples; /* half round trips of a latency, or NULL */
};

static uint8_t *slot_at(const struct perf_side *side, const struct order *order, uint64_t slot)
{
	return side->area + slot * perf_stride(order->bytes);
}

/* The number of buffers that the messages of a phase use. */
static uint64_t slots_used(const struct order *order)
{
	uint64_t messages = order->window * (order->lead + order->rounds);

	if (order->phase == PHASE_CHECK)
		return order->window;
	return messages < order->slots ? messages : order->slots;
}

static void fill_order(struct perf_side *side, const struct order *order, uint64_t seed)
{
	for (uint64_t i = 0; i < slots_used(order); i++)
		pattern_fill(slot_at(side, order, i), order->bytes, pattern_bytes(seed + i));
}

static void clear_order(struct perf_side *side, const struct order *order)
{
	memset(side->area, 0, slots_used(order) * perf_stride(order->bytes));
}

static int verify_at(const struct perf_side *side, const struct order *order, const uint8_t *data,
		     struct pattern want, uint64_t message)
{
	static const char *const phases[] = { "warm-up", "timed loop", "check" };
	uint64_t at = pattern_check(data, order->bytes, want), word;

	if (at == PATTERN_SAME)
		return 0;
	word = pattern_word(&want, at / 8);
	fprintf(stderr,
		"tow-perf: WRONG PAYLOAD at rank %d: %s %" PRIu64 " bytes, %s, message %" PRIu64
		", first at byte %" PRIu64 ": 0x%02x, not 0x%02x\n",
		side->rank, perf_op_names[order->op], order->bytes, phases[order->phase], message,
		at, data[at], (unsigned int)(word >> (at % 8 * 8)) & 0xff);
	return PERF_MISMATCH;
}

static int verify_order(const struct perf_side *side, const struct order *order, uint64_t seed)
{
	int rc = 0;

	for (uint64_t i = 0; i < slots_used(order) && rc == 0; i++)
		rc = verify_at(side, order, slot_at(side, order, i), pattern_bytes(seed + i), i);
	return rc;
}

/* Allocates the buffers of one measurement in its first phase. Later phases use them again. */
static int make_area(struct perf_side *side, const struct order *order)
{
	uint64_t buffers = order->window > order->slots ? order->window : order->slots;
	void *area;
	int rc;

	if (side->area != NULL)
		return 0;
	if (side->options->outside) {
		uint64_t bytes = buffers * perf_stride(order->bytes);

		side->area = aligned_alloc(4096, (bytes + 4095) & ~UINT64_C(4095));
		return side->area != NULL ? 0
					  : perf_failed(side, "buffers of malloc's", TOW_ENOMEM);
	}
	rc = tow_alloc(side->runtime, buffers * perf_stride(order->bytes), 4096, &area);
	if (rc < 0)
		return perf_failed(side, "buffers from the pool", rc);
	side->area = area;
	return 0;
}

static void drop_area(struct perf_side *side)
{
	if (side->options->outside)
		free(side->area);
	else
		tow_free(side->runtime, side->area);
	side->area = NULL;
}

/* Takes half a round trip, with one clock reading. */
static void take_sample(struct perf_side *side, const struct order *order, struct timing *timing,
			uint64_t i, double *last)
{
	double now;

	if (timing->samples == NULL)
		return;
	now = perf_now();
	if (i >= order->lead) {
		timing->samples[i - order->lead] = (now - *last) / 2;
		perf_interval_add(side, 1, (now - *last) / 2, now);
	}
	if (i + 1 == order->lead)
		perf_interval_start(side);
	*last = now;
}

static int ping_pong(struct perf_side *side, const struct order *order, struct timing *timing)
{
	double begin = perf_now(), last = begin;
	uint8_t *data = side->area;
	int rc = 0;

	for (uint64_t i = 0; i < order->lead + order->rounds && rc == 0; i++) {
		if (side->rank == 0)
			rc = perf_send(side, data, order->bytes, TAG_PING);
		if (rc == 0)
			rc = perf_recv(side, data, order->bytes, TAG_PING);
		if (rc == 0 && side->rank != 0)
			rc = perf_send(side, data, order->bytes, TAG_PING);
		take_sample(side, order, timing, i, &last);
	}
	timing->seconds = perf_now() - begin;
	return rc;
}

/* Each side sends its own buffer, and reads the other's as a view. */
static int ping_pong_views(struct perf_side *side, const struct order *order, struct timing *timing)
{
	double begin = perf_now(), last = begin;
	const uint8_t *seen = NULL;
	int rc = 0;

	side->lends = true;
	for (uint64_t i = 0; i < order->lead + order->rounds && rc == 0; i++) {
		if (side->rank == 0)
			rc = perf_send(side, side->area, order->bytes, TAG_PING);
		if (rc == 0)
			rc = perf_view(side, order->bytes, TAG_PING, &seen);
		if (rc == 0 && side->rank != 0)
			rc = perf_send(side, side->area, order->bytes, TAG_PING);
		take_sample(side, order, timing, i, &last);
	}
	side->lends = false;
	timing->seconds = perf_now() - begin;
	if (rc == 0 && verify_at(side, order, seen, pattern_bytes(order->seed), 0) != 0)
		rc = PERF_MISMATCH;
	perf_view_drop(side);
	return rc;
}

/* Starts one message of a window, and moves to the next slot. */
static int start_one(struct perf_side *side, const struct order *order, bool sends, uint64_t *slot,
		     struct tow_op **op_out)
{
	uint8_t *data = slot_at(side, order, *slot);
	int rc = sends ? perf_send_start(side, data, order->bytes, TAG_DATA, op_out)
		       : perf_recv_start(side, data, order->bytes, TAG_DATA, op_out);

	if (rc < 0)
		return perf_failed(side, "starting a window", rc);
	*slot = *slot + 1 == order->slots ? 0 : *slot + 1;
	return 0;
}

/* Starts a window. When a start fails, the operations before it are released. */
static int start_window(struct perf_side *side, const struct order *order, bool sends,
			uint64_t *slot)
{
	for (uint64_t i = 0; i < order->window; i++) {
		int rc = start_one(side, order, sends, slot, &side->ops[i]);

		if (rc != 0) {
			while (i-- > 0)
				tow_op_release(side->ops[i]);
			return rc;
		}
	}
	return 0;
}

/*
 * Measures one way, from rank 0 to rank 1, as the baselines measure rates of message queues. The
 * window slides, and one acknowledgement comes at the end.
 */
static int slide_window(struct perf_side *side, const struct order *order, struct timing *timing)
{
	uint64_t lead = order->lead * order->window, left;
	uint64_t total = lead + order->rounds * order->window, slot = 0, i;
	double start = perf_now(), cpu = perf_cpu();
	bool sends = side->rank == 0;
	uint8_t ack = 0;
	int rc = 0;

	for (i = 0; i < total && rc == 0; i++) {
		if (i == lead) {
			start = perf_now();
			cpu = perf_cpu();
			perf_interval_start(side);
		}
		if (i > lead && (i - lead) % RATE_TURN == 0 && side->intervals.on)
			perf_interval_add(side, RATE_TURN, -1, perf_now());
		if (i >= order->window)
			rc = perf_wait_one(side, i % order->window);
		if (rc == 0)
			rc = start_one(side, order, sends, &slot, &side->ops[i % order->window]);
	}
	left = rc == 0 ? order->window : 0;
	for (i = 0; i < left && rc == 0; i++)
		rc = perf_wait_one(side, i);
	if (rc == 0)
		rc = sends ? perf_recv(side, &ack, 1, TAG_ACK) : perf_send(side, &ack, 1, TAG_ACK);
	timing->seconds = perf_now() - start;
	timing->cpu_s = perf_cpu() - cpu;
	return rc;
}

/* Measures one way, from rank 0 to rank 1. */
static int stream_order(struct perf_side *side, const struct order *order, struct timing *timing)
{
	double start = perf_now(), cpu = perf_cpu(), began = start;
	bool sends = side->rank == 0;
	uint64_t slot = 0;
	uint8_t ack = 0;
	int rc = 0;

	for (uint64_t round = 0; round < order->lead + order->rounds && rc == 0; round++) {
		if (round == order->lead) {
			start = perf_now();
			cpu = perf_cpu();
			perf_interval_start(side);
		}
		if (side->intervals.on)
			began = perf_now();
		rc = start_window(side, order, sends, &slot);
		if (rc == 0)
			rc = perf_wait_all(side, order->window);
		if (rc == 0)
			rc = sends ? perf_recv(side, &ack, 1, TAG_ACK)
				   : perf_send(side, &ack, 1, TAG_ACK);
		if (side->intervals.on && rc == 0 && round >= order->lead) {
			double now = perf_now();

			perf_interval_add(side, order->window, now - began, now);
		}
	}
	timing->seconds = perf_now() - start;
	timing->cpu_s = perf_cpu() - cpu;
	return rc;
}

/*
 * The sending half of a check. Every buffer has another pattern, and all receives are posted first.
 */
static int check_send(struct perf_side *side, const struct order *order, uint64_t seed)
{
	uint64_t slot = 0;
	uint8_t ready;
	int rc;

	fill_order(side, order, seed);
	rc = perf_recv(side, &ready, 1, TAG_READY);
	if (rc == 0)
		rc = start_window(side, order, true, &slot);
	return rc == 0 ? perf_wait_all(side, order->window) : rc;
}

static int check_recv(struct perf_side *side, const struct order *order, uint64_t seed)
{
	uint64_t slot = 0;
	uint8_t ready = 1;
	int rc;

	clear_order(side, order);
	rc = start_window(side, order, false, &slot);
	if (rc != 0)
		return rc;
	rc = perf_send(side, &ready, 1, TAG_READY);
	if (rc == 0)
		rc = perf_wait_all(side, order->window);
	return rc == 0 ? verify_order(side, order, seed) : rc;
}

static int loop_order(struct perf_side *side, const struct order *order, struct timing *timing)
{
	if (order->op == PERF_VIEW)
		return ping_pong_views(side, order, timing);
	if (order->op == PERF_RATE)
		return slide_window(side, order, timing);
	return order->op == PERF_LAT ? ping_pong(side, order, timing)
				     : stream_order(side, order, timing);
}

/* Runs rank 0's half of a phase between order and report. */
static int lead_phase(struct perf_side *side, const struct order *order, struct timing *timing)
{
	uint8_t ready;
	int rc;

	if (order->phase == PHASE_CHECK) {
		rc = check_send(side, order, order->seed);
		return rc == 0 ? check_recv(side, order, order->seed + BACK) : rc;
	}
	fill_order(side, order, order->seed);
	rc = perf_recv(side, &ready, 1, TAG_READY);
	if (rc == 0)
		rc = loop_order(side, order, timing);
	return rc == 0 && order->op == PERF_LAT ? verify_order(side, order, order->seed) : rc;
}

static int run_phase(struct perf_side *side, struct order *order, struct timing *timing)
{
	struct report report = { 0, 0 };
	int rc, reported;

	order->seed += SEED_STRIDE;
	rc = perf_send(side, order, sizeof(*order), TAG_ORDER);
	if (rc == 0)
		rc = make_area(side, order);
	if (rc == 0)
		rc = lead_phase(side, order, timing);
	if (rc == PERF_FAILED)
		return rc;
	reported = perf_recv(side, &report, sizeof(report), TAG_REPORT);
	timing->cpu_s += report.cpu_s;
	if (rc == 0)
		rc = reported;
	return rc == 0 && report.wrong != 0 ? PERF_MISMATCH : rc;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct perf_result evaluate_timing(const struct order *order, const struct timing *timing)
{
	double messages = (double)order->window * (double)order->rounds, sum = 0;
	double bytes = messages * (double)order->bytes;
	struct perf_result result = { .op = order->op, .bytes = order->bytes };
	uint64_t n = order->rounds;

	if (order->op == PERF_RATE) {
		result.mmsgps = messages / timing->seconds / 1e6;
	} else if (!perf_is_latency(order->op)) {
		result.mbps = bytes / timing->seconds / 1e6;
		result.cpu_s_per_gib = timing->cpu_s / (bytes / (1 << 30));
	} else {
		qsort(timing->samples, n, sizeof(timing->samples[0]), by_value);
		for (uint64_t i = 0; i < n; i++)
			sum += timing->samples[i];
		result.p50_us = timing->samples[n / 2] * 1e6;
		result.p99_us = timing->samples[(uint64_t)((double)n * 0.99)] * 1e6;
		result.avg_us = sum / (double)n * 1e6;
	}
	return result;
}

/* The rounds that fill --seconds, at the pace of the warm-up. */
static uint64_t rounds_for(double seconds, uint64_t rounds, double took)
{
	double want = seconds / (took / (double)rounds);

	return want < 1 ? 1 : want > (double)ROUNDS_LIMIT ? ROUNDS_LIMIT : (uint64_t)want;
}

static int measure_case(struct perf_side *side, struct order *order, const struct perf_case *plan)
{
	struct timing timing = { 0, 0, NULL };
	struct perf_result result;
	int rc;

	order->phase = PHASE_WARM;
	order->lead = 0;
	order->rounds = plan->warm;
	rc = run_phase(side, order, &timing);
	if (rc != 0)
		return rc;
	order->rounds = side->options->seconds > 0
				? rounds_for(side->options->seconds, plan->warm, timing.seconds)
				: plan->rounds;
	order->phase = PHASE_TIMED;
	order->lead = 1;
	timing.samples = calloc(order->rounds, sizeof(timing.samples[0]));
	if (timing.samples == NULL)
		return perf_failed(side, "memory for the samples", TOW_ENOMEM);
	perf_interval_open(side, order->op, order->bytes);
	rc = run_phase(side, order, &timing);
	perf_interval_end(side);
	result = evaluate_timing(order, &timing);
	result.intervals = &side->intervals;
	free(timing.samples);
	timing.samples = NULL;
	order->phase = PHASE_CHECK;
	order->slots = order->window;
	if (rc == 0)
		rc = run_phase(side, order, &timing);
	if (rc == 0)
		perf_report_result(side->options, &result);
	return rc;
}

static int measure_sizes(struct perf_side *side, struct order *order, enum perf_op op)
{
	const struct perf_options *options = side->options;
	const struct bench_sizes *sizes = perf_op_sizes(options, op);
	int rc = 0;

	for (unsigned int i = 0; i < sizes->count && rc == 0; i++) {
		struct perf_case plan = perf_plan(options, op, sizes->bytes[i]);

		order->op = op;
		order->bytes = plan.bytes;
		order->window = plan.window;
		order->slots = plan.slots;
		rc = measure_case(side, order, &plan);
		if (rc == 0)
			drop_area(side);
	}
	perf_interval_close(side);
	return rc;
}

int perf_lead(struct perf_side *side)
{
	struct order order = { .magic = ORDER_MAGIC };
	int rc = 0;

	for (int op = 0; op < PERF_OP_COUNT && rc == 0; op++) {
		if (side->options->ops[op])
			rc = measure_sizes(side, &order, op);
	}
	order.phase = PHASE_QUIT;
	if (rc != PERF_FAILED) {
		int sent = perf_send(side, &order, sizeof(order), TAG_ORDER);

		rc = rc == 0 ? sent : rc;
	}
	return rc;
}

/* An order from another version or byte order of this program must not cause an endless loop. */
static bool order_valid(const struct order *order)
{
	return order->magic == ORDER_MAGIC && order->phase <= PHASE_QUIT &&
	       (order->phase == PHASE_QUIT ||
		(order->op < PERF_OP_COUNT && order->bytes != 0 &&
		 order->bytes <= UINT64_C(1) << 30 && order->window != 0 &&
		 order->window <= PERF_WINDOW_MAX && order->slots != 0 &&
		 order->slots <= PERF_SPAN));
}

/* Runs rank 1's half of a phase, from order to report. */
static int follow_phase(struct perf_side *side, const struct order *order)
{
	struct timing timing = { 0, 0, NULL };
	struct report report = { 0, 0 };
	uint8_t ready = 1;
	int rc = make_area(side, order), sent;

	if (rc == 0 && order->phase == PHASE_CHECK) {
		rc = check_recv(side, order, order->seed);
		if (rc != PERF_FAILED && check_send(side, order, order->seed + BACK) != 0)
			rc = PERF_FAILED;
	} else if (rc == 0) {
		/* a view shows this side's own buffer to the other */
		if (order->op == PERF_VIEW)
			fill_order(side, order, order->seed);
		else
			clear_order(side, order);
		rc = perf_send(side, &ready, 1, TAG_READY);
		if (rc == 0)
			rc = loop_order(side, order, &timing);
		if (rc == 0)
			rc = verify_order(side, order, order->seed);
	}
	if (rc == PERF_FAILED)
		return rc;
	report.cpu_s = side->options->loop ? 0 : timing.cpu_s;
	report.wrong = rc == PERF_MISMATCH;
	sent = perf_send(side, &report, sizeof(report), TAG_REPORT);
	if (order->phase == PHASE_CHECK)
		drop_area(side);
	return rc != 0 ? rc : sent;
}

/*
 * Follows orders to the end. A wrong payload is reported and remembered; rank 0 decides when to
 * end.
 */
int perf_follow(struct perf_side *side)
{
	struct order order;
	int rc = 0, wrong = 0;

	while (rc != PERF_FAILED) {
		memset(&order, 0, sizeof(order));
		rc = perf_recv(side, &order, sizeof(order), TAG_ORDER);
		if (rc == 0 && !order_valid(&order)) {
			fprintf(stderr,
				"tow-perf: the other side is another version of tow-perf\n");
			rc = PERF_FAILED;
		}
		if (rc == 0 && order.phase == PHASE_QUIT)
			break;
		if (rc == 0)
			rc = follow_phase(side, &order);
		if (rc == PERF_MISMATCH)
			wrong = rc;
	}
	return rc != 0 ? rc : wrong;
}
