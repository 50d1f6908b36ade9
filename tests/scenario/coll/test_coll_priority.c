/*
 * test_coll_priority.c - what is urgent and started behind something else ends before it: the order
 * is looked at, not the time.
 */
#include "coll_team.h"

#define LARGE (64u << 20)

static uint32_t ended, places[2];

static void on_end(struct tow_op *op, const struct tow_result *result)
{
	uint32_t *place = result->user;

	TWT_OK(result->status);
	(void)op;
	*place = ++ended;
}

static void alone(struct tow_options *options)
{
	options->background = 0; /* nothing moves before the wait */
}

static void run_urgent(struct twt_rank *rank)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *large, *small;
	void *memory;
	float *data, word = 1;

	TWT_OK(tow_alloc(rank->runtime, LARGE, 0, &memory));
	data = memory;
	for (size_t i = 0; i < LARGE / 4; i++)
		data[i] = 1;
	twt_coll_meet(rank);
	options.done = on_end;
	options.user = &places[0];
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, LARGE / 4, TOW_F32, TOW_SUM,
					 &options, &large));
	options.user = &places[1];
	options.priority = 1;
	TWT_OK(tow_coll_all_reduce_start(rank->group, &word, &word, 1, TOW_F32, TOW_SUM, &options,
					 &small));
	TWT_OK(twt_coll_end(large));
	TWT_OK(twt_coll_end(small));
	TWT_TRUE(places[1] == 1 && places[0] == 2);
	TWT_TRUE(word == (float)rank->ranks);
	for (size_t i = 0; i < LARGE / 4; i++)
		TWT_TRUE(data[i] == (float)rank->ranks);
	twt_coll_meet(rank);
}

static void test_urgent(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		twt_ranks(&(struct twt_job){ .ranks = 2,
					     .lane = i == 0 ? "shm://*" : "tcp://127.0.0.1:0",
					     .run = run_urgent,
					     .options = alone,
					     .pool_bytes = 128 << 20 });
}

/* Both as large; alone, so nobody else decides: the second is whole before the first goes on. */
static void run_strict(struct twt_rank *rank)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *ops[2];
	uint64_t bytes = LARGE / 8;
	void *memory;
	uint8_t *data;

	TWT_OK(tow_alloc(rank->runtime, 4 * bytes, 0, &memory));
	data = memory;
	memset(data, 7, 2 * bytes);
	twt_coll_meet(rank);
	options.done = on_end;
	for (int i = 0; i < 2; i++) {
		options.user = &places[i];
		options.priority = i;
		TWT_OK(tow_coll_all_reduce_start(
			rank->group, data + (uint64_t)i * bytes, data + (2 + (uint64_t)i) * bytes,
			i == 0 ? bytes / 2 : bytes, TOW_U8, TOW_SUM, &options, &ops[i]));
	}
	for (int i = 0; i < 2; i++)
		TWT_OK(twt_coll_end(ops[i]));
	TWT_TRUE(places[1] == 1 && places[0] == 2);
	TWT_TRUE(memcmp(data, data + 2 * bytes, bytes / 2) == 0);
	TWT_TRUE(memcmp(data + bytes, data + 3 * bytes, bytes) == 0);
}

static void test_strict(void **state)
{
	(void)state;
	twt_ranks(&(struct twt_job){ .ranks = 1,
				     .lane = "shm://*",
				     .run = run_strict,
				     .options = alone,
				     .pool_bytes = 64 << 20 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urgent),
		cmocka_unit_test(test_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
