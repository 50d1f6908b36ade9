/*
 * The protocol between two peers, driven byte by byte against one session: what a peer must not do,
 * frames cut anywhere, bounds, the end. The simulation (tests/sim) has two honest sessions; what a
 * dishonest or unlucky one does is here.
 */
#include "far_bulk.h"

static void test_numbers_without_a_gap(void **state)
{
	(void)state;
	assert_int_equal(twt_far_say_eager(1, 0, 4), TOW_OK);
	assert_int_equal(twt_far_say_eager(3, 0, 4), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say_eager(1, 0, 4), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 1, 0, 9999), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 2, 0, 9999), TOW_OK);
}

static void test_no_more_than_the_credit(void **state)
{
	uint64_t seq = 1;
	uint32_t cost = twi_frame_cost(EAGER);
	struct tow_op *op;

	(void)state;
	for (; seq <= CREDIT / cost; seq++)
		assert_int_equal(twt_far_say_eager(seq, 0, EAGER), TOW_OK);
	assert_int_equal(twt_far.session->inbox.kept_bytes, (seq - 1) * EAGER);
	assert_int_equal(twt_far_say_eager(seq, 0, EAGER), TOW_EPROTOCOL);
	op = twt_far_recv_op(EAGER, 0);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, EAGER);
	assert_int_equal(twt_far_say_eager(seq, 0, EAGER), TOW_OK);
	assert_int_equal(twt_far_say_eager(seq + 1, 0, EAGER + 1), TOW_EPROTOCOL);
}

static void test_grants_that_are_none(void **state)
{
	struct tow_op *op = twt_far_send_op(LARGE, 1);

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 2, 0, LARGE), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE - 1), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_EPROTOCOL);
	assert_int_equal(twt_far_status_of(twt_far_send_op(10, 1)), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 2, 0, 10), TOW_OK); /* gone: nothing happens */
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
}

static void test_done_must_be_true(void **state)
{
	struct tow_op *op = twt_far_granted();
	static uint8_t wire[2 * TWI_FRAME_BYTES + LARGE];

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 2, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_drink(wire, sizeof(wire) - 1), sizeof(wire) - 1);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_drink(wire, 2), 1);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
}

static void test_acks_must_be_true(void **state)
{
	uint64_t cost = twi_frame_cost(10);

	(void)state;
	twt_far_send_op(10, 0);
	twt_far_send_op(10, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 3, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 2, 2 * cost + 1, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 2, cost, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 1, cost, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 2, cost - 1, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_ACK, 2, 2 * cost, 0), TOW_OK);
}

static void test_data_must_be_in_place(void **state)
{
	static const struct {
		uint64_t seq, offset;
		uint32_t n;
		uint8_t flags;
	} wrong[] = {
		{ 2, 0, 10, 0 },                 /* not asked for */
		{ 1, 1, 10, 0 },                 /* a gap */
		{ 1, 0, LARGE + 1, 0 },          /* too much */
		{ 1, LARGE, 0, TWI_FRAME_LAST }, /* nothing has come */
		{ 1, 10, 10, 0 },                /* a gap */
		{ 2, 0, 0, TWI_FRAME_ABORT },    /* of nothing */
	};

	(void)state;
	for (size_t i = 0; i < twi_array_count(wrong); i++) {
		struct tow_op *op = twt_far_asked(1);

		assert_int_equal(
			twt_far_say_data(wrong[i].seq, wrong[i].offset, wrong[i].n, wrong[i].flags),
			TOW_EPROTOCOL);
		twi_session_fail(twt_far.session, TOW_EPROTOCOL);
		assert_int_equal(twt_far_status_of(op), TOW_EPROTOCOL);
		twt_far_close_session();
		twt_far_open_session(CREDIT, EAGER);
	}
	twt_far_asked(1);
	assert_int_equal(twt_far_say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, LARGE, 1, 0), TOW_EPROTOCOL);
}

