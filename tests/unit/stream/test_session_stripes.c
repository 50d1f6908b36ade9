/*
 * Large messages over several bulk channels, and the checksums of all messages, against one
 * session: where each stripe begins, when a message is complete, what a changed byte does.
 */
#include "far_bulk.h"

#include "diag/base/checksum.h"
#include "transport/op/message.h"

#define STRIPE 1000u

/* Cut as the wire has it, for three channels and stripes of at least STRIPE bytes. */
#define CUT ((LARGE / 3 / (STRIPE / 16) + 1) * (STRIPE / 16))

static void open_channels(unsigned count, bool sums)
{
	struct twi_session_config config = twt_far_config();

	twt_far_close_session();
	config.bulk_count = count;
	config.stripe_bytes = STRIPE;
	config.checksum_all = sums;
	twt_far_open_session_with(&config);
}

static void test_cut(void **state)
{
	(void)state;
	open_channels(4, false);
	for (uint64_t seq = 1; seq < 9; seq++) {
		for (uint64_t n = 1; n < 40000; n += 7) {
			struct twi_grant grant = { .seq = seq, .bytes = n };
			uint64_t at = 0, left;

			twi_stripes_cut(&twt_far.session->config, &grant);
			assert_int_equal(grant.count, n < 4 * STRIPE ? 1 : 4);
			assert_int_equal(grant.first, n < 4 * STRIPE ? seq % 4 : 0);
			for (unsigned c = 0; c < 4; c++) {
				assert_int_equal(twi_stripe_on(&grant, c), grant.open >> c & 1);
				if (!twi_stripe_on(&grant, c))
					continue;
				assert_int_equal(twi_stripe_at(&grant, c, 0, &left), at);
				assert_true(twi_stripe_bytes(&grant, c) > 0);
				assert_int_equal(left, twi_stripe_bytes(&grant, c));
				at += left;
			}
			assert_int_equal(at, n);
		}
	}
}

