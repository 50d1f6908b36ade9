/*
 * test_any_peer.c - receives and probes of any peer of an endpoint, over the loop lane: turns,
 * order beside receives of one peer, peers that come and go, and what ends them.
 */
#include "twt.h"

#include "pair.h"

#include <string.h>

#include <towline/towline.h>

#define CLIENTS 3
#define LARGE   300000

static struct tow_runtime *runtime;
static struct tow_endpoint *here, *there;
static struct tow_peer *clients[CLIENTS], *servers[CLIENTS];
static char texts[8][16];

static struct tow_match any_of(uint64_t tag, uint64_t mask)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.tag = tag;
	match.tag_mask = mask;
	return match;
}

static struct tow_op *recv_any(unsigned place, uint64_t tag, uint64_t mask)
{
	const struct tow_part part = { texts[place], sizeof(texts[place]) };
	const struct tow_match match = any_of(tag, mask);
	struct tow_op *op;

	TWT_OK(tow_recv_match_start(here, &match, &part, 1, NULL, &op));
	return op;
}

static void send_text(unsigned from, uint64_t tag, const char *text)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(clients[from], text, strlen(text) + 1, tag, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
}

static void got(struct tow_op *op, unsigned from, uint64_t tag, unsigned place, const char *text)
{
	struct tow_result result = TOW_RESULT_INIT;

	assert_int_equal(twt_finish(op, &result), TOW_OK);
	assert_ptr_equal(result.peer, servers[from]);
	assert_int_equal(result.tag, tag);
	assert_int_equal(result.bytes, strlen(text) + 1);
	assert_string_equal(texts[place], text);
}

/* So many messages wait for a receive. */
static void await_waiting(unsigned count)
{
	const struct tow_match any = any_of(0, 0);
	struct tow_result result = TOW_RESULT_INIT;
	unsigned seen;

	do {
		char *text, *at;

		(void)tow_probe(here, &any, &result);
		TWT_OK(tow_stats_get(runtime, "/v1/peers", &text));
		seen = 0;
		for (at = text; (at = strstr(at, "\"unexpected_messages\":")) != NULL; at++)
			seen += (unsigned)strtoul(at + strlen("\"unexpected_messages\":"), NULL,
						  10);
		tow_stats_release(text);
	} while (seen != count);
}

static void test_whoever_sends(void **state)
{
	struct tow_op *first = recv_any(0, 0, 0), *second = recv_any(1, 7, UINT64_MAX);

	(void)state;
	send_text(1, 5, "five");
	got(first, 1, 5, 0, "five");
	send_text(0, 6, "six");
	send_text(2, 7, "seven");
	got(second, 2, 7, 1, "seven");
	got(recv_any(2, 0, 0), 0, 6, 2, "six");
}

/* One order holds for receives of one peer and of any. */
static void test_order(void **state)
{
	struct tow_op *named, *late, *early = recv_any(0, 0, 0);

	(void)state;
	TWT_OK(tow_recv_start(servers[0], texts[1], sizeof(texts[1]), 3, NULL, &named));
	late = recv_any(2, 3, UINT64_MAX);
	send_text(0, 3, "first");
	send_text(0, 3, "second");
	send_text(0, 3, "third");
	got(early, 0, 3, 0, "first");
	got(named, 0, 3, 1, "second");
	got(late, 0, 3, 2, "third");
}

/* Of messages that wait at several peers none is left behind for long. */
static void test_turns(void **state)
{
	const struct tow_match any = any_of(0, 0);
	struct tow_result result = TOW_RESULT_INIT;
	unsigned seen[CLIENTS] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 2 * CLIENTS; i++)
		send_text(i % CLIENTS, i, "wait");
	await_waiting(2 * CLIENTS);
	assert_int_equal(tow_probe(here, &any, &result), TOW_OK);
	assert_non_null(result.peer);
	for (unsigned i = 0; i < 2 * CLIENTS; i++) {
		assert_int_equal(twt_finish(recv_any(0, 0, 0), &result), TOW_OK);
		for (unsigned j = 0; j < CLIENTS; j++)
			seen[j] += result.peer == servers[j];
		for (unsigned j = 0; j < CLIENTS; j++)
			assert_true(seen[j] >= (i + 1) / CLIENTS);
	}
	assert_int_equal(tow_probe(here, &any, &result), TOW_AGAIN);
}

/* A message may have come before the user had the peer. */
static void test_accepted_later(void **state)
{
	struct tow_op *op = recv_any(0, 0, 0), *connect, *send;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_peer *client, *server;

	(void)state;
	TWT_OK(tow_connect_start(there, "loop://here", NULL, &connect));
	client = twt_finish_peer(connect);
	TWT_OK(tow_send_start(client, "early", 6, 9, NULL, &send));
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	for (int i = 0; i < 100; i++)
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
	server = twt_accept(here);
	assert_int_equal(twt_finish(op, &result), TOW_OK);
	assert_ptr_equal(result.peer, server);
	assert_string_equal(texts[0], "early");
	TWT_OK(tow_peer_close(client));
	TWT_OK(tow_peer_close(server));
}

