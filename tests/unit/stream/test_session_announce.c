/*
 * Large messages that go without having been asked for, because their receive was announced: both
 * roles against one session, and what may cross on the way.
 */
#include "far_bulk.h"

static const struct twi_frame none;

static int set_up_announcing(void **state)
{
	struct twi_session_config config = twt_far_config();

	twt_far_set_up(state);
	twt_far_close_session();
	config.announce = true;
	twt_far_open_session_with(&config);
	return 0;
}

/* A send that goes at once: RTS with READY and the data behind it. */
static struct tow_op *sent_ready(uint64_t seq)
{
	struct twi_frame frame = none;
	struct tow_op *op;

	assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, seq - 1, 1, LARGE), TOW_OK);
	op = twt_far_send_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_RTS);
	assert_int_equal(frame.flags & TWI_FRAME_READY, TWI_FRAME_READY);
	assert_int_equal(op->stage, TWI_STAGE_BULK);
	return op;
}

static void drink_all(uint64_t seq)
{
	static uint8_t wire[LARGE + 2 * TWI_FRAME_BYTES];

	assert_int_equal(twt_far_drink(wire, sizeof(wire)), sizeof(wire));
	assert_int_equal(twi_get_le64(wire + 8), seq);
}

static void test_goes_unasked(void **state)
{
	struct tow_op *op = sent_ready(1);
	struct twi_frame frame;

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	drink_all(1);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(twt_far.session->ready_sends, 0);
	/* it is used up */
	twt_far_send_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_RTS);
	assert_int_equal(frame.flags, 0);
}

static void test_announcements_that_do_not_hold(void **state)
{
	struct twi_frame frame = none;

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, 1, 1, LARGE),
			 TOW_EPROTOCOL); /* of nothing sent */
	twt_far_send_op(LARGE, 2);       /* before that there is nothing to announce for */
	twt_far_expect(TWI_FRAME_RTS, 1);
	twt_far_send_op(10, 1);
	twt_far_expect(TWI_FRAME_EAGER, 2);
	assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, 1, 1, LARGE), TOW_OK); /* that takes it */
	assert_int_equal(twt_far.session->announced_count, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, 2, 1, LARGE - 1), TOW_OK); /* too small */
	assert_int_equal(twt_far_say_flags(TWI_FRAME_ANNOUNCE, 1, 2, 1, LARGE),
			 TOW_OK); /* another space */
	twt_far_send_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_RTS);
	assert_int_equal(frame.flags, 0);
	assert_int_equal(twt_far.session->announced_count, 1);
	/* and no more than so many are kept */
	for (unsigned i = 0; i < 2 * TWI_ANNOUNCED_MAX; i++)
		assert_int_equal(twt_far_say(TWI_FRAME_ANNOUNCE, 3, 1, LARGE), TOW_OK);
	assert_int_equal(twt_far.session->announced_count, TWI_ANNOUNCED_MAX);
	/* nor sent: each is the receiver's to end */
	for (unsigned i = 0; i < TWI_READY_MAX + 5; i++)
		twt_far_send_op(LARGE, 1);
	assert_int_equal(twt_far.session->ready_sends, TWI_READY_MAX);
}

/* The receive has gone: the message stays offered, and goes when it is asked for. */
static void test_too_early(void **state)
{
	struct tow_op *op = sent_ready(1);
	static uint8_t wire[LARGE + TWI_FRAME_BYTES];

	(void)state;
	assert_int_equal(twt_far_drink(wire, 1000), 1000);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_NOT_READY), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_OFFERED);
	assert_int_equal(twt_far_drink(wire, LARGE + TWI_FRAME_BYTES - 1000),
			 LARGE + TWI_FRAME_BYTES - 1000);
	twt_far_drink_data(1, TWI_FRAME_ABORT, 0, 0);
	assert_int_equal(twt_far.session->ready_sends, 1); /* until the receiver has seen the end */
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->ready_sends, 0);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_NOT_READY), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	drink_all(1);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

/* The same with all of it sent, and with the operation gone: then the offer is withdrawn. */
static void test_too_early_and_taken_back(void **state)
{
	struct tow_op *op = sent_ready(1);

	(void)state;
	drink_all(1);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_NOT_READY), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_OFFERED);
	assert_true(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	twt_far_expect(TWI_FRAME_CANCEL, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->ready_sends, 0);

	op = sent_ready(2);
	assert_true(twi_session_abort(twt_far.session, op, TOW_ECANCELED, false));
	twt_far_drink_data(2, TWI_FRAME_ABORT, 0, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_NOT_READY), TOW_OK);
	twt_far_expect(TWI_FRAME_CANCEL, 2);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 2, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->ready_sends, 0);
}

static int say_ready(uint64_t seq, uint64_t tag)
{
	return twt_far_say_flags(TWI_FRAME_RTS, TWI_FRAME_READY, seq, tag, LARGE);
}

static void test_receives_unasked(void **state)
{
	struct twi_frame frame = none;
	struct tow_op *op;

	(void)state;
	twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), 0); /* nothing large has come so far */
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 1, 1, LARGE), TOW_OK);
	twt_far_expect(TWI_FRAME_CTS, 1);
	op = twt_far_recv_op(LARGE + 7, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_ANNOUNCE);
	assert_true(frame.seq == 1 && frame.tag == 1 && frame.value == LARGE + 7);
	assert_int_equal(say_ready(2, 1), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_GRANTED);
	assert_int_equal(twt_far_say_data(2, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(2, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
	twt_far_expect(TWI_FRAME_DONE, 2);
	assert_int_equal(twt_far.session->ready_grants, 0);
	/* a small one with the tag, and it is quiet again */
	assert_int_equal(twt_far_say_eager(3, 1, 5), TOW_OK);
	twt_far_recv_op(LARGE, 1);
	twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), 0);
}

