/*
 * Messages and receives that are taken back: at every stage, after any byte, by either side, with
 * both sides' words crossing on the way. The streams must stay in step and nothing be lost but what
 * was taken back.
 */
#include "far_bulk.h"

static void test_cancel_crosses_grant(void **state)
{
	struct tow_op *op = twt_far_send_op(LARGE, 1);

	(void)state;
	twt_far_expect(TWI_FRAME_RTS, 1);
	assert_true(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	twt_far_expect(TWI_FRAME_CANCEL, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(twt_far.session->send_count, 0);

	/* and on the other side: the receive takes the next message */
	op = twt_far_asked(1);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->grant_count, 0);
	assert_int_equal(twt_far_say_eager(2, 1, 5), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(op->result_bytes, 5);
}

static void test_cancel_at_each_stage(void **state)
{
	struct tow_op *op = twt_far_recv_op(LARGE, 1);

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 9, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 1, 7, LARGE), TOW_OK); /* unexpected */
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->inbox.match.unexpected_count, 0);
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 2, 1, LARGE), TOW_OK);
	assert_int_equal(twt_far_say_data(2, 0, 10, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 2, 0, 0), TOW_EPROTOCOL); /* it has begun */
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
}

static void test_abort_gives_the_receive_back(void **state)
{
	struct tow_op *first = twt_far_asked(1), *second = twt_far_recv_op(LARGE, 1);

	(void)state;
	assert_int_equal(twt_far_say_data(1, 0, 100, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	assert_int_equal(twt_far.session->grant_count, 0);
	assert_int_equal(twt_far_say_eager(2, 1, 5), TOW_OK);
	assert_int_equal(twt_far_status_of(first), TOW_OK);
	assert_int_equal(twt_far_status_of(second), TOW_AGAIN);
}

static void test_refused_at_each_stage(void **state)
{
	static uint8_t wire[TWI_FRAME_BYTES + LARGE];
	struct tow_op *op = twt_far_send_op(LARGE, 1);

	(void)state;
	twt_far_expect(TWI_FRAME_RTS, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_TRUNCATED), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ETRUNCATED);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_TRUNCATED), TOW_OK);

	op = twt_far_granted(); /* nothing sent yet */
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	twt_far_drink_data(2, TWI_FRAME_ABORT, 0, 0);

	op = twt_far_granted(); /* in the middle: zeros, then the abort */
	assert_int_equal(twt_far_drink(wire, TWI_FRAME_BYTES + 100), TWI_FRAME_BYTES + 100);
	assert_memory_equal(wire + TWI_FRAME_BYTES, twt_far.bytes, 100);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 3, 0, TWI_REFUSE_CANCELED), TOW_OK);
	memset(wire, 1, sizeof(wire));
	assert_int_equal(twt_far_drink(wire, LARGE - 100), LARGE - 100);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	for (size_t i = 0; i < LARGE - 100; i++)
		assert_int_equal(wire[i], 0);
	twt_far_drink_data(3, TWI_FRAME_ABORT, 0, 0);

	op = twt_far_granted(); /* all sent, the commit too */
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), sizeof(wire));
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), TWI_FRAME_BYTES);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 4, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	assert_int_equal(twt_far.session->send_count, 0);
}

/* The lane has the last bytes when the refusal comes: they count as sent, and it is not lost. */
static void test_refused_during_the_last_send(void **state)
{
	struct tow_op *op = twt_far_granted();
	struct twi_bulk_out out;

	(void)state;
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(out.count, 3);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED), TOW_OK);
	twi_session_bulk_sent(twt_far.session, 0, 2 * TWI_FRAME_BYTES + LARGE);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	assert_false(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
}

