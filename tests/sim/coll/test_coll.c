/*
 * Random collectives of simulated ranks, by seed: any kind, type, operator, count, root, plan and
 * knob, several in flight, in the world and its parts at once, over a network that delays and
 * breaks. What comes out is compared with a serial reference (coll_judge.h), with what the other
 * ranks have, and with another run of the same seed in another order of events.
 *
 *	TOW_COLL_CASES=100000  how many cases (250)
 *	TOW_COLL_FIRST=5000    seeds from this one on (1)
 *	TOW_TEST_SEED=S        that seed alone
 *	TOW_COLL_RANKS=2048    only: so many ranks all-reduce, broadcast and meet
 */
#include "coll_sim.h"

#include "diag/record/counter.h"
#include "transport/coll/coll_line.h"
#include "transport/job/group.h"

/* Sanitized, each of many connections costs far more. */
#ifdef TWT_SANITIZED
#define CASES 80u
#define MANY  100u
#else
#define CASES 250u
#define MANY  256u
#endif

static struct twt_coll_sim sim;
static uint64_t digests, all_reduce_digest, cases_done, largest, breaks;
static uint64_t last_case; /* its seed */

static void failed(void)
{
	fprintf(stderr, "%u ranks, %u colours, segment %lld, depth %lld, reproducible %lld\n",
		sim.n, sim.colors, (long long)sim.options.coll_segment_bytes,
		(long long)sim.options.coll_depth, (long long)sim.options.reproducible);
	fprintf(stderr, "replay: TOW_TEST_SEED=%llu %s\n", (unsigned long long)sim.seed,
		program_invocation_name);
	abort();
}

static void on_result(struct twt_coll_batch *batch, const struct twt_coll_case *c, uint32_t rank,
		      uint64_t digest)
{
	if (c->ranks[0].kind == TWI_COLL_ALL_REDUCE) {
		if (c->seed != last_case)
			all_reduce_digest = digest;
		if (digest != all_reduce_digest) {
			twt_coll_say(c, rank, "?");
			fprintf(stderr, "its result is not that of rank 0\n");
			batch->wrong = true;
		}
	}
	last_case = c->seed;
	digests = twt_coll_hash(digests, digest);
}

static uint32_t choose_ranks(void)
{
	uint64_t way = twt_sim_below(&sim, 100);

	if (way == 0)
		return 65 + (uint32_t)twt_sim_below(&sim, 448);
	if (way < 10)
		return 13 + (uint32_t)twt_sim_below(&sim, 52);
	return 1 + (uint32_t)twt_sim_below(&sim, 12);
}

/* One seed; `order` moves everything that must not change the result. */
static uint64_t run(uint64_t seed, uint64_t order)
{
	uint32_t windows;

	memset(&sim, 0, sizeof(sim));
	sim.seed = sim.random = seed;
	sim.n = choose_ranks();
	sim.colors = twt_sim_below(&sim, 3) ? 0 : 1 + (uint32_t)twt_sim_below(&sim, 3);
	sim.colors = sim.colors > sim.n ? sim.n : sim.colors;
	windows = sim.n > 100 ? 1 : 1 + (uint32_t)twt_sim_below(&sim, 3);
	twt_sim_knobs(&sim);
	twt_sim_network(&sim);
	sim.network.seed = sim.batch.order = twt_coll_hash(seed, order);
	sim.batch.seed = seed;
	sim.batch.result = on_result;
	last_case = 0;
	digests = 0;
	twt_sim_open(&sim);
	for (uint32_t i = 0; i < windows; i++) {
		uint32_t cases = 1 + (uint32_t)twt_sim_below(&sim, sim.n > 100 ? 2 : 6);

		if (!twt_batch_window(&sim.batch, cases, TWT_SIM_WAIT_NS))
			failed();
	}
	breaks += twi_loop_breaks(twi_runtime_engine(sim.batch.runtime));
	cases_done += sim.batch.done;
	largest = sim.n > largest ? sim.n : largest;
	twt_sim_close(&sim);
	return digests;
}

static void run_seed(uint64_t seed)
{
	uint64_t once = run(seed, 0);

	if (seed % 8 != 0 || sim.n > 100)
		return;
	if (run(seed, 1) != once) {
		fprintf(stderr, "seed %llu: two runs have different results\n",
			(unsigned long long)seed);
		failed();
	}
}