static void test_large_message(void **state)
{
	struct tow_op *op = twt_far_asked(1);

	(void)state;
	assert_int_equal(twt_far_say_data(1, 0, 1234, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, 1234, LARGE - 1234, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_int_equal(op->result_bytes, LARGE);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
	twt_far_expect(TWI_FRAME_DONE, 1);
}

static void test_frames_cut_anywhere(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .tag = 3 };
	static uint8_t wire[3 * (TWI_FRAME_BYTES + 50)];
	const size_t one = TWI_FRAME_BYTES + 50, all = sizeof(wire);

	(void)state;
	for (size_t cut = 0; cut <= all; cut++) {
		struct tow_op *op = twt_far_recv_op(50, 3);

		for (size_t i = 0; i < 3; i++) {
			head.seq = i + 1;
			twi_frame_put(wire + i * one, &head);
			memcpy(wire + i * one + TWI_FRAME_BYTES, twt_far.bytes + i, 50);
		}
		memset(twt_far.room, 0, 50);
		assert_int_equal(twi_session_control_in(twt_far.session, wire, cut), TOW_OK);
		assert_int_equal(twi_session_control_in(twt_far.session, wire + cut, all - cut),
				 TOW_OK);
		assert_int_equal(twt_far_status_of(op), TOW_OK);
		assert_memory_equal(twt_far.room, twt_far.bytes, 50);
		assert_int_equal(twt_far_status_of(twt_far_recv_op(50, 3)), TOW_OK);
		assert_memory_equal(twt_far.room, twt_far.bytes + 1, 50);
		assert_int_equal(twt_far_status_of(twt_far_recv_op(50, 3)), TOW_OK);
		assert_memory_equal(twt_far.room, twt_far.bytes + 2, 50);
		assert_int_equal(twt_far.session->inbox.credit.charged,
				 twt_far.session->inbox.credit.given);
		twt_far_close_session();
		twt_far_open_session(CREDIT, EAGER);
	}
}

static void test_at_most_64_grants(void **state)
{
	struct twi_frame frame;
	unsigned heard = 0;

	(void)state;
	for (uint64_t seq = 1; seq <= 70; seq++) {
		twt_far_recv_op(LARGE, seq);
		assert_int_equal(twt_far_say(TWI_FRAME_RTS, seq, seq, LARGE), TOW_OK);
	}
	while (twt_far_hear(&frame) == TWI_FRAME_CTS)
		heard++;
	assert_int_equal(heard, TWI_GRANTS_MAX);
	assert_int_equal(twt_far_say_data(3, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	twt_far_expect(TWI_FRAME_CTS, 65);

	/* and a peer that grants more than that is wrong */
	for (uint64_t seq = 1; seq <= 65; seq++) {
		twt_far_send_op(LARGE, 0);
		assert_int_equal(twt_far_say(TWI_FRAME_CTS, seq, 0, LARGE),
				 seq <= TWI_GRANTS_MAX ? TOW_OK : TOW_EPROTOCOL);
	}
}

/* A grant for which there was no room is asked for when there is. */
static void test_grant_waits_for_room(void **state)
{
	const struct twi_frame filler = { .type = TWI_FRAME_REFUSE,
					  .seq = 1,
					  .value = TWI_REFUSE_CANCELED };
	struct twi_frame frame = { 0 };
	unsigned grants = 0;

	(void)state;
	while (twi_session_put(twt_far.session, &filler))
		;
	twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 1, 1, LARGE), TOW_OK);
	assert_int_equal(twt_far.session->grant_count, 0);
	while (twt_far_hear(&frame) != 0)
		grants += frame.type == TWI_FRAME_CTS;
	assert_int_equal(grants, 1);
}

static void test_peer_that_does_not_read(void **state)
{
	uint64_t seq = 1;
	int status = TOW_OK;

	(void)state;
	for (; seq < 100000 && status == TOW_OK; seq++) {
		tow_op_release(twt_far_recv_op(10, 1));
		status = twt_far_say(TWI_FRAME_RTS, seq, 1, LARGE);
	}
	assert_int_equal(status, TOW_EPEER);
	assert_true(twt_far.session->owed_count <= 2 * twt_far.engine->ops->count);
}

static void test_bye_is_the_last(void **state)
{
	struct tow_op *op = twt_far_asked(1), *small;
	struct twi_frame frame;

	(void)state;
	small = twt_far_send_op(10, 1);
	assert_int_equal(twt_far_status_of(small), TOW_OK);
	twi_session_fail(twt_far.session, TOW_ECLOSED);
	twi_session_bye(twt_far.session);
	assert_int_equal(twt_far_status_of(op), TOW_ECLOSED);
	assert_false(twi_session_ack(twt_far.session));
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_EAGER);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_BYE);
	assert_int_equal(twt_far_hear(&frame), 0);
	assert_int_equal(twt_far_status_of(twt_far_send_op(10, 1)), TOW_ECLOSED);
	assert_int_equal(twt_far_status_of(twt_far_recv_op(10, 1)), TOW_ECLOSED);
}

