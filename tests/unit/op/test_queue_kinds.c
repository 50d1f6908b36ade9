/*
 * test_queue_kinds.c - every kind of start that knows a completion queue, without a handle: calls,
 * replies, pieces of a stream, device copies, groups, their connections, barriers, collectives.
 * And what is refused.
 */
#include "twt.h"

#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "lane_pair.h"
#include "store_port.h"

#define BYTES 100000u

static struct twt_lane_pair pair;
static struct tow_queue *queue; /* of side 0 */
static struct tow_queue *other; /* of side 1, where that is another runtime */
static struct tow_call_in *held;
static uint8_t out[BYTES], in[BYTES];

static struct tow_op_options by_queue(struct tow_queue *to, uint64_t number)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.queue = to;
	options.user = (void *)(uintptr_t)number;
	return options;
}

/* The next result of a queue, which must be of that number and good. */
static struct tow_result next(struct tow_queue *from, uint64_t number)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	struct tow_result result = TOW_RESULT_INIT;
	size_t count;
	int status;

	while ((status = tow_queue_take(from, &result, 1, &count)) == TOW_AGAIN) {
		twt_lane_turn(&pair);
		if (twi_now_ns() > until)
			fail_msg("nothing comes of start %u", (unsigned)number);
	}
	TWT_OK(status);
	assert_int_equal((uintptr_t)result.user, number);
	if (result.status < 0)
		fail_msg("start %u: %s", (unsigned)number, result.message);
	return result;
}

/* Either may be the first. */
static void next_two(struct tow_queue *from, uint64_t one, uint64_t other_one)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	struct tow_result first = TOW_RESULT_INIT;
	size_t count = 0;

	while (count == 0 && twi_now_ns() < until) {
		tow_queue_take(from, &first, 1, &count);
		twt_lane_turn(&pair);
	}
	assert_int_equal(first.status, TOW_OK);
	next(from, one + other_one - (uintptr_t)first.user);
}

static void open_pair(const char *lane)
{
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		if (strcmp(twt_lane_rows[i].name, lane) == 0)
			twt_lane_init(&pair, &twt_lane_rows[i]);
	}
	assert_true(twt_lane_open(&pair));
	TWT_OK(tow_queue_open(pair.runtime[0], 64, &queue));
	TWT_OK(tow_queue_open(pair.runtime[1], 64, &other));
}

static void hold(struct tow_call_in *call, void *user)
{
	(void)user;
	held = call;
}

static void start_call(struct tow_call_options *options, uint64_t number, uint32_t flags,
		       void *response)
{
	*options = (struct tow_call_options)TOW_CALL_OPTIONS_INIT;
	options->queue = queue;
	options->user = (void *)(uintptr_t)number;
	options->flags = flags;
	held = NULL;
	TWT_OK(tow_call_start(pair.peer[0], "hold", out, BYTES, response,
			      response == NULL ? 0 : BYTES, options, NULL));
	for (unsigned i = 0; i < 100000 && held == NULL; i++)
		twt_lane_turn(&pair);
	assert_non_null(held);
}

/* A call's operation stays the user's: there is more to ask of it. */
static void test_calls(void **state)
{
	struct tow_op_options options;
	struct tow_call_options call;
	struct tow_call_result told = TOW_CALL_RESULT_INIT;
	struct tow_result result;

	(void)state;
	open_pair("shm");
	twt_lane_join(&pair);
	TWT_OK(tow_method_register(pair.runtime[1], "hold", hold, NULL, NULL));
	for (unsigned view = 0; view < 2; view++) {
		options = by_queue(other, 2);
		twt_fill(out, BYTES, view);
		start_call(&call, 1, view ? TOW_CALL_VIEW : 0, view ? NULL : in);
		TWT_OK(tow_reply_start(held, 0, out, BYTES, &options, NULL));
		result = next(queue, 1);
		assert_null(next(other, 2).op);
		assert_non_null(result.op);
		TWT_OK(tow_call_result(result.op, &told));
		assert_int_equal(told.bytes, BYTES);
		assert_int_equal(twt_check(told.data, BYTES, view), 0);
		TWT_OK(tow_op_release(result.op));
	}
	twt_lane_close(&pair);
}

