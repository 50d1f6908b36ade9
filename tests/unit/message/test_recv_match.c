/*
 * test_recv_match.c - what tow_recv_match_start and tow_probe refuse, each with its status and a
 * message that says why; and what a probe sees, over the loop lane.
 */
#include "twt.h"

#include "pair.h"

#include <string.h>

#include <towline/towline.h>

static struct tow_runtime *runtime;
static struct tow_endpoint *left, *right, *other;
static struct tow_peer *client, *server;
static char room[64];

static void refused(int status, int wanted, const char *why)
{
	assert_int_equal(status, wanted);
	assert_non_null(strstr(tow_error_message(), why));
}

static struct tow_match of_server(uint64_t tag, uint64_t mask)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = server;
	match.tag = tag;
	match.tag_mask = mask;
	return match;
}

/* A receive that must be refused leaves no operation. */
static void refuse_recv(struct tow_endpoint *endpoint, const struct tow_match *match,
			const struct tow_part *parts, uint32_t count, int status, const char *why)
{
	struct tow_op *op = (struct tow_op *)(void *)room;

	refused(tow_recv_match_start(endpoint, match, parts, count, NULL, &op), status, why);
	assert_null(op);
}

static void test_arguments(void **state)
{
	const struct tow_part part = { room, sizeof(room) }, nowhere = { NULL, 8 };
	const struct tow_part endless = { room, 1ull << 63 };
	struct tow_match match = of_server(1, UINT64_MAX), wrong = match;

	(void)state;
	refuse_recv(NULL, &match, &part, 1, TOW_EINVAL, "endpoint is NULL");
	refuse_recv(right, NULL, &part, 1, TOW_EINVAL, "match is NULL");
	refuse_recv(right, &match, NULL, 1, TOW_EINVAL, "parts is NULL");
	for (int exact = 0; exact < 2; exact++) {
		match.tag_mask = exact ? UINT64_MAX : 0;
		refuse_recv(right, &match, &nowhere, 1, TOW_EINVAL, "tow_recv_");
		refuse_recv(right, &match, &endless, 1, TOW_EINVAL, "2^63-1");
		refused(tow_recv_match_start(right, &match, &part, 1, NULL, NULL), TOW_EINVAL,
			"the received message could not be found");
	}
	refuse_recv(right, &match, &part, TOW_PARTS_MAX + 1, TOW_EINVAL, "TOW_PARTS_MAX, 1024");
	refuse_recv(left, &match, &part, 1, TOW_EINVAL, "no peer of endpoint");
	wrong.size = 3;
	refuse_recv(right, &wrong, &part, 1, TOW_EINVAL, "TOW_MATCH_INIT");
}

static void test_probe_arguments(void **state)
{
	struct tow_match match = of_server(1, UINT64_MAX), wrong = match;
	struct tow_result result = TOW_RESULT_INIT;

	(void)state;
	refused(tow_probe(NULL, &match, &result), TOW_EINVAL, "endpoint is NULL");
	refused(tow_probe(right, NULL, &result), TOW_EINVAL, "match is NULL");
	refused(tow_probe(right, &match, NULL), TOW_EINVAL, "tow_probe");
	refused(tow_probe(left, &match, &result), TOW_EINVAL, "no peer of endpoint");
	wrong.size = 3;
	refused(tow_probe(right, &wrong, &result), TOW_EINVAL, "TOW_MATCH_INIT");
	result.size = 3;
	refused(tow_probe(right, &match, &result), TOW_EINVAL, "TOW_RESULT_INIT");
}