static void any_case(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_COLL_CASES");
	const char *from = one != NULL ? one : getenv("TOW_COLL_FIRST");
	uint64_t seed = from != NULL ? strtoull(from, NULL, 0) : 1;
	uint64_t cases = many != NULL ? strtoull(many, NULL, 0) : CASES;

	(void)state;
	cases_done = 0;
	do {
		run_seed(seed++);
	} while (one == NULL && cases_done < cases);
	printf("%llu cases, seeds up to %llu, up to %llu ranks, %llu streams broke\n",
	       (unsigned long long)cases_done, (unsigned long long)seed - 1,
	       (unsigned long long)largest, (unsigned long long)breaks);
	assert_true(one != NULL || breaks > 0);
}

static void many(uint32_t n, struct tow_group **groups, int which, uint64_t *buffers)
{
	struct tow_op **ops = twt_coll_array(n, sizeof(struct tow_op *));

	for (uint32_t r = 0; r < n; r++) {
		uint64_t *at = buffers + 2 * (uint64_t)r;
		int status = which == 0   ? tow_coll_all_reduce_start(groups[r], at, at, 2, TOW_U64,
								      TOW_SUM, NULL, &ops[r])
			     : which == 1 ? tow_coll_broadcast_start(groups[r], at, 2, TOW_U64, 1,
								     NULL, &ops[r])
					  : tow_coll_barrier_start(groups[r], NULL, &ops[r]);

		assert_int_equal(status, TOW_OK);
	}
	for (uint32_t r = 0; r < n; r++) {
		int status = tow_op_wait(ops[r], TWT_SIM_WAIT_NS);

		if (status != TOW_OK)
			fail_msg("rank %u: %s", r, tow_error_message());
		tow_op_release(ops[r]);
	}
	free(ops);
}

/* Ranks over a network that neither delays nor breaks. pipe_bytes 0: as usual. */
static void open_calm_pipes(uint32_t n, uint32_t pipe_bytes)
{
	memset(&sim, 0, sizeof(sim));
	sim.n = n;
	twt_sim_knobs(&sim);
	sim.options.reproducible = 0;
	sim.options.coll_plan = NULL;
	sim.network = (struct twi_loop_config){ .pipe_bytes = pipe_bytes,
						.delay_min_ns = 1000,
						.delay_max_ns = 1000 };
	twt_sim_open(&sim);
}

static void open_calm(uint32_t n)
{
	open_calm_pipes(n, 0);
}

/* As many as a large machine has: setting up, an all-reduce, a broadcast, a barrier. */
static void many_ranks(void **state)
{
	const char *text = getenv("TOW_COLL_RANKS");
	uint32_t n = text != NULL ? (uint32_t)strtoul(text, NULL, 0) : MANY;
	uint64_t *buffers = twt_coll_array(2 * (uint64_t)n, sizeof(*buffers));
	uint64_t sum = 0, links = 0;
	struct twi_diag *diag;

	(void)state;
	open_calm_pipes(n, 4096);
	for (uint32_t r = 0; r < n; r++) {
		buffers[2 * (uint64_t)r] = r + 1;
		sum += r + 1;
	}
	many(n, sim.world, 0, buffers);
	for (uint32_t r = 0; r < n; r++)
		assert_int_equal(buffers[2 * (uint64_t)r], sum);
	buffers[2] = 4711;
	many(n, sim.world, 1, buffers);
	for (uint32_t r = 0; r < n; r++)
		assert_int_equal(buffers[2 * (uint64_t)r], n > 1 ? 4711 : sum);
	many(n, sim.world, 2, buffers);
	diag = twi_runtime_engine(sim.batch.runtime)->diag;
	links = twi_counter_sum(diag, TWI_C_peers_connected) / 2;
	printf("%u ranks, %llu connections\n", n, (unsigned long long)links);
	assert_true(links < 40ull * n);
	twt_sim_close(&sim);
	free(buffers);
}

/* One small collective of both ranks, from its start to its end. */
static void small_one(uint64_t *values)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *ops[2];

	options.priority = 1;
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tow_coll_all_reduce_start(sim.world[r], &values[r], &values[r], 1,
							   TOW_U64, TOW_SUM, &options, &ops[r]),
				 TOW_OK);
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(tow_op_wait(ops[r], TWT_SIM_WAIT_NS), TOW_OK);
		tow_op_release(ops[r]);
	}
}

