/*
 * Answers that come before the lane has said how much of a message went: they wait, are judged when
 * it has, and nothing ends while its memory may be read. What is false stays a fault.
 */
#include "far_bulk.h"

#define WHOLE (2 * TWI_FRAME_BYTES + LARGE) /* header, payload, commit */

static struct twi_bulk_out out;

/* The lane has all of a large message, and has not said that it went. */
static struct tow_op *handed(void)
{
	struct tow_op *op = twt_far_granted();

	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(out.count, 3);
	return op;
}

static void test_done_waits(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN); /* its memory may be being read */
	assert_int_equal(twt_far.session->early_count, 1);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, WHOLE), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(twt_far.session->early_count, 0);
	assert_int_equal(twt_far.session->send_count, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK); /* once */
}

/* The lane says how much went: not all. */
static void test_done_was_a_lie(void **state)
{
	static const size_t went[] = { 0, 1, TWI_FRAME_BYTES, TWI_FRAME_BYTES + LARGE, WHOLE - 1 };

	(void)state;
	for (size_t i = 0; i < twi_array_count(went); i++) {
		struct tow_op *op = handed();

		assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
		assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, went[i]), TOW_EPROTOCOL);
		assert_int_equal(twt_far.session->rule, TWI_RULE_DONE_EARLY);
		assert_non_null(strstr(tow_error_message(), twi_rule_text(TWI_RULE_DONE_EARLY)));
		assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
		twi_session_fail(twt_far.session, TOW_EPROTOCOL);
		assert_int_equal(twt_far_status_of(op), TOW_EPROTOCOL);
		twt_far_close_session();
		twt_far_open_session(CREDIT, EAGER);
	}
}

/* The same where nobody can be told at once: the next input says it. */
static void test_lie_comes_out_later(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_true(
		twi_session_bulk_out(twt_far.session, 0, 1, &out)); /* asked again: nothing went */
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say(TWI_FRAME_PING, 0, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far.session->rule, TWI_RULE_DONE_EARLY);
}

static void test_corrupt_waits(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CORRUPT), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, WHOLE), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ECORRUPT);
	op = twt_far_granted();
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_CORRUPT), TOW_OK);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, WHOLE - 1), TOW_EPROTOCOL);
	assert_int_equal(twt_far.session->rule, TWI_RULE_DONE_EARLY);
}

/* The connection goes before the lane's word: what the peer has said counts. */
static void test_break_between(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(twt_far.session->early_count, 0);
	assert_int_equal(twt_far.session->send_count, 0);
}