static void test_sent_in_stripes(void **state)
{
	static uint8_t wire[LARGE + TWI_FRAME_BYTES];
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_granted();
	for (unsigned c = 3; c-- > 0;) {
		uint32_t length = c < 2 ? CUT : LARGE - 2 * CUT;

		twt_far_drink_head(c, 1, 0, c * CUT, length);
		assert_int_equal(twt_far_drink_on(c, wire, length), length);
		assert_memory_equal(wire, twt_far.bytes + c * CUT, length);
		assert_int_equal(op->stage, TWI_STAGE_BULK);
		assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
		twt_far_drink_head(c, 1, TWI_FRAME_LAST, c * CUT + length, 0);
	}
	assert_int_equal(op->stage, TWI_STAGE_SENT);
	assert_int_equal(op->moved, LARGE);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

static void test_received_in_stripes(void **state)
{
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_asked(1);
	assert_int_equal(twt_far_say_data_on(1, 1, CUT, CUT, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 1, 2 * CUT, 100, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, 0, CUT, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, CUT, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 1, 2 * CUT + 100, LARGE - 2 * CUT - 100, 0, 0),
			 TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 1, LARGE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say_data_on(1, 1, 2 * CUT, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
	twt_far_expect(TWI_FRAME_DONE, 1);
	assert_int_equal(twt_far_say_data_on(1, 1, 2 * CUT, 0, TWI_FRAME_LAST, 0), TOW_EPROTOCOL);
}

static void test_out_of_its_stripe(void **state)
{
	static const struct {
		unsigned channel;
		uint64_t offset;
		uint32_t n;
		uint8_t flags;
	} wrong[] = {
		{ 1, 0, 10, 0 },                /* another's stripe */
		{ 0, 0, CUT + 1, 0 },           /* beyond its own */
		{ 2, 2 * CUT, LARGE - CUT, 0 }, /* beyond the message */
		{ 1, CUT, 0, TWI_FRAME_LAST },  /* too early */
		{ 1, CUT + 1, 10, 0 },          /* a gap */
	};

	(void)state;
	for (size_t i = 0; i < twi_array_count(wrong); i++) {
		open_channels(3, false);
		twt_far_asked(1);
		assert_int_equal(twt_far_say_data_on(wrong[i].channel, 1, wrong[i].offset,
						     wrong[i].n, wrong[i].flags, 0),
				 TOW_EPROTOCOL);
	}
	/* one that goes whole has one channel: 2 % 3 */
	open_channels(3, false);
	twt_far_send_op(LARGE, 9);
	twt_far_recv_op(2000, 1);
	assert_int_equal(twt_far_say_eager(1, 5, 0), TOW_OK);
	assert_int_equal(twt_far_say(TWI_FRAME_RTS, 2, 1, 2000), TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 2, 0, 2000, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(1, 2, 2000, 0, TWI_FRAME_LAST, 0), TOW_EPROTOCOL);
}

/* One stripe is aborted: the receive waits for the others' ends, and then for the next message. */
static void test_abort_of_one_stripe(void **state)
{
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_asked(1);
	assert_int_equal(twt_far_say_data_on(0, 1, 0, CUT, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, CUT, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(1, 1, 0, 0, TWI_FRAME_ABORT, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(1, 1, 0, 0, TWI_FRAME_ABORT, 0), TOW_EPROTOCOL);
	assert_int_equal(op->stage, TWI_STAGE_GRANTED);
	assert_int_equal(twt_far_say_data_on(2, 1, 2 * CUT, 10, 0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 1, 0, 0, TWI_FRAME_ABORT, 0), TOW_OK);
	assert_int_equal(op->stage, TWI_STAGE_POSTED);
	assert_int_equal(twt_far_say_eager(2, 1, 5), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

/* Taken back with one stripe committed and one half sent: each channel stays in step. */
static void test_taken_back_on_each_channel(void **state)
{
	static uint8_t wire[LARGE + 2 * TWI_FRAME_BYTES];
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_granted();
	assert_int_equal(twt_far_drink_on(0, wire, CUT + 2 * TWI_FRAME_BYTES),
			 CUT + 2 * TWI_FRAME_BYTES);
	assert_int_equal(twt_far_drink_on(1, wire, 100), 100);
	assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
	assert_int_equal(twt_far_drink_on(0, wire, 1), 0);
	assert_int_equal(twt_far_drink_on(1, wire, CUT + TWI_FRAME_BYTES - 100),
			 CUT + TWI_FRAME_BYTES - 100);
	assert_int_equal(twt_far.session->send_count, 1);
	twt_far_drink_head(1, 1, TWI_FRAME_ABORT, 0, 0);
	twt_far_drink_head(2, 1, TWI_FRAME_ABORT, 0, 0);
	assert_int_equal(twt_far.session->send_count, 0);
	/* with all commits begun the message stands, and DONE is nobody's */
	op = twt_far_granted();
	for (unsigned c = 0; c < 3; c++) {
		size_t n = (c < 2 ? CUT : LARGE - 2 * CUT) + 2 * TWI_FRAME_BYTES - 1;

		assert_int_equal(twt_far_drink_on(c, wire, n), n);
	}
	assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
	for (unsigned c = 0; c < 3; c++)
		assert_int_equal(twt_far_drink_on(c, wire, 100), 1);
	assert_int_equal(twt_far.session->send_count, 0);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 2, 0, 0), TOW_OK);
}

/* The lane holds payload on one channel when a refusal comes: another channel does not end it. */
static void test_refused_while_one_sends(void **state)
{
	static uint8_t wire[LARGE + 2 * TWI_FRAME_BYTES];
	struct twi_bulk_out out;
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_granted();
	assert_int_equal(twt_far_drink_on(1, wire, 100), 100);
	assert_true(twi_session_bulk_out(twt_far.session, 0, LARGE, &out));
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(twt_far_drink_on(1, wire, 1), 1);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	twi_session_bulk_sent(twt_far.session, 0, 50);
	assert_int_equal(twt_far_status_of(op), TOW_ECANCELED);
}

static void test_small_sums(void **state)
{
	uint32_t sum = twi_checksum(0, twt_far.bytes, 100);
	uint64_t seq = 1;

	(void)state;
	for (size_t step = 1; step < 140; step += 23) {
		struct tow_op *op = twt_far_recv_op(100, 1), *none;

		assert_int_equal(twt_far_say_summed(seq++, 1, 100, TWI_FRAME_SUM, sum, step),
				 TOW_OK);
		assert_int_equal(twt_far_status_of(op), TOW_OK);
		op = twt_far_recv_op(100, 1);
		assert_int_equal(twt_far_say_summed(seq++, 1, 100, TWI_FRAME_SUM, sum ^ 1, step),
				 TOW_OK);
		assert_int_equal(twt_far_status_of(op), TOW_ECORRUPT);
		assert_non_null(strstr(tow_error_message(), "loop://them"));
		assert_non_null(strstr(tow_error_message(), "rpc id"));
		/* one that has to wait for its receive */
		assert_int_equal(twt_far_say_summed(seq++, 1, 100, TWI_FRAME_SUM, sum ^ 1, step),
				 TOW_OK);
		assert_int_equal(twt_far_say_summed(seq++, 1, 100, TWI_FRAME_SUM, sum, step),
				 TOW_OK);
		assert_int_equal(twt_far_status_of(twt_far_recv_op(100, 1)), TOW_ECORRUPT);
		assert_int_equal(twt_far_status_of(twt_far_recv_op(100, 1)), TOW_OK);
		/* and one that does not fit is not looked at */
		none = twt_far_recv_op(10, 1);
		assert_int_equal(twt_far_say_summed(seq++, 1, 100, TWI_FRAME_SUM, sum ^ 1, step),
				 TOW_OK);
		assert_int_equal(twt_far_status_of(none), TOW_ETRUNCATED);
	}
	assert_int_equal(twt_far.session->inbox.credit.charged,
			 twt_far.session->inbox.credit.given);
	assert_int_equal(twi_counter_sum(twt_far.engine->diag, TWI_C_checksum_mismatches), 2 * 7);
	assert_int_equal(twi_counter_sum(twt_far.engine->diag, TWI_C_checksums_checked), 4 * 7);
}

/* The receive is taken back while a summed message arrives: the next one is told the truth. */
static void test_small_sum_outlives_its_receive(void **state)
{
	uint32_t sum = twi_checksum(0, twt_far.bytes, 100);
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .flags = TWI_FRAME_SUM, .seq = 1 };
	uint8_t wire[TWI_FRAME_BYTES + 100];
	struct tow_op *op;

	(void)state;
	for (unsigned wrong = 0; wrong < 2; wrong++, head.seq++) {
		op = twt_far_recv_op(100, 0);
		head.payload_bytes = 100;
		head.value = sum ^ wrong;
		twi_frame_put(wire, &head);
		memcpy(wire + TWI_FRAME_BYTES, twt_far.bytes, 100);
		assert_int_equal(twi_session_control_in(twt_far.session, wire, 60), TOW_OK);
		assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
		op = twt_far_recv_op(100, 0);
		assert_int_equal(twi_session_control_in(twt_far.session, wire + 60, 72), TOW_OK);
		assert_int_equal(twt_far_status_of(op), wrong ? TOW_ECORRUPT : TOW_OK);
	}
}

static void test_large_sums(void **state)
{
	for (unsigned wrong = 0; wrong < 4; wrong++) {
		struct tow_op *op;

		(void)state;
		open_channels(3, false);
		op = twt_far_recv_op(LARGE, 1);
		assert_int_equal(twt_far_say_flags(TWI_FRAME_RTS, TWI_FRAME_SUM, 1, 1, LARGE),
				 TOW_OK);
		twt_far_expect(TWI_FRAME_CTS, 1);
		for (unsigned c = 0; c < 3; c++) {
			uint32_t length = c < 2 ? CUT : LARGE - 2 * CUT;
			uint32_t sum = twi_checksum(0, twt_far.bytes + c * CUT, length);

			assert_int_equal(twt_far_say_data_on(c, 1, c * CUT, length, 0, 0), TOW_OK);
			assert_int_equal(twt_far_say_data_on(c, 1, c * CUT + length, 0,
							     TWI_FRAME_LAST | TWI_FRAME_SUM,
							     sum ^ (wrong == c)),
					 TOW_OK);
		}
		assert_int_equal(twt_far_status_of(op), wrong < 3 ? TOW_ECORRUPT : TOW_OK);
		twt_far_expect(wrong < 3 ? TWI_FRAME_REFUSE : TWI_FRAME_DONE, 1);
	}
	assert_int_equal(twi_counter_sum(twt_far.engine->diag, TWI_C_checksum_mismatches), 3);
	assert_int_equal(twi_counter_sum(twt_far.engine->diag, TWI_C_checksums_checked), 4);
	/* a commit without the checksum that was promised, and with one that was not */
	open_channels(1, false);
	twt_far_recv_op(LARGE, 1);
	assert_int_equal(twt_far_say_flags(TWI_FRAME_RTS, TWI_FRAME_SUM, 1, 1, LARGE), TOW_OK);
	assert_int_equal(twt_far_say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_EPROTOCOL);
	open_channels(1, false);
	twt_far_asked(1);
	assert_int_equal(twt_far_say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, LARGE, 0, TWI_FRAME_LAST | TWI_FRAME_SUM, 0),
			 TOW_EPROTOCOL);
}

/* What this side sends carries true sums, also where it is sent twice. */
static void test_sums_that_are_sent(void **state)
{
	static uint8_t wire[LARGE + 2 * TWI_FRAME_BYTES];
	const uint64_t item[2] = { 1, 1500 };
	uint8_t record[32] = { 32, 0, 0, 0, TWI_STREAM_BULK, 0, 1, 0 };
	struct twi_frame frame;
	struct tow_op *op;
	size_t used;

	(void)state;
	open_channels(1, true);
	op = twt_far_send_op(LARGE, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_RTS);
	assert_int_equal(frame.flags, TWI_FRAME_SUM);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	assert_int_equal(twt_far_drink(wire, 3000), 3000);
	twi_session_bulk_broken(twt_far.session, 0);
	twi_put_le64(record + 16, item[0]);
	twi_put_le64(record + 24, item[1]);
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, 32, &used), TOW_OK);
	assert_int_equal(twt_far_drink(wire, sizeof(wire)), LARGE - 1500 + 2 * TWI_FRAME_BYTES);
	assert_int_equal(twi_get_le64(wire + LARGE - 1500 + TWI_FRAME_BYTES + 16),
			 twi_checksum(0, twt_far.bytes, LARGE));
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CORRUPT), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_ECORRUPT);
	twt_far_send_op(50, 1);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_EAGER);
	assert_int_equal(frame.flags, TWI_FRAME_SUM);
	assert_int_equal(frame.value, twi_checksum(0, twt_far.bytes, 50));
	/* a refusal for wrong bytes of what was not sent whole is none */
	op = twt_far_granted();
	assert_int_equal(twt_far_say(TWI_FRAME_REFUSE, op->seq, 0, TWI_REFUSE_CORRUPT),
			 TOW_EPROTOCOL);
}

