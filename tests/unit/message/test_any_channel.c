/*
 * test_any_channel.c - channels by their number, on every lane: receives and probes of any peer and
 * of one, receives at once, and what becomes of them when a channel is closed at either side.
 *
 * Side 1 receives; two connections join the sides, and both have channels 1 and 2.
 */
#include "twt.h"

#include <string.h>

#include <towline/channel.h>
#include <towline/match.h>

#include "lane_pair.h"
#include "transport/op/op.h"

#define LINKS 2
#define LARGE (300u << 10)
#define LONG  200u   /* bytes of a small message that is longer than some rooms */
#define MANY  10000u /* small messages that have more bytes than the credit */

static struct twt_lane_pair pair;
static struct tow_peer *peer[2][LINKS];          /* side, connection */
static struct tow_channel *channel[2][LINKS][3]; /* and number; 0: the peer itself */
static uint8_t large[LARGE], room[LARGE];

static struct tow_match match_of(struct tow_peer *of, unsigned number, uint64_t tag, uint64_t mask)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = of;
	match.channel = number;
	match.tag = tag;
	match.tag_mask = mask;
	return match;
}

static struct tow_op *send_on(unsigned link, unsigned number, const void *data, uint64_t bytes,
			      uint64_t tag)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.channel = channel[0][link][number];
	TWT_OK(tow_send_start(peer[0][link], data, bytes, tag, &options, &op));
	return op;
}

/* Of any peer where `of` is NULL. */
static struct tow_op *recv_by(struct tow_peer *of, unsigned number, void *data, uint64_t bytes,
			      uint64_t tag, uint64_t mask)
{
	const struct tow_match match = match_of(of, number, tag, mask);
	const struct tow_part part = { data, bytes };
	struct tow_op *op;

	TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, &part, 1, NULL, &op));
	return op;
}

static void must_end(struct tow_op *op, int status)
{
	struct tow_result result = twt_lane_wait(&pair, op);

	if (result.status != status)
		fail_msg("%s: %s, not %s: %s", pair.lane->name, tow_status_name(result.status),
			 tow_status_name(status),
			 result.message != NULL ? result.message : "no message");
	TWT_OK(tow_op_release(op));
}

/* It has got a message of that connection and tag. */
static void must_get(struct tow_op *op, unsigned link, uint64_t tag, uint64_t bytes)
{
	struct tow_result result = twt_lane_wait(&pair, op);

	if (result.status != TOW_OK)
		fail_msg("%s: %s: %s", pair.lane->name, tow_status_name(result.status),
			 result.message);
	assert_ptr_equal(result.peer, peer[1][link]);
	assert_int_equal(result.tag, tag);
	assert_int_equal(result.bytes, bytes);
	TWT_OK(tow_op_release(op));
}

static void must_wait(struct tow_op *op)
{
	twt_lane_drive(&pair, 3000000);
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
}

static void send_word(unsigned link, unsigned number, uint64_t word, uint64_t tag)
{
	must_end(send_on(link, number, &word, sizeof(word), tag), TOW_OK);
}

/* What a probe at side 1 says, at once or after a while. */
static int probe(struct tow_peer *of, unsigned number, uint64_t tag, uint64_t mask,
		 struct tow_result *result)
{
	const struct tow_match match = match_of(of, number, tag, mask);
	int status = TOW_AGAIN;

	*result = (struct tow_result)TOW_RESULT_INIT;
	for (int i = 0; i < 500 && status == TOW_AGAIN; i++) {
		twt_lane_turn(&pair);
		status = tow_probe(pair.endpoint[1], &match, result);
	}
	return status;
}

static void must_find(struct tow_peer *of, unsigned number, uint64_t mask, unsigned link,
		      uint64_t tag)
{
	struct tow_result result;

	assert_int_equal(probe(of, number, tag, mask, &result), TOW_OK);
	assert_ptr_equal(result.peer, peer[1][link]);
	assert_int_equal(result.tag, tag);
}

static void must_find_none(struct tow_peer *of, unsigned number, int status)
{
	struct tow_result result;

	assert_int_equal(probe(of, number, 0, 0, &result), status);
}

