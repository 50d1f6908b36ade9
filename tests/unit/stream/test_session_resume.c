/*
 * Streams that break and are resumed, against one session: what is sent again, from where, and what
 * a peer may not claim to have. The simulation (tests/sim) breaks streams between two honest
 * sessions; the dishonest one is here.
 */
#include "far_bulk.h"

#define NONE UINT64_MAX /* no item */

static int resume_control(uint64_t received)
{
	uint8_t record[16];
	size_t used = 0;

	twi_put_le32(record, sizeof(record));
	twi_put_le32(record + 4, TWI_STREAM_CONTROL);
	twi_put_le64(record + 8, received);
	return twi_session_control_resume(twt_far.session, record, sizeof(record), &used);
}

static size_t put_record(uint8_t *record, unsigned channel, uint64_t seq_received,
			 const uint64_t (*items)[2], unsigned count)
{
	twi_put_le32(record, 16 + count * 16);
	record[4] = TWI_STREAM_BULK;
	record[5] = (uint8_t)channel;
	twi_put_le16(record + 6, (uint16_t)count);
	twi_put_le64(record + 8, seq_received);
	for (unsigned i = 0; i < count; i++) {
		twi_put_le64(record + 16 + i * 16, items[i][0]);
		twi_put_le64(record + 24 + i * 16, items[i][1]);
	}
	return 16 + count * 16;
}

/* Channel 0 is resumed by a receiver that has `got` of message seq. */
static int resume_bulk(uint64_t seq, uint64_t got)
{
	const uint64_t items[1][2] = { { seq, got } };
	uint8_t record[TWI_RESUME_MAX];
	size_t used = 0, n = put_record(record, 0, 0, items, seq != NONE);

	return twi_session_bulk_resume(twt_far.session, 0, record, n, &used);
}

static void test_control_is_sent_again(void **state)
{
	struct twi_frame frame;

	(void)state;
	for (uint64_t tag = 0; tag < 3; tag++)
		assert_int_equal(twt_far_status_of(twt_far_send_op(8, tag)), TOW_OK);
	twt_far_expect(TWI_FRAME_EAGER, 1);
	twt_far_expect(TWI_FRAME_EAGER, 2);
	twi_session_control_broken(twt_far.session);
	assert_int_equal(twt_far_hear(&frame), 0);
	assert_int_equal(twt_far_status_of(twt_far_send_op(8, 3)), TOW_OK); /* taken meanwhile */
	assert_int_equal(resume_control(TWI_FRAME_BYTES + 8), TOW_OK);
	for (uint64_t seq = 2; seq <= 4; seq++)
		twt_far_expect(TWI_FRAME_EAGER, seq);
	assert_int_equal(twt_far_hear(&frame), 0);
	/* and once more, in the middle of a frame that had been sent half */
	twi_session_control_broken(twt_far.session);
	assert_int_equal(resume_control(4 * (TWI_FRAME_BYTES + 8)), TOW_OK);
	assert_int_equal(twt_far_hear(&frame), 0);
	assert_false(twi_session_quiet(twt_far.session));
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 4, 0, 0), TOW_OK);
	assert_true(twi_session_quiet(twt_far.session));
}

/* More than fits a chunk of the buffer, broken at each of some bytes. */
static void test_control_resumes_anywhere(void **state)
{
	enum { FRAME = TWI_FRAME_BYTES + EAGER, COUNT = 150, ALL = COUNT * FRAME };
	static uint8_t first[ALL], again[ALL];
	uint64_t from = 0;

	(void)state;
	twt_far_close_session();
	twt_far_open_session(16u << 20, EAGER);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(twt_far_status_of(twt_far_send_op(EAGER, 1)), TOW_OK);
	for (uint64_t at = 0; at < ALL;) {
		struct iovec out;

		assert_true(twi_session_control_out(twt_far.session, &out));
		memcpy(first + at, out.iov_base, out.iov_len);
		at += out.iov_len;
		twi_session_control_sent(twt_far.session, out.iov_len);
	}
	for (; from < ALL; from += 9973) {
		twi_session_control_broken(twt_far.session);
		assert_int_equal(resume_control(from), TOW_OK);
		for (uint64_t at = from; at < ALL;) {
			struct iovec out;

			assert_true(twi_session_control_out(twt_far.session, &out));
			memcpy(again + at, out.iov_base, out.iov_len);
			at += out.iov_len;
			twi_session_control_sent(twt_far.session, out.iov_len);
		}
		assert_memory_equal(first + from, again + from, ALL - from);
	}
	twi_session_control_broken(twt_far.session);
	assert_int_equal(resume_control(from - 2 * 9973), TOW_EPROTOCOL); /* it has had more */
}

