/*
 * test_calls.c - calls over tcp between two processes: all sizes both ways at once with messages in
 * between, many threads, streams, a server that is killed in the middle of 1,000 calls, and what
 * /v1/rpc, /metrics and /v1/peers say of it.
 */
#include "twt.h"

#include "pair.h"

#include <jansson.h>
#include <pthread.h>

#include <internal/base.h>

#define POOL    (96 << 20)
#define BIG     (4u << 20)
#define THREADS 4
#define EACH    200

static const size_t sizes[] = { 0, 1, 64, 4032, 16384, 16385, 100000, BIG };

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	TWT_OK(tow_reply_start(call, 0, request, bytes, NULL, NULL));
}

static void offer(struct twt_side *side)
{
	TWT_OK(tow_method_register(side->runtime, "echo", echo, NULL, NULL));
}

static int one_call(struct tow_peer *peer, uint8_t *out, uint8_t *in, size_t bytes, uint64_t seed)
{
	struct tow_call_result result = { .size = sizeof(result) };
	int status;

	twt_fill(out, bytes, seed);
	status = tow_call(peer, "echo", out, bytes, in, bytes, 20 * TWT_SECOND, &result);
	if (status != TOW_OK)
		return status;
	return result.bytes == bytes && twt_check(in, bytes, seed) == 0 ? TOW_OK : TOW_EPROTOCOL;
}

