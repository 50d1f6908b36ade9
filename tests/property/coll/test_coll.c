/*
 * Random collectives among processes: any kind, type, operator, count, root, plan and knob, several
 * in flight, in the world and its parts at once, over shared memory, tcp and mixtures, in memory of
 * the pool and outside it. Compared with a serial reference (coll_judge.h), with what the other
 * ranks have, and with another run of the same seed. With the knob reproducible every reduction is
 * the fold from rank 0 on, bit by bit, whatever the lanes and the plan.
 *
 *	TOW_COLL_CASES=100000  how many cases (500; sanitized 250)
 *	TOW_COLL_FIRST=5000    seeds from this one on (1)
 *	TOW_TEST_SEED=S        that seed alone
 */
#include "coll_ranks.h"

#define CASES 500u /* in so many each set of lanes has its turn */
#ifdef TWT_SANITIZED
#define RUN_CASES 250u
#else
#define RUN_CASES CASES
#endif

static struct twt_ranks_shared *shared;
static struct twt_ranks ranks;
static uint64_t cases_done, by_lanes[TWT_LANES_COUNT];

static void failed(void)
{
	fprintf(stderr,
		"%u ranks, %u colours, %s, segment %lld, depth %lld, reproducible %lld, "
		"peers write %lld, knob plan %s\n",
		ranks.n, ranks.colors, twt_ranks_lanes(ranks.lanes),
		(long long)ranks.options.coll_segment_bytes, (long long)ranks.options.coll_depth,
		(long long)ranks.options.reproducible, (long long)ranks.options.shm_peer_writes,
		ranks.options.coll_plan != NULL ? ranks.options.coll_plan : "none");
	fprintf(stderr, "replay: TOW_TEST_SEED=%llu %s\n", (unsigned long long)ranks.seed,
		program_invocation_name);
	abort();
}

/* Who was in the same case has the same result, where all have one. */
static void compare_ranks(void)
{
	for (uint32_t r = 1; r < ranks.n; r++) {
		for (uint32_t i = 0; i < shared->ranks[r].count; i++) {
			const struct twt_ranks_result *one = &shared->ranks[r].results[i];

			for (uint32_t q = 0; q < r && one->all; q++) {
				const struct twt_ranks_result *other = &shared->ranks[q].results[i];

				if (other->seed != one->seed || other->digest == one->digest)
					continue;
				fprintf(stderr, "case %llu: ranks %u and %u of the job differ\n",
					(unsigned long long)one->seed, q, r);
				failed();
			}
		}
	}
}

static uint64_t digest_of_all(void)
{
	uint64_t digest = 0;

	for (uint32_t r = 0; r < ranks.n; r++) {
		assert_int_equal(shared->ranks[r].count, shared->ranks[0].count);
		for (uint32_t i = 0; i < shared->ranks[r].count; i++)
			digest = twt_coll_hash(digest, shared->ranks[r].results[i].digest);
	}
	return digest;
}

static uint64_t run(uint64_t seed, uint64_t order)
{
	twt_ranks_init(&ranks, seed, shared);
	if (!twt_ranks_run(&ranks, order))
		failed();
	compare_ranks();
	return digest_of_all();
}

static void run_seed(uint64_t seed)
{
	uint64_t once = run(seed, 0);

	cases_done += shared->ranks[0].count;
	by_lanes[ranks.lanes] += shared->ranks[0].count;
	if (seed % 8 == 0 && run(seed, 1) != once) {
		fprintf(stderr, "two runs have different results\n");
		failed();
	}
}

static void any_case(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_COLL_CASES");
	const char *from = one != NULL ? one : getenv("TOW_COLL_FIRST");
	uint64_t seed = from != NULL ? strtoull(from, NULL, 0) : 1;
	uint64_t cases = many != NULL ? strtoull(many, NULL, 0) : RUN_CASES;

	(void)state;
	do {
		run_seed(seed++);
	} while (one == NULL && cases_done < cases);
	printf("%llu cases, seeds up to %llu:", (unsigned long long)cases_done,
	       (unsigned long long)seed - 1);
	for (unsigned i = 0; i < TWT_LANES_COUNT; i++)
		printf(" %s %llu", twt_ranks_lanes((enum twt_lanes)i),
		       (unsigned long long)by_lanes[i]);
	printf("\n");
	for (unsigned i = 0; i < TWT_LANES_COUNT && one == NULL && cases >= CASES; i++)
		assert_true(by_lanes[i] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_case),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		abort();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
