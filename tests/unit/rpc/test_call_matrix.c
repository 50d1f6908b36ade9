/*
 * test_call_matrix.c - calls and the pieces of their streams on every lane, of every size and kind
 * of memory, taken into a buffer and as a view: the bytes are right, the connection lives on, and
 * all memory comes back. Of bodies that are longer than the pool: it grows where it may.
 */
#include "twt.h"

#include <string.h>

#include "lane_pair.h"

#define BIG    (3u << 20)
#define LONG   (1u << 20)
#define HELD   4 /* views at once */
#define MAXIMA (2 * BIG)

/* Nothing, in the slot, in the lane's area, the longest small one, large, several chunks. */
static const size_t sizes[] = { 0, 64, 4000, 16384 - 128, 300000, BIG };

static struct twt_lane_pair pair;
static struct tow_call_in *kept; /* the call whose stream the test works with */
static void *memory[2][TWT_MEMORIES];
static uint64_t handles[2][TWT_MEMORIES];
static uint64_t seed;

/* With room for all memory of a test; skips it where the lane is not there. */
static void open_pair(const struct twt_lane_row *lane)
{
	twt_lane_init(&pair, lane);
	pair.options[0].premap_memory_bytes = pair.options[1].premap_memory_bytes = 64 << 20;
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
}

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	TWT_OK(tow_reply_start(call, 0, request, bytes, NULL, NULL));
}

/* Answers with memory of the kind whose number the request is. */
static void give(struct tow_call_in *call, void *user)
{
	uint64_t bytes, wish[3];

	(void)user;
	memcpy(wish, tow_call_request(call, &bytes), sizeof(wish));
	twt_fill(memory[1][wish[0]], wish[1], wish[2]);
	TWT_OK(tow_reply_start(call, 0, memory[1][wish[0]], wish[1], NULL, NULL));
}

static void keep(struct tow_call_in *call, void *user)
{
	(void)user;
	kept = call;
}

static void check_call(struct tow_op *op, size_t bytes, const void *in, uint64_t with)
{
	struct tow_call_result result = { .size = sizeof(result) };

	if (twt_lane_wait(&pair, op).status != TOW_OK)
		fail_msg("%s, %zu bytes: %s", pair.lane->name, bytes, tow_error_message());
	TWT_OK(tow_call_result(op, &result));
	assert_int_equal(result.bytes, bytes);
	assert_int_equal(twt_check(in != NULL ? in : result.data, bytes, with), 0);
	TWT_OK(tow_op_release(op));
}

/* There and back again: the request is read where it lies, the answer is the request itself. */
static void call_cell(size_t bytes, enum twt_memory kind, bool view)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	uint8_t *out = memory[0][kind], *in = out + BIG;
	uint64_t wish[3] = { kind, bytes, ++seed };
	struct tow_op *op;

	options.flags = view ? TOW_CALL_VIEW : 0;
	twt_fill(out, bytes, ++seed);
	TWT_OK(tow_call_start(pair.peer[0], "echo", out, bytes, view ? NULL : in, view ? 0 : bytes,
			      &options, &op));
	check_call(op, bytes, view ? NULL : in, seed);
	TWT_OK(tow_call_start(pair.peer[0], "give", wish, sizeof(wish), view ? NULL : in,
			      view ? 0 : bytes, &options, &op));
	check_call(op, bytes, view ? NULL : in, wish[2]);
}

/* HELD pieces are pushed and pulled; views are given back last first. */
static void stream_cell(struct tow_stream *from, struct tow_stream *to, int reader, size_t bytes,
			enum twt_memory kind, bool view)
{
	uint8_t *out = memory[!reader][kind], *in = memory[reader][kind];
	struct tow_op *push[HELD], *pull[HELD];
	size_t apart = MAXIMA / HELD;

	bytes = bytes > apart ? apart : bytes;
	for (int i = 0; i < HELD; i++) {
		twt_fill(out + i * apart, bytes, ++seed);
		TWT_OK(tow_stream_push_start(from, out + i * apart, bytes, NULL, &push[i]));
		TWT_OK(tow_stream_pull_start(to, view ? NULL : in + i * apart, view ? 0 : bytes,
					     NULL, &pull[i]));
	}
	for (int i = 0; i < HELD; i++) {
		struct tow_result result = twt_lane_wait(&pair, pull[i]);

		if (result.status < 0)
			fail_msg("%s, piece of %zu bytes: %s", pair.lane->name, bytes,
				 tow_error_message());
		assert_int_equal(result.bytes, bytes);
		assert_int_equal(twt_check(result.data, bytes, seed - HELD + 1 + (uint64_t)i), 0);
	}
	for (int i = HELD; i-- > 0;)
		TWT_OK(tow_op_release(pull[i]));
	for (int i = 0; i < HELD; i++)
		assert_true(twt_lane_finish(&pair, push[i]).status >= 0);
}

