/*
 * test_channels.c - message channels on every lane: each matches its own messages, has credit of
 * its own, so that none holds up another or the peer itself, and an end of its own.
 */
#include "twt.h"

#include <string.h>

#include <towline/channel.h>
#include <towline/match.h>

#include "lane_pair.h"
#include "transport/message/channel.h"

#define AGAIN    1000 /* times 5 ms: a busy machine may keep the other side from its CPU */
#define LARGE    (300u << 10)
#define MIDDLE   (200u << 10)
#define MANY     100000u
#define ROWS     64u   /* channels that have operations of their own each, */
#define FIRST    1000u /* and the lowest of their numbers */
#define EACH     3u
#define CANCELED 1u /* of the first channel's, beforehand */

static struct twt_lane_pair pair;
static struct tow_channel *channel[2][3]; /* side, number; 0: the peer itself */

static struct tow_op_options on(int side, unsigned number)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.channel = channel[side][number];
	return options;
}

static struct tow_op *send_on(int side, unsigned number, const void *data, uint64_t bytes,
			      uint64_t tag)
{
	struct tow_op_options options = on(side, number);
	struct tow_op *op;

	TWT_OK(tow_send_start(pair.peer[side], data, bytes, tag, &options, &op));
	return op;
}

static struct tow_op *recv_on(int side, unsigned number, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op_options options = on(side, number);
	struct tow_op *op;

	TWT_OK(tow_recv_start(pair.peer[side], data, bytes, tag, &options, &op));
	return op;
}

/* By side 0; NULL: it went. */
static struct tow_op *send_at_once(unsigned number, const uint64_t *word)
{
	struct tow_op_options options = on(0, number);
	struct tow_op *op;

	options.flags = TOW_OP_AT_ONCE;
	TWT_OK(tow_send_start(pair.peer[0], word, sizeof(*word), 5, &options, &op));
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

/* A word goes from side 0 to side 1. */
static void exchange_word(unsigned number, uint64_t word)
{
	uint64_t in = 0;
	struct tow_op *recv = recv_on(1, number, &in, sizeof(in), 5);

	must_end(send_on(0, number, &word, sizeof(word), 5), TOW_OK);
	must_end(recv, TOW_OK);
	assert_int_equal(in, word);
}

static void open_both(unsigned number)
{
	for (int side = 0; side < 2; side++)
		TWT_OK(tow_channel_open(pair.peer[side], number, &channel[side][number]));
}

/* A channel that was closed here opens once the other side has said that it is gone there, too. */
static struct tow_channel *open_again(int side, unsigned number)
{
	struct tow_channel *opened = NULL;
	int status;