/* Peers go, by themselves or closed here: it waits for the others. */
static void test_peers_go(void **state)
{
	struct tow_op *op = recv_any(0, 1, UINT64_MAX), *named;

	(void)state;
	send_text(0, 2, "left behind");
	await_waiting(1);
	TWT_OK(tow_recv_start(servers[0], texts[3], sizeof(texts[3]), 3, NULL, &named));
	TWT_OK(tow_peer_close(clients[0]));
	assert_int_equal(twt_finish(named, NULL), TOW_EPEER);
	got(recv_any(2, 2, UINT64_MAX), 0, 2, 2, "left behind"); /* it is whole */
	TWT_OK(tow_peer_close(servers[0]));
	TWT_OK(tow_peer_close(servers[1]));
	for (int i = 0; i < 100; i++)
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
	send_text(2, 1, "still here");
	got(op, 2, 1, 0, "still here");
	clients[0] = servers[0] = servers[1] = NULL;
}

static unsigned called;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	assert_int_equal(result->status, TOW_ECLOSED);
	assert_null(result->peer);
	called++;
}

static void test_ends(void **state)
{
	const struct tow_match any = any_of(0, 0);
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *op = recv_any(0, 0, 0), *view, *late;

	(void)state;
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	options.timeout_ns = 1000000;
	TWT_OK(tow_recv_match_start(here, &any, NULL, 0, &options, &late));
	assert_int_equal(twt_finish(late, NULL), TOW_EDEADLINE);
	op = recv_any(0, 0, 0);
	TWT_OK(tow_recv_match_start(here, &any, NULL, 0, NULL, &view));
	options = (struct tow_op_options)TOW_OP_OPTIONS_INIT;
	options.done = on_done;
	called = 0;
	TWT_OK(tow_recv_match_start(here, &any, NULL, 0, &options, NULL));
	TWT_OK(tow_endpoint_close(here));
	assert_int_equal(twt_finish(op, NULL), TOW_ECLOSED);
	assert_int_equal(twt_finish(view, &result), TOW_ECLOSED);
	assert_int_equal(called, 1);
	assert_int_equal(tow_probe(here, &any, &result), TOW_ECLOSED);
}

/* What it had met is taken back by its sender: it waits for the next, of whichever peer. */
static void test_taken_back(void **state)
{
	const struct tow_match any = any_of(0, 0);
	static char large[LARGE], room[LARGE];
	const struct tow_part part = { room, sizeof(room) };
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *send, *op;

	(void)state;
	for (int i = 0; i < 50; i++) {
		TWT_OK(tow_recv_match_start(here, &any, &part, 1, NULL, &op));
		TWT_OK(tow_send_start(clients[0], large, sizeof(large), 1, NULL, &send));
		for (int j = 0; j < i % 10; j++)
			tow_progress(runtime);
		TWT_OK(tow_op_cancel(send));
		if (twt_finish(send, NULL) == TOW_OK) {
			assert_int_equal(twt_finish(op, NULL), TOW_OK);
			continue;
		}
		send_text(1 + (unsigned)i % 2, 4, "small");
		assert_int_equal(twt_finish(op, &result), TOW_OK);
		assert_ptr_equal(result.peer, servers[1 + i % 2]);
		assert_string_equal(room, "small");
	}
}

/* A view that has no room is held for its message, and others are none the worse for it. */
static void test_view_without_room(void **state)
{
	static char large[LARGE];
	const struct tow_match any = any_of(8, ~1ull);
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *view, *send, *second, *kept;
	void *blocks[64];
	unsigned count = 0;

	(void)state;
	while (count < 64 && tow_alloc(runtime, 128 << 10, 0, &blocks[count]) == TOW_OK)
		count++;
	memset(large, 'l', sizeof(large));
	TWT_OK(tow_recv_match_start(here, &any, NULL, 0, NULL, &view));
	TWT_OK(tow_send_start(clients[0], large, sizeof(large), 8, NULL, &send));
	for (int i = 0; i < 200; i++)
		assert_int_equal(tow_op_test(view), TOW_AGAIN);
	second = recv_any(0, 0, ~1ull); /* not of tag 8: 0 or 1 */
	send_text(0, 1, "beside it");
	got(second, 0, 1, 0, "beside it");
	send_text(1, 2, "elsewhere");
	kept = recv_any(2, 0, 0); /* of this peer it would have to take what the view takes */
	got(kept, 1, 2, 2, "elsewhere");
	kept = recv_any(2, 0, 0);
	send_text(0, 3, "behind it");
	for (int i = 0; i < 200; i++)
		assert_int_equal(tow_op_test(kept), TOW_AGAIN);
	while (count > 0)
		TWT_OK(tow_free(runtime, blocks[--count]));
	assert_int_equal(twt_wait_for(view, &result), TOW_OK);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	assert_int_equal(result.bytes, LARGE);
	assert_int_equal(result.tag, 8);
	assert_ptr_equal(result.peer, servers[0]);
	got(kept, 0, 3, 2, "behind it");
	assert_int_equal(((const char *)result.data)[LARGE - 1], 'l');
	TWT_OK(tow_view_release(view));
}

