/*
 * test_clock_sync.c - the law of the offset: whatever the two clocks and the network do within what
 * is allowed, the truth is within the bound. Clocks with drift up to the limit, ways of any
 * asymmetry, exchanges that take a thousand times longer than the others, pauses of minutes.
 */
#include "twt.h"

#include <stdlib.h>

#include "transport/rpc/clock_sync.h"

#define SEEDS 2000
#define STEPS 60

struct world {
	uint64_t random;
	double rate; /* theirs against ours, less 1 */
	int64_t offset0;
	uint64_t now;
};

static uint64_t below(struct world *world, uint64_t bound)
{
	return twt_random_below(&world->random, bound);
}

/* What their clock shows at a time of ours: the truth. */
static uint64_t theirs(const struct world *world, uint64_t ours)
{
	return ours + (uint64_t)world->offset0 + (uint64_t)(int64_t)((double)ours * world->rate);
}

static uint64_t way(struct world *world)
{
	uint64_t ns = 500 + below(world, 20000);

	if (below(world, 10) == 0)
		ns *= 1 + below(world, 1000); /* held up */
	return ns;
}

static void exchange(struct world *world, struct twi_clock_sync *sync)
{
	uint64_t t1 = world->now, t2_at = t1 + way(world);
	uint64_t t3_at = t2_at + below(world, 5000), t4 = t3_at + way(world);

	world->now = t4;
	if (!twi_clock_sync_add(sync, t1, theirs(world, t2_at), theirs(world, t3_at), t4)) {
		fprintf(stderr, "an honest exchange was refused\n");
		abort();
	}
}

static void check(const struct world *world, const struct twi_clock_sync *sync, uint64_t seed)
{
	struct twi_clock_estimate estimate;
	int64_t truth = (int64_t)(theirs(world, world->now) - world->now), off;

	assert_true(twi_clock_sync_read(sync, world->now, &estimate));
	off = estimate.offset_ns - truth;
	off = off < 0 ? -off : off;
	if ((uint64_t)off > estimate.error_ns) {
		fprintf(stderr,
			"seed %llu: off by %lld ns, the bound is %llu (rate %g, %g known)\n",
			(unsigned long long)seed, (long long)off,
			(unsigned long long)estimate.error_ns, world->rate, sync->rate);
		abort();
	}
}

static void run(uint64_t seed)
{
	struct world world = { .random = seed * 0x9e3779b97f4a7c15ull + 1 };
	struct twi_clock_sync sync = { 0 };

	world.now = below(&world, 1000000000);
	world.rate = ((double)below(&world, 460001) / 1000 - 230) / 1e6;
	world.offset0 = (int64_t)below(&world, 1ull << 50) - (1ll << 49);
	for (int i = 0; i < STEPS; i++) {
		exchange(&world, &sync);
		check(&world, &sync, seed);
		world.now += below(&world, 4) == 0 ? below(&world, 300000000000ull)
						   : below(&world, 20000000);
		check(&world, &sync, seed);
	}
}

static void test_the_truth_is_within_the_bound(void **state)
{
	const char *one = getenv("TOW_TEST_SEED");

	(void)state;
	for (uint64_t seed = 1; one == NULL && seed <= SEEDS; seed++)
		run(seed);
	if (one != NULL)
		run(strtoull(one, NULL, 0));
}

/* With the schedule of the library: a burst, one after a second, one each ten seconds. */
static void test_the_bound_is_useful(void **state)
{
	struct world world = { .random = 7, .rate = 150 / 1e6, .offset0 = 123456789 };
	struct twi_clock_estimate estimate;
	struct twi_clock_sync sync = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++)
		exchange(&world, &sync);
	world.now += 1000000000;
	exchange(&world, &sync);
	for (int i = 0; i < 6; i++) {
		world.now += 10000000000;
		exchange(&world, &sync);
	}
	world.now += 10000000000;
	check(&world, &sync, 0);
	assert_true(twi_clock_sync_read(&sync, world.now, &estimate));
	assert_true(estimate.error_ns < 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_truth_is_within_the_bound),
		cmocka_unit_test(test_the_bound_is_useful),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
