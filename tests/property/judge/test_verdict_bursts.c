/*
 * test_verdict_bursts.c - ranks that come late to steps of one to many collectives at once, as data
 * parallel training makes them: jobs of random shapes are played on paper, with the very records
 * that a runtime keeps of them (series.h), and judged. One slow rank is named, before its bursts or
 * within them, and so is one that pauses once in several steps; a healthy job names nobody, though
 * all of its ranks pause together, or each once in a while. In half of the jobs it is known for how
 * long each rank was blocked, else only that a thread was in a wait.
 *
 * TOW_TEST_SEED replays. TOW_VERDICT_CASES: how many of each (default 400).
 */
#include "verdict_states.h"

#define BUCKETS 12u
#define STEPS   60u
#define PAUSED  150u /* steps of a job in which somebody pauses */

struct shape {
	uint32_t size, buckets;
	uint64_t compute_ns, gap_ns, wire_ns, jitter_ns;
	uint32_t slow; /* the rank; = size: none */
	uint64_t extra_ns;
	bool spread; /* between the buckets, not before them */
	/* Once in so many steps (0: never) one rank pauses, or all do, or in turn one of them. */
	uint32_t every, pauses;
	uint64_t pause_ns;
	bool measured; /* for how long the callers were blocked, as they hear of ends themselves */
};

#define ALL_PAUSE UINT32_MAX
#define IN_TURN   (UINT32_MAX - 1)

static uint64_t random_state;
static struct twt_vs_job job;
static struct twi_series series[VS_RANKS];
static struct twi_series_caller callers[VS_RANKS];
static uint64_t step_ns; /* of the last one */

static uint64_t below(uint64_t most)
{
	return twt_random_below(&random_state, most);
}

/* What rank `rank` does between bucket k - 1 and bucket k, or before the first. */
static uint64_t work_of(const struct shape *shape, uint32_t rank, uint32_t k)
{
	uint64_t ns = k == 0 ? shape->compute_ns + below(shape->jitter_ns + 1) : shape->gap_ns;

	if (rank != shape->slow)
		return ns;
	if (!shape->spread)
		return k == 0 ? ns + shape->extra_ns : ns;
	return ns + shape->extra_ns / shape->buckets;
}

/* Enters and leaves in the order of their times. */
static void write_down(struct twi_series *one, const struct twi_series_caller *caller,
		       const uint64_t *start, const uint64_t *done, uint32_t count)
{
	uint32_t left = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint64_t seq = one->next_seq++;

		for (; left < k && done[left] <= start[k]; left++)
			twi_series_leave(one, done[left], done[left] >= start[count - 1]);
		twi_series_enter(one, seq, start[k], caller);
		*twi_series_past(one, seq) = (struct twi_state_past){
			.seq = seq, .signature = 1, .start_ns = start[k], .done_ns = done[k]
		};
	}
	for (; left < count; left++)
		twi_series_leave(one, done[left], done[left] >= start[count - 1]);
}

/* How long it pauses before step `step`. */
static uint64_t pause_of(const struct shape *shape, uint32_t rank, uint32_t step)
{
	uint32_t turn = shape->every > 0 ? step / shape->every : 0;

	if (shape->every == 0 || step % shape->every != 0)
		return 0;
	if (shape->pauses == ALL_PAUSE || rank == shape->pauses)
		return shape->pause_ns;
	return shape->pauses == IN_TURN && turn % shape->size == rank ? shape->pause_ns : 0;
}

/* One step that begins at `now` for all; when it is over. */
static uint64_t play_step(const struct shape *shape, uint32_t step, uint64_t now)
{
	uint64_t start[VS_RANKS][BUCKETS], done[BUCKETS], over = now;

	for (uint32_t k = 0; k < shape->buckets; k++) {
		for (uint32_t r = 0; r < shape->size; r++) {
			start[r][k] = k == 0 ? now + pause_of(shape, r, step) : start[r][k - 1];
			start[r][k] += work_of(shape, r, k);
			over = twi_max(over, start[r][k]);
		}
		done[k] = over += shape->wire_ns;
	}
	for (uint32_t r = 0; r < shape->size; r++) {
		write_down(&series[r], &callers[r], start[r], done, shape->buckets);
		if (!shape->measured)
			continue;
		callers[r].thread = 1;
		callers[r].heard += shape->buckets;
		callers[r].blocked_ns += over - start[r][shape->buckets - 1];
	}
	return over;
}

static void play(const struct shape *shape)
{
	uint64_t now = VS_NOW, before = now;

	twt_vs_healthy(&job, shape->size);
	for (uint32_t r = 0; r < shape->size; r++)
		series[r] = (struct twi_series){ .next_seq = 1 };
	memset(callers, 0, sizeof(callers));
	for (uint32_t i = 0; i < (shape->every > 0 ? PAUSED : STEPS); i++) {
		before = now;
		now = play_step(shape, i, now);
	}
	step_ns = now - before;
	for (uint32_t r = 0; r < shape->size; r++) {
		struct twi_rank_state *states[2] = { &job.first[r], &job.last[r] };

		for (unsigned i = 0; i < 2; i++) {
			states[i]->now_ns = now - (i == 0 ? VS_GAP : 0);
			states[i]->tells |= twi_series_measured(&series[r]) ? TWI_TELLS_WAITED : 0;
			twt_vs_tell(&series[r], &states[i]->groups[0]);
		}
	}
	job.what.now_ns = now;
	twt_vs_judge(&job);
}