/* More than TOW_COLL_IN_FLIGHT later ones end while an old one is still under way. */
static void one_is_overtaken(void **state)
{
	uint64_t n = 1 << 20, early = 0, *big = twt_coll_array(2 * n, 1);
	struct tow_op *ops[2];

	(void)state;
	memset(&sim, 0, sizeof(sim));
	sim.n = 2;
	twt_sim_knobs(&sim);
	sim.options.coll_segment_bytes = 4096;
	sim.options.coll_depth = 1;
	sim.options.coll_plan = "direct"; /* in the knobs' pieces: chosen ones have their own */
	sim.network = (struct twi_loop_config){ .delay_min_ns = 1000, .delay_max_ns = 1000 };
	twt_sim_open(&sim);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tow_coll_all_reduce_start(sim.world[r], big + r * n / 8,
							   big + r * n / 8, n / 8, TOW_U64, TOW_SUM,
							   NULL, &ops[r]),
				 TOW_OK);
	for (int i = 0; i < 3 * (int)TOW_COLL_IN_FLIGHT; i++) {
		uint64_t values[2] = { (uint64_t)i, 7 };

		small_one(values);
		assert_int_equal(values[0], (uint64_t)i + 7);
		assert_int_equal(values[1], (uint64_t)i + 7);
		for (uint32_t r = 0; r < 2; r++) {
			bool under_way = tow_op_test(ops[r]) == TOW_AGAIN;

			early += under_way;
			assert_true(!under_way || sim.world[r]->coll->series.finished == 0);
		}
	}
	assert_true(early >= 2ull * (TOW_COLL_IN_FLIGHT - 2));
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(tow_op_wait(ops[r], TWT_SIM_WAIT_NS), TOW_OK);
		tow_op_release(ops[r]);
		assert_int_equal(sim.world[r]->coll->series.finished, 3 * TOW_COLL_IN_FLIGHT + 1);
	}
	twt_sim_close(&sim);
	free(big);
}

/* Counts the ranks of a list that begins with 1. Returns what follows the list. */
static const char *skip_ranks(const char *at, uint32_t *named_out)
{
	char *end;

	for (*named_out = 0; strtoul(at, &end, 10) == *named_out + 1 && end > at; at = end) {
		++*named_out;
		end += strncmp(end, ", ", 2) == 0 ? 2 : 0;
	}
	return at;
}

/* Of many ranks that do not come, the message names the first, and counts the others. */
static void late_ranks_are_named(void **state)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	const uint32_t n = 60;
	uint32_t named = 0, more = 0;
	const char *at;
	struct tow_op *op;

	(void)state;
	open_calm(n);
	many(n, sim.world, 2, (uint64_t[2 * 60]){ 0 });
	options.timeout_ns = 1000000000;
	assert_int_equal(tow_coll_barrier_start(sim.world[0], &options, &op), TOW_OK);
	assert_int_equal(tow_op_wait(op, TWT_SIM_WAIT_NS), TOW_EDEADLINE);
	at = strstr(tow_error_message(), ": ranks 1, 2, ");
	assert_non_null(at);
	at = skip_ranks(at + strlen(": ranks "), &named);
	assert_int_equal(sscanf(at, " and %u more never entered (", &more), 1);
	assert_int_equal(named + more, n - 1);
	assert_true(named > 10);
	tow_op_release(op);
	twt_sim_close(&sim);
}

/* A call that fails to start has not been started: all that were started have ended. */
static void refused_calls_count_not(void **state)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct twi_diag *diag;
	uint64_t values[4] = { 0 };
	struct tow_op *op;

	(void)state;
	open_calm(2);
	many(2, sim.world, 2, values);
	options.plan = "dissemination"; /* serves barriers alone */
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tow_coll_broadcast_start(sim.world[r], &values[r], 1, TOW_U64, 0,
							  &options, &op),
				 TOW_EINVAL);
	many(2, sim.world, 0, values);
	diag = twi_runtime_engine(sim.batch.runtime)->diag;
	assert_int_equal(twi_counter_sum(diag, TWI_C_colls_started), 4);
	assert_int_equal(twi_counter_sum(diag, TWI_C_colls_completed), 4);
	twt_sim_close(&sim);
}

/* Starts a gather whose second part is `count` elements at `offset`. */
static int start_gather(struct tow_group *group, enum tow_type type, uint64_t count,
			uint64_t offset)
{
	uint64_t out[4] = { 0 }, counts[2] = { 1, 1 }, offsets[2] = { 0, 1 };
	uint32_t last = group->size - 1;
	struct tow_op *op;

	counts[last] = count;
	offsets[last] = offset;
	return tow_coll_all_gather_v_start(group, out, out, counts, offsets, type, NULL, &op);
}

