/*
 * test_verdict_overlapped.c - jobs whose collectives go on beside computing: a rank may begin each
 * step as much later than the others as it likes, and none of them is blocked. Such jobs, of random
 * shape, are played on paper with the records that a runtime keeps (series.h), and judged: nobody
 * is named, also where the network takes long once in a while. Where one computes for longer the
 * others wait for it, and it is named.
 *
 * TOW_TEST_SEED replays. TOW_VERDICT_CASES: how many of each (default 400).
 */
#include "verdict_states.h"

#include "diag/judge/verdict_parts.h"

#define BUCKETS_MOST 8u
#define STEPS        400u
#define TURN_NS      50000u /* from the end of a step to the first call of the next */

struct shape {
	uint32_t size, buckets;
	uint64_t compute_ns, gap_ns, wire_ns, jitter_ns;
	uint64_t offset_ns[VS_RANKS]; /* of the first step */
	uint32_t slow;                /* the rank; = size: none */
	uint64_t extra_ns;            /* for which it computes beside */
	uint32_t every;               /* once in so many steps a collective takes far longer */
	uint64_t hiccup_ns;
	bool tests; /* no thread is in a wait as they end: it tests, or is told */
};

static uint64_t random_state;
static struct twt_vs_job job;
static struct twi_series series[VS_RANKS];
static uint64_t begun_ns[VS_RANKS], blocked_ns[VS_RANKS];
static uint64_t done_ns[BUCKETS_MOST];

static uint64_t below(uint64_t most)
{
	return twt_random_below(&random_state, most);
}

static uint64_t start_of(const struct shape *shape, uint32_t rank, uint32_t bucket)
{
	return begun_ns[rank] + bucket * shape->gap_ns;
}

/* Each is over a moment after all have begun it, and not before the one ahead of it. */
static void end_calls(const struct shape *shape, uint32_t step)
{
	uint64_t last = 0, hiccup_ns = step % shape->every == 0 ? shape->hiccup_ns : 0;

	for (uint32_t k = 0; k < shape->buckets; k++) {
		for (uint32_t r = 0; r < shape->size; r++)
			last = twi_max(last, start_of(shape, r, k));
		last += shape->wire_ns + (k == 0 ? hiccup_ns : 0);
		done_ns[k] = last;
	}
}

/* What the rank writes down of a step, in the order of times; it hears of the ends at its end. */
static void write_down(const struct shape *shape, uint32_t rank, uint32_t step, bool in_wait)
{
	struct twi_series *one = &series[rank];
	struct twi_series_caller caller = { .thread = 1,
					    .heard = step * shape->buckets,
					    .blocked_ns = blocked_ns[rank] };
	uint32_t left = 0;

	for (uint32_t k = 0; k < shape->buckets; k++) {
		uint64_t start = start_of(shape, rank, k), seq = one->next_seq++;

		for (; left < k && done_ns[left] <= start; left++)
			twi_series_leave(one, done_ns[left], false);
		twi_series_enter(one, seq, start, &caller);
		*twi_series_past(one, seq) = (struct twi_state_past){
			.seq = seq, .signature = 1, .start_ns = start, .done_ns = done_ns[k]
		};
	}
	for (; left < shape->buckets; left++)
		twi_series_leave(one, done_ns[left], in_wait && !shape->tests);
}

static void play_step(const struct shape *shape, uint32_t step)
{
	uint64_t over;

	end_calls(shape, step);
	over = done_ns[shape->buckets - 1];
	for (uint32_t r = 0; r < shape->size; r++) {
		uint64_t computed = begun_ns[r] + shape->compute_ns + below(shape->jitter_ns + 1) +
				    (r == shape->slow ? shape->extra_ns : 0);

		write_down(shape, r, step, over > computed);
		blocked_ns[r] += twi_since(over, computed);
		begun_ns[r] = twi_max(over, computed) + TURN_NS;
	}
}

static void play(const struct shape *shape)
{
	for (uint32_t r = 0; r < shape->size; r++) {
		series[r] = (struct twi_series){ .next_seq = 1 };
		begun_ns[r] = VS_NOW + shape->offset_ns[r];
		blocked_ns[r] = 0;
	}
	for (uint32_t step = 0; step < STEPS; step++)
		play_step(shape, step);
	twt_vs_healthy(&job, shape->size);
	job.what.now_ns = done_ns[shape->buckets - 1] + 1;
	for (uint32_t r = 0; r < shape->size; r++) {
		struct twi_rank_state *states[2] = { &job.first[r], &job.last[r] };

		for (unsigned i = 0; i < 2; i++) {
			states[i]->now_ns = job.what.now_ns - (i == 0 ? VS_GAP : 0);
			states[i]->tells |= twi_series_measured(&series[r]) ? TWI_TELLS_WAITED : 0;
			twt_vs_tell(&series[r], &states[i]->groups[0]);
		}
	}
	twt_vs_judge(&job);
}

/* The last to come is so early that all is over while the first still computes. */
static struct shape random_shape(void)
{
	struct shape shape = { .size = 2 + (uint32_t)below(VS_RANKS - 1),
			       .buckets = 1 + (uint32_t)below(BUCKETS_MOST),
			       .compute_ns = (8 + below(60)) * VS_MS,
			       .gap_ns = 20000 + below(VS_MS / 8),
			       .wire_ns = 100000 + below(VS_MS / 8) };
	uint64_t busy = shape.buckets * twi_max(shape.gap_ns, shape.wire_ns);

	shape.jitter_ns = shape.compute_ns / 100;
	shape.slow = shape.size;
	shape.tests = below(2) == 0;
	shape.every = 7 + (uint32_t)below(20);
	shape.hiccup_ns = below(2) * (20 + below(300)) * VS_MS;
	for (uint32_t r = 0; r < shape.size; r++)
		shape.offset_ns[r] =
			below(twi_since(shape.compute_ns, busy + shape.compute_ns / 8));
	return shape;
}

static void test_nobody(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();

		play(&shape);
		if (job.verdict.finding_count != 0)
			printf("case %llu, %u ranks, %u buckets\n", (unsigned long long)n,
			       shape.size, shape.buckets);
		assert_int_equal(job.verdict.finding_count, 0);
	}
}

static void test_slow(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();

		shape.hiccup_ns = 0;
		shape.slow = (uint32_t)below(shape.size);
		shape.extra_ns = shape.compute_ns * (40 + below(200)) / 100;
		play(&shape);
		if (job.verdict.finding_count != 1)
			printf("case %llu, %u ranks, %u buckets, slow %u by %llu us of %llu us\n",
			       (unsigned long long)n, shape.size, shape.buckets, shape.slow,
			       (unsigned long long)shape.extra_ns / 1000,
			       (unsigned long long)shape.compute_ns / 1000);
		twt_vs_expect(&job, TWI_CAUSE_LATE, shape.slow);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_slow),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
