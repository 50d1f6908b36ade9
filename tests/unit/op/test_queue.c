/*
 * test_queue.c - completion queues over every lane: what is started with one comes by it, once, in
 * the order of completion, and its descriptor is readable while there is something. How a queue
 * fills, is closed, and what it refuses.
 */
#include "twt.h"

#include <poll.h>
#include <string.h>

#include "lane_pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/op.h"
#include "transport/op/op_table.h"

#define LARGE 200000u
#define ROOM  16u

static struct twt_lane_pair pair;
static struct tow_queue *queue; /* of side 1 */
static uint8_t out[LARGE], in[LARGE];

static bool is_readable(void)
{
	struct pollfd fd = { .events = POLLIN };

	TWT_OK(tow_queue_fd(queue, &fd.fd));
	return poll(&fd, 1, 0) == 1 && (fd.revents & POLLIN) != 0;
}

static struct tow_op_options by_queue(uint64_t number)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.queue = queue;
	options.user = (void *)(uintptr_t)number;
	return options;
}

/* Drives without taking until there is a result; then the descriptor says so. */
static void await(void)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;

	while (!is_readable()) {
		twt_lane_turn(&pair);
		if (twi_now_ns() > until)
			fail_msg("%s: nothing comes by the queue", pair.lane->name);
	}
}

/* The next result, of the start of that number. */
static struct tow_result next(uint64_t number)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count = 7;

	await();
	TWT_OK(tow_queue_take(queue, &result, 1, &count));
	assert_int_equal(count, 1);
	assert_int_equal((uintptr_t)result.user, number);
	return result;
}

static void nothing(void)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count = 7;

	assert_int_equal(tow_queue_take(queue, &result, 1, &count), TOW_AGAIN);
	assert_int_equal(count, 0);
	assert_false(is_readable());
}

static void send_one(const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(pair.peer[0], data, bytes, tag, NULL, &op));
	twt_lane_drive(&pair, 200000);
	TWT_OK(tow_op_release(op));
}

static uint32_t rows_in_use(int side)
{
	const struct twi_op_table *ops = twi_runtime_engine(pair.runtime[side])->ops;
	uint32_t count = 0;

	for (uint32_t i = 0; i < ops->made; i++)
		count += (atomic_load(&ops->rows[i].wait.state) & TWI_OP_USED) != 0;
	return count;
}

/* Connect and accept, without handles, and over one queue where the sides are one runtime. */
static void joins(void)
{
	struct tow_op_options options = by_queue(1);
	char address[TOW_ADDRESS_MAX];
	struct tow_op *connect;

	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	TWT_OK(tow_accept_start(pair.endpoint[1], &options, NULL));
	assert_false(is_readable());
	TWT_OK(tow_connect_start(pair.endpoint[0], address, NULL, &connect));
	pair.peer[0] = twt_lane_finish(&pair, connect).peer;
	pair.peer[1] = next(1).peer;
	assert_non_null(pair.peer[0]);
	assert_non_null(pair.peer[1]);
	nothing();
}

static void receive_forms(uint64_t bytes)
{
	struct tow_op_options options = by_queue(10);
	struct tow_part parts[2] = { { in, bytes / 2 }, { in + bytes / 2, bytes - bytes / 2 } };
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_result result;

	for (unsigned form = 0; form < 4; form++) {
		memset(in, 0, sizeof(in));
		twt_fill(out, bytes, form);
		match.tag = 20 + form;
		match.peer = form == 1 ? pair.peer[1] : NULL;
		match.tag_mask = form == 2 ? UINT64_MAX : ~1ull;
		options.user = (void *)(uintptr_t)(10 + form);
		if (form == 0)
			TWT_OK(tow_recv_start(pair.peer[1], in, bytes, 20, &options, NULL));
		else
			TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, parts, 2, &options,
						    NULL));
		send_one(out, bytes, 20 + form);
		result = next(10 + form);
		assert_int_equal(result.status, TOW_OK);
		assert_int_equal(result.bytes, bytes);
		assert_int_equal(result.tag, 20 + form);
		assert_null(result.op);
		assert_int_equal(twt_check(in, bytes, form), 0);
		nothing();
	}
}

static void send_forms(uint64_t bytes)
{
	struct tow_op_options options = by_queue(30);
	struct tow_part parts[2] = { { in, bytes / 2 }, { in + bytes / 2, bytes - bytes / 2 } };

	for (unsigned form = 0; form < 2; form++) {
		struct tow_op *op;

		twt_fill(in, bytes, form);
		TWT_OK(tow_recv_start(pair.peer[0], out, bytes, 30, NULL, &op));
		if (form == 0)
			TWT_OK(tow_send_start(pair.peer[1], in, bytes, 30, &options, NULL));
		else
			TWT_OK(tow_send_parts_start(pair.peer[1], parts, 2, 30, &options, NULL));
		assert_int_equal(twt_lane_finish(&pair, op).bytes, bytes);
		assert_int_equal(next(30).status, TOW_OK);
		assert_int_equal(twt_check(out, bytes, form), 0);
		nothing();
	}
}

