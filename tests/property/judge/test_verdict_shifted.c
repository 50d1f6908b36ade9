/*
 * test_verdict_shifted.c - a rank has left out one call of many that look alike, and goes on: jobs
 * of random shape are played on paper, with the records that a runtime keeps (series.h), and
 * judged. Where its bursts stand apart from those of the others it is named, and nobody else is;
 * where nobody has left out anything nobody is.
 *
 * TOW_TEST_SEED replays. TOW_VERDICT_CASES: how many of each (default 400).
 */
#include "verdict_states.h"

#define BUCKETS_MOST 8u
#define STEPS        40u
#define CALLS        (STEPS * BUCKETS_MOST + 1)

struct shape {
	uint32_t size, buckets;
	uint64_t compute_ns, gap_ns, wire_ns, jitter_ns;
	uint32_t shifted; /* the rank; = size: none */
	bool named;       /* calls have names */
	bool each_waits;  /* it computes before each call and waits for it: all are bursts */
};

static uint64_t random_state;
static struct twt_vs_job job;
static struct twi_series series[VS_RANKS];
static uint64_t start_ns[VS_RANKS][CALLS], done_ns[CALLS];
static uint32_t begun[VS_RANKS]; /* calls */
static uint32_t settled;         /* all up to this one are over */

static uint64_t below(uint64_t most)
{
	return twt_random_below(&random_state, most);
}

/* A call is over a moment after all have begun it, and not before the one ahead of it. */
static void settle_calls(const struct shape *shape)
{
	for (;; settled++) {
		uint64_t last = done_ns[settled];

		for (uint32_t r = 0; r < shape->size; r++) {
			if (begun[r] <= settled)
				return;
			last = twi_max(last, start_ns[r][settled + 1]);
		}
		done_ns[settled + 1] = last + shape->wire_ns;
	}
}

/* A rank computes and begins its next burst, once its last one is over. False: it waits. */
static bool begin_burst(const struct shape *shape, uint32_t rank)
{
	uint32_t count = shape->each_waits ? 1 : shape->buckets;
	uint64_t now = VS_NOW;

	/* The first burst of the one that leaves out a call has one less. */
	if (begun[rank] == 0 && rank == shape->shifted && count > 1)
		count--;
	if (begun[rank] > 0) {
		if (begun[rank] > settled)
			return false;
		now = done_ns[begun[rank]];
	}
	now += shape->compute_ns + below(shape->jitter_ns + 1);
	for (uint32_t k = 0; k < count; k++, now += shape->gap_ns)
		start_ns[rank][++begun[rank]] = now;
	return true;
}

/* What a rank has written down of the calls up to `last`, in the order of their times. */
static void write_down(uint32_t rank, uint32_t last)
{
	struct twi_series *one = &series[rank];
	uint32_t left = 1;

	*one = (struct twi_series){ .next_seq = 1 };
	for (uint32_t seq = 1; seq <= last; seq++) {
		for (; left < seq && done_ns[left] <= start_ns[rank][seq]; left++)
			twi_series_leave(one, done_ns[left], true);
		twi_series_enter(one, seq, start_ns[rank][seq], &(struct twi_series_caller){ 0 });
		one->next_seq = seq + 1;
		*twi_series_past(one, seq) =
			(struct twi_state_past){ .seq = seq,
						 .signature = 1,
						 .start_ns = start_ns[rank][seq],
						 .done_ns = done_ns[seq] };
	}
	for (; left <= last; left++)
		twi_series_leave(one, done_ns[left], true);
}

/* The name of a rank's call: of its place in the step, which it has left out once. */
static uint32_t name_of(const struct shape *shape, uint32_t rank, uint64_t seq)
{
	return 7 + (uint32_t)((seq + (rank == shape->shifted)) % shape->buckets);
}

static void tell(const struct shape *shape, uint32_t rank, struct twi_state_group *group)
{
	twt_vs_tell(&series[rank], group);
	for (uint32_t i = 0; shape->named && i < group->past_count; i++)
		group->past[i].name = name_of(shape, rank, group->past[i].seq);
}

static void play(const struct shape *shape)
{
	bool goes_on = true;

	settled = 0;
	for (uint32_t r = 0; r < VS_RANKS; r++)
		begun[r] = 0;
	while (goes_on) {
		goes_on = false;
		for (uint32_t r = 0; r < shape->size; r++)
			if (begun[r] + shape->buckets < CALLS)
				goes_on |= begin_burst(shape, r);
		settle_calls(shape);
	}
	twt_vs_healthy(&job, shape->size);
	job.what.now_ns = done_ns[settled] + 1;
	for (uint32_t r = 0; r < shape->size; r++) {
		struct twi_rank_state *states[2] = { &job.first[r], &job.last[r] };

		write_down(r, settled);
		for (unsigned i = 0; i < 2; i++) {
			states[i]->now_ns = job.what.now_ns - (i == 0 ? VS_GAP : 0);
			tell(shape, r, &states[i]->groups[0]);
		}
	}
	twt_vs_judge(&job);
}

static struct shape random_shape(void)
{
	struct shape shape = { .size = 2 + (uint32_t)below(VS_RANKS - 1),
			       .buckets = 2 + (uint32_t)below(BUCKETS_MOST - 1),
			       .compute_ns = (15 + below(60)) * VS_MS,
			       .gap_ns = 20000 + below(VS_MS / 4),
			       .wire_ns = 300000 + below(VS_MS) };

	shape.jitter_ns = shape.compute_ns * below(4) / 100;
	shape.shifted = shape.size;
	shape.named = below(2) == 0;
	shape.each_waits = below(4) == 0;
	return shape;
}

static void test_nobody(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();

		play(&shape);
		assert_int_equal(job.verdict.finding_count, 0);
	}
}

/* Of two ranks both are, as it may be either. */
static void test_shifted(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();
		const struct twi_verdict_finding *finding = &job.verdict.findings[0];

		shape.shifted = (uint32_t)below(shape.size);
		shape.named |= shape.each_waits; /* else there is nothing to see */
		play(&shape);
		if (job.verdict.finding_count != 1 || finding->cause != TWI_CAUSE_OTHER_OPERATION)
			printf("%u ranks, %u buckets, rank %u\n", shape.size, shape.buckets,
			       shape.shifted);
		assert_int_equal(job.verdict.finding_count, 1);
		assert_int_equal(finding->cause, TWI_CAUSE_OTHER_OPERATION);
		assert_int_equal(finding->rank_count, shape.size == 2 ? 2 : 1);
		if (shape.size > 2)
			assert_int_equal(finding->ranks[0], shape.shifted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_shifted),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