/* The number turns out to be a small message's. */
static void test_data_of_no_offer(void **state)
{
	struct twi_frame data = { .type = TWI_FRAME_DATA, .payload_bytes = LARGE, .seq = 1 };
	uint8_t head[TWI_FRAME_BYTES];
	struct iovec parts[2];

	(void)state;
	twi_frame_put(head, &data);
	assert_int_equal(twt_far_feed(head, sizeof(head), 7), TOW_OK);
	assert_int_equal(twi_session_bulk_want(twt_far.session, 0, 1000, parts), 0);
	assert_int_equal(twt_far_say_eager(1, 9, 5), TOW_EPROTOCOL);
}

/* The data overtakes its offer: the channel waits for it. */
static void test_data_waits_for_its_offer(void **state)
{
	struct tow_op *op = twt_far_recv_op(LARGE, 1);
	struct twi_frame data = { .type = TWI_FRAME_DATA, .payload_bytes = LARGE, .seq = 2 };
	uint8_t head[TWI_FRAME_BYTES];
	struct iovec parts[2];

	(void)state;
	twi_frame_put(head, &data);
	assert_int_equal(twt_far_feed(head, sizeof(head), 7), TOW_OK);
	assert_int_equal(twt_far_say_eager(1, 9, 5), TOW_OK); /* another one comes first */
	assert_int_equal(twi_session_bulk_want(twt_far.session, 0, 1000, parts), 0);
	assert_int_equal(say_ready(2, 1), TOW_OK);
	assert_int_equal(twi_session_bulk_want(twt_far.session, 0, 1000, parts), 1);
	assert_int_equal(twt_far_feed(twt_far.bytes, LARGE, 999), TOW_OK);
	assert_int_equal(twt_far_say_data(2, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
}

/* Nobody waits: the bytes sink, and the message is asked for when all of them have. */
static void test_comes_too_early(void **state)
{
	struct twi_frame frame = none;
	struct tow_op *op;

	(void)state;
	assert_int_equal(say_ready(1, 1), TOW_OK);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_REFUSE);
	assert_int_equal(frame.value, TWI_REFUSE_NOT_READY);
	assert_int_equal(twt_far.session->inbox.match.unexpected_count, 1);
	op = twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), 0);
	assert_int_equal(op->stage, TWI_STAGE_QUEUED);
	memset(twt_far.room, 0, LARGE);
	assert_int_equal(twt_far_say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far.room[1], 0);
	assert_int_equal(twt_far_say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	twt_far_expect(TWI_FRAME_DONE, 1);
	twt_far_expect(TWI_FRAME_CTS, 1);
	assert_int_equal(twt_far_say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	twt_far_expect(TWI_FRAME_DONE, 1);
	/* withdrawn while its bytes still sink */
	assert_int_equal(say_ready(2, 1), TOW_OK);
	twt_far_expect(TWI_FRAME_REFUSE, 2);
	assert_int_equal(twt_far_say_data(2, 0, 100, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CANCEL, 2, 0, 0), TOW_OK);
	assert_int_equal(twt_far.session->inbox.match.unexpected_count, 0);
	assert_int_equal(twt_far_say_data(2, 100, LARGE - 100, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(2, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	twt_far_expect(TWI_FRAME_DONE, 2);
	assert_int_equal(twt_far.session->ready_grants, 0);
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);
}

static void test_unasked_and_too_large(void **state)
{
	struct tow_op *op = twt_far_recv_op(LARGE - 1, 1);
	struct twi_frame frame = none;

	(void)state;
	assert_int_equal(say_ready(1, 1), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ETRUNCATED);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_REFUSE);
	assert_int_equal(frame.value, TWI_REFUSE_TRUNCATED);
	assert_int_equal(twt_far_say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	twt_far_expect(TWI_FRAME_DONE, 1);
}

static void test_unasked_without_end(void **state)
{
	uint64_t seq = 1;

	(void)state;
	for (; seq <= TWI_READY_MAX; seq++)
		assert_int_equal(say_ready(seq, 1), TOW_OK);
	assert_int_equal(say_ready(seq, 1), TOW_EPROTOCOL);
	/* and to one that announces nothing */
	twt_far_close_session();
	twt_far_open_session(CREDIT, EAGER);
	assert_int_equal(say_ready(1, 1), TOW_EPROTOCOL);
}

/* The channel breaks when the receiver knows nothing of the message: all of it comes again. */
static void test_broken_before_its_offer(void **state)
{
	uint8_t record[16] = { 16, 0, 0, 0, TWI_STREAM_BULK };
	struct tow_op *op = sent_ready(1);
	size_t used;

	(void)state;
	drink_all(1);
	assert_int_equal(op->stage, TWI_STAGE_SENT);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, 16, &used), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_BULK);
	drink_all(1);
	twi_session_bulk_broken(twt_far.session, 0);
	twi_put_le64(record + 8, 1); /* it knows the message, and has it */
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, 16, &used), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_SENT);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

#define ANNOUNCING(test) cmocka_unit_test_setup_teardown(test, set_up_announcing, twt_far_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ANNOUNCING(test_goes_unasked),
		ANNOUNCING(test_announcements_that_do_not_hold),
		ANNOUNCING(test_too_early),
		ANNOUNCING(test_too_early_and_taken_back),
		ANNOUNCING(test_receives_unasked),
		ANNOUNCING(test_data_of_no_offer),
		ANNOUNCING(test_data_waits_for_its_offer),
		ANNOUNCING(test_comes_too_early),
		ANNOUNCING(test_unasked_and_too_large),
		ANNOUNCING(test_unasked_without_end),
		ANNOUNCING(test_broken_before_its_offer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