static struct shape random_shape(void)
{
	struct shape shape = { .size = 2 + (uint32_t)below(VS_RANKS - 1),
			       .buckets = 1 + (uint32_t)below(BUCKETS),
			       .compute_ns = (15 + below(60)) * VS_MS,
			       .gap_ns = 20000 + below(3 * VS_MS),
			       .wire_ns = 100000 + below(VS_MS) };

	shape.jitter_ns = shape.compute_ns * below(4) / 100;
	shape.slow = shape.size;
	shape.measured = below(2) == 0;
	return shape;
}

static void test_healthy(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();

		play(&shape);
		if (job.verdict.finding_count > 0)
			printf("%u ranks, %u buckets: %s\n", shape.size, shape.buckets,
			       job.verdict.findings[0].evidence[0]);
		assert_int_equal(job.verdict.finding_count, 0);
	}
}

/* From a tenth on of the time that a step takes, and more than what ranks differ by chance. */
static void test_slow_rank(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = random_shape();

		shape.slow = (uint32_t)below(shape.size);
		shape.extra_ns = shape.compute_ns * (15 + below(286)) / 100;
		shape.spread = below(2) == 0;
		if (shape.spread) /* between two buckets it is worth a word from 1 ms on */
			shape.extra_ns += 3 * VS_MS * shape.buckets;
		shape.extra_ns += 2 * shape.jitter_ns;
		play(&shape);
		if (step_ns > 8 * shape.extra_ns)
			continue;
		if (job.verdict.finding_count != 1)
			printf("%u ranks, %u buckets each %llu us, %s %llu of %llu us\n",
			       shape.size, shape.buckets, (unsigned long long)shape.gap_ns / 1000,
			       shape.spread ? "spread" : "before",
			       (unsigned long long)shape.extra_ns / 1000,
			       (unsigned long long)step_ns / 1000);
		assert_int_equal(job.verdict.finding_count, 1);
		assert_int_equal(job.verdict.findings[0].cause, TWI_CAUSE_LATE);
		assert_int_equal(job.verdict.findings[0].rank_count, 1);
		assert_int_equal(job.verdict.findings[0].ranks[0], shape.slow);
	}
}

/* A fifth of the time, or more, once in so many steps that the last calls say nothing of it. */
static struct shape pausing_shape(uint32_t pauses)
{
	struct shape shape = random_shape();
	uint64_t usual = shape.compute_ns + shape.buckets * (shape.gap_ns + shape.wire_ns);

	shape.every = 5 + (uint32_t)below(16);
	shape.pause_ns = twi_max(shape.every * usual * (1 + below(6)) / 4, 2 * usual);
	shape.pauses = pauses;
	return shape;
}

/*
 * The judge looks back for 15 s, and wants five pauses of one of two ranks, else three (docs): who
 * pauses less often is not asked for.
 */
static bool pauses_often(const struct shape *shape)
{
	uint64_t usual = shape->compute_ns + shape->jitter_ns +
			 shape->buckets * (shape->gap_ns + shape->wire_ns);

	return (shape->every * usual + shape->pause_ns) * (shape->size <= 2 ? 5 : 3) <
	       15000 * VS_MS;
}

/* Of a pause that is as long as a wait for it can be told, whatever the others have under way. */
static void test_pauses(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = pausing_shape(0);

		shape.pauses = (uint32_t)below(shape.size);
		if (!pauses_often(&shape))
			continue;
		play(&shape);
		if (job.verdict.finding_count != 1)
			printf("%u ranks, %u buckets, rank %u pauses for %llu ms once in %u "
			       "steps\n",
			       shape.size, shape.buckets, shape.pauses,
			       (unsigned long long)(shape.pause_ns / VS_MS), shape.every);
		assert_int_equal(job.verdict.finding_count, 1);
		assert_int_equal(job.verdict.findings[0].cause, TWI_CAUSE_LATE);
		assert_int_equal(job.verdict.findings[0].rank_count, 1);
		assert_int_equal(job.verdict.findings[0].ranks[0], shape.pauses);
	}
}

/* A checkpoint, for one; and pauses of which each rank has its share, none as long as one that is
 * worth a word by itself. */
static void test_pauses_of_all(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(400); n++) {
		struct shape shape = pausing_shape(below(2) == 0 ? ALL_PAUSE : IN_TURN);

		if (shape.pauses == IN_TURN)
			shape.pause_ns = twi_min(shape.pause_ns, 390 * VS_MS);
		play(&shape);
		if (job.verdict.finding_count > 0)
			printf("%u ranks, %u buckets: %s\n", shape.size, shape.buckets,
			       job.verdict.findings[0].evidence[0]);
		assert_int_equal(job.verdict.finding_count, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_slow_rank),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_pauses_of_all),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