	for (int i = 0; i < AGAIN; i++) {
		status = tow_channel_open(pair.peer[side], number, &opened);
		if (status != TOW_EBUSY)
			break;
		twt_lane_drive(&pair, 5000000);
	}
	TWT_OK(status);
	return opened;
}

/* What completes in the call uses the credit of its channel as well. */
static void at_once(void)
{
	uint64_t word, in;
	unsigned without = 0;

	for (word = 0; word < 200; word++) {
		struct tow_op *recv = recv_on(1, 2, &in, sizeof(in), 5), *op;

		op = send_at_once(2, &word);
		without += op == NULL;
		if (op != NULL)
			must_end(op, TOW_OK);
		must_end(recv, TOW_OK);
		assert_int_equal(in, word);
	}
	assert_in_range(without, 150, 200);
}

/* Whoever waits in vain is told on which channel. */
static void named_in_words(void)
{
	uint64_t in;
	struct tow_op *recv = recv_on(1, 2, &in, sizeof(in), 5);

	assert_int_equal(tow_op_wait(recv, 1000), TOW_ETIMEDOUT);
	assert_non_null(strstr(tow_error_message(), "the receive of tag 0x5 on channel 2 is not"));
	TWT_OK(tow_op_cancel(recv));
	must_end(recv, TOW_ECANCELED);
	recv = recv_on(1, 0, &in, sizeof(in), 5);
	assert_int_equal(tow_op_wait(recv, 1000), TOW_ETIMEDOUT);
	assert_non_null(strstr(tow_error_message(), "the receive of tag 0x5 is not"));
	TWT_OK(tow_op_cancel(recv));
	must_end(recv, TOW_ECANCELED);
}

/* Messages of one tag on three channels meet the receives of theirs, in whatever order. */
static void own_messages(void)
{
	static uint8_t large[3][LARGE], in[3][LARGE];
	uint64_t word[3], got[3] = { 0 };
	struct tow_op *sends[6], *recvs[6];

	for (unsigned i = 0; i < 3; i++) {
		memset(large[i], (int)i + 1, LARGE);
		word[i] = 100 + i;
		sends[i] = send_on(0, i, &word[i], sizeof(word[i]), 9);
		sends[3 + i] = send_on(0, i, large[i], LARGE, 9);
	}
	twt_lane_drive(&pair, 2000000);
	for (unsigned k = 0; k < 3; k++) {
		unsigned i = (k + 2) % 3;

		recvs[i] = recv_on(1, i, &got[i], sizeof(got[i]), 9);
		recvs[3 + i] = recv_on(1, i, in[i], LARGE, 9);
	}
	for (unsigned i = 0; i < 6; i++) {
		must_end(sends[i], TOW_OK);
		must_end(recvs[i], TOW_OK);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(got[i], word[i]);
		assert_memory_equal(in[i], large[i], LARGE);
	}
}

/* Views, masks of tags, deadlines and cancels of a channel are as those of the peer. */
static void other_receives(void)
{
	static uint8_t large[LARGE];
	struct tow_op_options options = on(1, 2);
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_result result;
	uint64_t in = 0, word = 77;
	struct tow_part part = { &in, sizeof(in) };
	struct tow_op *op, *send;

	match.peer = pair.peer[1];
	match.tag_mask = 0;
	TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, &part, 1, &options, &op));
	exchange_word(0, 1); /* a mask takes nothing of another channel */
	must_end(send_on(0, 2, &word, sizeof(word), 31), TOW_OK);
	result = twt_lane_finish(&pair, op);
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.tag, 31);
	assert_int_equal(in, 77);

	memset(large, 7, LARGE);
	send = send_on(0, 2, large, LARGE, 6);
	TWT_OK(tow_recv_view_start(pair.peer[1], 6, &options, &op));
	result = twt_lane_wait(&pair, op);
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.bytes, LARGE);
	assert_memory_equal(result.data, large, LARGE);
	TWT_OK(tow_view_release(op));
	must_end(send, TOW_OK);

	op = recv_on(1, 2, &in, sizeof(in), 8);
	TWT_OK(tow_op_cancel(op));
	must_end(op, TOW_ECANCELED);
	options.timeout_ns = 1000000;
	TWT_OK(tow_recv_start(pair.peer[1], &in, sizeof(in), 8, &options, &op));
	must_end(op, TOW_EDEADLINE);
	exchange_word(2, 9);
}

/* Nobody receives on `full`, until its sends wait; the others go on. Then all of it comes. */
static void own_credit(unsigned full)
{
	static uint64_t words[MANY];
	static uint8_t large[LARGE], in[LARGE];
	struct tow_op *waits = NULL, *op;
	uint64_t sent = 0, got = 0;

	while (waits == NULL && sent < MANY) {
		words[sent] = sent;
		op = send_on(0, full, &words[sent], sizeof(words[0]), 40);
		sent++;
		if (tow_op_test(op) == TOW_AGAIN) {
			twt_lane_drive(&pair, 20000000); /* it was no matter of room */
			if (tow_op_test(op) == TOW_AGAIN)
				waits = op;
		}
		if (waits == NULL)
			TWT_OK(tow_op_release(op));
	}
	if (waits == NULL)
		fail_msg("%s: %u messages were taken on channel %u", pair.lane->name, MANY, full);
	for (unsigned number = 0; number < 3; number++) {
		if (number == full)
			continue;
		for (unsigned i = 0; i < 200; i++)
			exchange_word(number, i);
		op = recv_on(1, number, in, LARGE, 41);
		must_end(send_on(0, number, large, LARGE, 41), TOW_OK);
		must_end(op, TOW_OK);
	}
	for (uint64_t i = 0; i < sent; i++) {
		must_end(recv_on(1, full, &got, sizeof(got), 40), TOW_OK);
		assert_int_equal(got, i);
	}
	must_end(waits, TOW_OK);
	exchange_word(full, 3);
}