static void test_pieces(void **state)
{
	struct tow_op_options push = by_queue(queue, 1), pull;
	struct tow_call_options call;
	struct tow_stream *stream;
	struct tow_result result;
	struct tow_op *op;

	(void)state;
	open_pair("tcp");
	twt_lane_join(&pair);
	TWT_OK(tow_method_register(pair.runtime[1], "hold", hold, NULL, NULL));
	call = (struct tow_call_options)TOW_CALL_OPTIONS_INIT;
	call.queue = queue;
	call.user = (void *)9;
	call.flags = TOW_CALL_STREAM;
	held = NULL;
	TWT_OK(tow_call_start(pair.peer[0], "hold", out, 8, in, 8, &call, &op));
	while (held == NULL)
		twt_lane_turn(&pair);
	stream = tow_call_stream(op); /* a handle of the queue's is good for looking */
	assert_non_null(stream);
	for (uint64_t i = 0; i < 4; i++) {
		bool view = i % 2 == 1;

		push = by_queue(queue, i);
		pull = by_queue(other, i);
		twt_fill(out, BYTES, i);
		TWT_OK(tow_stream_pull_start(tow_call_in_stream(held), view ? NULL : in, BYTES,
					     &pull, NULL));
		TWT_OK(tow_stream_push_start(stream, out, BYTES, &push, NULL));
		next(queue, i);
		result = next(other, i);
		assert_int_equal(twt_check(result.data, BYTES, i), 0);
		assert_true((result.op != NULL) == view);
		TWT_OK(tow_view_release(result.op));
	}
	TWT_OK(tow_stream_end(stream));
	for (unsigned i = 0; i < 200; i++) /* these take no place for good */
		assert_int_equal(tow_stream_push_start(stream, out, BYTES, &push, NULL),
				 TOW_EINVAL);
	TWT_OK(tow_reply_start(held, 0, out, 8, NULL, NULL));
	TWT_OK(tow_op_release(next(queue, 9).op));
	twt_lane_close(&pair);
}

static void test_device(void **state)
{
	struct tow_op_options options;
	struct tow_device_memory *memory;
	struct tow_device *device;

	(void)state;
	open_pair("loop");
	TWT_OK(tow_device_open(pair.runtime[0], "fake:any", &device));
	TWT_OK(tow_device_alloc(device, BYTES, &memory));
	twt_fill(out, BYTES, 5);
	options = by_queue(queue, 1);
	TWT_OK(tow_device_copy_start(device, TOW_TO_DEVICE, memory, 0, out, BYTES, &options, NULL));
	assert_int_equal(next(queue, 1).bytes, BYTES);
	TWT_OK(tow_device_copy_start(device, TOW_FROM_DEVICE, memory, 0, in, BYTES, &options,
				     NULL));
	assert_null(next(queue, 1).op);
	assert_int_equal(twt_check(in, BYTES, 5), 0);
	TWT_OK(tow_device_free(memory));
	twt_lane_close(&pair);
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op, (void)result;
	fail();
}

/* Both ranks of a job, by a queue each. */
static void test_groups(void **state)
{
	struct tow_coll_options coll = TOW_COLL_OPTIONS_INIT;
	struct tow_group_options options[2];
	struct tow_queue *queues[2];
	struct tow_group *groups[2];
	int32_t values[2] = { 3, 5 }, sums[2] = { 0, 0 };
	char store[64];
	int port = twt_store_port(store, sizeof(store));

	(void)state;
	open_pair("tcp");
	queues[0] = queue;
	queues[1] = other;
	for (int i = 0; i < 2; i++) {
		struct tow_op_options op = by_queue(queues[i], 1);

		options[i] = (struct tow_group_options)TOW_GROUP_OPTIONS_INIT;
		options[i].rank = i;
		options[i].world_size = 2;
		options[i].store = store;
		options[i].address = "tcp://127.0.0.1:0";
		TWT_OK(tow_group_open_start(pair.runtime[i], &options[i], &op, &groups[i], NULL));
	}
	for (int i = 0; i < 2; i++)
		next(queues[i], 1);
	for (uint32_t i = 0; i < 2; i++) {
		struct tow_op_options op = by_queue(queues[i], 2);

		TWT_OK(tow_group_connect_start(groups[i], 1 - i, &op, NULL));
	}
	for (int i = 0; i < 2; i++)
		assert_non_null(next(queues[i], 2).peer);
	for (int i = 0; i < 2; i++) {
		struct tow_op_options op = by_queue(queues[i], 3);

		TWT_OK(tow_group_barrier_start(groups[i], &op, NULL));
		coll.queue = queues[i];
		coll.user = (void *)4;
		TWT_OK(tow_coll_all_reduce_start(groups[i], &values[i], &sums[i], 1, TOW_S32,
						 TOW_SUM, &coll, NULL));
	}
	for (int i = 0; i < 2; i++) {
		next_two(queues[i], 3, 4);
		assert_int_equal(sums[i], 8);
	}
	coll.done = on_done;
	assert_int_equal(tow_coll_barrier_start(groups[1], &coll, NULL), TOW_EINVAL);
	coll.done = NULL;
	assert_int_equal(tow_coll_barrier_start(groups[0], &coll, NULL), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "another runtime"));
	twt_lane_close(&pair);
	close(port);
}

static void refuse_takes(void)
{
	struct tow_result results[2] = { TOW_RESULT_INIT, TOW_RESULT_INIT };
	size_t count = 7;

	assert_int_equal(tow_queue_take(NULL, results, 1, &count), TOW_EINVAL);
	assert_int_equal(count, 0);
	assert_int_equal(tow_queue_take(queue, NULL, 1, &count), TOW_EINVAL);
	assert_int_equal(tow_queue_take(queue, results, 0, &count), TOW_EINVAL);
	assert_int_equal(tow_queue_take(queue, results, 1, NULL), TOW_EINVAL);
	results[0].size = 7;
	assert_int_equal(tow_queue_take(queue, results, 1, &count), TOW_EINVAL);
	results[0].size = offsetof(struct tow_result, op); /* of a header that had no queue */
	assert_int_equal(tow_queue_take(queue, results, 1, &count), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "member op"));
}