/* Counts whose bytes no memory has are refused by name, and never wrap to a few bytes. */
static void absurd_counts(void **state)
{
	const uint64_t most = (uint64_t)INT64_MAX / 16;
	uint64_t value[2] = { 0 };
	char words[64];

	(void)state;
	for (uint32_t n = 1; n <= 2; n++) {
		const struct row {
			uint64_t count, offset;
		} rows[] = {
			{ most / n + 1, 0 },        { 1, most },
			{ 1, UINT64_MAX },          { (1ull << 60) / n, 1ull << 60 },
			{ UINT64_MAX / 16 + 2, 0 }, { UINT64_MAX, 1 },
		};
		struct tow_op *op;

		open_calm(n);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			assert_int_equal(
				start_gather(sim.world[0], TOW_C128, rows[i].count, rows[i].offset),
				TOW_EINVAL);
			snprintf(words, sizeof(words), "rank %u has %llu elements at %llu,", n - 1,
				 (unsigned long long)rows[i].count,
				 (unsigned long long)rows[i].offset);
			assert_non_null(strstr(tow_error_message(), words));
		}
		assert_int_equal(tow_coll_all_gather_start(sim.world[0], value, value, most / n + 1,
							   TOW_C128, NULL, &op),
				 TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), "count is "));
		twt_sim_close(&sim);
	}
}

/* The same of a shrink to which the other ranks do not come. */
static void late_shrinks_are_named(void **state)
{
	struct tow_group *group;
	uint32_t named = 0, more = 0;
	const char *at;

	(void)state;
	open_calm(80);
	assert_int_equal(tow_group_shrink(sim.world[0], 1000000000, &group), TOW_EDEADLINE);
	at = strstr(tow_error_message(), ": rank 1, 2, ");
	assert_non_null(at);
	at = skip_ranks(at + strlen(": rank "), &named);
	assert_int_equal(sscanf(at, " and %u more", &more), 1);
	assert_int_equal(named + more, 79);
	assert_true(named > 10);
	twt_sim_close(&sim);
}

/*
 * The gatherer has gone after its decision has reached rank 2 alone. Rank 1, which gathers next,
 * gets it from there, over a connection that is there already or one that it makes itself.
 */
static void decision_is_passed_on(void **state)
{
	const struct twi_coll_word decided = { .type = TWI_COLL_DECIDED,
					       .ctx = 0,
					       .from = 0,
					       .value = TWI_COLL_CTX_SHRUNK,
					       .text = "7" };

	(void)state;
	for (int connected = 0; connected < 2; connected++) {
		uint64_t values[2 * 3] = { 0 };
		struct tow_group *group[3];
		struct twi_engine *engine;

		open_calm(3);
		engine = twi_runtime_engine(sim.batch.runtime);
		if (connected)
			many(3, sim.world, 2, values);
		twi_engine_enter(engine);
		twi_coll_shrink_heard(sim.world[2]->ranks, sim.world[2]->coll, 0, &decided);
		for (uint32_t r = 1; r < 3; r++)
			twi_coll_rank_lost(sim.world[r]->ranks, 0, TOW_EPEER);
		twi_engine_leave(engine);
		for (uint32_t r = 1; r < 3; r++) {
			int status = tow_group_shrink(sim.world[r], 1000000000, &group[r]);

			if (status != TOW_OK)
				fail_msg("rank %u: %s", r, tow_error_message());
			assert_int_equal(tow_group_size(group[r]), 3);
			assert_int_equal(tow_group_rank(group[r]), r);
		}
		twt_sim_close(&sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_case),
		cmocka_unit_test(many_ranks),
		cmocka_unit_test(one_is_overtaken),
		cmocka_unit_test(late_ranks_are_named),
		cmocka_unit_test(late_shrinks_are_named),
		cmocka_unit_test(decision_is_passed_on),
		cmocka_unit_test(absurd_counts),
		cmocka_unit_test(refused_calls_count_not),
	};
	const struct CMUnitTest by_hand[] = {
		cmocka_unit_test(many_ranks),
	};

	if (getenv("TOW_COLL_RANKS") != NULL)
		return cmocka_run_group_tests(by_hand, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