/* Channel 1, when both sides have closed it. */
static struct tow_channel *open_one(struct tow_peer *peer)
{
	struct tow_channel *channel;
	int status;

	while ((status = tow_channel_open(peer, 1, &channel)) == TOW_EBUSY)
		tow_progress(runtime);
	TWT_OK(status);
	return channel;
}

/*
 * A view of any peer that has no room is held at the peer of its message. It is let go; behind a
 * view of that peer a receive has never been there.
 */
static void end_of_held_view(bool here_first, bool behind)
{
	static char large[LARGE], room[LARGE];
	const struct tow_part part = { room, sizeof(room) };
	struct tow_channel *ours[2], *theirs[2];
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_match any = any_of(0, 0);
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *view, *send, *named = NULL;
	void *blocks[64];
	unsigned count = 0;

	for (unsigned i = 0; i < 2; i++) {
		ours[i] = open_one(servers[i]);
		theirs[i] = open_one(clients[i]);
	}
	while (count < 64 && tow_alloc(runtime, 128 << 10, 0, &blocks[count]) == TOW_OK)
		count++;
	any.channel = 1;
	options.channel = ours[0];
	if (behind)
		TWT_OK(tow_recv_view_start(servers[0], 8, &options, &named));
	TWT_OK(tow_recv_match_start(here, &any, &part, behind, NULL, &view));
	options.channel = theirs[0];
	TWT_OK(tow_send_start(clients[0], large, sizeof(large), 8, &options, &send));
	for (int i = 0; i < 200; i++)
		assert_int_equal(tow_op_test(view), TOW_AGAIN);
	TWT_OK(tow_channel_close(here_first ? ours[0] : theirs[0]));
	assert_int_equal(twt_finish(send, NULL), here_first ? TOW_EPEER : TOW_ECLOSED);
	if (behind)
		assert_int_equal(twt_finish(named, NULL), here_first ? TOW_ECLOSED : TOW_EPEER);
	for (int i = 0; i < 200; i++)
		assert_int_equal(tow_op_test(view), TOW_AGAIN);
	options.channel = theirs[1];
	TWT_OK(tow_send_start(clients[1], "other", 6, 9, &options, &send));
	while (count > 0)
		TWT_OK(tow_free(runtime, blocks[--count]));
	assert_int_equal(twt_wait_for(view, &result), TOW_OK);
	assert_ptr_equal(result.peer, servers[1]);
	assert_int_equal(result.tag, 9);
	assert_string_equal(result.data, "other");
	TWT_OK(behind ? tow_op_release(view) : tow_view_release(view));
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	TWT_OK(tow_channel_close(here_first ? theirs[0] : ours[0]));
	TWT_OK(tow_channel_close(ours[1]));
	TWT_OK(tow_channel_close(theirs[1]));
	(void)tow_probe(here, &any, &result);
}

static void test_view_of_closed_channel(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		end_of_held_view(i % 2 == 0, i / 2 == 1);
}

/* Memory of the pool is lent from the start, whoever sends. */
static void test_pool_memory(void **state)
{
	static char large[LARGE];
	const struct tow_match any = any_of(0, 0);
	struct tow_part part = { NULL, LARGE };
	struct tow_op *op, *send;

	(void)state;
	for (unsigned from = 0; from < CLIENTS; from++) {
		TWT_OK(tow_alloc(runtime, LARGE, 0, &part.data));
		TWT_OK(tow_recv_match_start(here, &any, &part, 1, NULL, &op));
		TWT_OK(tow_send_start(clients[from], large, LARGE, 1, NULL, &send));
		TWT_OK(tow_free(runtime, part.data)); /* when the receive has ended */
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_int_equal(twt_finish(send, NULL), TOW_OK);
	}
}

static int set_up(void **state)
{
	struct tow_options options = twt_pair_options(4 << 20);

	(void)state;
	options.premap_limit_bytes = options.premap_memory_bytes;
	options.exhaust = "fail";
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, "loop://here", &here));
	TWT_OK(tow_endpoint_open(runtime, "loop://there", &there));
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct tow_op *connect, *accept;

		TWT_OK(tow_accept_start(here, NULL, &accept));
		TWT_OK(tow_connect_start(there, "loop://here", NULL, &connect));
		clients[i] = twt_finish_peer(connect);
		servers[i] = twt_finish_peer(accept);
	}
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
		cmocka_unit_test_setup_teardown(test_whoever_sends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_accepted_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_peers_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_taken_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_view_without_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_view_of_closed_channel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pool_memory, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
