/* test_stats_metrics.c - /metrics and /v1/latency of real traffic, and of peers with any name. */
#include "twt.h"

#include <jansson.h>
#include <sys/wait.h>

#include <towline/towline.h>

#include "client.h"
#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "diag/serve/render.h"
#include "pair.h"

/* A peer's name has what text can have: quotes, line ends, braces, other alphabets, no UTF-8. */
static const char hostile[] = "tcp://a\\b\"c\nd}e{f,g=\"#\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";

static void any_name_is_readable(void **state)
{
	struct twi_latency_row *rows[3] = { NULL };
	struct twi_latency_reading reading = { .lane = TWI_LANE_TCP, .bytes = 100 };
	struct twi_emit e = { 0 };
	struct twi_diag *diag;
	char *text;
	int status;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	for (unsigned i = 0; i < 300; i++) {
		uint64_t ns = 100ull << i % 38;

		reading.id = UINT64_MAX - i;
		reading.parts_ns[TWI_LATENCY_TOTAL] = ns;
		reading.parts_ns[TWI_LATENCY_QUEUE] = ns / 3;
		reading.parts_ns[TWI_LATENCY_WIRE] = ns - ns / 3;
		reading.parts_ns[TWI_LATENCY_MATCH] = TWI_LATENCY_UNKNOWN;
		reading.parts_ns[TWI_LATENCY_SERVER_QUEUE] = TWI_LATENCY_UNKNOWN;
		reading.parts_ns[TWI_LATENCY_SERVE] = TWI_LATENCY_UNKNOWN;
		twi_latency_note(diag, &rows[0], hostile, &reading);
		twi_latency_note(diag, &rows[1], "\xff\xfe\x80 no text\r\n", &reading);
		twi_latency_note(diag, &rows[2], "", &reading);
	}
	assert_int_equal(twi_registry_render(diag, "/metrics", &e), TOW_OK);
	assert_int_equal(twi_emit_take(&e, &text), TOW_OK);
	status = twt_python("openmetrics.py", hostile, text);
	free(text);
	twi_diag_destroy(diag);
	if (status == 77) {
		print_message("skip: no python3 with prometheus_client\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* Two peers of one process, by TCP. */
struct both {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *here, *there;
	void *memory[2];
	char address[TOW_ADDRESS_MAX];
};

static void exchange(struct both *both, uint64_t bytes)
{
	struct tow_op *send, *recv;

	TWT_OK(tow_send_start(both->here, both->memory[0], bytes, 1, NULL, &send));
	TWT_OK(tow_recv_start(both->there, both->memory[1], bytes, 1, NULL, &recv));
	TWT_OK(twt_finish(recv, NULL));
	TWT_OK(twt_finish(send, NULL));
}

static json_t *document(struct tow_runtime *runtime, const char *path)
{
	char *text;
	json_t *root;

	assert_int_equal(tow_stats_get(runtime, path, &text), TOW_OK);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	tow_stats_release(text);
	return root;
}

static json_int_t number(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

/* Peers add up to their row; parts are there, and no part is longer than the whole. */
static void check_row(const json_t *row)
{
	static const char *const parts[] = { "queue_ns", "wire_ns", "match_ns" };
	const json_t *one, *peers = json_object_get(row, "peers");
	json_int_t count = 0;
	size_t i;

	json_array_foreach(peers, i, one) count += number(one, "count");
	assert_int_equal(count, number(row, "count"));
	assert_int_equal(number(json_object_get(json_object_get(row, "parts"), "wire"), "count"),
			 count);
	assert_true(json_array_size(json_object_get(row, "worst")) > 0);
	json_array_foreach(json_object_get(row, "worst"), i, one)
	{
		json_int_t sum = 0;

		for (size_t part = 0; part < 3; part++) {
			const json_t *value = json_object_get(one, parts[part]);

			sum += value != NULL ? json_integer_value(value) : 0;
		}
		assert_int_equal(sum, number(one, "total_ns"));
		assert_true(number(one, "rpc_id") > 0);
		assert_in_range(number(one, "bytes"), number(row, "bytes_min"),
				(json_int_t)1 << 40);
		assert_int_equal(number(json_array_get(json_object_get(row, "worst"), 0),
					"total_ns") >= number(one, "total_ns"),
				 1);
	}
}

static void open_both(struct both *both)
{
	struct tow_op *accept, *connect;
	struct tow_result result;

	both->runtime = twt_runtime(32 << 20);
	TWT_OK(tow_endpoint_open(both->runtime, "tcp://127.0.0.1:0", &both->endpoint));
	TWT_OK(tow_endpoint_address(both->endpoint, both->address, sizeof(both->address)));
	TWT_OK(tow_accept_start(both->endpoint, NULL, &accept));
	TWT_OK(tow_connect_start(both->endpoint, both->address, NULL, &connect));
	TWT_OK(twt_finish(accept, &result));
	both->there = result.peer;
	TWT_OK(twt_finish(connect, &result));
	both->here = result.peer;
	for (unsigned i = 0; i < 2; i++)
		TWT_OK(tow_alloc(both->runtime, 1 << 20, 64, &both->memory[i]));
}

static void real_traffic(void **state)
{
	struct both both;
	json_t *root, *rows, *row;
	size_t i;
	char *text;
	int status;

	(void)state;
	open_both(&both);
	memset(both.memory[0], 1, 1 << 20);
	for (i = 0; i < 300; i++)
		exchange(&both, i % 3 == 0 ? 8 : i % 3 == 1 ? 4096 : 1 << 20);
	root = document(both.runtime, "/v1/latency");
	rows = json_object_get(root, "rpcs");
	assert_int_equal(json_array_size(rows), 3);
	json_array_foreach(rows, i, row) check_row(row);
	/* the large ones waited for their receive, however shortly */
	row = json_array_get(rows, 2);
	assert_int_equal(number(row, "count"), 100);
	assert_int_equal(number(json_object_get(json_object_get(row, "parts"), "match"), "count"),
			 100);
	json_decref(root);
	assert_int_equal(tow_stats_get(both.runtime, "/metrics", &text), TOW_OK);
	status = twt_python("openmetrics.py", both.address, text);
	tow_stats_release(text);
	assert_int_equal(tow_runtime_close(both.runtime), TOW_OK);
	if (status != 77)
		assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_name_is_readable),
		cmocka_unit_test(real_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