/* Both sides: calls of every size, each followed by a message with a tag that calls use, too. */
static int both_ways(struct twt_side *side, void *arg)
{
	uint64_t word, got;
	struct tow_op *send, *recv;
	void *out, *in;

	(void)arg;
	if (side->child == 0)
		offer(side);
	TWT_OK(tow_alloc(side->runtime, BIG, 0, &out));
	TWT_OK(tow_alloc(side->runtime, BIG, 0, &in));
	/* nobody calls before the other side has its method */
	for (uint64_t i = 0; i <= 4 * twi_array_count(sizes); i++) {
		word = i * 3;
		TWT_OK(tow_recv_start(side->peer, &got, sizeof(got), i % 3, NULL, &recv));
		TWT_OK(tow_send_start(side->peer, &word, sizeof(word), i % 3, NULL, &send));
		TWT_OK(twt_finish(send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		if (got != word)
			return 2;
		if (i < 4 * twi_array_count(sizes))
			TWT_OK(one_call(side->peer, out, in, sizes[i % twi_array_count(sizes)], i));
	}
	/* stays to serve until the other side is through, too */
	TWT_OK(tow_recv_start(side->peer, &got, sizeof(got), 77, NULL, &recv));
	TWT_OK(tow_send_start(side->peer, &word, sizeof(word), 77, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(twt_finish(recv, NULL));
	return 0;
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

static void check_stats(struct tow_runtime *runtime)
{
	json_t *rpc = document(runtime, "/v1/rpc"), *row, *peers = document(runtime, "/v1/peers");
	json_t *clock =
		json_object_get(json_array_get(json_object_get(peers, "peers"), 0), "clock");
	bool client = false, server = false;
	char *metrics;
	size_t i;

	json_array_foreach(json_object_get(rpc, "calls"), i, row)
	{
		const char *side = json_string_value(json_object_get(row, "side"));

		assert_string_equal(json_string_value(json_object_get(row, "method")), "echo");
		assert_int_equal(json_integer_value(json_object_get(row, "calls")),
				 4 * twi_array_count(sizes));
		assert_int_equal(json_integer_value(json_object_get(row, "failed")), 0);
		assert_non_null(json_object_get(row, "serve"));
		client |= strcmp(side, "client") == 0 && json_object_get(row, "wire") != NULL &&
			  json_object_get(row, "queue") != NULL &&
			  json_object_get(row, "request_one_way") != NULL;
		server |= strcmp(side, "server") == 0;
	}
	assert_true(client && server);
	assert_true(json_is_true(json_object_get(clock, "known")));
	/* One clock for both on this host: the truth is known, and so whether the bound holds. */
	assert_true(llabs(json_integer_value(json_object_get(clock, "offset_ns"))) <=
		    json_integer_value(json_object_get(clock, "error_ns")) + 1000000);
	TWT_OK(tow_stats_get(runtime, "/metrics", &metrics));
	assert_non_null(strstr(metrics, "towline_call_seconds_bucket{method=\"echo\""));
	assert_non_null(strstr(metrics, "part=\"wire\""));
	assert_string_equal(metrics + strlen(metrics) - 6, "# EOF\n");
	tow_stats_release(metrics);
	json_decref(rpc);
	json_decref(peers);
}

static void test_both_ways(void **state)
{
	struct twt_side side;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, both_ways, NULL);
	offer(&side);
	assert_int_equal(both_ways(&side, NULL), 0);
	check_stats(side.runtime);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* A server whose answers come from threads of its own. */
#define QUEUE 256

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct tow_call_in *calls[QUEUE];
	unsigned head, count;
	bool over;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static void enqueue(struct tow_call_in *call, void *user)
{
	(void)user;
	pthread_mutex_lock(&queue.lock);
	if (queue.count == QUEUE)
		abort(); /* more than two windows */
	queue.calls[(queue.head + queue.count++) % QUEUE] = call;
	pthread_cond_signal(&queue.more);
	pthread_mutex_unlock(&queue.lock);
}

static void *answer(void *arg)
{
	(void)arg;
	for (;;) {
		struct tow_call_in *call;

		pthread_mutex_lock(&queue.lock);
		while (queue.count == 0 && !queue.over)
			pthread_cond_wait(&queue.more, &queue.lock);
		if (queue.count == 0) {
			pthread_mutex_unlock(&queue.lock);
			return NULL;
		}
		call = queue.calls[queue.head];
		queue.head = (queue.head + 1) % QUEUE;
		queue.count--;
		pthread_mutex_unlock(&queue.lock);
		tow_call_remaining_ns(call);
		if (tow_call_canceled(call))
			TWT_OK(tow_reply_start(call, 1, "late", 4, NULL, NULL));
		else
			echo(call, NULL);
	}
}

static int serve_with_threads(struct twt_side *side, void *arg)
{
	pthread_t threads[THREADS];
	struct tow_op *op;
	char end[8];

	(void)arg;
	TWT_OK(tow_method_register(side->runtime, "echo", enqueue, NULL, NULL));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, answer, NULL) != 0)
			return 3;
	TWT_OK(tow_send_start(side->peer, "up", 3, 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(side->peer, end, sizeof(end), 6, NULL, &op));
	while (tow_op_wait(op, TWT_SECOND) == TOW_ETIMEDOUT)
		;
	tow_op_release(op);
	pthread_mutex_lock(&queue.lock);
	queue.over = true;
	pthread_cond_broadcast(&queue.more);
	pthread_mutex_unlock(&queue.lock);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static void *call_many(void *arg)
{
	struct twt_side *side = arg;
	uint64_t random = (uint64_t)(uintptr_t)&random;
	uint8_t *out = malloc(200000), *in = malloc(200000);
	int wrong = 0;

	for (uint64_t i = 0; i < EACH; i++) {
		size_t bytes = i % 10 == 0 ? twt_random_below(&random, 200000)
					   : twt_random_below(&random, 5000);
		struct tow_op *op;

		if (i % 7 == 0) { /* canceled at some moment: it ends, well or not */
			TWT_OK(tow_call_start(side->peer, "echo", out, bytes, in, bytes, NULL,
					      &op));
			TWT_OK(tow_op_cancel(op));
			if (twt_finish(op, NULL) == TOW_EPROTOCOL)
				wrong++;
		}
		wrong += one_call(side->peer, out, in, bytes, i) != TOW_OK;
	}
	free(out);
	free(in);
	return (void *)(intptr_t)wrong;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	struct twt_side side;
	struct tow_op *op;
	char up[8];
	void *wrong;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, serve_with_threads, NULL);
	TWT_OK(tow_recv_start(side.peer, up, sizeof(up), 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_many, &side), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		assert_int_equal((intptr_t)wrong, 0);
	}
	TWT_OK(tow_send_start(side.peer, "end", 4, 6, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

static int serve_for_ever(struct twt_side *side, void *arg)
{
	struct tow_op *op;
	char never[8];

	(void)arg;
	offer(side);
	TWT_OK(tow_recv_start(side->peer, never, sizeof(never), 6, NULL, &op));
	while (tow_op_wait(op, TWT_SECOND) == TOW_ETIMEDOUT)
		;
	return 1;
}

/* 1,000 calls, 200 at a time; in the middle of them the server is killed. */
static void test_kill(void **state)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	int good = 0, lost = 0, how;
	struct tow_op *ops[200];
	struct twt_side side;
	void *out, *in;

	(void)state;
	options.timeout_ns = 10 * TWT_SECOND;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, serve_for_ever, NULL);
	TWT_OK(tow_alloc(side.runtime, 200 * 20000, 0, &out));
	TWT_OK(tow_alloc(side.runtime, 200 * 20000, 0, &in));
	memset(out, 5, 200 * 20000);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 200; i++)
			TWT_OK(tow_call_start(side.peer, "echo", (uint8_t *)out + i * 20000,
					      i % 2 ? 64 : 20000, (uint8_t *)in + i * 20000, 20000,
					      &options, &ops[i]));
		for (int i = 0; i < 200; i++) {
			int status;

			if (round == 2 && i == 20)
				kill(side.child, SIGKILL);
			status = twt_finish(ops[i], NULL);
			if (round == 0 && status == TOW_ENOTSUP)
				good++; /* before the server had its method */
			else if (status == TOW_OK)
				good++;
			else if ((status == TOW_EPEER || status == TOW_EDEADLINE) && round >= 2)
				lost++;
			else
				fail_msg("call %d of round %d ended with %s", i, round,
					 tow_status_name(status));
		}
	}
	assert_int_equal(good + lost, 1000);
	assert_true(good >= 400 && lost >= 400);
	TWT_OK(tow_free(side.runtime, out));
	TWT_OK(tow_free(side.runtime, in));
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
	printf("%d calls went well, %d were lost with the server\n", good, lost);
}

/* A stream in both directions at the same time: each piece comes back, the sum at the end. */
static void on_pulled(struct tow_op *op, const struct tow_result *result);

struct sum {
	struct tow_call_in *call;
	uint64_t bytes;
};

static void pull_next(struct sum *sum)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.done = on_pulled;
	options.user = sum;
	TWT_OK(tow_stream_pull_start(tow_call_in_stream(sum->call), NULL, 0, &options, &op));
}

static void on_pulled(struct tow_op *op, const struct tow_result *result)
{
	struct sum *sum = result->user;

	sum->bytes += result->bytes;
	if (result->status == TOW_OK && result->bytes > 0) {
		pull_next(sum);
	} else {
		TWT_OK(tow_reply_start(sum->call, 0, &sum->bytes, sizeof(sum->bytes), NULL, NULL));
		free(sum);
	}
	tow_op_release(op);
}

static void add_up(struct tow_call_in *call, void *user)
{
	struct sum *sum = calloc(1, sizeof(*sum));

	(void)user;
	sum->call = call;
	pull_next(sum);
}

static int serve_streams(struct twt_side *side, void *arg)
{
	struct tow_op *op;
	char end[8];

	(void)arg;
	TWT_OK(tow_method_register(side->runtime, "sum", add_up, NULL, NULL));
	TWT_OK(tow_send_start(side->peer, "up", 3, 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(side->peer, end, sizeof(end), 6, NULL, &op));
	return twt_finish(op, NULL) == TOW_OK ? 0 : 1;
}

static void test_stream(void **state)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *call, *push[64], *op;
	uint64_t sum = 0, expected = 0;
	struct twt_side side;
	void *data;
	char up[8];

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, serve_streams, NULL);
	TWT_OK(tow_recv_start(side.peer, up, sizeof(up), 5, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_alloc(side.runtime, 1 << 20, 0, &data));
	memset(data, 1, 1 << 20);
	options.flags = TOW_CALL_STREAM;
	TWT_OK(tow_call_start(side.peer, "sum", NULL, 0, &sum, sizeof(sum), &options, &call));
	for (int i = 0; i < 64; i++) { /* 32 MiB: more than would fit anywhere at once */
		uint64_t bytes = i % 2 ? 1 << 20 : 1000;

		expected += bytes;
		TWT_OK(tow_stream_push_start(tow_call_stream(call), data, bytes, NULL, &push[i]));
	}
	TWT_OK(tow_stream_end(tow_call_stream(call)));
	assert_int_equal(tow_stream_push_start(tow_call_stream(call), data, 1, NULL, &op),
			 TOW_EINVAL);
	for (int i = 0; i < 64; i++)
		TWT_OK(twt_finish(push[i], NULL));
	TWT_OK(twt_finish(call, NULL));
	assert_int_equal(sum, expected);
	TWT_OK(tow_send_start(side.peer, "end", 4, 6, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
