/*
 * test_late_calls.c - calls that end by their deadline, or are canceled, while their request or
 * their response is under way. From its end on the memory of a call is the caller's: no lane writes
 * to it, and no server gets a request of what is written there later. Over every lane that joins
 * processes. TOW_TEST_SEED replays the times.
 */
#include <stdatomic.h>
#include <string.h>

#include <towline/group_message.h>
#include <towline/rpc.h>

#include "coll_team.h"
#include "job_lanes.h"
#include "pair.h"
#include "twt.h"
#include "twt_random.h"

#ifdef TWT_SANITIZED
#define CALLS 24u
#else
#define CALLS 60u
#endif
#define BYTES   (4u << 20)
#define MOST_US 2500u /* of a call, which takes about as long */
#define LATE_US 3000u /* a lane that goes on writes within this time */
#define SENT    0x55
#define REPLIED 0x33
#define LATER   0xaa

static unsigned lane;
static uint64_t seed;

struct server {
	uint8_t *response;
	_Atomic bool is_over;
};

static bool is_all(const uint8_t *data, uint64_t bytes, uint8_t value)
{
	return bytes == 0 || (data[0] == value && memcmp(data, data + 1, bytes - 1) == 0);
}

static void on_get(struct tow_call_in *call, void *user)
{
	const struct server *server = user;

	TWT_OK(tow_reply_start(call, 0, server->response, BYTES, NULL, NULL));
}

static void on_put(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	TWT_TRUE(bytes == BYTES && is_all(request, bytes, SENT));
	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
}

static void on_over(struct tow_call_in *call, void *user)
{
	struct server *server = user;

	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
	atomic_store(&server->is_over, true);
}

static void serve(struct twt_rank *rank)
{
	struct server server = { .response = malloc(BYTES) };

	TWT_TRUE(server.response != NULL);
	memset(server.response, REPLIED, BYTES);
	TWT_OK(tow_method_register(rank->runtime, "get", on_get, &server, NULL));
	TWT_OK(tow_method_register(rank->runtime, "put", on_put, NULL, NULL));
	TWT_OK(tow_method_register(rank->runtime, "over", on_over, &server, NULL));
	twt_coll_meet(rank);
	while (!atomic_load(&server.is_over)) /* the rank has an alarm */
		TWT_TRUE(tow_progress(rank->runtime) >= 0);
	twt_coll_meet(rank);
	free(server.response);
}

/* Memory outside the pool: what is in it is not lent to the server (docs/shm.md). */
static void call_once(struct tow_peer *peer, uint8_t *memory, uint64_t *rng, unsigned i)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	bool puts = i % 2 != 0, cancels = i % 4 >= 2;
	uint64_t us = twt_random_below(rng, MOST_US) + 20;
	struct tow_op *op;
	int status;

	memset(memory, puts ? SENT : 0, BYTES);
	options.timeout_ns = cancels ? TOW_FOREVER : us * 1000;
	if (puts)
		TWT_OK(tow_call_start(peer, "put", memory, BYTES, NULL, 0, &options, &op));
	else
		TWT_OK(tow_call_start(peer, "get", NULL, 0, memory, BYTES, &options, &op));
	if (cancels) {
		usleep((useconds_t)us);
		(void)tow_op_cancel(op);
	}
	status = twt_finish(op, NULL);
	if (status >= 0) {
		TWT_TRUE(puts || is_all(memory, BYTES, REPLIED));
		return;
	}
	TWT_TRUE(status == TOW_EDEADLINE || status == TOW_ECANCELED);
	memset(memory, LATER, BYTES);
	usleep(LATE_US);
	TWT_TRUE(is_all(memory, BYTES, LATER));
}

static void play(struct twt_rank *rank)
{
	uint8_t *memory = malloc(BYTES);
	struct tow_peer *peer;
	uint64_t rng = seed;

	if (rank->rank != 0) {
		free(memory);
		serve(rank);
		return;
	}
	TWT_TRUE(memory != NULL);
	TWT_OK(tow_group_connect(rank->group, 1, 20 * TWT_SECOND, &peer));
	twt_coll_meet(rank);
	for (unsigned i = 0; i < CALLS; i++)
		call_once(peer, memory, &rng, i);
	TWT_OK(tow_call(peer, "over", NULL, 0, NULL, 0, 20 * TWT_SECOND, NULL));
	twt_coll_meet(rank);
	free(memory);
}

static void set_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
}

static void test_late_calls(void **state)
{
	(void)state;
	seed = twt_seed();
	for (lane = 0; lane < TWT_LANES; lane++) {
		if (!twt_job_lane(lane))
			continue;
		print_message("%s\n", twt_lanes[lane].name);
		twt_ranks(&(struct twt_job){ .ranks = 2,
					     .lane = twt_lanes[lane].address[0],
					     .run = play,
					     .pool_bytes = 64 << 20,
					     .options = set_options });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_late_calls) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
