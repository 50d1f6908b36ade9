/*
 * Random programs of two to five ranks over the simulated network, by seed: sends and receives in
 * all their forms, probes, cancels, deadlines, callbacks that go on, peers that are closed, and a
 * network that breaks; judged by a plain model that knows the API's rules alone (program.h).
 *
 *	TOW_SIM_SEEDS=10000   how many seeds (SEEDS)
 *	TOW_SIM_FIRST=5000    from this one on (1)
 *	TOW_TEST_SEED=S       that seed alone
 *
 * A fault prints its seed and the shortest program of that seed which has it.
 */
#include "program.h"

#define SEEDS 300

static void test_seeds(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_SIM_SEEDS");
	const char *from = one != NULL ? one : getenv("TOW_SIM_FIRST");
	uint64_t first = from != NULL ? strtoull(from, NULL, 0) : 1;
	uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 0) : SEEDS;
	const struct twt_program_counts *counts = &twt_program_counts;

	(void)state;
	for (uint64_t seed = first; seed < first + count; seed++)
		assert_true(twt_program_play(&twt_program_sim, seed, NULL));
	twt_program_print_counts();
	assert_true(count < SEEDS ||
		    (counts->instant > 0 && counts->wild > 0 && counts->any > 0 &&
		     counts->promised > 0 && counts->views > 0 && counts->dropped > 0 &&
		     counts->nested > 0 && counts->shared_any > 0 && counts->shared_instant > 0 &&
		     counts->shared_promised > 0));
}

/* Every event at the same time with the same outcome. */
static void test_same_seed_same_events(void **state)
{
	(void)state;
	for (uint64_t seed = 100000; seed < 100005; seed++) {
		uint64_t once, twice;

		assert_true(twt_program_play(&twt_program_sim, seed, &once));
		assert_true(twt_program_play(&twt_program_sim, seed, &twice));
		assert_int_equal(once, twice);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_same_seed_same_events),
	};

	twt_program_watch();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