static void open_channel(int side, unsigned link, unsigned number)
{
	int status;

	for (int tries = 0;; tries++) {
		status = tow_channel_open(peer[side][link], number, &channel[side][link][number]);
		if (status != TOW_EBUSY || tries == 10000)
			break;
		twt_lane_turn(&pair);
	}
	TWT_OK(status);
}

static void close_channel(int side, unsigned link, unsigned number)
{
	TWT_OK(tow_channel_close(channel[side][link][number]));
}

static void join_links(void)
{
	for (unsigned link = 0; link < LINKS; link++) {
		twt_lane_join(&pair);
		for (int side = 0; side < 2; side++) {
			peer[side][link] = pair.peer[side];
			open_channel(side, link, 1);
			open_channel(side, link, 2);
		}
	}
}

/* --- what goes where --- */

/* Messages of other channels and peers pass by a receive that waits. */
static void whoever_sends(void)
{
	uint64_t got[3] = { 0 };
	struct tow_op *first, *second, *view, *send;
	struct tow_result result;
	struct tow_match match = match_of(NULL, 2, 0, 0);

	first = recv_by(NULL, 1, &got[0], sizeof(got[0]), 0, 0);
	second = recv_by(NULL, 1, room, LARGE, 8, ~1ull);
	send_word(0, 0, 10, 3);
	send_word(1, 2, 11, 3);
	must_wait(first);
	send_word(1, 1, 12, 3);
	must_get(first, 1, 3, sizeof(uint64_t));
	assert_int_equal(got[0], 12);
	send = send_on(0, 1, large, LARGE, 9);
	must_get(second, 0, 9, LARGE);
	must_end(send, TOW_OK);
	assert_memory_equal(room, large, LARGE);
	must_get(recv_by(NULL, 2, &got[1], sizeof(got[1]), 0, 0), 1, 3, sizeof(uint64_t));
	must_get(recv_by(NULL, 0, &got[2], sizeof(got[2]), 0, 0), 0, 3, sizeof(uint64_t));
	assert_int_equal(got[1], 11);
	assert_int_equal(got[2], 10);

	TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, NULL, 0, NULL, &view));
	send = send_on(1, 2, large, LARGE, 5);
	result = twt_lane_wait(&pair, view);
	assert_int_equal(result.status, TOW_OK);
	assert_memory_equal(result.data, large, LARGE);
	TWT_OK(tow_view_release(view));
	must_end(send, TOW_OK);
}

/* One order holds for receives of any peer and of one, whichever way their channel is named. */
static void one_order(void)
{
	const struct tow_match named = match_of(peer[1][0], 1, 3, UINT64_MAX);
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t got[5] = { 0 };
	struct tow_part part[5];
	struct tow_op *ops[5];

	for (int i = 0; i < 5; i++)
		part[i] = (struct tow_part){ &got[i], sizeof(got[i]) };
	options.channel = channel[1][0][1];
	ops[0] = recv_by(NULL, 1, &got[0], sizeof(got[0]), 0, 0);
	TWT_OK(tow_recv_start(peer[1][0], &got[1], sizeof(got[1]), 3, &options, &ops[1]));
	TWT_OK(tow_recv_match_start(pair.endpoint[1], &named, &part[2], 1, NULL, &ops[2]));
	ops[3] = recv_by(NULL, 1, &got[3], sizeof(got[3]), 3, UINT64_MAX);
	TWT_OK(tow_recv_match_start(pair.endpoint[1], &named, &part[4], 1, &options, &ops[4]));
	for (unsigned i = 0; i < 5; i++)
		send_word(0, 1, 20 + i, 3);
	for (unsigned i = 0; i < 5; i++) {
		must_get(ops[i], 0, 3, sizeof(uint64_t));
		assert_int_equal(got[i], 20 + i);
	}
}