/* Sides that grant less and more: what is small one way is large the other. */
static void unequal_credit(void)
{
	static uint8_t out[MIDDLE], in[MIDDLE];
	struct tow_op *send, *recv;

	for (int side = 0; side < 2; side++) {
		for (unsigned number = 0; number < 3; number++) {
			memset(out, side * 3 + (int)number + 1, MIDDLE);
			send = send_on(side, number, out, MIDDLE, 70);
			recv = recv_on(1 - side, number, in, MIDDLE, 70);
			must_end(recv, TOW_OK);
			must_end(send, TOW_OK);
			assert_memory_equal(in, out, MIDDLE);
		}
	}
}

/* The word that a channel was closed has come to the other side. */
static void see_end(int side, unsigned number)
{
	uint64_t in = 0;

	must_end(recv_on(side, number, &in, sizeof(in), 99), TOW_EPEER);
}

/* Side 1 closes channel 1 with all kinds of operations in flight at both sides. */
static void own_end(void)
{
	static uint8_t large[LARGE], in[LARGE];
	uint64_t before = twt_lane_in_use(&pair), word = 5, got = 0;
	struct tow_op *sends[3], *recvs[2], *mine[2], *whole;
	struct tow_channel *again;

	must_end(send_on(1, 1, &word, sizeof(word), 50), TOW_OK); /* before the end */
	sends[0] = send_on(0, 1, large, LARGE, 51);               /* nobody receives it */
	sends[1] = send_on(0, 1, &word, sizeof(word), 52);        /* kept over there */
	recvs[0] = recv_on(0, 1, in, LARGE, 53);
	recvs[1] = recv_on(0, 1, &got, sizeof(got), 54);
	mine[0] = recv_on(1, 1, in, LARGE, 55);
	mine[1] = send_on(1, 1, large, LARGE, 56); /* nobody receives it */
	twt_lane_drive(&pair, 5000000);
	TWT_OK(tow_channel_close(channel[1][1]));
	must_end(mine[0], TOW_ECLOSED);
	must_end(mine[1], TOW_ECLOSED);
	must_end(sends[0], TOW_EPEER);
	must_end(sends[1], TOW_OK);
	must_end(recvs[0], TOW_EPEER);
	must_end(recvs[1], TOW_EPEER);
	assert_int_equal(tow_channel_close(channel[1][1]), TOW_ECLOSED);
	assert_int_equal(tow_channel_open(pair.peer[1], 1, &again), TOW_EBUSY);
	/* What came whole can still be had, and no more. */
	whole = recv_on(0, 1, &got, sizeof(got), 50);
	must_end(whole, TOW_OK);
	assert_int_equal(got, 5);
	see_end(0, 1);
	must_end(send_on(0, 1, &word, sizeof(word), 52), TOW_EPEER);
	must_end(send_at_once(1, &word), TOW_EPEER);
	must_end(send_on(0, 1, large, LARGE, 52), TOW_EPEER);
	exchange_word(0, 1);
	exchange_word(2, 2);
	/* The number is free when both have closed it. */
	TWT_OK(tow_channel_close(channel[0][1]));
	TWT_OK(tow_channel_open(pair.peer[0], 1, &channel[0][1]));
	for (int tries = 0; tow_channel_open(pair.peer[1], 1, &channel[1][1]) == TOW_EBUSY;
	     tries++) {
		assert_true(tries < 10000);
		twt_lane_turn(&pair);
	}
	exchange_word(1, 3);
	twt_lane_settle(&pair, before, "the end of a channel");
}