/* What may have arrived can only be taken back by force. */
static void test_cancel_after_break(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	twi_session_bulk_broken(twt_far.session, 0);
	assert_false(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

static void test_end_between(void **state)
{
	struct tow_op *op = handed();

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	twi_session_fail(twt_far.session, TOW_EPEER);
	assert_int_equal(twt_far_status_of(op), TOW_EPEER);
	assert_int_equal(twt_far.session->early_count, 0);
}

/* A stripe of another channel is still with the lane. */
static void test_all_channels(void **state)
{
	struct twi_session_config config = twt_far_config();
	struct twi_bulk_out other;
	struct tow_op *op;

	(void)state;
	twt_far_close_session();
	config.bulk_count = 2;
	config.stripe_bytes = 64;
	twt_far_open_session_with(&config);
	op = twt_far_granted();
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_true(twi_session_bulk_out(twt_far.session, 1, LARGE, &other));
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(
		twi_session_bulk_sent(twt_far.session, 0, 2 * TWI_FRAME_BYTES + out.payload_bytes),
		TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 1,
					       2 * TWI_FRAME_BYTES + other.payload_bytes),
			 TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

/* Another message's answer does not wait for this one's. */
static void test_others_go_on(void **state)
{
	struct tow_op *first = handed(), *second = twt_far_send_op(LARGE, 2);

	(void)state;
	twt_far_expect(TWI_FRAME_RTS, 2);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_TRUNCATED), TOW_OK);
	assert_int_equal(twt_far_status_of(second), TOW_ETRUNCATED);
	assert_int_equal(twt_far_status_of(first), TOW_AGAIN);
}

/* The 65th is asked for when the first is over; that it went has not been said yet. */
static void test_asked_for_one_more(void **state)
{
	struct tow_op *ops[TWI_GRANTS_MAX + 1];

	(void)state;
	for (uint64_t i = 0; i <= TWI_GRANTS_MAX; i++) {
		ops[i] = twt_far_send_op(LARGE, 1);
		twt_far_expect(TWI_FRAME_RTS, i + 1);
		if (i < TWI_GRANTS_MAX)
			assert_int_equal(twt_far_say(TWI_FRAME_CTS, i + 1, 0, LARGE), TOW_OK);
	}
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, TWI_GRANTS_MAX + 1, 0, LARGE), TOW_OK);
	assert_int_equal(ops[TWI_GRANTS_MAX]->stage, TWI_STAGE_OFFERED);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, WHOLE), TOW_OK);
	assert_int_equal(twt_far_status_of(ops[0]), TOW_OK);
	assert_int_equal(ops[TWI_GRANTS_MAX]->stage, TWI_STAGE_BULK);

	/* and without that it is one too many */
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	twt_far_send_op(LARGE, 1);
	twt_far_expect(TWI_FRAME_RTS, TWI_GRANTS_MAX + 2);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, TWI_GRANTS_MAX + 2, 0, LARGE), TOW_OK);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, 1), TOW_EPROTOCOL);
	assert_int_equal(twt_far.session->rule, TWI_RULE_GRANTS);
}

/* It came too early, its bytes are over, it is wanted now, and not any more: in this order. */
static void test_four_answers(void **state)
{
	static uint8_t wire[TWI_FRAME_BYTES];
	struct twi_session_config config = twt_far_config();
	struct tow_op *op, *first;

	(void)state;
	twt_far_close_session();
	config.announce = true;
	twt_far_open_session_with(&config);
	first = twt_far_send_op(LARGE, 1); /* tags are looked at from the first large one on */
	twt_far_expect(TWI_FRAME_RTS, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_TRUNCATED), TOW_OK);
	assert_int_equal(twt_far_status_of(first), TOW_ETRUNCATED);
	assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, 1, 1, LARGE), TOW_OK);
	op = twt_far_send_op(LARGE, 1);
	twt_far_expect(TWI_FRAME_RTS, 2);
	assert_int_equal(twt_far.session->ready_sends, 1);
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_NOT_READY), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 2, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 2, 0, LARGE), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(twt_far.session->early_count, 4);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twi_session_bulk_sent(twt_far.session, 0, WHOLE), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
	assert_int_equal(twt_far.session->ready_sends, 0);
	twt_far_drink_data(2, TWI_FRAME_ABORT, 0, 0); /* of the second attempt */
	assert_int_equal(twt_far.session->send_count, 0);
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), 0);
}

/* There is only so much to say. */
static void test_bounded(void **state)
{
	int status = TOW_OK;
	unsigned said = 0;

	(void)state;
	handed();
	for (; status == TOW_OK && said < 1000; said++)
		status = twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED);
	assert_int_equal(status, TOW_EPROTOCOL);
	assert_int_equal(said, TWI_EARLY_MAX + 1);
	assert_int_equal(twt_far.session->rule, TWI_RULE_ANSWERS);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_far_set_up, twt_far_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_done_waits),          CASE(test_done_was_a_lie),
		CASE(test_lie_comes_out_later), CASE(test_corrupt_waits),
		CASE(test_break_between),       CASE(test_cancel_after_break),
		CASE(test_end_between),         CASE(test_all_channels),
		CASE(test_others_go_on),        CASE(test_asked_for_one_more),
		CASE(test_four_answers),        CASE(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