/* Messages that have come before are found: of one peer in order, of several in turns. */
static void come_before(void)
{
	unsigned seen[LINKS] = { 0 };
	uint64_t got = 0;
	struct tow_op *offered[LINKS];
	struct tow_result result;

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned link = 0; link < LINKS; link++) {
			send_word(link, 0, 100, 4);
			send_word(link, 1, 30 + 10 * link + i, i);
		}
	}
	for (unsigned link = 0; link < LINKS; link++)
		offered[link] = send_on(link, 1, large, LARGE, 3);
	must_find_none(NULL, 2, TOW_AGAIN);
	must_find_none(peer[1][1], 2, TOW_AGAIN);
	must_find(peer[1][1], 0, 0, 1, 4);
	must_find(peer[1][1], 1, 0, 1, 0);
	must_find(peer[1][0], 1, UINT64_MAX, 0, 2);
	assert_int_equal(probe(NULL, 1, 1, UINT64_MAX, &result), TOW_OK);
	assert_true(result.peer == peer[1][0] || result.peer == peer[1][1]);
	for (unsigned i = 0; i < 3 * LINKS; i++) {
		unsigned link;

		result = twt_lane_finish(&pair, recv_by(NULL, 1, &got, sizeof(got), 0, 0));
		assert_int_equal(result.status, TOW_OK);
		link = result.peer == peer[1][1];
		assert_ptr_equal(result.peer, peer[1][link]);
		assert_int_equal(got, 30 + 10 * link + seen[link]);
		assert_int_equal(result.tag, seen[link]++);
		assert_true(seen[0] <= seen[1] + 1 && seen[1] <= seen[0] + 1);
	}
	must_find(peer[1][0], 1, 0, 0, 3);
	for (unsigned link = 0; link < LINKS; link++) {
		must_get(recv_by(peer[1][link], 1, room, LARGE, 3, UINT64_MAX), link, 3, LARGE);
		must_end(offered[link], TOW_OK);
		for (unsigned i = 0; i < 3; i++)
			must_get(recv_by(peer[1][link], 0, &got, sizeof(got), 4, UINT64_MAX), link,
				 4, sizeof(got));
	}
	must_find_none(NULL, 1, TOW_AGAIN);
}

/* --- receives at once --- */

/* A receive that has leave to be none. It has got the message; was it one? */
static bool receive_at_once(unsigned number, bool by_mask, uint64_t bytes, int status)
{
	const struct tow_match match = match_of(peer[1][0], number, 6, by_mask ? 0 : UINT64_MAX);
	const struct tow_part part = { room, bytes };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *op;
	int said;

	options.flags = TOW_OP_AT_ONCE;
	options.result = &result;
	options.channel = channel[1][0][number];
	said = by_mask ? tow_recv_match_start(pair.endpoint[1], &match, &part, 1, &options, &op)
		       : tow_recv_start(peer[1][0], room, bytes, 6, &options, &op);
	assert_true(said >= 0);
	if (op != NULL) {
		must_end(op, status);
		return false;
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(result.tag, 6);
	assert_ptr_equal(result.peer, peer[1][0]);
	return true;
}

/* What comes while it looks, and is of another channel, is left for that. */
static void at_once_between(void)
{
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t got;

		send_word(0, 2, i, 6);
		send_word(0, 0, i + 1, 6);
		send_word(0, 1, i + 2, 6);
		for (unsigned k = 0; k < 3; k++) {
			const unsigned number = (k + 1) % 3;

			(void)receive_at_once(number, false, sizeof(got), TOW_OK);
			memcpy(&got, room, sizeof(got));
			assert_int_equal(got, number == 2 ? i : i + 1 + number);
		}
	}
}