/* A view is the user's when its result is taken; the queue's before. */
static void views(uint64_t bytes)
{
	struct tow_op_options options = by_queue(40);
	struct tow_result result;
	struct tow_op *op;

	twt_fill(out, bytes, 4);
	TWT_OK(tow_recv_view_start(pair.peer[1], 40, &options, &op));
	assert_int_equal(tow_view_release(op), TOW_EINVAL);
	send_one(out, bytes, 40);
	await();
	assert_int_equal(tow_view_release(op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "tow_queue_take"));
	result = next(40);
	assert_ptr_equal(result.op, op);
	assert_int_equal(result.bytes, bytes);
	for (int i = 0; i < 3; i++) { /* the row and its memory are nobody else's */
		send_one(in, bytes, 41);
		TWT_OK(tow_recv_view_start(pair.peer[1], 41, NULL, &op));
		assert_int_equal(twt_lane_wait(&pair, op).status, TOW_OK);
		TWT_OK(tow_view_release(op));
	}
	assert_int_equal(twt_check(result.data, bytes, 4), 0);
	assert_int_equal(tow_op_test(result.op), TOW_OK);
	TWT_OK(tow_view_release(result.op));
	assert_int_equal(tow_view_release(result.op), TOW_EINVAL);
	nothing();
}

/* However many have come, the descriptor was written to once. */
static void must_cost_one_write(void)
{
	uint64_t writes, one = 1;
	int fd;

	TWT_OK(tow_queue_fd(queue, &fd));
	assert_int_equal(read(fd, &writes, sizeof(writes)), sizeof(writes));
	assert_int_equal(writes, 1);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one)); /* as it was */
}

/* As they complete, and not as they were started; all with one take. */
static void keeps_order(void)
{
	static const uint64_t order[] = { 3, 0, 4, 1, 2 };
	struct tow_result results[8];
	size_t count;

	for (uint64_t i = 0; i < 5; i++) {
		struct tow_op_options options = by_queue(50 + i);

		TWT_OK(tow_recv_start(pair.peer[1], in, 8, 50 + i, &options, NULL));
	}
	for (size_t i = 0; i < 5; i++) {
		send_one(out, 8, 50 + order[i]);
		twt_lane_drive(&pair, 2000000);
	}
	for (size_t i = 0; i < 8; i++)
		results[i] = (struct tow_result)TOW_RESULT_INIT;
	await();
	twt_lane_drive(&pair, 20000000);
	must_cost_one_write();
	TWT_OK(tow_queue_take(queue, results, 2, &count));
	assert_int_equal(count, 2);
	assert_true(is_readable());
	TWT_OK(tow_queue_take(queue, results + 2, 6, &count));
	assert_int_equal(count, 3);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal((uintptr_t)results[i].user, 50 + order[i]);
	nothing();
}

/* A place is a start's until its result is taken, or it was no start. */
static void fills(void)
{
	struct tow_op_options options = by_queue(60);
	struct tow_op *op, *ops[ROOM];

	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < ROOM; i++)
			TWT_OK(tow_recv_start(pair.peer[1], in, 8, 60, &options, &ops[i]));
		op = ops[0];
		assert_int_equal(tow_recv_start(pair.peer[1], in, 8, 60, &options, &op), TOW_EBUSY);
		assert_null(op);
		assert_non_null(strstr(tow_error_message(), "queue is full"));
		assert_int_equal(tow_accept_start(pair.endpoint[1], &options, NULL), TOW_EBUSY);
		for (unsigned i = 0; i < ROOM / 2; i++)
			send_one(out, 8, 60);
		await();
		assert_int_equal(tow_recv_start(pair.peer[1], in, 8, 60, &options, &op), TOW_EBUSY);
		assert_int_equal(next(60).status, TOW_OK);
		TWT_OK(tow_recv_start(pair.peer[1], in, 8, 60, &options, &op));
		for (unsigned i = 0; i < ROOM / 2; i++)
			send_one(out, 8, 60);
		for (unsigned i = 0; i < ROOM - 1; i++)
			assert_int_equal(next(60).status, TOW_OK);
		send_one(out, 8, 60);
		assert_int_equal(next(60).status, TOW_OK);
		nothing();
		for (unsigned i = 0; i < 2 * ROOM; i++) /* these could not be started */
			assert_int_equal(
				tow_connect_start(pair.endpoint[1], "nowhere://x", &options, NULL),
				TOW_EINVAL);
	}
}