static void test_control_claims(void **state)
{
	uint8_t record[TWI_RESUME_MAX];
	size_t used = 0;

	(void)state;
	twt_far_send_op(8, 0);
	twt_far_expect(TWI_FRAME_EAGER, 1);
	twt_far_send_op(8, 0); /* framed, and never given to the lane */
	twi_session_control_broken(twt_far.session);
	assert_int_equal(resume_control(UINT64_MAX), TOW_EPROTOCOL);
	assert_int_equal(resume_control(41), TOW_EPROTOCOL);
	assert_int_equal(twi_session_control_resume_put(twt_far.session, record), 16);
	for (size_t n = 0; n < 16; n++)
		assert_int_equal(twi_session_control_resume(twt_far.session, record, n, &used),
				 TOW_AGAIN);
	record[4] = TWI_STREAM_BULK;
	assert_int_equal(twi_session_control_resume(twt_far.session, record, 8, &used),
			 TOW_EPROTOCOL);
	record[4] = TWI_STREAM_CONTROL;
	record[0]++;
	assert_int_equal(twi_session_control_resume(twt_far.session, record, 16, &used),
			 TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_RECEIVED, 0, 0, 41), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_RECEIVED, 0, 0, 40), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_RECEIVED, 0, 0, 39),
			 TOW_OK); /* an old word, said again */
	assert_int_equal(resume_control(39), TOW_EPROTOCOL);
	assert_int_equal(resume_control(40), TOW_OK);
	twt_far_expect(TWI_FRAME_EAGER, 2);
}

/* What the peer has not said to have is kept up to a bound; then messages wait. */
static void test_kept_up_to_a_bound(void **state)
{
	struct tow_op *op = NULL;
	struct twi_frame frame;
	uint64_t sent = 0;

	(void)state;
	twt_far_close_session();
	twt_far_open_session(1u << 30, EAGER);
	while (sent <= TWI_RETAIN_BYTES) {
		op = twt_far_send_op(EAGER, 1);
		if (twt_far_status_of(op) != TOW_OK)
			break;
		sent += EAGER + TWI_FRAME_BYTES;
		while (twt_far_hear(&frame) != 0)
			;
	}
	assert_true(sent > TWI_RETAIN_BYTES / 2 && sent < TWI_RETAIN_BYTES);
	assert_int_equal(op->stage, TWI_STAGE_QUEUED);
	/* but what must be said can be said */
	twi_session_ping(twt_far.session);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_PING);
	assert_int_equal(twt_far_say(TWI_FRAME_RECEIVED, 0, 0, twt_far.session->tx_tail), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_EAGER);
}

static void test_received_is_said(void **state)
{
	struct twi_frame frame = { 0 };
	uint64_t n = 0, told = 0;

	(void)state;
	/* frames that are answered by nothing else */
	for (; n < 3 * TWI_RECEIVED_URGENT; n += TWI_FRAME_BYTES) {
		assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
		twi_session_ack(twt_far.session);
		if (twt_far_hear(&frame) != 0) {
			assert_int_equal(frame.type, TWI_FRAME_RECEIVED);
			assert_int_equal(frame.value, n + TWI_FRAME_BYTES);
			assert_int_equal(frame.value - told, TWI_RECEIVED_URGENT);
			told = frame.value;
		}
	}
	assert_int_equal(told, n);
}

static void test_ping(void **state)
{
	const struct twi_frame filler = { .type = TWI_FRAME_REFUSE, .seq = 1, .value = 1 };
	struct twi_frame frame = { 0 };
	unsigned pongs = 0;

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_PING, 0, 0, 0), TOW_OK);
	assert_true(twt_far.session->urgent);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_PONG);
	assert_int_equal(frame.value, TWI_FRAME_BYTES);
	assert_int_equal(twt_far_say(TWI_FRAME_PONG, 0, 0, TWI_FRAME_BYTES + 1), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_PONG, 0, 0, TWI_FRAME_BYTES), TOW_OK);
	assert_int_equal(twt_far.session->tx_acked, TWI_FRAME_BYTES);
	/* however many there are, one answer waits for room */
	while (twi_session_put(twt_far.session, &filler))
		;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(twt_far_say(TWI_FRAME_PING, 0, 0, 0), TOW_OK);
		twi_session_ping(twt_far.session);
	}
	assert_int_equal(twt_far.session->owed_count, 0);
	while (twt_far_hear(&frame) != 0)
		pongs += frame.type == TWI_FRAME_PONG || frame.type == TWI_FRAME_PING;
	assert_int_equal(pongs, 2);
}