/* Taken back after `sent` bytes of header, payload and commit: the stream stays in step. */
static void test_taken_back_after_any_byte(void **state)
{
	static uint8_t wire[4 * TWI_FRAME_BYTES + LARGE];
	const size_t all = 2 * TWI_FRAME_BYTES + LARGE;

	(void)state;
	for (size_t sent = 0; sent <= all; sent += sent >= 40 && sent + 60 < all ? 53 : 1) {
		struct tow_op *op = twt_far_granted(), *next;
		uint64_t seq = op->seq;
		size_t rest;

		assert_int_equal(twt_far_drink(wire, sent), sent);
		assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
		assert_int_equal(twt_far_status_of(op), TOW_EDEADLINE);
		rest = twt_far_drink(wire + sent, sizeof(wire) - sent);
		if (sent == 0)
			assert_int_equal(rest, TWI_FRAME_BYTES);
		else
			assert_int_equal(sent + rest, all);
		/* the last frame is the commit when it had begun, an abort otherwise */
		assert_int_equal(wire[sent + rest - TWI_FRAME_BYTES + 1],
				 sent > TWI_FRAME_BYTES + LARGE ? TWI_FRAME_LAST : TWI_FRAME_ABORT);
		assert_int_equal(twt_far.session->send_count, 0);
		next = twt_far_granted();
		twt_far_drink_data(next->seq, 0, 0, LARGE);
		assert_true(next->seq == seq + 1);
		assert_true(twi_session_abort(twt_far.session, next, TOW_EDEADLINE, true));
		twt_far_drink(wire, sizeof(wire));
		assert_int_equal(
			twt_far_say(TWI_FRAME_ACK, seq + 1, twt_far.session->outbox.credit.used, 0),
			TOW_OK);
		while (twt_far.session->tx_head != twt_far.session->tx_tail)
			twi_session_control_sent(twt_far.session, twt_far.session->tx_tail -
									  twt_far.session->tx_head);
	}
}