/* Its credit is given back, also where the message came while it looked. */
static void at_once(bool masks)
{
	/* What comes while it looks is had as well, over shm, unless there are masks. */
	const unsigned least =
		!masks && strcmp(pair.lane->name, "shm") == 0 ? MANY * 9 / 10 : MANY / 5;
	unsigned without = 0;

	for (uint64_t i = 0; i < MANY; i++) {
		const unsigned number = 1 + i / 16 % 2;
		uint64_t got;
		struct tow_op *send = send_on(0, number, &i, sizeof(i), 6);

		if (i % 4 == 0)
			twt_lane_turn(&pair); /* it is kept */
		without += receive_at_once(number, masks && i % 3 == 0, sizeof(i), TOW_OK);
		memcpy(&got, room, sizeof(got));
		assert_int_equal(got, i);
		must_end(send, TOW_OK);
	}
	assert_in_range(without, least, MANY);
	at_once_between();
	/* What is of another channel, or does not fit, is left as it was. */
	for (unsigned i = 0; i < 3000; i++) {
		struct tow_op *send = send_on(0, 1, large, LONG, 6);

		if (i % 100 == 0) {
			send_word(0, 2, i, 6);
			assert_false(receive_at_once(1, false, LONG - 1, TOW_ETRUNCATED));
			(void)receive_at_once(2, false, sizeof(uint64_t), TOW_OK);
		} else {
			assert_false(receive_at_once(1, false, LONG - 1, TOW_ETRUNCATED));
		}
		must_end(send, TOW_OK);
	}
}

/* An older receive of any peer has the message first. */
static void at_once_behind(void)
{
	uint64_t got = 0, word = 7;
	struct tow_op *any = recv_by(NULL, 1, &got, sizeof(got), 6, UINT64_MAX), *send;

	send = send_on(0, 1, &word, sizeof(word), 6);
	twt_lane_drive(&pair, 1000000);
	must_get(any, 0, 6, sizeof(got));
	assert_int_equal(got, 7);
	must_end(send, TOW_OK);
	send_word(0, 1, 8, 6);
	(void)receive_at_once(1, true, sizeof(got), TOW_OK);
}

/* --- the end of a channel --- */

/* The number is free again, and goes on. */
static void open_again(unsigned link, unsigned number)
{
	twt_lane_drive(&pair, 3000000);
	for (int side = 0; side < 2; side++)
		open_channel(side, link, number);
}

/* The sender closes it: what had come whole is there still, and others go on. */
static void end_there(void)
{
	uint64_t got = 0;
	struct tow_op *waits, *offered, *named;

	waits = recv_by(NULL, 1, &got, sizeof(got), 1, UINT64_MAX);
	send_word(0, 1, 41, 2);
	offered = send_on(0, 1, large, LARGE, 3);
	named = recv_by(peer[1][0], 1, room, LARGE, 4, UINT64_MAX);
	must_find(NULL, 1, UINT64_MAX, 0, 3);
	close_channel(0, 0, 1);
	must_end(offered, TOW_ECLOSED);
	must_end(named, TOW_EPEER);
	must_find(NULL, 1, 0, 0, 2);
	must_find(peer[1][0], 1, 0, 0, 2);
	must_get(recv_by(NULL, 1, room, LARGE, 2, UINT64_MAX), 0, 2, sizeof(got));
	must_find_none(NULL, 1, TOW_AGAIN);
	must_find_none(peer[1][0], 1, TOW_EPEER);
	must_end(recv_by(peer[1][0], 1, room, LARGE, 0, 0), TOW_EPEER);
	assert_false(receive_at_once(1, true, LARGE, TOW_EPEER));
	must_wait(waits);
	send_word(1, 1, 42, 1);
	must_get(waits, 1, 1, sizeof(got));
	assert_int_equal(got, 42);
	close_channel(1, 0, 1);
	open_again(0, 1);
}

