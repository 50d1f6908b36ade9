/*
 * test_span_kinds.c - each kind of span from what causes it, in one runtime over the loop lane:
 * messages, calls, fallback copies, registrations before and after the seal, device copies, waits.
 */
#include "pair.h"

#include "twt.h"

#include "diag/record/counter.h"
#include "diag/trace/trace.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define BIG 200000u

struct fixture {
	struct tow_runtime *runtime;
	struct tow_peer *left, *right;
	struct twi_trace trace;
	uint64_t begin_ns;
};

static struct fixture f;

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	TWT_OK(twt_finish(op, &result));
	return result.peer;
}

static int setup(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *left, *right;
	struct tow_op *accept, *connect;

	(void)state;
	memset(&f, 0, sizeof(f));
	options.premap_memory_bytes = 16 << 20;
	options.stats = 0;
	options.span_sample = 1;
	TWT_OK(tow_runtime_open(&options, &f.runtime));
	TWT_OK(tow_endpoint_open(f.runtime, "loop://left", &left));
	TWT_OK(tow_endpoint_open(f.runtime, "loop://right", &right));
	TWT_OK(tow_accept_start(right, NULL, &accept));
	TWT_OK(tow_connect_start(left, "loop://right", NULL, &connect));
	f.left = peer_of(connect);
	f.right = peer_of(accept);
	f.begin_ns = twi_now_ns();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	twi_trace_fini(&f.trace);
	return tow_runtime_close(f.runtime);
}

static void look(uint64_t begin_ns)
{
	twi_trace_fini(&f.trace);
	assert_int_equal(twi_trace_read(twi_runtime_engine(f.runtime)->diag, begin_ns, &f.trace),
			 TOW_OK);
}

/* The only one of its kind and bytes. */
static const struct twi_span *only(enum twi_span_kind kind, uint64_t bytes)
{
	const struct twi_trace_rank *rank = &f.trace.ranks[0];
	const struct twi_span *found = NULL;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];

			if (span->kind != kind || span->bytes != bytes)
				continue;
			if (found != NULL)
				fail_msg("more than one %s of %llu bytes", twi_span_kind_name(kind),
					 (unsigned long long)bytes);
			found = span;
		}
	}
	if (found == NULL)
		fail_msg("no %s of %llu bytes", twi_span_kind_name(kind),
			 (unsigned long long)bytes);
	return found;
}

static const char *name_of(const struct twi_span *span)
{
	assert_in_range(span->name, 1, f.trace.ranks[0].name_count);
	return f.trace.ranks[0].names[span->name - 1];
}

static const char *peer_name(const struct twi_span *span)
{
	assert_in_range(span->peer, 1, f.trace.ranks[0].peer_count);
	return f.trace.ranks[0].peers[span->peer - 1].name;
}

static void message(uint64_t bytes, bool late)
{
	static uint8_t in[BIG], out[BIG];
	struct tow_op *send, *recv = NULL;

	if (!late)
		TWT_OK(tow_recv_start(f.right, in, bytes, bytes, NULL, &recv));
	TWT_OK(tow_send_start(f.left, out, bytes, bytes, NULL, &send));
	for (int i = 0; late && i < 100; i++)
		tow_progress(f.runtime);
	if (late)
		TWT_OK(tow_recv_start(f.right, in, bytes, bytes, NULL, &recv));
	TWT_OK(twt_finish(recv, NULL));
	TWT_OK(twt_finish(send, NULL));
}

static void messages(void **state)
{
	const uint64_t sizes[] = { 100, BIG };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct twi_span *send, *recv;

		message(sizes[i], false);
		look(f.begin_ns);
		send = only(TWI_SPAN_SEND, sizes[i]);
		recv = only(TWI_SPAN_RECV, sizes[i]);
		assert_true(send->id != 0 && send->id == recv->id);
		assert_int_equal(send->lane, TWI_LANE_LOOP);
		assert_int_equal(send->status, TOW_OK);
		assert_true(recv->match_ns == recv->queue_ns);
		assert_true((uint64_t)send->queue_ns + send->wire_ns <=
			    send->end_ns - send->start_ns);
		assert_true((uint64_t)recv->queue_ns + recv->wire_ns <=
			    recv->end_ns - recv->start_ns);
		assert_true(send->peer != recv->peer);
		assert_non_null(strstr(peer_name(send), "loop://"));
	}
}