/* Nobody wants the bytes any more: they go nowhere, and the stream stays in step. */
static void test_unwanted_bytes_sink(void **state)
{
	struct tow_op *op = twt_far_asked(1), *next;

	(void)state;
	assert_int_equal(twt_far_say_data(1, 0, 100, 0), TOW_OK);
	assert_false(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
	twt_far_expect(TWI_FRAME_REFUSE, 1);
	memset(twt_far.room, 0, LARGE);
	assert_int_equal(twt_far_say_data(1, 100, LARGE - 100, 0), TOW_OK);
	assert_int_equal(twt_far.room[100], 0);
	assert_int_equal(twt_far_say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far.session->grant_count, 0);
	next = twt_far_asked(2); /* and no DONE in between */
	assert_int_equal(twt_far_say_data(2, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(2, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(next), TOW_OK);
}

/* More is withdrawn than the buffer holds: every word of it is said in the end. */
static void test_full_control_buffer(void **state)
{
	static struct tow_op *ops[8000];
	struct twi_frame frame = { 0 };
	unsigned offers = 0, cancels = 0;

	(void)state;
	twt_far_close_session();
	twt_far_open_session(16u << 20, EAGER);
	for (size_t i = 0; i < twi_array_count(ops); i++)
		ops[i] = twt_far_send_op(LARGE, i);
	assert_int_equal(ops[7999]->stage, TWI_STAGE_QUEUED);
	for (size_t i = 0; i < twi_array_count(ops); i++)
		assert_true(twi_session_abort(twt_far.session, ops[i], TOW_ECANCELED, false));
	assert_true(twt_far.session->owed_count > 0);
	while (twt_far_hear(&frame) != 0) {
		offers += frame.type == TWI_FRAME_RTS;
		cancels += frame.type == TWI_FRAME_CANCEL;
	}
	assert_true(offers > 6000);
	assert_int_equal(offers, cancels);
}

static void test_queued_send_lets_others_go(void **state)
{
	struct tow_op *first, *small;

	(void)state;
	while (twt_far_status_of(first = twt_far_send_op(EAGER, 0)) == TOW_OK)
		;
	small = twt_far_send_op(0, 0);
	assert_int_equal(twt_far_status_of(small), TOW_AGAIN);
	assert_true(twi_session_abort(twt_far.session, first, TOW_ECANCELED, false));
	assert_int_equal(twt_far_status_of(small), TOW_OK);
}

/* The receive's time is over while its message arrives: the next receive gets all of it. */
static void test_small_message_outlives_its_receive(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 1 };
	uint8_t wire[TWI_FRAME_BYTES + 50];
	struct tow_op *op = twt_far_recv_op(50, 0), *next, *after;

	(void)state;
	twi_frame_put(wire, &head);
	memcpy(wire + TWI_FRAME_BYTES, twt_far.bytes, 50);
	assert_int_equal(twi_session_control_in(twt_far.session, wire, TWI_FRAME_BYTES + 20),
			 TOW_OK);
	assert_false(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
	memset(twt_far.room, 0, 50);
	next = twt_far_recv_op(50, 0);
	assert_true(twi_session_abort(twt_far.session, next, TOW_EDEADLINE, true)); /* once more */
	after = twt_far_recv_op(50, 0);
	assert_int_equal(twi_session_control_in(twt_far.session, wire + TWI_FRAME_BYTES + 20, 30),
			 TOW_OK);
	assert_int_equal(twt_far_status_of(after), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, 50);
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);
	assert_int_equal(twt_far.session->inbox.kept_bytes, 0);
}

/* A receive that has met an offer and waits for its turn gives it back, in front of later ones. */
static void test_waiting_receive_gives_back(void **state)
{
	struct tow_op *first, *second;
	uint64_t seq = 1;

	(void)state;
	for (; seq <= TWI_GRANTS_MAX; seq++) {
		twt_far_recv_op(LARGE, 9);
		assert_int_equal(twt_far_say(TWI_FRAME_RTS, seq, 9, LARGE), TOW_OK);
	}
	first = twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, seq, 1, LARGE), TOW_OK);
	assert_int_equal(first->stage, TWI_STAGE_QUEUED);
	assert_int_equal(twt_far_say_eager(seq + 1, 1, 5), TOW_OK);
	assert_true(twi_session_abort(twt_far.session, first, TOW_ECANCELED, false));
	assert_int_equal(first->rpc_id, 0);
	second = twt_far_recv_op(LARGE, 1);
	assert_int_equal(second->stage, TWI_STAGE_QUEUED);
	assert_int_equal(twt_far.session->inbox.credit.charged -
				 twt_far.session->inbox.credit.given,
			 twi_frame_cost(5));
	assert_int_equal(twt_far_status_of(twt_far_recv_op(LARGE, 1)), TOW_OK);

	/* given back with another receive there: that one has it at once; then it is withdrawn */
	first = twt_far_recv_op(LARGE, 1);
	assert_true(twi_session_abort(twt_far.session, second, TOW_ECANCELED, false));
	assert_int_equal(first->seq, seq);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, seq, 0, 0), TOW_OK);
	assert_int_equal(first->stage, TWI_STAGE_POSTED);
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);

	/* and given back with nobody there: withdrawn from the table */
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, seq + 2, 1, LARGE), TOW_OK);
	assert_true(twi_session_abort(twt_far.session, first, TOW_ECANCELED, false));
	assert_int_equal(twt_far.session->inbox.match.unexpected_count, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, seq + 2, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->inbox.match.unexpected_count, 0);
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_cancel_crosses_grant),
		CASE(test_cancel_at_each_stage),
		CASE(test_abort_gives_the_receive_back),
		CASE(test_refused_at_each_stage),
		CASE(test_refused_during_the_last_send),
		CASE(test_taken_back_after_any_byte),
		CASE(test_unwanted_bytes_sink),
		CASE(test_full_control_buffer),
		CASE(test_waiting_receive_gives_back),
		CASE(test_queued_send_lets_others_go),
		CASE(test_small_message_outlives_its_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
