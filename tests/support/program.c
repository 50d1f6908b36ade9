/*
 * program.c - a program of a seed, from its beginning to its end (program.h).
 */
#include "program.h"

/* Half of the features are there in a program: what is rare beside all others is common so. */
static void choose_features(struct twt_program *program)
{
	bool *with = (bool *)&program->with;

	for (unsigned i = 0; i < sizeof(program->with) / sizeof(*with); i++)
		with[i] = twt_program_chance(program, 500);
	program->with.huge = twt_program_chance(program, 50);
	program->with.closes = twt_program_chance(program, 200);
	program->with.bursts = twt_program_chance(program, 300);
	program->with.shuts = program->with.channels && twt_program_chance(program, 400);
}

static void choose_sizes(struct twt_program *program)
{
	static const uint64_t eager[] = { 0, 64, 1000, 4096, 16384 };

	program->ranks = 2 + (int)twt_program_below(program, TWT_PROGRAM_RANKS - 1);
	program->tags = 1 + (int)twt_program_below(program, TWT_PROGRAM_TAGS);
	program->eager_max = eager[twt_program_below(program, twi_array_count(eager))];
	program->credit = 65536ull << 2 * twt_program_below(program, 2);
	program->pool_bytes = 1ull << (20 + 2 * twt_program_below(program, 2));
	program->bytes_max =
		program->pool_bytes > 2u << 20 && twt_program_chance(program, 500) ? 400000 : 40000;
	program->max_ops = twt_program_chance(program, 150) ? 64 : TWT_PROGRAM_OPS + 64;
}

/* Those of one side. Nobody waits for the other's: what is sent before that does. */
static void open_channels(struct twt_program *program, int rank, int peer)
{
	struct tow_peer *at = program->peers[rank][peer];

	for (unsigned i = 1; at != NULL && program->with.channels && i < TWT_PROGRAM_CHANNELS; i++)
		(void)tow_channel_open(at, i, &program->channels[rank][peer][i]);
}

/* A connect and its accept: the peer of each side, or none. */
static void join(struct twt_program *program, int a, int b)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *ops[2];
	int other[2] = { a, b };

	assert_int_equal(tow_endpoint_address(program->endpoint[b], address, sizeof(address)),
			 TOW_OK);
	assert_int_equal(tow_accept_start(program->endpoint[b], NULL, &ops[1]), TOW_OK);
	assert_int_equal(tow_connect_start(program->endpoint[a], address, NULL, &ops[0]), TOW_OK);
	for (int i = 0; i < 2; i++) {
		struct tow_result result = TOW_RESULT_INIT;

		for (int turn = 0; turn < 20000 && tow_op_test(ops[i]) == TOW_AGAIN; turn++)
			program->stage->pass(program, 100000);
		if (tow_op_test(ops[i]) == TOW_AGAIN) {
			assert_int_equal(tow_op_cancel(ops[i]), TOW_OK);
			program->stage->pass(program, 100000);
		}
		twt_program_check(program, tow_op_result(ops[i], &result) == TOW_OK,
				  "connecting does not end");
		assert_int_equal(tow_op_release(ops[i]), TOW_OK);
		program->peers[other[i]][other[1 - i]] = result.peer;
	}
	open_channels(program, a, b);
	open_channels(program, b, a);
}

/* What it draws has nothing to do with what was drawn before. */
static void draw_anew(struct twt_program *program, uint64_t number)
{
	program->random =
		(program->seed + 1) * 0x9e3779b97f4a7c15ull ^ (number + 1) * 0xd6e8feb86659fd93ull;
	(void)twt_random(&program->random);
}

bool twt_program_play(const struct twt_program_stage *stage, uint64_t seed, uint64_t *log_out)
{
	static struct twt_program program;
	int acts;

	memset(&program, 0, sizeof(program));
	program.seed = seed;
	program.stage = stage;
	draw_anew(&program, 1u << 20);
	choose_features(&program);
	choose_sizes(&program);
	acts = 10 + (int)twt_program_below(&program, (uint64_t)stage->acts_max - 10);
	twt_program_plays(&program);
	if (!stage->open(&program))
		return false;
	for (int a = 0; a < program.ranks; a++) {
		for (int b = a + 1; b < program.ranks; b++)
			join(&program, a, b);
	}
	for (int i = 0; i < acts; i++) {
		draw_anew(&program, (uint64_t)i);
		if (!twt_program_skips(i))
			twt_program_act(&program);
	}
	draw_anew(&program, 2u << 20);
	twt_program_sweep(&program);
	twt_program_take_down(&program);
	program.judging = true;
	twt_program_judge(&program);
	twt_program_plays(NULL);
	twt_program_counts.programs++;
	if (log_out != NULL)
		*log_out = program.log;
	return true;
}

void twt_program_print_counts(void)
{
	static const char *const kinds[] = { "recv", "send" };
	const struct twt_program_counts *c = &twt_program_counts;

	printf("%llu programs: %llu at once, %llu by masks, %llu of any peer, %llu as promised by "
	       "a "
	       "probe, %llu views, %llu cut, %llu started in callbacks\n",
	       (unsigned long long)c->programs, (unsigned long long)c->instant,
	       (unsigned long long)c->wild, (unsigned long long)c->any,
	       (unsigned long long)c->promised, (unsigned long long)c->views,
	       (unsigned long long)c->dropped, (unsigned long long)c->nested);
	printf("of channels: %llu received, of any peer %llu, at once %llu; %llu as promised\n",
	       (unsigned long long)c->shared, (unsigned long long)c->shared_any,
	       (unsigned long long)c->shared_instant, (unsigned long long)c->shared_promised);
	for (int kind = 1; kind >= 0; kind--) {
		for (int i = 0; i < 32; i++) {
			if (c->ends[kind][i] > 0)
				printf("  %s %-15s %llu\n", kinds[kind], tow_status_name(-i),
				       (unsigned long long)c->ends[kind][i]);
		}
	}
}