static void send_tag(uint64_t tag, const char *text)
{
	struct tow_op *op;

	assert_int_equal(tow_send_start(client, text, strlen(text), tag, NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
}

/* Probes until something is there. */
static struct tow_result probed(const struct tow_match *match)
{
	struct tow_result result = TOW_RESULT_INIT;
	int status;

	while ((status = tow_probe(right, match, &result)) == TOW_AGAIN)
		;
	assert_int_equal(status, TOW_OK);
	return result;
}

/* What is probed stays, and is what a receive then gets. */
static void test_probe(void **state)
{
	const struct tow_match any = of_server(0, 0), odd = of_server(1, 1);
	const struct tow_match seven = of_server(7, UINT64_MAX), none = of_server(8, UINT64_MAX);
	const struct tow_part part = { room, sizeof(room) };
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *op;

	(void)state;
	assert_int_equal(tow_probe(right, &any, &result), TOW_AGAIN);
	send_tag(4, "four");
	send_tag(7, "seven");
	result = probed(&odd);
	assert_int_equal(result.tag, 7);
	assert_int_equal(result.bytes, 5);
	assert_ptr_equal(result.peer, server);
	assert_int_equal(probed(&any).tag, 4);
	assert_int_equal(probed(&seven).rpc_id, result.rpc_id);
	assert_int_equal(tow_probe(right, &none, &result), TOW_AGAIN);
	assert_int_equal(tow_recv_match_start(right, &odd, &part, 1, NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, &result), TOW_OK);
	assert_int_equal(result.tag, 7);
	assert_memory_equal(room, "seven", 5);
	assert_int_equal(tow_probe(right, &odd, &result), TOW_AGAIN);
	assert_int_equal(tow_recv_match_start(right, &any, NULL, 0, NULL, &op), TOW_OK);
	assert_int_equal(twt_wait_for(op, &result), TOW_OK);
	assert_int_equal(result.tag, 4);
	assert_memory_equal(result.data, "four", 4);
	assert_int_equal(tow_view_release(op), TOW_OK);
}

/* A receive that takes some tags is no obstacle to those for others. */
static void test_order_with_others(void **state)
{
	static const uint64_t tags[] = { 3, 2, 3 };
	const struct tow_match odd = of_server(1, 1);
	char texts[3][8];
	struct tow_op *ops[3];
	struct tow_result result = TOW_RESULT_INIT;

	(void)state;
	for (int i = 0; i < 3; i++) {
		const struct tow_part part = { texts[i], sizeof(texts[i]) };

		if (i == 0)
			assert_int_equal(tow_recv_match_start(right, &odd, &part, 1, NULL, &ops[i]),
					 TOW_OK);
		else
			assert_int_equal(tow_recv_start(server, texts[i], sizeof(texts[i]), tags[i],
							NULL, &ops[i]),
					 TOW_OK);
	}
	send_tag(2, "b");
	send_tag(3, "a");
	send_tag(3, "c");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(twt_finish(ops[i], &result), TOW_OK);
		assert_int_equal(result.tag, tags[i]);
		assert_int_equal(texts[i][0], 'a' + i);
	}
}

static void test_closed(void **state)
{
	const struct tow_part part = { room, sizeof(room) };
	struct tow_match match = of_server(0, 0);
	struct tow_result result = TOW_RESULT_INIT;

	(void)state;
	assert_int_equal(tow_peer_close(client), TOW_OK);
	while (tow_probe(right, &match, &result) == TOW_AGAIN)
		;
	refused(tow_probe(right, &match, &result), TOW_EPEER, "tow_probe");
	assert_int_equal(tow_peer_close(server), TOW_OK);
	refuse_recv(right, &match, &part, 1, TOW_ECLOSED, "peer");
	refused(tow_probe(right, &match, &result), TOW_ECLOSED, "peer");
	assert_int_equal(tow_endpoint_close(other), TOW_OK);
	refuse_recv(other, &match, &part, 1, TOW_ECLOSED, "endpoint");
	refused(tow_probe(other, &match, &result), TOW_ECLOSED, "endpoint");
}

/* Its peers stay when an endpoint is closed, and can be named by none. */
static void test_endpoint_closed(void **state)
{
	const struct tow_part part = { room, sizeof(room) };
	const struct tow_match match = of_server(0, 0);

	(void)state;
	assert_int_equal(tow_endpoint_close(right), TOW_OK);
	refuse_recv(left, &match, &part, 1, TOW_EINVAL, "no peer of endpoint");
}

static int set_up(void **state)
{
	struct tow_op *connect, *accept;

	(void)state;
	runtime = twt_runtime(4 << 20);
	TWT_OK(tow_endpoint_open(runtime, "loop://left", &left));
	TWT_OK(tow_endpoint_open(runtime, "loop://right", &right));
	TWT_OK(tow_endpoint_open(runtime, "loop://other", &other));
	TWT_OK(tow_accept_start(right, NULL, &accept));
	TWT_OK(tow_connect_start(left, "loop://right", NULL, &connect));
	client = twt_finish_peer(connect);
	server = twt_finish_peer(accept);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return tow_runtime_close(runtime);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_arguments, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_probe_arguments, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_probe, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order_with_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_closed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_endpoint_closed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
