/*
 * Random programs of two to four ranks over each lane, in this process and in real time, judged by
 * the model of the simulation of the same name (program.h). TOW_TEST_SEED replays a run,
 * TOW_TEST_LANE=shm plays that lane alone.
 */
#include "program.h"

#include "lane_pair.h"

#define MS    1000000ull
#define RANKS 4
#define SEEDS 2

static const struct twt_lane_row *lane;

static void choose_options(struct twt_program *program, struct tow_options *options)
{
	*options = (struct tow_options)TOW_OPTIONS_INIT;
	options->premap_memory_bytes = (int64_t)(program->pool_bytes + (12u << 20));
	options->premap_limit_bytes = options->premap_memory_bytes;
	options->huge_pages = 0;
	options->stats = 0;
	options->background = 0;
	options->spin_ns = 1000;
	options->max_ops = program->max_ops;
	options->eager_max_bytes = (int64_t)program->eager_max;
	options->credit_bytes = (int64_t)program->credit;
	options->checksum_all = twt_program_chance(program, 300);
}

/* Some lanes make of what is asked for what they can do. */
static void take_over(struct twt_program *program)
{
	program->eager_max = twi_runtime_engine(program->runtime[0])->knobs.eager_max_bytes;
}

static bool open_lane(struct twt_program *program)
{
	struct tow_options options;

	program->ranks = twi_min(program->ranks, RANKS);
	program->with.huge = false;
	choose_options(program, &options);
	twt_program_note(program, "lane %s", lane->name);
	for (int i = 0; i < program->ranks; i++) {
		char address[TOW_ADDRESS_MAX];
		int status;

		if (i > 0 && lane->one_runtime)
			program->runtime[i] = program->runtime[0];
		else
			TWT_OK(tow_runtime_open(&options, &program->runtime[i]));
		/* Those of lanes.def are two; a lane of names has a third and a fourth. */
		snprintf(address, sizeof(address),
			 strstr(lane->address[0], "loop") != NULL ? "%s%d" : "%s", lane->address[0],
			 i);
		status = tow_endpoint_open(program->runtime[i], address, &program->endpoint[i]);
		if (i == 0 && (status == TOW_ENOTSUP || status == TOW_EINVAL)) {
			printf("%s: left out: %s\n", lane->name, tow_error_message());
			TWT_OK(tow_runtime_close(program->runtime[0]));
			return false;
		}
		TWT_OK(status);
	}
	take_over(program);
	return true;
}

static void pass_time(struct twt_program *program, uint64_t ns)
{
	uint64_t until = twi_now_ns() + ns;

	do {
		for (int i = 0; i < program->ranks; i++)
			(void)tow_progress(program->runtime[i]);
	} while (twi_now_ns() < until);
}

static uint64_t now_really(const struct twt_program *program)
{
	(void)program;
	return twi_now_ns();
}

static bool has_failed(const struct twt_program *program, int a, int b)
{
	return program->peers[a][b]->ended != 0 || program->peers[b][a]->ended != 0;
}

static void close_lane(struct twt_program *program)
{
	for (int i = program->ranks - 1; i >= 0; i--) {
		if (i == 0 || !lane->one_runtime)
			TWT_OK(tow_runtime_close(program->runtime[i]));
	}
}

static const struct twt_program_stage stage = {
	.open = open_lane,
	.pass = pass_time,
	.now = now_really,
	.down = has_failed,
	.close = close_lane,
	.rest_ns = 10 * MS,
	.patience = 1000,
	.slack_ns = 1000 * MS, /* of a poll whose callback has started it */
	.acts_max = 120,
};

static void test_lanes(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_SIM_SEEDS");
	uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 0) : SEEDS;
	uint64_t first = twt_seed();

	const char *only = getenv("TOW_TEST_LANE");

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		lane = &twt_lane_rows[i];
		if (only != NULL && strcmp(only, lane->name) != 0)
			continue;
		for (uint64_t seed = first; seed < first + count; seed++) {
			if (!twt_program_play(&stage, seed, NULL))
				break;
		}
	}
	twt_program_print_counts();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lanes) };

	twt_program_watch();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