/* One that is over in the start needs no place, and nothing comes of it. */
static void at_once(void)
{
	struct tow_op_options options = by_queue(70), plain = by_queue(71);
	struct tow_result result = TOW_RESULT_INIT;
	unsigned without = 0;
	struct tow_op *op;

	for (unsigned i = 0; i < ROOM - 1; i++)
		TWT_OK(tow_recv_start(pair.peer[1], in, 8, 71, &plain, NULL));
	options.flags = TOW_OP_AT_ONCE;
	options.result = &result;
	for (unsigned i = 0; i < 200; i++) {
		TWT_OK(tow_send_start(pair.peer[1], out, 8, 70, &options, &op));
		without += op == NULL;
		if (op != NULL)
			assert_int_equal(next(70).status, TOW_OK);
		nothing();
		TWT_OK(tow_recv_start(pair.peer[0], in, 8, 70, NULL, &op));
		assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
	}
	assert_true(without > 150);
	for (unsigned i = 0; i < 20; i++) { /* nobody could tell: there is a result each time */
		TWT_OK(tow_send_start(pair.peer[1], out, 8, 70, &options, NULL));
		assert_int_equal(next(70).status, TOW_OK);
		TWT_OK(tow_recv_start(pair.peer[0], in, 8, 70, NULL, &op));
		assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
	}
	for (unsigned i = 0; i < ROOM - 1; i++) {
		send_one(out, 8, 71);
		assert_int_equal(next(71).status, TOW_OK);
	}
}

static void fails(void)
{
	struct twi_diag *diag = twi_runtime_engine(pair.runtime[1])->diag;
	uint64_t untold = twi_counter_sum(diag, TWI_C_ops_forgotten_failed);
	struct tow_op_options options = by_queue(80);
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(pair.peer[1], in, 8, 80, &options, &op));
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
	TWT_OK(tow_op_cancel(op));
	result = next(80);
	assert_int_equal(result.status, TOW_ECANCELED);
	assert_ptr_equal(result.op, op);
	options.timeout_ns = 1000000;
	options.user = (void *)81;
	TWT_OK(tow_recv_start(pair.peer[1], in, 8, 81, &options, NULL));
	assert_non_null(result.message); /* it stays while others fail */
	assert_non_null(strstr(result.message, "receive"));
	TWT_OK(tow_op_release(result.op));
	result = next(81);
	assert_int_equal(result.status, TOW_EDEADLINE);
	assert_non_null(result.op);
	assert_int_equal(tow_op_test(result.op), TOW_EDEADLINE);
	TWT_OK(tow_op_release(result.op));
	assert_int_equal(twi_counter_sum(diag, TWI_C_ops_forgotten_failed), untold);
	nothing();
}

/* In flight, ended, a view, a failure: all of it goes back, or will. */
static void closes(void)
{
	struct tow_op_options options = by_queue(90);
	uint32_t used = rows_in_use(1);
	struct tow_op *op, *peeked;
	int fd;

	TWT_OK(tow_queue_fd(queue, &fd));
	TWT_OK(tow_recv_start(pair.peer[1], in, 8, 90, &options, &peeked));
	TWT_OK(tow_recv_view_start(pair.peer[1], 91, &options, NULL));
	TWT_OK(tow_recv_view_start(pair.peer[1], 92, &options, NULL));
	TWT_OK(tow_recv_start(pair.peer[1], in, 8, 93, &options, &op));
	TWT_OK(tow_op_cancel(op));
	send_one(out, LARGE, 91);
	await();
	twt_lane_drive(&pair, 5000000);
	TWT_OK(tow_queue_close(queue));
	assert_int_equal(tow_queue_close(queue), TOW_ECLOSED);
	assert_int_equal(tow_queue_fd(queue, &fd), TOW_ECLOSED);
	assert_int_equal(tow_recv_start(pair.peer[1], in, 8, 94, &options, &op), TOW_ECLOSED);
	assert_int_equal(tow_op_test(peeked), TOW_EINVAL);
	assert_int_equal(rows_in_use(1) - used, 2);
	send_one(out, 8, 90);
	send_one(out, LARGE, 92);
	for (unsigned i = 0; i < 2000 && rows_in_use(1) != used; i++)
		twt_lane_drive(&pair, 1000000);
	assert_int_equal(rows_in_use(1), used);
}

static void test_lanes(void **state)
{
	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		uint64_t in_use;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		printf("%s\n", pair.lane->name);
		TWT_OK(tow_queue_open(pair.runtime[1], ROOM, &queue));
		joins();
		in_use = twt_lane_in_use(&pair);
		receive_forms(64);
		receive_forms(LARGE);
		send_forms(64);
		send_forms(LARGE);
		views(64);
		views(LARGE);
		keeps_order();
		fills();
		at_once();
		fails();
		closes();
		twt_lane_settle(&pair, in_use, "the queue");
		TWT_OK(tow_queue_open(pair.runtime[1], ROOM, &queue));
		fills();
		twt_lane_close(&pair);
		assert_int_equal(tow_queue_close(queue), TOW_ECLOSED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