/* What is left of a channel that was closed here is nobody's, wherever it was then. */
static void end_here(void)
{
	const struct tow_match match = match_of(peer[1][0], 1, 0, 0);
	const struct tow_part part = { room, LARGE };
	const bool immediate = strcmp(pair.lane->name, "loop") == 0; /* nothing is on its way */
	struct tow_op *waits[2], *sends[4], *named, *later;
	uint64_t got = 0, word = 50;

	/* One of any peer has waited all the time, one has come behind a receive of this peer. */
	waits[0] = recv_by(NULL, 1, &got, sizeof(got), 1, UINT64_MAX);
	named = recv_by(peer[1][0], 1, room, LARGE, 2, UINT64_MAX);
	waits[1] = recv_by(NULL, 1, room, LARGE, 2, UINT64_MAX);
	sends[0] = send_on(0, 1, large, LARGE, 3); /* it waits */
	send_word(0, 1, 51, 4);                    /* it is kept */
	must_find(NULL, 1, UINT64_MAX, 0, 4);
	if (!immediate) {
		sends[1] = send_on(0, 1, large, LARGE, 1);
		sends[2] = send_on(0, 1, large, LARGE, 2);
		sends[3] = send_on(0, 1, &word, sizeof(word), 1);
	}
	close_channel(1, 0, 1);
	later = recv_by(NULL, 1, room, LARGE, 0, 0);
	must_end(named, TOW_ECLOSED);
	must_find_none(NULL, 1, TOW_AGAIN);
	must_find_none(peer[1][0], 1, TOW_ECLOSED);
	assert_int_equal(tow_recv_match_start(pair.endpoint[1], &match, &part, 1, NULL, &named),
			 TOW_ECLOSED);
	for (int i = 0; i < (immediate ? 1 : 3); i++)
		must_end(sends[i], TOW_EPEER);
	if (!immediate)
		(void)twt_lane_finish(&pair, sends[3]); /* it has gone before that was known */
	must_wait(later);
	assert_int_equal(tow_op_test(waits[0]), TOW_AGAIN);
	assert_int_equal(tow_op_test(waits[1]), TOW_AGAIN);
	send_word(1, 1, 52, 1);
	must_get(waits[0], 1, 1, sizeof(got));
	assert_int_equal(got, 52);
	send_word(1, 1, 53, 2);
	must_get(waits[1], 1, 2, sizeof(got));
	close_channel(0, 0, 1);
	open_again(0, 1);
	/* The number means the new channel. */
	send_word(0, 1, 54, 9);
	must_get(later, 0, 9, sizeof(got));
	memcpy(&got, room, sizeof(got));
	assert_int_equal(got, 54);
}

/*
 * It is closed while a message is being received, and that is nobody's then. Closed here, what had
 * met it ends, if it is of this peer or of any; closed there, one of any peer waits on.
 */
static void end_in_the_middle(bool any, int closer)
{
	enum { HUGE_BYTES = 16 << 20 };
	uint8_t *out = calloc(1, HUGE_BYTES), *in = calloc(2, HUGE_BYTES);
	struct tow_op *send, *recv, *waits;
	struct tow_result result;
	bool mine; /* it has met the message, and ends with the channel: nothing else is sent */

	assert_non_null(out);
	assert_non_null(in);
	recv = recv_by(any ? NULL : peer[1][0], 1, in, HUGE_BYTES, 1, 0);
	waits = recv_by(NULL, 1, in + HUGE_BYTES, HUGE_BYTES, 1, 0);
	send = send_on(0, 1, out, HUGE_BYTES, 1);
	for (int i = 0; i < 20; i++)
		twt_lane_turn(&pair);
	mine = closer == 1 && recv->peer != NULL && tow_op_test(recv) == TOW_AGAIN;
	close_channel(closer, 0, 1);
	twt_lane_drive(&pair, 3000000);
	assert_int_equal(tow_op_test(waits), TOW_AGAIN);
	(void)twt_lane_finish(&pair, send);
	if (any && !mine && tow_op_test(recv) == TOW_AGAIN)
		send_word(1, 1, 60, 1); /* it had not met the message yet, or has lost it */
	result = twt_lane_finish(&pair, recv);
	assert_true(result.status == TOW_OK || (closer == 1 && result.status == TOW_ECLOSED) ||
		    (closer == 0 && !any && result.status == TOW_EPEER));
	send_word(1, 1, 61, 1);
	must_get(waits, 1, 1, sizeof(uint64_t));
	close_channel(1 - closer, 0, 1);
	open_again(0, 1);
	free(out);
	free(in);
}

static int match_start(struct tow_peer *of, uint64_t number, struct tow_channel *named)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_match match = match_of(of, 0, 0, 0);
	const struct tow_part part = { room, LARGE };
	struct tow_op *op = NULL;
	int status;

	match.channel = number;
	options.channel = named;
	status = tow_recv_match_start(pair.endpoint[1], &match, &part, 1, &options, &op);
	if (status == TOW_OK) {
		TWT_OK(tow_op_cancel(op));
		must_end(op, TOW_ECANCELED);
	}
	return status;
}