/* After its own end a session listens for the other's alone, behind whatever comes before that. */
static void test_bye_is_heard_after_the_end(void **state)
{
	struct twi_frame eager = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 1 };
	struct twi_frame ack = { .type = TWI_FRAME_ACK, .seq = 99 },
			 bye = { .type = TWI_FRAME_BYE };
	uint8_t wire[3 * TWI_FRAME_BYTES + 50];
	/* The ACK, of what was not sent, would be an error before the end. */
	const size_t last_end = 2 * TWI_FRAME_BYTES + 49, all = sizeof(wire);

	(void)state;
	memset(wire, 0, sizeof(wire));
	twi_frame_put(wire, &eager);
	twi_frame_put(wire + TWI_FRAME_BYTES, &bye); /* as payload */
	twi_frame_put(wire + TWI_FRAME_BYTES + 50, &ack);
	twi_frame_put(wire + 2 * TWI_FRAME_BYTES + 50, &bye);
	for (size_t end = 0; end <= last_end; end++) {
		for (size_t cut = end; cut <= all; cut++) {
			assert_int_equal(twi_session_control_in(twt_far.session, wire, end),
					 TOW_OK);
			twi_session_fail(twt_far.session, TOW_ECLOSED);
			assert_int_equal(
				twi_session_control_in(twt_far.session, wire + end, cut - end),
				TOW_OK);
			assert_int_equal(twt_far.peer->said_bye, cut == all);
			assert_int_equal(
				twi_session_control_in(twt_far.session, wire + cut, all - cut),
				TOW_OK);
			assert_true(twt_far.peer->said_bye);
			twt_far_close_session();
			twt_far_open_session(CREDIT, EAGER);
		}
	}
}

/* What had arrived whole can still be received after the end; offers and halves cannot. */
static void test_end_keeps_what_has_come(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 3 };
	uint8_t wire[TWI_FRAME_BYTES + 50] = { 0 };

	(void)state;
	assert_int_equal(twt_far_say(TWI_FRAME_BYE, 0, 0, 0), TOW_OK);
	assert_true(twt_far.peer->said_bye);
	assert_int_equal(twt_far_say_eager(1, 0, 20), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 2, 0, LARGE), TOW_OK);
	twi_frame_put(wire, &head);
	assert_int_equal(twi_session_control_in(twt_far.session, wire, sizeof(wire) - 1), TOW_OK);
	twi_session_fail(twt_far.session, TOW_EPEER);
	assert_int_equal(twt_far_status_of(twt_far_recv_op(50, 0)), TOW_OK);
	assert_int_equal(twt_far_status_of(twt_far_recv_op(50, 0)), TOW_EPEER);
}

/* Ended while half a message is there, in the table or on its way to a receive. */
static void test_fini_with_half_a_message(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 1 };
	uint8_t wire[TWI_FRAME_BYTES + 50] = { 0 };

	(void)state;
	twi_frame_put(wire, &head);
	assert_int_equal(twi_session_control_in(twt_far.session, wire, 40), TOW_OK);
	twi_session_fini(twt_far.session);
	free(twt_far.peer);
	twt_far_open_session(CREDIT, EAGER);
	assert_int_equal(twi_session_control_in(twt_far.session, wire, 40), TOW_OK);
	twt_far_recv_op(50, 0); /* waits for the rest */
}

static void test_small_fits_buffer_and_credit(void **state)
{
	(void)state;
	twt_far_close_session();
	twt_far_open_session(64u << 20, 1u << 20);
	assert_int_equal(twt_far_status_of(twt_far_send_op(512u << 10, 0)), TOW_AGAIN);
	twt_far_expect(TWI_FRAME_RTS, 1);
	assert_int_equal(twt_far_status_of(twt_far_send_op(128u << 10, 0)), TOW_OK);
	twt_far_close_session();
	twt_far_open_session(CREDIT, CREDIT - 64);
	assert_int_equal(twt_far_status_of(twt_far_send_op(CREDIT - 64, 0)), TOW_AGAIN);
	twt_far_expect(TWI_FRAME_RTS, 1);
}

static void test_wrong_streams_and_types(void **state)
{
	uint8_t junk[TWI_FRAME_BYTES];

	(void)state;
	memset(junk, 0xff, sizeof(junk));
	assert_int_equal(twi_session_control_in(twt_far.session, junk, sizeof(junk)),
			 TOW_EPROTOCOL);
	assert_int_equal(twt_far_feed(junk, sizeof(junk), 32), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_DATA, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_say(TWI_FRAME_HELLO, 0, 0, 0), TOW_EPROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_numbers_without_a_gap),
		CASE(test_no_more_than_the_credit),
		CASE(test_grants_that_are_none),
		CASE(test_done_must_be_true),
		CASE(test_acks_must_be_true),
		CASE(test_data_must_be_in_place),
		CASE(test_large_message),
		CASE(test_frames_cut_anywhere),
		CASE(test_at_most_64_grants),
		CASE(test_grant_waits_for_room),
		CASE(test_peer_that_does_not_read),
		CASE(test_bye_is_the_last),
		CASE(test_bye_is_heard_after_the_end),
		CASE(test_end_keeps_what_has_come),
		CASE(test_fini_with_half_a_message),
		CASE(test_small_fits_buffer_and_credit),
		CASE(test_wrong_streams_and_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