static void refuse_starts(void)
{
	struct tow_op_options options = by_queue(other, 1);
	struct tow_call_options call = TOW_CALL_OPTIONS_INIT;
	struct tow_op *op = (struct tow_op *)&pair;

	assert_int_equal(tow_recv_start(pair.peer[0], in, 8, 1, &options, &op), TOW_EINVAL);
	assert_null(op);
	assert_non_null(strstr(tow_error_message(), "tow_recv_start: options->queue"));
	assert_int_equal(tow_accept_start(pair.endpoint[0], &options, &op), TOW_EINVAL);
	call.queue = other;
	assert_int_equal(tow_call_start(pair.peer[0], "m", in, 8, in, 8, &call, &op), TOW_EINVAL);
	options.queue = queue;
	options.done = on_done;
	assert_int_equal(tow_recv_start(pair.peer[0], in, 8, 1, &options, &op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "both set"));
	assert_int_equal(tow_accept_start(pair.endpoint[0], NULL, NULL), TOW_EINVAL);
	assert_int_equal(tow_recv_start(pair.peer[0], in, 8, 1, NULL, NULL), TOW_EINVAL);
}

/* Sized by a newer program: each element is as long as the first says. */
static void take_newer(void)
{
	struct newer {
		struct tow_result known;
		uint64_t unknown[2];
	} newer[3];
	struct tow_op_options options = by_queue(queue, 6);
	size_t count;

	memset(newer, 0xa5, sizeof(newer));
	for (int i = 0; i < 3; i++)
		newer[i].known.size = sizeof(newer[0]);
	for (int i = 0; i < 2; i++)
		TWT_OK(tow_send_start(pair.peer[0], out, 8, 6, &options, NULL));
	twt_lane_drive(&pair, 20000000);
	TWT_OK(tow_queue_take(queue, (struct tow_result *)newer, 3, &count));
	assert_int_equal(count, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(newer[i].known.size, sizeof(newer[0]));
		assert_int_equal((uintptr_t)newer[i].known.user, 6);
		assert_int_equal(newer[i].unknown[1], 0);
	}
	assert_int_equal(newer[2].unknown[1], 0xa5a5a5a5a5a5a5a5);
}

/* Nothing of it reaches the parent's queue, whose descriptor the child shares. */
static void fork_one(void)
{
	struct tow_op_options options = by_queue(queue, 5);
	pid_t child;
	int how;

	TWT_OK(tow_send_start(pair.peer[0], out, 8, 5, &options, NULL));
	twt_lane_drive(&pair, 5000000);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		struct tow_result result = TOW_RESULT_INIT;
		struct tow_queue *another;
		size_t count;
		int fd;

		_exit(tow_queue_take(queue, &result, 1, &count) != TOW_EFORKED ||
		      tow_queue_fd(queue, &fd) != TOW_EFORKED ||
		      tow_queue_close(queue) != TOW_EFORKED ||
		      tow_queue_open(pair.runtime[0], 8, &another) != TOW_EFORKED);
	}
	assert_int_equal(waitpid(child, &how, 0), child);
	assert_int_equal(how, 0);
	next(queue, 5);
}

static void test_refused(void **state)
{
	struct tow_op_options options;
	struct tow_queue *none = (struct tow_queue *)&pair;
	int before = twt_fd_count(), fd;

	(void)state;
	open_pair("tcp");
	twt_lane_join(&pair);
	assert_int_equal(tow_queue_open(NULL, 8, &none), TOW_EINVAL);
	assert_null(none);
	assert_int_equal(tow_queue_open(pair.runtime[0], 0, &none), TOW_EINVAL);
	assert_int_equal(tow_queue_open(pair.runtime[0], 8, NULL), TOW_EINVAL);
	assert_int_equal(tow_queue_fd(queue, NULL), TOW_EINVAL);
	assert_int_equal(tow_queue_fd(NULL, &fd), TOW_EINVAL);
	assert_int_equal(tow_queue_close(NULL), TOW_EINVAL);
	TWT_OK(tow_queue_open(pair.runtime[0], UINT32_MAX, &none)); /* max_ops are enough */
	refuse_takes();
	refuse_starts();
	take_newer();
	fork_one();
	/* The runtimes go with what is in flight and what was not taken. */
	options = by_queue(queue, 5);
	TWT_OK(tow_send_start(pair.peer[0], out, 8, 5, &options, NULL));
	TWT_OK(tow_recv_start(pair.peer[0], in, 8, 5, &options, NULL));
	twt_lane_close(&pair);
	assert_int_equal(tow_queue_fd(queue, &fd), TOW_ECLOSED);
	assert_int_equal(tow_queue_close(none), TOW_ECLOSED);
	assert_int_equal(twt_fd_count(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused), cmocka_unit_test(test_calls),
		cmocka_unit_test(test_pieces),  cmocka_unit_test(test_device),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