static void stream_cells(void)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *call;

	options.flags = TOW_CALL_STREAM;
	kept = NULL;
	TWT_OK(tow_call_start(pair.peer[0], "keep", NULL, 0, NULL, 0, &options, &call));
	while (kept == NULL)
		twt_lane_turn(&pair);
	for (size_t s = 1; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int kind = 0; kind < TWT_MEMORIES; kind++) {
			for (int way = 0; way < 4; way++) {
				struct tow_stream *client = tow_call_stream(call),
						  *server = tow_call_in_stream(kept);
				bool up = way < 2;

				stream_cell(up ? client : server, up ? server : client, up,
					    sizes[s], (enum twt_memory)kind, way % 2 == 0);
			}
		}
	}
	TWT_OK(tow_reply_start(kept, 0, NULL, 0, NULL, NULL));
	assert_int_equal(twt_lane_finish(&pair, call).status, TOW_OK);
}

/* A view outlives its call, its connection at the other side, and all but the runtime. */
static void test_late_release(void **state)
{
	const struct twt_lane_row *lane = *state;
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *call, *push, *pull;
	struct tow_result result;
	uint8_t *out;

	twt_lane_init(&pair, lane);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	TWT_OK(tow_method_register(pair.runtime[1], "keep", keep, NULL, NULL));
	TWT_OK(tow_alloc(pair.runtime[0], BIG, 0, (void **)&out));
	twt_fill(out, BIG, 5);
	options.flags = TOW_CALL_STREAM;
	kept = NULL;
	TWT_OK(tow_call_start(pair.peer[0], "keep", NULL, 0, NULL, 0, &options, &call));
	while (kept == NULL)
		twt_lane_turn(&pair);
	TWT_OK(tow_stream_push_start(tow_call_stream(call), out, BIG, NULL, &push));
	TWT_OK(tow_stream_pull_start(tow_call_in_stream(kept), NULL, 0, NULL, &pull));
	result = twt_lane_wait(&pair, pull);
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(twt_lane_finish(&pair, push).status, TOW_OK);
	TWT_OK(tow_peer_close(pair.peer[0]));
	TWT_OK(tow_reply_start(kept, 0, NULL, 0, NULL, NULL));
	twt_lane_finish(&pair, call);
	twt_lane_drive(&pair, TWT_SECOND / 20);
	assert_int_equal(twt_check(result.data, BIG, 5), 0);
	TWT_OK(tow_peer_close(pair.peer[1]));
	twt_lane_drive(&pair, TWT_SECOND / 20);
	assert_int_equal(twt_check(result.data, BIG, 5), 0);
	TWT_OK(tow_op_release(pull));
	twt_lane_close(&pair);
}

/* A call that ends early while a handler has its request. */
struct early {
	char method[16];
	bool lent, late; /* with TOW_CALL_LEND; by its deadline, else by tow_op_cancel */
	enum twt_memory kind;
	uint8_t *out;
	uint64_t handle, seed;
	struct tow_op *call;
	struct tow_call_in *_Atomic in;
};

#define EARLY (4 * TWT_MEMORIES)

static void keep_early(struct tow_call_in *call, void *user)
{
	struct early *early = user;

	early->in = call;
}

static void start_early(struct early *early)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;

	options.timeout_ns = early->late ? TWT_SECOND / 2 : TOW_FOREVER;
	options.flags = early->lent ? TOW_CALL_LEND : 0;
	early->in = NULL;
	early->seed = ++seed;
	twt_fill(early->out, LONG, early->seed);
	TWT_OK(tow_call_start(pair.peer[0], early->method, early->out, LONG, NULL, 0, &options,
			      &early->call));
}

/*
 * From its end on the request's memory is the caller's, and what the handler sees stays what it
 * was, unless the caller has lent it beyond. Only a call without a deadline may wait for the
 * handler.
 */
static void check_early(struct early *early)
{
	bool ended = tow_op_test(early->call) != TOW_AGAIN;
	const void *request;
	uint64_t bytes;

	if (early->in == NULL) { /* on a slow machine its deadline was before its handler */
		assert_int_equal(twt_lane_finish(&pair, early->call).status, TOW_EDEADLINE);
		return;
	}
	request = tow_call_request(early->in, &bytes);
	assert_int_equal(bytes, LONG);
	if (!ended && (early->late || early->lent || early->kind == TWT_PLAIN))
		fail_msg("%s, %s: the call has not ended", pair.lane->name, early->method);
	if (ended && !early->lent)
		memset(early->out, 0, LONG);
	assert_int_equal(twt_check(request, LONG, early->seed), 0);
	TWT_OK(tow_reply_start(early->in, 0, NULL, 0, NULL, NULL));
	assert_int_equal(twt_lane_finish(&pair, early->call).status,
			 early->late ? TOW_EDEADLINE : TOW_ECANCELED);
}

