/*
 * test_auto.c - tow:// between two processes: the lane that is there is found, the peer says why,
 * and knobs keep lanes and interfaces out.
 */
#include "pair.h"

#include <jansson.h>

#include "twt.h"

#include "transport/lanes/auto/auto_address.h"

#define POOL (16 << 20)

static json_t *peers_of(struct tow_runtime *runtime)
{
	json_t *document;
	char *text;

	TWT_OK(tow_stats_get(runtime, "/v1/peers", &text));
	document = json_loads(text, 0, NULL);
	tow_stats_release(text);
	assert_non_null(document);
	return document;
}

static int echo(struct twt_side *side, void *arg)
{
	uint64_t value = 0;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_recv_start(side->peer, &value, sizeof(value), 1, NULL, &op));
	if (twt_finish(op, NULL) != TOW_OK)
		return 1;
	value++;
	TWT_OK(tow_send_start(side->peer, &value, sizeof(value), 2, NULL, &op));
	if (twt_finish(op, NULL) != TOW_OK)
		return 2;
	TWT_OK(tow_recv_start(side->peer, &value, sizeof(value), 3, NULL, &op));
	return twt_finish(op, NULL) == TOW_EPEER ? 0 : 3;
}

static void exchange(struct twt_side *side)
{
	uint64_t out = 41, in = 0;
	struct tow_op *op;

	TWT_OK(tow_send_start(side->peer, &out, sizeof(out), 1, NULL, NULL));
	TWT_OK(tow_recv_start(side->peer, &in, sizeof(in), 2, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
	assert_int_equal(in, 42);
}

static void test_two_processes(void **state)
{
	struct twt_side side;
	json_t *document, *peer;
	const char *why;

	(void)state;
	twt_pair(&side, "tow://", POOL, echo, NULL);
	exchange(&side);
	document = peers_of(side.runtime);
	peer = json_array_get(json_object_get(document, "peers"), 0);
	why = json_string_value(json_object_get(peer, "why"));
	assert_non_null(why);
	assert_non_null(strstr(why, json_string_value(json_object_get(peer, "lane"))));
	json_decref(document);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* By the knob: the network, though the peer is on this host, at the host that was asked for. */
static void test_tcp_alone(void **state)
{
	struct twt_side side;
	char address[TOW_ADDRESS_MAX];
	struct twi_auto_address parts;
	json_t *document, *peer;

	(void)state;
	setenv("TOW_LANES", "tcp", 1);
	twt_pair(&side, "tow://127.0.0.1", POOL, echo, NULL);
	unsetenv("TOW_LANES");
	exchange(&side);
	TWT_OK(tow_endpoint_address(side.endpoint, address, sizeof(address)));
	assert_int_equal(twi_auto_address_get(address + 6, &parts), TOW_OK);
	assert_int_equal(parts.parts[TWI_LANE_TCP].in4_count, 1);
	assert_memory_equal(parts.parts[TWI_LANE_TCP].in4[0], "\x7f\0\0\1", 4);
	assert_int_equal(parts.parts[TWI_LANE_TCP].in6_count, 0);
	assert_string_equal(parts.parts[TWI_LANE_SHM].name, "");
	assert_int_equal(parts.parts[TWI_LANE_OFI].raw_bytes, 0);
	document = peers_of(side.runtime);
	peer = json_array_get(json_object_get(document, "peers"), 0);
	assert_string_equal(json_string_value(json_object_get(peer, "lane")), "tcp");
	json_decref(document);
	assert_int_equal(twt_pair_end(&side), 0);
}

static struct tow_runtime *runtime_with(const char *lanes, const char *interfaces)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.lanes = lanes;
	options.interfaces = interfaces;
	return tow_runtime_open(&options, &runtime) == TOW_OK ? runtime : NULL;
}

/* The first address does not answer: the second does. */
static void test_next_address(void **state)
{
	struct tow_runtime *runtime = runtime_with("tcp", NULL);
	struct tow_endpoint *here, *there;
	struct twi_auto_address parts;
	struct tow_op *accept, *dial;
	struct tow_result result;
	char address[TOW_ADDRESS_MAX];
	json_t *document, *peer;

	(void)state;
	TWT_OK(tow_endpoint_open(runtime, "tow://127.0.0.1", &here));
	TWT_OK(tow_endpoint_open(runtime, "tow://127.0.0.1", &there));
	TWT_OK(tow_endpoint_address(there, address, sizeof(address)));
	assert_int_equal(twi_auto_address_get(address + 6, &parts), TOW_OK);
	parts.parts[TWI_LANE_TCP].in4_count = 2;
	memcpy(parts.parts[TWI_LANE_TCP].in4[1], parts.parts[TWI_LANE_TCP].in4[0], 4);
	/* 127.0.0.99: nobody listens there. */
	memcpy(parts.parts[TWI_LANE_TCP].in4[0], "\x7f\0\0\x63", 4);
	assert_int_equal(twi_auto_address_put(&parts, address), TOW_OK);
	TWT_OK(tow_accept_start(there, NULL, &accept));
	TWT_OK(tow_connect_start(here, address, NULL, &dial));
	assert_int_equal(twt_finish(dial, &result), TOW_OK);
	assert_int_equal(twt_finish(accept, NULL), TOW_OK);
	document = peers_of(runtime);
	peer = json_array_get(json_object_get(document, "peers"), 0);
	for (size_t i = 0; i < json_array_size(json_object_get(document, "peers")); i++) {
		const char *why;

		peer = json_array_get(json_object_get(document, "peers"), i);
		why = json_string_value(json_object_get(peer, "why"));
		if (strstr(why, "by the other side") == NULL)
			assert_non_null(strstr(why, "tcp: TOW_EREFUSED"));
	}
	json_decref(document);
	TWT_OK(tow_runtime_close(runtime));
}

static void test_knobs(void **state)
{
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct twi_auto_address parts;
	char address[TOW_ADDRESS_MAX];

	(void)state;
	assert_null(runtime_with("tcp,carrier-pigeon", NULL));
	assert_non_null(strstr(tow_error_message(), "carrier-pigeon"));
	assert_null(runtime_with("tcp,", NULL));
	runtime = runtime_with("tcp", "lo");
	assert_non_null(runtime);
	TWT_OK(tow_endpoint_open(runtime, "tow://", &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	assert_int_equal(twi_auto_address_get(address + 6, &parts), TOW_OK);
	for (unsigned i = 0; i < parts.parts[TWI_LANE_TCP].in4_count; i++)
		assert_int_equal(parts.parts[TWI_LANE_TCP].in4[i][0], 127);
	assert_int_equal(tow_endpoint_open(runtime, "tow://127.0.0.1:80", &endpoint), TOW_EINVAL);
	assert_int_equal(tow_endpoint_open(runtime, "tow://no.such.host.invalid", &endpoint),
			 TOW_EINVAL);
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_tcp_alone),
		cmocka_unit_test(test_next_address),
		cmocka_unit_test(test_knobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