static void test_one_in_1024(void **state)
{
	unsigned summed = 0;

	(void)state;
	for (uint64_t seq = 1; seq <= 1024 * 64; seq++)
		summed += twi_outbox_sums(&twt_far.session->outbox, seq);
	assert_true(summed > 50 && summed < 80);
}

static void test_spaces_do_not_meet(void **state)
{
	struct tow_op *op = twt_far_recv_op(100, 1),
		      *rpc = twi_op_acquire(twt_far.engine, &twi_recv_ops, NULL);
	struct twi_frame frame;

	(void)state;
	rpc->peer = twt_far.peer;
	rpc->data = twt_far.room;
	rpc->bytes = 100;
	rpc->tag = 1;
	rpc->space = TWI_SPACE_RPC;
	rpc->match.context = TWI_SPACE_RPC;
	twi_session_recv(twt_far.session, rpc);
	assert_int_equal(twt_far_say_summed(1, 1, 10, TWI_SPACE_RPC, 0, 1000), TOW_OK);
	assert_int_equal(twt_far_status_of(rpc), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say_summed(2, 1, 10, TWI_SPACE_LINK, 0, 1000), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say_eager(3, 1, 10), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	rpc = twi_op_acquire(twt_far.engine, &twi_send_ops, NULL);
	rpc->peer = twt_far.peer;
	rpc->data = twt_far.bytes;
	rpc->bytes = LARGE;
	rpc->space = TWI_SPACE_GROUP;
	twi_outbox_send(&twt_far.session->outbox, rpc);
	assert_int_equal(twt_far_hear(&frame), TWI_FRAME_RTS);
	assert_int_equal(frame.flags, TWI_SPACE_GROUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_cut),
		CASE(test_sent_in_stripes),
		CASE(test_received_in_stripes),
		CASE(test_out_of_its_stripe),
		CASE(test_abort_of_one_stripe),
		CASE(test_taken_back_on_each_channel),
		CASE(test_refused_while_one_sends),
		CASE(test_small_sums),
		CASE(test_small_sum_outlives_its_receive),
		CASE(test_large_sums),
		CASE(test_sums_that_are_sent),
		CASE(test_one_in_1024),
		CASE(test_spaces_do_not_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