static void refusals(void)
{
	struct tow_match match = match_of(NULL, 0, 0, 0);
	struct tow_result result = TOW_RESULT_INIT;

	assert_int_equal(match_start(peer[1][0], 1, channel[1][0][1]), TOW_OK);
	assert_int_equal(match_start(peer[1][0], 1, NULL), TOW_OK);
	assert_int_equal(match_start(peer[1][0], 0, channel[1][0][1]), TOW_OK);
	assert_int_equal(match_start(NULL, TOW_CHANNEL_MAX, NULL), TOW_OK);
	assert_int_equal(match_start(peer[1][0], 2, channel[1][0][1]), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "match->channel is 2"));
	assert_non_null(strstr(tow_error_message(), "options->channel is channel 1"));
	assert_int_equal(match_start(peer[1][0], 1, channel[1][1][1]), TOW_EINVAL);
	assert_int_equal(match_start(NULL, 1, channel[1][0][1]), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "match->peer is NULL"));
	assert_int_equal(match_start(NULL, 0, channel[1][0][1]), TOW_EINVAL);
	assert_int_equal(match_start(NULL, TOW_CHANNEL_MAX + 1, NULL), TOW_EINVAL);
	assert_int_equal(match_start(peer[1][0], 1ull << 32 | 1, NULL), TOW_EINVAL);
	assert_int_equal(match_start(peer[1][0], 7, NULL), TOW_ECLOSED);
	assert_non_null(strstr(tow_error_message(), "is not open"));
	match.channel = TOW_CHANNEL_MAX + 1;
	assert_int_equal(tow_probe(pair.endpoint[1], &match, &result), TOW_EINVAL);
	match.peer = peer[1][0];
	match.channel = 7;
	assert_int_equal(tow_probe(pair.endpoint[1], &match, &result), TOW_ECLOSED);
}

/* Peers go, and with them their channels: whoever waits for any peer goes on. */
static void end_of_peers(void)
{
	uint64_t got = 0;
	struct tow_op *waits = recv_by(NULL, 2, &got, sizeof(got), 1, UINT64_MAX);

	send_word(0, 2, 70, 2);
	must_find(NULL, 2, 0, 0, 2);
	TWT_OK(tow_peer_close(peer[0][0]));
	must_end(recv_by(peer[1][0], 1, room, LARGE, 0, 0), TOW_EPEER);
	must_find(NULL, 2, 0, 0, 2); /* it is whole */
	must_get(recv_by(NULL, 2, room, LARGE, 2, UINT64_MAX), 0, 2, sizeof(got));
	must_find_none(peer[1][0], 2, TOW_EPEER);
	TWT_OK(tow_peer_close(peer[1][0]));
	must_wait(waits);
	send_word(1, 2, 71, 1);
	must_get(waits, 1, 1, sizeof(got));
	waits = recv_by(NULL, 2, &got, sizeof(got), 1, UINT64_MAX);
	TWT_OK(tow_endpoint_close(pair.endpoint[1]));
	must_end(waits, TOW_ECLOSED);
}

static void test_lane(void **state)
{
	memset(channel, 0, sizeof(channel));
	memset(large, 7, sizeof(large));
	twt_lane_init(&pair, *state);
	for (int side = 0; side < 2; side++) {
		pair.options[side].premap_memory_bytes = 32 << 20;
		pair.options[side].credit_bytes = 256 << 10;
	}
	if (!twt_lane_open(&pair))
		skip();
	join_links();
	at_once(false);
	whoever_sends();
	one_order();
	come_before();
	at_once(true);
	at_once_behind();
	end_there();
	end_here();
	for (int closer = 0; closer < 2; closer++) {
		end_in_the_middle(false, closer);
		end_in_the_middle(true, closer);
	}
	refusals();
	end_of_peers();
	twt_lane_close(&pair);
}

int main(void)
{
	return twt_lane_main(test_lane);
}