static void test_sender_goes_on(void **state)
{
	static uint8_t wire[2 * TWI_FRAME_BYTES + LARGE];
	struct tow_op *op = twt_far_granted();

	(void)state;
	assert_int_equal(twt_far_drink(wire, TWI_FRAME_BYTES + 3000), TWI_FRAME_BYTES + 3000);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twt_far_drink(wire, 1), 0);
	assert_int_equal(resume_bulk(1, 2000), TOW_OK);
	twt_far_drink_data(1, 0, 2000, LARGE - 2000);
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), LARGE - 2000 + TWI_FRAME_BYTES);
	assert_memory_equal(wire, twt_far.bytes + 2000, LARGE - 2000);
	assert_int_equal(op->stage, TWI_STAGE_SENT);

	twi_session_bulk_broken(twt_far.session, 0); /* the commit alone is missing */
	assert_int_equal(resume_bulk(1, LARGE), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_BULK);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	twt_far_drink_data(1, TWI_FRAME_LAST, LARGE, 0);

	twi_session_bulk_broken(twt_far.session, 0); /* all of it */
	assert_int_equal(resume_bulk(1, 0), TOW_OK);
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), sizeof(wire));

	twi_session_bulk_broken(twt_far.session, 0); /* nothing */
	assert_int_equal(resume_bulk(NONE, 0), TOW_OK);
	assert_int_equal(twt_far_drink(wire, 1), 0);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

/* The lane had the last bytes, and cannot say any more whether they went. */
static void test_handed_out_and_arrived(void **state)
{
	struct tow_op *op = twt_far_granted();
	struct twi_bulk_out out;

	(void)state;
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(out.count, 3);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(resume_bulk(NONE, 0), TOW_OK);
	assert_false(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_true(twt_far.session->send_count == 0);
}

static void test_taken_back_while_broken(void **state)
{
	static uint8_t wire[2 * TWI_FRAME_BYTES + LARGE];
	struct tow_op *op = twt_far_granted();

	(void)state;
	assert_int_equal(twt_far_drink(wire, 1000), 1000);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
	assert_int_equal(resume_bulk(1, 500), TOW_OK);
	twt_far_drink_data(1, TWI_FRAME_ABORT, 0, 0); /* and no padding before it */
	assert_int_equal(twt_far_drink(wire, 1), 0);
	assert_int_equal(twt_far.session->send_count, 0);

	twi_session_bulk_broken(twt_far.session,
				0); /* the ABORT was lost: it is said again, once */
	assert_int_equal(resume_bulk(1, 500), TOW_OK);
	twt_far_drink_data(1, TWI_FRAME_ABORT, 0, 0);
	assert_int_equal(twt_far_drink(wire, 1), 0);
}

/* The receiver has asked, and the asking is on its way. */
static void test_grant_on_its_way(void **state)
{
	uint8_t wire[1];
	struct tow_op *op = twt_far_send_op(LARGE, 1);

	(void)state;
	twt_far_expect(TWI_FRAME_RTS, 1);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(resume_bulk(1, 1), TOW_EPROTOCOL);
	assert_int_equal(resume_bulk(1, 0), TOW_OK);
	assert_int_equal(twt_far_drink(wire, 1), 0);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	twt_far_drink_data(1, 0, 0, LARGE);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
}

static void test_bulk_claims(void **state)
{
	static const uint64_t twice[2][2] = { { 1, 10 }, { 1, 10 } };
	static uint8_t wire[TWI_FRAME_BYTES + LARGE];
	uint8_t record[TWI_RESUME_MAX];
	size_t used = 0, n;

	(void)state;
	twt_far_granted();
	assert_int_equal(twt_far_drink(wire, TWI_FRAME_BYTES + 100), TWI_FRAME_BYTES + 100);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(resume_bulk(1, 101), TOW_EPROTOCOL);  /* more than was sent */
	assert_int_equal(resume_bulk(0, 0), TOW_EPROTOCOL);    /* no message */
	assert_int_equal(resume_bulk(2, 0), TOW_EPROTOCOL);    /* never sent */
	assert_int_equal(resume_bulk(NONE, 0), TOW_EPROTOCOL); /* half of it is no whole */
	assert_int_equal(resume_bulk(1, 10 | 1ull << 63), TOW_EPROTOCOL); /* it was asked for */
	n = put_record(record, 0, 0, twice, 2);
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, n, &used),
			 TOW_EPROTOCOL);
	n = put_record(record, 0, 0, twice, 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, i, &used),
				 TOW_AGAIN);
	record[5] = 1;
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, n, &used),
			 TOW_EPROTOCOL);
	record[5] = 0;
	twi_put_le16(record + 6, TWI_LARGE_MAX + 1);
	twi_put_le32(record, 16 + 16 * (TWI_LARGE_MAX + 1));
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, n, &used),
			 TOW_EPROTOCOL);
	assert_int_equal(resume_bulk(1, 100), TOW_OK);
}

