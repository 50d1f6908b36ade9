/*
 * test_call_queue.c - calls that queue at a busy server, between two processes over each lane: what
 * they wait there is no time on the wire, in the calls' own results, /v1/rpc, /v1/latency and
 * /metrics.
 */
#include "twt.h"

#include "pair.h"

#include <jansson.h>
#include <time.h>

#include <internal/base.h>

#define DEPTH  32
#define BURSTS 20 /* a machine that has no core for the client needs more than one */
#define WORK   1000000ull

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

/* Computes for as long as the request says. */
static void work(struct tow_call_in *call, void *user)
{
	uint64_t bytes, ns = 0, since = now_ns();
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	if (bytes >= sizeof(ns))
		memcpy(&ns, request, sizeof(ns));
	while (now_ns() - since < ns)
		;
	TWT_OK(tow_reply_start(call, 0, "ok", 2, NULL, NULL));
}

/* Serves, in a wait that drives, until the client says that it is through. */
static int serve(struct twt_side *side, void *arg)
{
	struct tow_op *op;
	char end[8];

	(void)arg;
	TWT_OK(tow_method_register(side->runtime, "work", work, NULL, NULL));
	TWT_OK(tow_send_start(side->peer, "up", 3, 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(side->peer, end, sizeof(end), 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	return 0;
}

struct sums {
	uint64_t server_queue_ns, wire_ns, match_ns, serve_ns, least_total_ns;
};

static struct tow_op *begin_call(struct twt_side *side, uint8_t *request, size_t bytes, uint64_t ns,
				 char *room)
{
	struct tow_op *op;

	memcpy(request, &ns, sizeof(ns));
	TWT_OK(tow_call_start(side->peer, "work", request, bytes, room, 8, NULL, &op));
	return op;
}

static void end_call(struct tow_op *op, struct sums *sums)
{
	struct tow_call_result result = TOW_CALL_RESULT_INIT;

	assert_int_equal(twt_wait_for(op, NULL), TOW_OK);
	TWT_OK(tow_call_result(op, &result));
	tow_op_release(op);
	assert_true(result.queue_ns + result.server_queue_ns + result.wire_ns + result.match_ns +
			    result.serve_ns ==
		    result.total_ns);
	sums->server_queue_ns += result.server_queue_ns;
	sums->wire_ns += result.wire_ns;
	sums->match_ns += result.match_ns;
	sums->serve_ns += result.serve_ns;
	sums->least_total_ns = twi_min(sums->least_total_ns, result.total_ns);
}

/* Each of the burst has a request of its own: they are the library's until they are answered. */
static struct sums make_burst(struct twt_side *side, uint8_t *memory, size_t bytes, uint64_t ns)
{
	struct sums sums = { .least_total_ns = UINT64_MAX };
	static char rooms[DEPTH][8];
	struct tow_op *ops[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++)
		ops[i] = begin_call(side, memory + i * bytes, bytes, ns, rooms[i]);
	for (unsigned i = 0; i < DEPTH; i++)
		end_call(ops[i], &sums);
	return sums;
}

static json_t *document(struct tow_runtime *runtime, const char *path)
{
	json_t *json;
	char *text;

	TWT_OK(tow_stats_get(runtime, path, &text));
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	tow_stats_release(text);
	return json;
}

static double part_max(json_t *parts, const char *part)
{
	json_t *object = json_object_get(parts, part);

	assert_non_null(object);
	return json_number_value(json_object_get(object, "max"));
}

static void check_stats(struct tow_runtime *runtime)
{
	json_t *rpc = document(runtime, "/v1/rpc"), *latency = document(runtime, "/v1/latency");
	json_t *row = json_array_get(json_object_get(rpc, "calls"), 0);
	bool found = false;
	char *metrics;
	size_t i;

	assert_true(part_max(row, "server_queue") > DEPTH / 8 * (double)WORK);
	json_array_foreach(json_object_get(latency, "calls"), i, row) found |=
		part_max(json_object_get(row, "parts"), "server_queue") > DEPTH / 8 * (double)WORK;
	assert_true(found);
	json_array_foreach(json_object_get(latency, "rpcs"), i, row)
		assert_null(json_object_get(json_object_get(row, "parts"), "server_queue"));
	TWT_OK(tow_stats_get(runtime, "/metrics", &metrics));
	assert_non_null(strstr(metrics, "part=\"server_queue\""));
	tow_stats_release(metrics);
	json_decref(rpc);
	json_decref(latency);
}

/*
 * Calls that wait for nobody: what is usual. On a machine where all 20 of them shared their core,
 * the least of them says little; the next burst has 20 more.
 */
static void call_alone(struct twt_side *side, uint8_t *memory, size_t bytes)
{
	for (unsigned i = 0; i < 20; i++) {
		struct sums sums = { 0 };
		char room[8];

		end_call(begin_call(side, memory, bytes, 0, room), &sums);
	}
}

/*
 * They wait for one another, in all some 500 times as long as one takes; what of it was behind the
 * read is `match`. Answers go out as they are given: the first is not held up until all handlers
 * are through.
 */
static bool tells_queue(const struct sums *sums)
{
	return sums->server_queue_ns > DEPTH * WORK && sums->wire_ns < sums->server_queue_ns / 2 &&
	       sums->least_total_ns < DEPTH * WORK / 2;
}

/* Bursts of calls that a handler answers one after the other. */
static void play_bursts(struct twt_side *side, size_t bytes)
{
	struct sums sums = { 0 };
	uint8_t *memory;
	void *block;
	bool told = false;

	TWT_OK(tow_alloc(side->runtime, DEPTH * bytes, 0, &block));
	memory = block;
	memset(memory, 0, DEPTH * bytes);
	for (unsigned i = 0; i < BURSTS && !told; i++) {
		call_alone(side, memory, bytes);
		sums = make_burst(side, memory, bytes, WORK);
		assert_true(sums.serve_ns >= DEPTH * WORK * 9 / 10);
		told = tells_queue(&sums);
	}
	if (!told)
		fail_msg("the last burst: server_queue %llu us, wire %llu, match %llu, serve %llu, "
			 "the quickest call %llu",
			 (unsigned long long)sums.server_queue_ns / 1000,
			 (unsigned long long)sums.wire_ns / 1000,
			 (unsigned long long)sums.match_ns / 1000,
			 (unsigned long long)sums.serve_ns / 1000,
			 (unsigned long long)sums.least_total_ns / 1000);
	tow_free(side->runtime, block);
}

static void play_lane(const char *address, size_t bytes)
{
	struct twt_side side;
	struct tow_op *op;
	char up[8];

	twt_pair(&side, address, 32 << 20, serve, NULL);
	TWT_OK(tow_recv_start(side.peer, up, sizeof(up), 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	play_bursts(&side, bytes);
	check_stats(side.runtime);
	TWT_OK(tow_send_start(side.peer, "end", 4, 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

static void test_tcp(void **state)
{
	(void)state;
	play_lane("tcp://127.0.0.1:0", 64);
}

/* Requests whose body is fetched by rendezvous. */
static void test_tcp_large(void **state)
{
	(void)state;
	play_lane("tcp://127.0.0.1:0", 65536);
}

static void test_shm(void **state)
{
	(void)state;
	play_lane("shm://*", 64);
}

#ifdef TWI_HAVE_OFI
static void test_ofi(void **state)
{
	(void)state;
	play_lane("ofi://tcp", 64);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_tcp_large),
		cmocka_unit_test(test_shm),
#ifdef TWI_HAVE_OFI
		cmocka_unit_test(test_ofi),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