/* What a receiver was just receiving; both sides' operations end, and the connection goes on. */
static void end_in_the_middle(void)
{
	enum { HUGE_BYTES = 32 << 20 };
	uint8_t *large = malloc(HUGE_BYTES), *in = malloc(HUGE_BYTES);
	struct tow_op *send, *recv;
	struct tow_result result;

	assert_non_null(large);
	assert_non_null(in);
	memset(large, 3, HUGE_BYTES);
	send = send_on(0, 1, large, HUGE_BYTES, 60);
	recv = recv_on(1, 1, in, HUGE_BYTES, 60);
	for (int i = 0; i < 20; i++)
		twt_lane_turn(&pair);
	TWT_OK(tow_channel_close(channel[1][1]));
	result = twt_lane_finish(&pair, recv);
	assert_true(result.status == TOW_ECLOSED || result.status == TOW_OK);
	result = twt_lane_finish(&pair, send);
	assert_true(result.status == TOW_EPEER || result.status == TOW_ECANCELED ||
		    result.status == TOW_OK);
	see_end(0, 1);
	TWT_OK(tow_channel_close(channel[0][1]));
	twt_lane_drive(&pair, 5000000);
	for (int side = 0; side < 2; side++)
		channel[side][1] = open_again(side, 1);
	exchange_word(1, 4);
	exchange_word(0, 5);
	free(large);
	free(in);
}

/* A channel that the other side has never opened: what is sent waits; a close answers itself. */
static void one_sided(void)
{
	struct tow_channel *alone;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t word = 1;
	struct tow_op *op;

	for (int round = 0; round < 3; round++) {
		alone = open_again(0, 7);
		options.channel = alone;
		TWT_OK(tow_send_start(pair.peer[0], &word, sizeof(word), 1, &options, &op));
		twt_lane_drive(&pair, 2000000);
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
		TWT_OK(tow_channel_close(alone));
		must_end(op, TOW_ECLOSED);
		twt_lane_drive(&pair, 5000000);
	}
}

/* They are spread like numbers that a program takes from anywhere. */
static unsigned row_number(unsigned row)
{
	return FIRST + row * row;
}

/* How many operations the end of that channel of side 0 looks at. */
static unsigned looked_at(unsigned number)
{
	const struct twi_channels *channels = pair.peer[0]->channels;
	const struct twi_list *head = &twi_channel_bucket(channels, (uint16_t)number)->ops;
	unsigned count = 0;

	for (const struct twi_list *pos = head->next; pos != head; pos = pos->next)
		count++;
	return count;
}

/* Side 0 opens many channels alone; each has two receives, and a send that waits for side 1. */
static void start_rows(struct tow_channel *rows[ROWS], struct tow_op *ops[ROWS][EACH])
{
	static uint64_t word, in[ROWS][2];

	for (unsigned i = 0; i < ROWS; i++) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;

		TWT_OK(tow_channel_open(pair.peer[0], row_number(i), &rows[i]));
		options.channel = rows[i];
		TWT_OK(tow_send_start(pair.peer[0], &word, sizeof(word), 1, &options, &ops[i][0]));
		for (unsigned k = 0; k < 2; k++)
			TWT_OK(tow_recv_start(pair.peer[0], &in[i][k], sizeof(in[i][k]), k,
					      &options, &ops[i][1 + k]));
	}
}

/* Those of one channel are in flight; canceled: but for the one that was. */
static void must_go_on(struct tow_op *ops[EACH], bool canceled)
{
	for (unsigned k = 0; k < EACH; k++)
		if (!canceled || k != CANCELED)
			assert_int_equal(tow_op_test(ops[k]), TOW_AGAIN);
}