/* Any bytes at all: refused or taken, and the session lives on. */
static void test_random_records(void **state)
{
	uint64_t rng = twt_seed();
	uint8_t record[TWI_RESUME_MAX], wire[64];
	unsigned taken = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) { /* of which some 150 are taken */
		struct tow_op *op = twt_far_granted();
		uint64_t items[4][2];
		unsigned count = (unsigned)twt_random_below(&rng, 4);
		size_t used = 0, n;

		twt_far_drink(wire, twt_random_below(&rng, sizeof(wire)));
		twi_session_bulk_broken(twt_far.session, 0);
		for (unsigned k = 0; k < count; k++) {
			items[k][0] = op->seq - twt_random_below(&rng, 3);
			items[k][1] = twt_random_below(&rng, 40) |
				      (twt_random_below(&rng, 8) == 0 ? 1ull << 63 : 0);
		}
		n = put_record(record, 0, twt_random(&rng), (const uint64_t(*)[2])items, count);
		if (twt_random_below(&rng, 4) == 0)
			record[twt_random_below(&rng, n)] ^= (uint8_t)(1u << (i % 8));
		taken += twi_session_bulk_resume(twt_far.session, 0, record, n, &used) == TOW_OK;
		twt_far_close_session();
		twt_far_open_session(CREDIT, EAGER);
	}
	assert_true(taken > 10 && taken < 990);
}

static void test_receiver_goes_on(void **state)
{
	uint8_t record[TWI_RESUME_MAX];
	struct tow_op *op = twt_far_asked(1);
	struct iovec parts[2];

	(void)state;
	assert_int_equal(twt_far_say_data(1, 0, 1000, 0), TOW_OK);
	assert_int_equal(twt_far_feed(twt_far.bytes, 5, 5), TOW_OK); /* a piece of a header */
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twi_session_bulk_want(twt_far.session, 0, 100, parts), 0);
	assert_int_equal(twi_session_bulk_resume_put(twt_far.session, 0, record), 32);
	assert_int_equal(twi_get_le64(record + 8), 1);
	assert_int_equal(twi_get_le64(record + 16), 1);
	assert_int_equal(twi_get_le64(record + 24), 1000);
	assert_int_equal(resume_bulk(NONE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, 1000, LARGE - 1000, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
}

/* An ABORT of what was listed may come late, one for each, and no others. */
static void test_late_aborts_are_bounded(void **state)
{
	uint8_t record[TWI_RESUME_MAX];

	(void)state;
	twt_far_asked(1);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twi_session_bulk_resume_put(twt_far.session, 0, record), 32);
	assert_int_equal(resume_bulk(NONE, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->grant_count, 0);
	assert_int_equal(twt_far_say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	assert_int_equal(twt_far_say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_EPROTOCOL);
}

/* The receiver's side: what it has of a stripe is its record's, the sender's is empty. */
static void broken_and_resumed(unsigned fruitless)
{
	uint8_t record[TWI_RESUME_MAX];

	twi_session_bulk_broken(twt_far.session, 0);
	twi_session_bulk_resume_put(twt_far.session, 0, record);
	assert_int_equal(resume_bulk(NONE, 0), TOW_OK);
	assert_int_equal(twi_session_fruitless(twt_far.session, 1), fruitless);
}

/* Resumes between which nothing moves are counted while something is to move. */
static void test_resumed_in_vain(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		broken_and_resumed(0); /* nothing is to come */
	twt_far_asked(1);
	broken_and_resumed(0); /* the record is another than the last one */
	for (unsigned i = 1; i < 4; i++)
		broken_and_resumed(i);
	assert_int_equal(twt_far_say_data(1, 0, 100, 0), TOW_OK);
	broken_and_resumed(0);
	broken_and_resumed(1);
	assert_int_equal(twi_session_fruitless(twt_far.session, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		twi_session_control_broken(twt_far.session);
		assert_int_equal(resume_control(twt_far.session->tx_head), TOW_OK);
	}
	assert_int_equal(twi_session_fruitless(twt_far.session, 0), 0); /* all has come */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_control_is_sent_again),
		CASE(test_control_resumes_anywhere),
		CASE(test_control_claims),
		CASE(test_kept_up_to_a_bound),
		CASE(test_received_is_said),
		CASE(test_ping),
		CASE(test_sender_goes_on),
		CASE(test_handed_out_and_arrived),
		CASE(test_taken_back_while_broken),
		CASE(test_grant_on_its_way),
		CASE(test_bulk_claims),
		CASE(test_random_records),
		CASE(test_receiver_goes_on),
		CASE(test_late_aborts_are_bounded),
		CASE(test_resumed_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
