/*
 * test_accept_bound.c - more peers connect than may wait to be accepted, on every lane: those who
 * are told that they are connected are, the others are refused with the bound and the cure, one by
 * one and many at once; and who connects again when there is room is taken.
 */
#include "twt.h"

#include <string.h>

#include "lane_pair.h"

#include "transport/op/endpoint.h"

#define BOUND TWI_READY_PEERS_MAX
#define BURST 24

static struct twt_lane_pair pair;
static struct tow_peer *peers[2 * BOUND]; /* of the connector */
static unsigned connected;

static struct tow_op *connect_start(void)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;

	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	TWT_OK(tow_connect_start(pair.endpoint[0], address, NULL, &op));
	return op;
}

static void must_connect(struct tow_op *op)
{
	struct tow_result result = twt_lane_finish(&pair, op);

	if (result.status != TOW_OK)
		fail_msg("%s: connect %u: %s", pair.lane->name, connected, tow_error_message());
	peers[connected++] = result.peer;
}

static void must_be_refused(struct tow_op *op)
{
	struct tow_result result = twt_lane_wait(&pair, op);

	if (result.status != TOW_EREFUSED)
		fail_msg("%s: connect %u is %s", pair.lane->name, connected,
			 tow_status_name(result.status));
	assert_int_equal(tow_op_test(op), TOW_EREFUSED);
	if (strstr(tow_error_message(), "64 peers wait") == NULL ||
	    strstr(tow_error_message(), "tow_accept_start") == NULL)
		fail_msg("%s: %s", pair.lane->name, tow_error_message());
	TWT_OK(tow_op_release(op));
}

static struct tow_peer *accept_one(void)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_accept_start(pair.endpoint[1], NULL, &op));
	result = twt_lane_finish(&pair, op);
	assert_int_equal(result.status, TOW_OK);
	return result.peer;
}

/* What was sent when nobody had accepted yet is there. */
static void must_hear(struct tow_peer *peer, uint64_t *seen)
{
	struct tow_result result;
	struct tow_op *op;
	unsigned number;

	TWT_OK(tow_recv_start(peer, &number, sizeof(number), 1, NULL, &op));
	result = twt_lane_finish(&pair, op);
	if (result.status < 0)
		fail_msg("%s: %s", pair.lane->name, tow_error_message());
	assert_true(number < connected);
	seen[number]++;
}

static void test_bound(void **state)
{
	uint64_t seen[2 * BOUND] = { 0 };
	struct tow_op *ops[BURST];

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	connected = 0;
	while (connected < BOUND)
		must_connect(connect_start());
	for (int i = 0; i < 3; i++)
		must_be_refused(connect_start());
	for (int i = 0; i < BURST; i++)
		ops[i] = connect_start();
	for (int i = 0; i < BURST; i++)
		must_be_refused(ops[i]);
	for (unsigned i = 0; i < connected; i++) {
		struct tow_op *op;

		TWT_OK(tow_send_start(peers[i], &i, sizeof(i), 1, NULL, &op));
		assert_true(twt_lane_finish(&pair, op).status >= 0);
	}
	for (unsigned i = 0; i < 4; i++)
		must_hear(accept_one(), seen);
	for (int i = 0; i < BURST; i++) /* four places: four are taken */
		ops[i] = connect_start();
	for (int i = 0; i < BURST; i++) {
		if (twt_lane_wait(&pair, ops[i]).status == TOW_OK)
			must_connect(ops[i]);
		else
			must_be_refused(ops[i]);
	}
	assert_int_equal(connected, BOUND + 4);
	for (unsigned i = BOUND; i < connected; i++) {
		struct tow_op *op;

		TWT_OK(tow_send_start(peers[i], &i, sizeof(i), 1, NULL, &op));
		assert_true(twt_lane_finish(&pair, op).status >= 0);
	}
	for (unsigned i = 0; i < BOUND; i++)
		must_hear(accept_one(), seen);
	for (unsigned i = 0; i < connected; i++)
		assert_int_equal(seen[i], 1);
	twt_lane_close(&pair);
}

int main(void)
{
	return twt_lane_main(test_bound);
}