static void end_early(struct early *all, int n)
{
	for (int i = 0; i < n; i++)
		start_early(&all[i]);
	for (int i = 0; i < n; i++) {
		while (all[i].in == NULL && tow_op_test(all[i].call) == TOW_AGAIN)
			twt_lane_turn(&pair);
		if (!all[i].late)
			TWT_OK(tow_op_cancel(all[i].call));
	}
	for (int i = 0; i < n; i++) {
		while (all[i].in != NULL && !tow_call_canceled(all[i].in))
			twt_lane_turn(&pair);
	}
	twt_lane_drive(&pair, TWT_SECOND / 20);
	for (int i = 0; i < n; i++)
		check_early(&all[i]);
}

static void test_early_end(void **state)
{
	struct early all[EARLY] = { 0 };
	uint64_t before;

	open_pair(*state);
	for (int i = 0; i < EARLY; i++) {
		struct early *early = &all[i];

		snprintf(early->method, sizeof(early->method), "keep %d", i);
		early->lent = i % 2 != 0;
		early->late = i / 2 % 2 != 0;
		early->kind = (enum twt_memory)(i / 4);
		early->out = twt_memory_get(pair.runtime[0], early->kind, LONG, &early->handle);
		TWT_OK(tow_method_register(pair.runtime[1], early->method, keep_early, early,
					   NULL));
	}
	end_early(all, 1); /* the first one makes what calls need */
	before = twt_lane_in_use(&pair);
	end_early(all, EARLY);
	twt_lane_settle(&pair, before, "calls that ended early");
	for (int i = 0; i < EARLY; i++)
		twt_memory_put(pair.runtime[0], all[i].kind, all[i].out, all[i].handle);
	twt_lane_close(&pair);
}

/* Request and answer are longer than either pool: both grow, or the caller is told at once. */
static void test_small_pool(void **state)
{
	static const char *const policies[] = { "grow", "copy", "fail" };
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	uint8_t *out = malloc(4 * BIG);
	struct tow_op *call;

	options.flags = TOW_CALL_VIEW;
	twt_fill(out, 4 * BIG, 9);
	for (int i = 0; i < 3; i++) {
		twt_lane_init(&pair, *state);
		for (int side = 0; side < 2; side++) {
			pair.options[side].premap_limit_bytes = 128 << 20;
			pair.options[side].exhaust = policies[i];
		}
		if (!twt_lane_open(&pair)) {
			free(out);
			skip();
		}
		twt_lane_join(&pair);
		TWT_OK(tow_method_register(pair.runtime[1], "echo", echo, NULL, NULL));
		TWT_OK(tow_call_start(pair.peer[0], "echo", out, 4 * BIG, NULL, 0, &options,
				      &call));
		if (i < 2)
			check_call(call, 4 * BIG, NULL, 9);
		else
			assert_int_equal(twt_lane_finish(&pair, call).status, TOW_EEXHAUSTED);
		twt_lane_close(&pair);
	}
	free(out);
}

static void test_cells(void **state)
{
	uint64_t before;

	open_pair(*state);
	TWT_OK(tow_method_register(pair.runtime[1], "echo", echo, NULL, NULL));
	TWT_OK(tow_method_register(pair.runtime[1], "give", give, NULL, NULL));
	TWT_OK(tow_method_register(pair.runtime[1], "keep", keep, NULL, NULL));
	for (int i = 0; i < 2 * TWT_MEMORIES; i++)
		memory[i % 2][i / 2] = twt_memory_get(pair.runtime[i % 2], (enum twt_memory)(i / 2),
						      MAXIMA, &handles[i % 2][i / 2]);
	call_cell(64, TWT_PLAIN, false); /* the first makes what calls need */
	before = twt_lane_in_use(&pair);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int kind = 0; kind < 2 * TWT_MEMORIES; kind++)
			call_cell(sizes[s], (enum twt_memory)(kind / 2), kind % 2 == 0);
	}
	twt_lane_settle(&pair, before, "calls");
	stream_cells();
	twt_lane_settle(&pair, before, "streams");
	for (int i = 0; i < 2 * TWT_MEMORIES; i++)
		twt_memory_put(pair.runtime[i % 2], (enum twt_memory)(i / 2), memory[i % 2][i / 2],
			       handles[i % 2][i / 2]);
	twt_lane_close(&pair);
}

int main(void)
{
	static const struct {
		const char *name;
		CMUnitTestFunction run;
	} kinds[] = { { "cells", test_cells },
		      { "late release", test_late_release },
		      { "small pool", test_small_pool },
		      { "early end", test_early_end } };
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	struct CMUnitTest tests[KINDS * TWT_LANE_ROWS];
	char names[KINDS * TWT_LANE_ROWS][64];

	for (size_t i = 0; i < KINDS * TWT_LANE_ROWS; i++) {
		const struct twt_lane_row *lane = &twt_lane_rows[i / KINDS];

		snprintf(names[i], 64, "%s: %s", kinds[i % KINDS].name, lane->name);
		tests[i] = (struct CMUnitTest){ names[i], kinds[i % KINDS].run, NULL, NULL,
						(void *)(uintptr_t)lane };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