/* A channel that is closed ends what is on it and nothing else, and looks at little more. */
static void own_operations(void)
{
	uint64_t before = twt_lane_in_use(&pair);
	struct tow_channel *rows[ROWS];
	struct tow_op *ops[ROWS][EACH];
	unsigned looked = 0;

	start_rows(rows, ops);
	for (unsigned i = 0; i < ROWS; i++)
		looked += looked_at(row_number(i));
	assert_in_range(looked, ROWS * EACH + 1, 3 * ROWS * EACH); /* some share a bucket */
	TWT_OK(tow_op_cancel(ops[0][CANCELED])); /* it leaves its channel at once */
	must_end(ops[0][CANCELED], TOW_ECANCELED);
	for (unsigned i = 0; i < ROWS; i++) {
		unsigned row = (i + ROWS / 2) % ROWS;

		TWT_OK(tow_channel_close(rows[row]));
		for (unsigned k = 0; k < EACH; k++)
			if (row != 0 || k != CANCELED)
				must_end(ops[row][k], TOW_ECLOSED);
		for (unsigned open = i + 1; open < ROWS; open++)
			must_go_on(ops[(open + ROWS / 2) % ROWS], open == ROWS / 2);
	}
	twt_lane_settle(&pair, before, "channels with operations");
}

static void refusals(void)
{
	struct tow_op_options options = on(0, 1);
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_channel *extra = (struct tow_channel *)&pair;
	struct tow_part part = { &match, sizeof(match) };
	struct tow_op *op;
	uint64_t word = 0;

	assert_int_equal(tow_channel_open(pair.peer[0], 0, &extra), TOW_EINVAL);
	assert_null(extra);
	assert_int_equal(tow_channel_open(pair.peer[0], TOW_CHANNEL_MAX + 1, &extra), TOW_EINVAL);
	assert_int_equal(tow_channel_open(pair.peer[0], 3, NULL), TOW_EINVAL);
	assert_int_equal(tow_channel_open(NULL, 3, &extra), TOW_EINVAL);
	assert_int_equal(tow_channel_close(NULL), TOW_EINVAL);
	assert_int_equal(tow_channel_open(pair.peer[0], 1, &extra), TOW_EBUSY);
	assert_int_equal(tow_send_start(pair.peer[1], &word, 8, 1, &options, &op), TOW_EINVAL);
	assert_int_equal(tow_recv_match_start(pair.endpoint[0], &match, &part, 1, &options, &op),
			 TOW_EINVAL);
	assert_int_equal(tow_accept_start(pair.endpoint[0], &options, &op), TOW_EINVAL);
	TWT_OK(tow_channel_open(pair.peer[0], TOW_CHANNEL_MAX, &extra));
	TWT_OK(tow_channel_close(extra));
}

/* With the peer its channels are closed. */
static void end_of_peer(void)
{
	struct tow_op_options options = on(0, 2);
	uint64_t word = 0;
	struct tow_op *op = recv_on(0, 2, &word, sizeof(word), 1), *other;

	other = recv_on(1, 2, &word, sizeof(word), 1);
	TWT_OK(tow_peer_close(pair.peer[0]));
	must_end(op, TOW_ECLOSED);
	must_end(other, TOW_EPEER);
	assert_int_equal(tow_channel_close(channel[0][2]), TOW_ECLOSED);
	assert_int_equal(tow_send_start(pair.peer[0], &word, 8, 1, &options, &op), TOW_ECLOSED);
	/* The other side's stays until it is closed. */
	must_end(send_on(1, 2, &word, sizeof(word), 1), TOW_EPEER);
	TWT_OK(tow_channel_close(channel[1][2]));
	assert_int_equal(tow_channel_open(pair.peer[1], 9, &channel[1][2]), TOW_EPEER);
}

static void test_lane(void **state)
{
	memset(channel, 0, sizeof(channel));
	twt_lane_init(&pair, *state);
	pair.options[0].premap_memory_bytes = pair.options[1].premap_memory_bytes = 32 << 20;
	/* So little that it is used up before rings and sockets are full. */
	pair.options[0].credit_bytes = 1 << 20;
	pair.options[1].credit_bytes = 256 << 10;
	pair.options[0].eager_max_bytes = pair.options[1].eager_max_bytes = 256 << 10;
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	open_both(1);
	open_both(2);
	own_messages();
	named_in_words();
	at_once();
	unequal_credit();
	other_receives();
	for (unsigned full = 0; full < 3; full++)
		own_credit(full);
	own_end();
	end_in_the_middle();
	one_sided();
	own_operations();
	refusals();
	end_of_peer();
	twt_lane_close(&pair);
}

int main(void)
{
	return twt_lane_main(test_lane);
}