/* A receive whose time runs out is told of, whatever is passed over. */
static void failed(void **state)
{
	struct tow_op_options options = { .size = sizeof(options), .timeout_ns = 20000000 };
	const struct twi_span *recv, *wait;
	struct tow_op *op;
	uint8_t in[77];

	(void)state;
	twi_span_sample(twi_runtime_engine(f.runtime)->diag, 1024);
	TWT_OK(tow_recv_start(f.right, in, sizeof(in), 5, &options, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	look(f.begin_ns);
	recv = only(TWI_SPAN_RECV, 0);
	assert_int_equal(recv->status, TOW_EDEADLINE);
	assert_int_equal(recv->id, 0);
	wait = only(TWI_SPAN_WAIT, 0);
	assert_int_equal(wait->detail, TWI_SPAN_RECV);
	assert_int_equal(wait->status, TOW_EDEADLINE);
	assert_true(wait->end_ns - wait->start_ns >= 10000000);
}

static void copies(void **state)
{
	const struct twi_span *copy;

	(void)state;
	TWT_OK(tow_tag_set("late layer"));
	message(333, true);
	TWT_OK(tow_tag_set(NULL));
	look(f.begin_ns);
	copy = only(TWI_SPAN_COPY, 333);
	assert_int_equal(copy->detail, TWI_R_unexpected_arrival);
	assert_string_equal(name_of(copy), "late layer");
	assert_true(copy->end_ns >= copy->start_ns);
}

static void registrations(void **state)
{
	static uint8_t early[1 << 16] __attribute__((aligned(4096)));
	static uint8_t late[3 << 16] __attribute__((aligned(4096)));
	const struct twi_span *span;
	uint64_t first, second;
	unsigned told = 0;
	char *pool;

	(void)state;
	TWT_OK(tow_mem_register(f.runtime, early, sizeof(early), &first));
	TWT_OK(tow_runtime_seal(f.runtime));
	TWT_OK(tow_mem_register(f.runtime, late, sizeof(late), &second));
	look(f.begin_ns);
	/* Each ring that registers is told apart; a late one stands once, with its reason. */
	for (size_t t = 0; t < f.trace.ranks[0].thread_count; t++) {
		for (size_t i = 0; i < f.trace.ranks[0].threads[t].span_count; i++) {
			span = &f.trace.ranks[0].threads[t].spans[i];
			if (span->kind != TWI_SPAN_REGISTER || span->bytes != sizeof(early))
				continue;
			assert_int_equal(span->detail, TWI_R_COUNT);
			assert_true(strlen(name_of(span)) > 0);
			told++;
		}
	}
	TWT_OK(tow_stats_get(f.runtime, "/v1/pool", &pool));
	assert_int_equal(told > 0, strstr(pool, "\"registered\":true") != NULL);
	tow_stats_release(pool);
	assert_int_equal(only(TWI_SPAN_REGISTER, sizeof(late))->detail, TWI_R_late_register);
	TWT_OK(tow_mem_deregister(f.runtime, first));
	TWT_OK(tow_mem_deregister(f.runtime, second));
}

static void answer(struct tow_call_in *call, void *user)
{
	uint64_t bytes;

	(void)user;
	tow_call_request(call, &bytes);
	TWT_OK(tow_reply_start(call, bytes == 11 ? 7 : 0, "12345", 5, NULL, NULL));
}

static void calls(void **state)
{
	struct tow_call_result result = { .size = sizeof(result) };
	const struct twi_span *call, *serve;
	char in[64];

	(void)state;
	TWT_OK(tow_method_register(f.runtime, "answer", answer, NULL, NULL));
	TWT_OK(tow_call(f.left, "answer", "question", 8, in, sizeof(in), 20 * TWT_SECOND, &result));
	look(f.begin_ns);
	call = only(TWI_SPAN_CALL, 13);
	serve = only(TWI_SPAN_SERVE, 13);
	assert_true(call->id != 0 && call->id == serve->id);
	assert_string_equal(name_of(call), "answer");
	assert_string_equal(name_of(serve), "answer");
	assert_int_equal(call->status, TOW_OK);
	assert_true(call->start_ns <= serve->start_ns && serve->start_ns <= serve->end_ns);
	assert_true(call->peer != 0 && serve->peer != 0);
	assert_int_equal(call->end_ns - call->start_ns, result.total_ns);
	assert_int_equal(tow_call(f.left, "answer", "longquestion", 11, in, sizeof(in),
				  20 * TWT_SECOND, &result),
			 TOW_EREMOTE);
	look(f.begin_ns);
	assert_int_equal(only(TWI_SPAN_SERVE, 16)->status, TOW_EREMOTE);
}

static void devices(void **state)
{
	struct tow_device_memory *memory;
	struct tow_device *device;
	struct tow_op *op;
	void *host;

	(void)state;
	TWT_OK(tow_device_open(f.runtime, "fake:", &device));
	TWT_OK(tow_device_alloc(device, 5000, &memory));
	TWT_OK(tow_alloc(f.runtime, 5000, 0, &host));
	TWT_OK(tow_device_copy_start(device, TOW_TO_DEVICE, memory, 0, host, 4000, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_device_copy_start(device, TOW_FROM_DEVICE, memory, 0, host, 3000, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	look(f.begin_ns);
	assert_int_equal(only(TWI_SPAN_DEVICE, 4000)->detail, 0);
	assert_int_equal(only(TWI_SPAN_DEVICE, 3000)->detail, 1);
	assert_int_equal(only(TWI_SPAN_DEVICE, 3000)->lane, TWI_SPAN_NO_LANE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(messages, setup, teardown),
		cmocka_unit_test_setup_teardown(failed, setup, teardown),
		cmocka_unit_test_setup_teardown(copies, setup, teardown),
		cmocka_unit_test_setup_teardown(registrations, setup, teardown),
		cmocka_unit_test_setup_teardown(calls, setup, teardown),
		cmocka_unit_test_setup_teardown(devices, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
