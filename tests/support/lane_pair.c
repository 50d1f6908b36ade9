/* lane_pair.c - two sides in this process over any lane, driven in turns. */
#include "lane_pair.h"

const struct twt_lane_row twt_lane_rows[] = {
#define TWT_LANE(name, here, there, one, pair_one) { name, { here, there }, pair_one },
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

void twt_lane_cases(struct CMUnitTest cases[TWT_LANE_ROWS], CMUnitTestFunction test)
{
	for (size_t i = 0; i < TWT_LANE_ROWS; i++)
		cases[i] = (struct CMUnitTest){ twt_lane_rows[i].name, test, NULL, NULL,
						(void *)(uintptr_t)&twt_lane_rows[i] };
}

int twt_lane_main(CMUnitTestFunction test)
{
	struct CMUnitTest cases[TWT_LANE_ROWS];

	twt_lane_cases(cases, test);
	return _cmocka_run_group_tests("lanes", cases, TWT_LANE_ROWS, NULL, NULL);
}

void twt_lane_init(struct twt_lane_pair *pair, const struct twt_lane_row *lane)
{
	/* Endpoints of libfabric's take 2 MiB of it; and two sides may share one. */
	bool takes_more = lane->one_runtime || strncmp(lane->address[0], "ofi", 3) == 0;
	int64_t pool_bytes = takes_more ? 8 << 20 : 4 << 20;

	*pair = (struct twt_lane_pair){ .lane = lane };
	for (int i = 0; i < 2; i++) {
		pair->options[i] = (struct tow_options)TOW_OPTIONS_INIT;
		pair->options[i].premap_memory_bytes = pool_bytes;
		pair->options[i].stats = 0;
		pair->options[i].background = 0;
		pair->options[i].max_ops = 4096;
	}
}

void twt_lane_turn(struct twt_lane_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		if (pair->runtime[i] != NULL)
			(void)tow_progress(pair->runtime[i]);
	}
}

void twt_lane_drive(struct twt_lane_pair *pair, uint64_t ns)
{
	const struct timespec pause = { .tv_nsec = 100000 }; /* the neighbours have the core then */
	uint64_t until = twi_now_ns() + ns;

	for (int i = 0; twi_now_ns() < until; i++) {
		twt_lane_turn(pair);
		if (i >= 64)
			nanosleep(&pause, NULL);
	}
}

struct tow_result twt_lane_wait(struct twt_lane_pair *pair, struct tow_op *op)
{
	struct tow_result result;

	(void)twt_wait_driving(op, &result, pair->runtime, 2);
	return result;
}

struct tow_result twt_lane_finish(struct twt_lane_pair *pair, struct tow_op *op)
{
	struct tow_result result = twt_lane_wait(pair, op);

	TWT_OK(tow_op_release(op));
	return result;
}

int twt_lane_open_side(struct twt_lane_pair *pair, int i)
{
	if (i == 1 && pair->lane->one_runtime)
		pair->runtime[1] = pair->runtime[0];
	else
		TWT_OK(tow_runtime_open(&pair->options[i], &pair->runtime[i]));
	return tow_endpoint_open(pair->runtime[i], pair->lane->address[i], &pair->endpoint[i]);
}

bool twt_lane_open(struct twt_lane_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		int status = twt_lane_open_side(pair, i);

		if (i == 0 && (status == TOW_ENOTSUP || status == TOW_EINVAL)) {
			printf("%s: left out: %s\n", pair->lane->name, tow_error_message());
			TWT_OK(tow_runtime_close(pair->runtime[0]));
			return false;
		}
		TWT_OK(status);
	}
	return true;
}

void twt_lane_join(struct twt_lane_pair *pair)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *connect, *accept;

	TWT_OK(tow_endpoint_address(pair->endpoint[1], address, sizeof(address)));
	TWT_OK(tow_accept_start(pair->endpoint[1], NULL, &accept));
	TWT_OK(tow_connect_start(pair->endpoint[0], address, NULL, &connect));
	pair->peer[0] = twt_lane_finish(pair, connect).peer;
	pair->peer[1] = twt_lane_finish(pair, accept).peer;
	assert_non_null(pair->peer[0]);
	assert_non_null(pair->peer[1]);
}

void twt_lane_close(struct twt_lane_pair *pair)
{
	if (!pair->lane->one_runtime && pair->runtime[1] != NULL)
		TWT_OK(tow_runtime_close(pair->runtime[1]));
	if (pair->runtime[0] != NULL)
		TWT_OK(tow_runtime_close(pair->runtime[0]));
	pair->runtime[0] = pair->runtime[1] = NULL;
}

uint64_t twt_lane_in_use(const struct twt_lane_pair *pair)
{
	uint64_t bytes = 0;

	for (int i = 0; i < 2; i++) {
		struct twi_pool_stats stats;

		twi_pool_stats(twi_runtime_engine(pair->runtime[i])->pool, &stats);
		bytes += stats.allocated + stats.leased;
	}
	return bytes;
}

void twt_lane_settle(struct twt_lane_pair *pair, uint64_t bytes, const char *what)
{
	uint64_t until = twi_now_ns() + 10 * TWT_SECOND;

	while (twt_lane_in_use(pair) != bytes) {
		twt_lane_turn(pair);
		if (twi_now_ns() > until)
			fail_msg("%s, %s: %llu bytes of the pools are in use, there were %llu",
				 pair->lane->name, what, (unsigned long long)twt_lane_in_use(pair),
				 (unsigned long long)bytes);
	}
}

void *twt_memory_get(struct tow_runtime *runtime, enum twt_memory kind, size_t bytes,
		     uint64_t *handle_out)
{
	void *memory = NULL;

	if (kind == TWT_POOL) {
		TWT_OK(tow_alloc(runtime, bytes, 0, &memory));
		return memory;
	}
	memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	assert_non_null(memory);
	memset(memory, 0, bytes);
	if (kind == TWT_REGISTERED)
		TWT_OK(tow_mem_register(runtime, memory, (bytes + 4095) / 4096 * 4096, handle_out));
	return memory;
}

void twt_memory_put(struct tow_runtime *runtime, enum twt_memory kind, void *memory,
		    uint64_t handle)
{
	if (kind == TWT_POOL) {
		TWT_OK(tow_free(runtime, memory));
		return;
	}
	if (kind == TWT_REGISTERED)
		TWT_OK(tow_mem_deregister(runtime, handle));
	free(memory);
}
