/*
 * The protocol between two peers, driven byte by byte against one session: what a peer must not do,
 * messages taken back at every stage, buffers that are full. The simulation (tests/sim) has two
 * honest sessions; what a dishonest or unlucky one does is here.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/op.h"
#include "transport/runtime.h"
#include "transport/session.h"

#define CREDIT (64u << 10)
#define EAGER  1000u
#define LARGE  5000u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *peer;
static struct twi_session *session;
static uint8_t bytes[1 << 20]; /* what messages are sent from */
static uint8_t room[1 << 20];  /* and received into */

static void open_session(uint64_t credit, uint32_t eager_max)
{
	const struct twi_session_config config = {
		.lane = TWI_LANE_LOOP,
		.connector = true,
		.local_credit_bytes = credit,
		.remote_credit_bytes = credit,
		.eager_max_bytes = eager_max,
	};

	peer = calloc(1, sizeof(*peer));
	assert_non_null(peer);
	strcpy(peer->address, "loop://them");
	session = &peer->session;
	assert_int_equal(twi_session_init(session, engine, peer, &config), TOW_OK);
}

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_DEFAULT;

	(void)state;
	options.premap_memory_bytes = 1 << 20;
	options.max_ops = 16384;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	memset(room, 0, sizeof(room));
	open_session(CREDIT, EAGER);
	return 0;
}

static void close_session(void)
{
	twi_session_fail(session, TOW_ECLOSED);
	twi_session_fini(session);
	free(peer);
}

static int tear_down(void **state)
{
	(void)state;
	close_session();
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return 0;
}

static struct tow_op *start(enum twi_op_kind kind, void *data, uint64_t n, uint64_t tag)
{
	struct tow_op *op = twi_op_acquire(engine, kind, NULL);

	assert_non_null(op);
	op->peer = peer;
	op->data = data;
	op->bytes = n;
	op->tag = tag;
	if (kind == TWI_OP_SEND)
		twi_session_send(session, op);
	else
		twi_session_recv(session, op);
	return op;
}

static struct tow_op *send_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_SEND, bytes, n, tag);
}

static struct tow_op *recv_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_RECV, room, n, tag);
}

/* TOW_AGAIN while it is in flight. */
static int status_of(const struct tow_op *op)
{
	return (atomic_load(&op->state) & TWI_OP_DONE) != 0 ? op->status : TOW_AGAIN;
}

static int say(uint8_t type, uint64_t seq, uint64_t tag, uint64_t value)
{
	struct twi_frame frame = { .type = type, .seq = seq, .tag = tag, .value = value };
	uint8_t head[TWI_FRAME_BYTES];

	twi_frame_put(head, &frame);
	return twi_session_control_in(session, head, sizeof(head));
}

/* A small message whole; returns what the session says. */
static int say_eager(uint64_t seq, uint64_t tag, uint32_t n)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_EAGER, .payload_bytes = n, .seq = seq, .tag = tag
	};
	static uint8_t wire[TWI_FRAME_BYTES + EAGER + 1];

	twi_frame_put(wire, &frame);
	memcpy(wire + TWI_FRAME_BYTES, bytes, n);
	return twi_session_control_in(session, wire, TWI_FRAME_BYTES + n);
}

/* The next frame that the session says, 0 when it is silent. Payload is skipped. */
static uint8_t hear(struct twi_frame *frame)
{
	const struct twi_frame_limits limits = { .eager_max_bytes = 1 << 20,
						 .control = true,
						 .hello_done = true };
	enum twi_frame_fault fault;
	struct iovec out;

	if (!twi_session_control_out(session, &out))
		return 0;
	assert_int_equal(twi_frame_get(out.iov_base, &limits, frame, &fault), TOW_OK);
	twi_session_control_sent(session, TWI_FRAME_BYTES + frame->payload_bytes);
	return frame->type;
}

static void expect(uint8_t type, uint64_t seq)
{
	struct twi_frame frame = { 0 };

	assert_int_equal(hear(&frame), type);
	assert_int_equal(frame.seq, seq);
}

/* Gives bytes of the bulk stream, `step` at a time. */
static int feed(const uint8_t *at, size_t n, size_t step)
{
	while (n > 0) {
		struct iovec parts[2];
		int count = twi_session_bulk_want(session, step, parts);
		size_t done = 0;
		int status;

		for (int i = 0; i < count && done < twi_min(n, step); i++) {
			size_t part = twi_min(twi_min(n, step) - done, parts[i].iov_len);

			memcpy(parts[i].iov_base, at + done, part);
			done += part;
		}
		status = twi_session_bulk_in(session, done);
		if (status < 0)
			return status;
		at += done;
		n -= done;
	}
	return TOW_OK;
}

static int say_data(uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA, .flags = flags, .payload_bytes = n, .seq = seq
	};
	uint8_t head[TWI_FRAME_BYTES];
	int status;

	frame.value = offset;
	twi_frame_put(head, &frame);
	status = feed(head, sizeof(head), 7);
	return status < 0 ? status : feed(bytes + offset, n, 1000);
}

/* Takes up to n bytes of the bulk stream into `to`; returns how many there were. */
static size_t drink(uint8_t *to, size_t n)
{
	struct twi_bulk_out out;
	size_t done = 0;

	while (done < n && twi_session_bulk_out(session, n, &out)) {
		size_t before = done;

		for (int i = 0; i < out.count && done < n; i++) {
			size_t part = twi_min(n - done, out.parts[i].iov_len);

			memcpy(to + done, out.parts[i].iov_base, part);
			done += part;
		}
		twi_session_bulk_sent(session, done - before);
	}
	return done;
}

static void drink_data(uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n)
{
	const struct twi_frame_limits limits = { .hello_done = true };
	static uint8_t wire[TWI_FRAME_BYTES + LARGE];
	enum twi_frame_fault fault;
	struct twi_frame frame;

	assert_int_equal(drink(wire, TWI_FRAME_BYTES), TWI_FRAME_BYTES);
	assert_int_equal(twi_frame_get(wire, &limits, &frame, &fault), TOW_OK);
	assert_int_equal(frame.seq, seq);
	assert_int_equal(frame.flags, flags);
	assert_int_equal(frame.value, offset);
	assert_int_equal(frame.payload_bytes, n);
}

/* A large message that has been offered and granted. */
static struct tow_op *granted(void)
{
	struct tow_op *op = send_op(LARGE, 1);

	expect(TWI_FRAME_RTS, op->seq);
	assert_int_equal(say(TWI_FRAME_CTS, op->seq, 0, LARGE), TOW_OK);
	return op;
}

/* A receive whose large message has been offered and asked for. */
static struct tow_op *asked(uint64_t seq)
{
	struct tow_op *op = recv_op(LARGE, 1);

	assert_int_equal(say(TWI_FRAME_RTS, seq, 1, LARGE), TOW_OK);
	expect(TWI_FRAME_CTS, seq);
	return op;
}

static void test_numbers_without_a_gap(void **state)
{
	(void)state;
	assert_int_equal(say_eager(1, 0, 4), TOW_OK);
	assert_int_equal(say_eager(3, 0, 4), TOW_EPROTOCOL);
	assert_int_equal(say_eager(1, 0, 4), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_RTS, 1, 0, 9999), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_RTS, 2, 0, 9999), TOW_OK);
}

static void test_no_more_than_the_credit(void **state)
{
	uint64_t seq = 1;
	uint32_t cost = twi_frame_cost(EAGER);
	struct tow_op *op;

	(void)state;
	for (; seq <= CREDIT / cost; seq++)
		assert_int_equal(say_eager(seq, 0, EAGER), TOW_OK);
	assert_int_equal(session->unexpected_bytes, (seq - 1) * EAGER);
	assert_int_equal(say_eager(seq, 0, EAGER), TOW_EPROTOCOL);
	op = recv_op(EAGER, 0);
	assert_int_equal(status_of(op), TOW_OK);
	assert_memory_equal(room, bytes, EAGER);
	assert_int_equal(say_eager(seq, 0, EAGER), TOW_OK);
	assert_int_equal(say_eager(seq + 1, 0, EAGER + 1), TOW_EPROTOCOL);
}

static void test_grants_that_are_none(void **state)
{
	struct tow_op *op = send_op(LARGE, 1);

	(void)state;
	assert_int_equal(say(TWI_FRAME_CTS, 2, 0, LARGE), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_CTS, 1, 0, LARGE - 1), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	assert_int_equal(say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_EPROTOCOL);
	assert_int_equal(status_of(send_op(10, 1)), TOW_OK);
	assert_int_equal(say(TWI_FRAME_CTS, 2, 0, 10), TOW_OK); /* gone: nothing happens */
	assert_int_equal(status_of(op), TOW_AGAIN);
}

static void test_done_must_be_true(void **state)
{
	struct tow_op *op = granted();
	static uint8_t wire[2 * TWI_FRAME_BYTES + LARGE];

	(void)state;
	assert_int_equal(say(TWI_FRAME_DONE, 2, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(drink(wire, sizeof(wire) - 1), sizeof(wire) - 1);
	assert_int_equal(say(TWI_FRAME_DONE, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(drink(wire, 2), 1);
	assert_int_equal(status_of(op), TOW_AGAIN);
	assert_int_equal(say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(status_of(op), TOW_OK);
	assert_int_equal(say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
}

static void test_acks_must_be_true(void **state)
{
	uint64_t cost = twi_frame_cost(10);

	(void)state;
	send_op(10, 0);
	send_op(10, 0);
	assert_int_equal(say(TWI_FRAME_ACK, 3, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_ACK, 2, 2 * cost + 1, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_ACK, 2, cost, 0), TOW_OK);
	assert_int_equal(say(TWI_FRAME_ACK, 1, cost, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_ACK, 2, cost - 1, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_ACK, 2, 2 * cost, 0), TOW_OK);
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
		struct tow_op *op = asked(1);

		assert_int_equal(
			say_data(wrong[i].seq, wrong[i].offset, wrong[i].n, wrong[i].flags),
			TOW_EPROTOCOL);
		twi_session_fail(session, TOW_EPROTOCOL);
		assert_int_equal(status_of(op), TOW_EPROTOCOL);
		close_session();
		open_session(CREDIT, EAGER);
	}
	asked(1);
	assert_int_equal(say_data(1, 0, LARGE, 0), TOW_OK);
	assert_int_equal(say_data(1, LARGE, 1, 0), TOW_EPROTOCOL);
}

static void test_large_message(void **state)
{
	struct tow_op *op = asked(1);

	(void)state;
	assert_int_equal(say_data(1, 0, 1234, 0), TOW_OK);
	assert_int_equal(say_data(1, 1234, LARGE - 1234, 0), TOW_OK);
	assert_int_equal(status_of(op), TOW_AGAIN);
	assert_int_equal(say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(status_of(op), TOW_OK);
	assert_int_equal(op->result_bytes, LARGE);
	assert_memory_equal(room, bytes, LARGE);
	expect(TWI_FRAME_DONE, 1);
}

static void test_cancel_crosses_grant(void **state)
{
	struct tow_op *op = send_op(LARGE, 1);

	(void)state;
	expect(TWI_FRAME_RTS, 1);
	assert_true(twi_session_abort(session, op, TOW_ECANCELED, false));
	assert_int_equal(status_of(op), TOW_ECANCELED);
	expect(TWI_FRAME_CANCEL, 1);
	assert_int_equal(say(TWI_FRAME_CTS, 1, 0, LARGE), TOW_OK);
	assert_int_equal(say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(session->bulk_count, 0);

	/* and on the other side: the receive takes the next message */
	op = asked(1);
	assert_int_equal(say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
	assert_int_equal(session->grant_count, 0);
	assert_int_equal(say_eager(2, 1, 5), TOW_OK);
	assert_int_equal(status_of(op), TOW_OK);
	assert_int_equal(op->result_bytes, 5);
}

static void test_cancel_at_each_stage(void **state)
{
	struct tow_op *op = recv_op(LARGE, 1);

	(void)state;
	assert_int_equal(say(TWI_FRAME_CANCEL, 9, 0, 0), TOW_OK);
	assert_int_equal(say(TWI_FRAME_RTS, 1, 7, LARGE), TOW_OK); /* unexpected */
	assert_int_equal(say(TWI_FRAME_CANCEL, 1, 0, 0), TOW_OK);
	assert_int_equal(session->match.unexpected_count, 0);
	assert_int_equal(session->credit_charged, session->credit_given);
	assert_int_equal(say(TWI_FRAME_RTS, 2, 1, LARGE), TOW_OK);
	assert_int_equal(say_data(2, 0, 10, 0), TOW_OK);
	assert_int_equal(say(TWI_FRAME_CANCEL, 2, 0, 0), TOW_EPROTOCOL); /* it has begun */
	assert_int_equal(status_of(op), TOW_AGAIN);
}

static void test_abort_gives_the_receive_back(void **state)
{
	struct tow_op *first = asked(1), *second = recv_op(LARGE, 1);

	(void)state;
	assert_int_equal(say_data(1, 0, 100, 0), TOW_OK);
	assert_int_equal(say_data(1, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	assert_int_equal(session->grant_count, 0);
	assert_int_equal(say_eager(2, 1, 5), TOW_OK);
	assert_int_equal(status_of(first), TOW_OK);
	assert_int_equal(status_of(second), TOW_AGAIN);
}

static void test_refused_at_each_stage(void **state)
{
	static uint8_t wire[TWI_FRAME_BYTES + LARGE];
	struct tow_op *op = send_op(LARGE, 1);

	(void)state;
	expect(TWI_FRAME_RTS, 1);
	assert_int_equal(say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_TRUNCATED), TOW_OK);
	assert_int_equal(status_of(op), TOW_ETRUNCATED);
	assert_int_equal(say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_TRUNCATED), TOW_OK);

	op = granted(); /* nothing sent yet */
	assert_int_equal(say(TWI_FRAME_REFUSE, 2, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(status_of(op), TOW_ECANCELED);
	drink_data(2, TWI_FRAME_ABORT, 0, 0);

	op = granted(); /* in the middle: zeros, then the abort */
	assert_int_equal(drink(wire, TWI_FRAME_BYTES + 100), TWI_FRAME_BYTES + 100);
	assert_memory_equal(wire + TWI_FRAME_BYTES, bytes, 100);
	assert_int_equal(say(TWI_FRAME_REFUSE, 3, 0, TWI_REFUSE_CANCELED), TOW_OK);
	memset(wire, 1, sizeof(wire));
	assert_int_equal(drink(wire, LARGE - 100), LARGE - 100);
	assert_int_equal(status_of(op), TOW_ECANCELED);
	for (size_t i = 0; i < LARGE - 100; i++)
		assert_int_equal(wire[i], 0);
	drink_data(3, TWI_FRAME_ABORT, 0, 0);

	op = granted(); /* all sent, the commit too */
	assert_int_equal(drink(wire, sizeof(wire)), sizeof(wire));
	assert_int_equal(drink(wire, sizeof(wire)), TWI_FRAME_BYTES);
	assert_int_equal(say(TWI_FRAME_REFUSE, 4, 0, TWI_REFUSE_CANCELED), TOW_OK);
	assert_int_equal(status_of(op), TOW_ECANCELED);
	assert_int_equal(session->bulk_count, 0);
}

/* The lane has the last bytes when the refusal comes: they count as sent, and it is not lost. */
static void test_refused_during_the_last_send(void **state)
{
	struct tow_op *op = granted();
	struct twi_bulk_out out;

	(void)state;
	assert_true(twi_session_bulk_out(session, LARGE, &out));
	assert_int_equal(out.count, 3);
	assert_int_equal(say(TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED), TOW_OK);
	twi_session_bulk_sent(session, 2 * TWI_FRAME_BYTES + LARGE);
	assert_int_equal(status_of(op), TOW_ECANCELED);
	assert_false(twi_session_bulk_out(session, LARGE, &out));
}

/* Taken back after `sent` bytes of header, payload and commit: the stream stays in step. */
static void test_taken_back_after_any_byte(void **state)
{
	static uint8_t wire[4 * TWI_FRAME_BYTES + LARGE];
	const size_t all = 2 * TWI_FRAME_BYTES + LARGE;

	(void)state;
	for (size_t sent = 0; sent <= all; sent += sent >= 40 && sent + 60 < all ? 53 : 1) {
		struct tow_op *op = granted(), *next;
		uint64_t seq = op->seq;
		size_t rest;

		assert_int_equal(drink(wire, sent), sent);
		assert_true(twi_session_abort(session, op, TOW_EDEADLINE, true));
		assert_int_equal(status_of(op), TOW_EDEADLINE);
		rest = drink(wire + sent, sizeof(wire) - sent);
		if (sent == 0)
			assert_int_equal(rest, TWI_FRAME_BYTES);
		else
			assert_int_equal(sent + rest, all);
		/* the last frame is the commit when it had begun, an abort otherwise */
		assert_int_equal(wire[sent + rest - TWI_FRAME_BYTES + 1],
				 sent > TWI_FRAME_BYTES + LARGE ? TWI_FRAME_LAST : TWI_FRAME_ABORT);
		assert_int_equal(session->bulk_count, 0);
		next = granted();
		drink_data(next->seq, 0, 0, LARGE);
		assert_true(next->seq == seq + 1);
		assert_true(twi_session_abort(session, next, TOW_EDEADLINE, true));
		drink(wire, sizeof(wire));
		assert_int_equal(say(TWI_FRAME_ACK, seq + 1, session->credit_used, 0), TOW_OK);
		while (session->tx_head != session->tx_tail)
			twi_session_control_sent(session, session->tx_tail - session->tx_head);
	}
}

/* Nobody wants the bytes any more: they go nowhere, and the stream stays in step. */
static void test_unwanted_bytes_sink(void **state)
{
	struct tow_op *op = asked(1), *next;

	(void)state;
	assert_int_equal(say_data(1, 0, 100, 0), TOW_OK);
	assert_false(twi_session_abort(session, op, TOW_ECANCELED, false));
	assert_true(twi_session_abort(session, op, TOW_EDEADLINE, true));
	expect(TWI_FRAME_REFUSE, 1);
	memset(room, 0, LARGE);
	assert_int_equal(say_data(1, 100, LARGE - 100, 0), TOW_OK);
	assert_int_equal(room[100], 0);
	assert_int_equal(say_data(1, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(session->grant_count, 0);
	next = asked(2); /* and no DONE in between */
	assert_int_equal(say_data(2, 0, LARGE, 0), TOW_OK);
	assert_int_equal(say_data(2, LARGE, 0, TWI_FRAME_LAST), TOW_OK);
	assert_int_equal(status_of(next), TOW_OK);
}

static void test_frames_cut_anywhere(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .tag = 3 };
	static uint8_t wire[3 * (TWI_FRAME_BYTES + 50)];
	const size_t one = TWI_FRAME_BYTES + 50, all = sizeof(wire);

	(void)state;
	for (size_t cut = 0; cut <= all; cut++) {
		struct tow_op *op = recv_op(50, 3);

		for (size_t i = 0; i < 3; i++) {
			head.seq = i + 1;
			twi_frame_put(wire + i * one, &head);
			memcpy(wire + i * one + TWI_FRAME_BYTES, bytes + i, 50);
		}
		memset(room, 0, 50);
		assert_int_equal(twi_session_control_in(session, wire, cut), TOW_OK);
		assert_int_equal(twi_session_control_in(session, wire + cut, all - cut), TOW_OK);
		assert_int_equal(status_of(op), TOW_OK);
		assert_memory_equal(room, bytes, 50);
		assert_int_equal(status_of(recv_op(50, 3)), TOW_OK);
		assert_memory_equal(room, bytes + 1, 50);
		assert_int_equal(status_of(recv_op(50, 3)), TOW_OK);
		assert_memory_equal(room, bytes + 2, 50);
		assert_int_equal(session->credit_charged, session->credit_given);
		close_session();
		open_session(CREDIT, EAGER);
	}
}

static void test_at_most_64_grants(void **state)
{
	struct twi_frame frame;
	unsigned heard = 0;

	(void)state;
	for (uint64_t seq = 1; seq <= 70; seq++) {
		recv_op(LARGE, seq);
		assert_int_equal(say(TWI_FRAME_RTS, seq, seq, LARGE), TOW_OK);
	}
	while (hear(&frame) == TWI_FRAME_CTS)
		heard++;
	assert_int_equal(heard, TWI_GRANTS_MAX);
	assert_int_equal(say_data(3, 0, 0, TWI_FRAME_ABORT), TOW_OK);
	expect(TWI_FRAME_CTS, 65);

	/* and a peer that grants more than that is wrong */
	for (uint64_t seq = 1; seq <= 65; seq++) {
		send_op(LARGE, 0);
		assert_int_equal(say(TWI_FRAME_CTS, seq, 0, LARGE),
				 seq <= TWI_GRANTS_MAX ? TOW_OK : TOW_EPROTOCOL);
	}
}

/* More is withdrawn than the buffer holds: every word of it is said in the end. */
static void test_full_control_buffer(void **state)
{
	static struct tow_op *ops[8000];
	struct twi_frame frame = { 0 };
	unsigned offers = 0, cancels = 0;

	(void)state;
	close_session();
	open_session(16u << 20, EAGER);
	for (size_t i = 0; i < twi_array_count(ops); i++)
		ops[i] = send_op(LARGE, i);
	assert_int_equal(ops[7999]->stage, TWI_STAGE_QUEUED);
	for (size_t i = 0; i < twi_array_count(ops); i++)
		assert_true(twi_session_abort(session, ops[i], TOW_ECANCELED, false));
	assert_true(session->owed_count > 0);
	while (hear(&frame) != 0) {
		offers += frame.type == TWI_FRAME_RTS;
		cancels += frame.type == TWI_FRAME_CANCEL;
	}
	assert_true(offers > 6000);
	assert_int_equal(offers, cancels);
}

/* A grant for which there was no room is asked for when there is. */
static void test_grant_waits_for_room(void **state)
{
	struct twi_frame frame = { 0 };
	unsigned grants = 0;

	(void)state;
	while (twi_session_put(session, TWI_FRAME_REFUSE, 1, 0, TWI_REFUSE_CANCELED))
		;
	recv_op(LARGE, 1);
	assert_int_equal(say(TWI_FRAME_RTS, 1, 1, LARGE), TOW_OK);
	assert_int_equal(session->grant_count, 0);
	while (hear(&frame) != 0)
		grants += frame.type == TWI_FRAME_CTS;
	assert_int_equal(grants, 1);
}

static void test_peer_that_does_not_read(void **state)
{
	uint64_t seq = 1;
	int status = TOW_OK;

	(void)state;
	for (; seq < 100000 && status == TOW_OK; seq++) {
		tow_op_release(recv_op(10, 1));
		status = say(TWI_FRAME_RTS, seq, 1, LARGE);
	}
	assert_int_equal(status, TOW_EPEER);
	assert_true(session->owed_count <= 2 * engine->ops.count);
}

static void test_bye_is_the_last(void **state)
{
	struct tow_op *op = asked(1), *small;
	struct twi_frame frame;

	(void)state;
	small = send_op(10, 1);
	assert_int_equal(status_of(small), TOW_OK);
	twi_session_fail(session, TOW_ECLOSED);
	twi_session_bye(session);
	assert_int_equal(status_of(op), TOW_ECLOSED);
	assert_false(twi_session_ack(session));
	assert_int_equal(hear(&frame), TWI_FRAME_EAGER);
	assert_int_equal(hear(&frame), TWI_FRAME_BYE);
	assert_int_equal(hear(&frame), 0);
	assert_int_equal(status_of(send_op(10, 1)), TOW_ECLOSED);
	assert_int_equal(status_of(recv_op(10, 1)), TOW_ECLOSED);
}

/* What had arrived whole can still be received after the end; offers and halves cannot. */
static void test_end_keeps_what_has_come(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 3 };
	uint8_t wire[TWI_FRAME_BYTES + 50] = { 0 };

	(void)state;
	assert_int_equal(say(TWI_FRAME_BYE, 0, 0, 0), TOW_OK);
	assert_true(session->peer_said_bye);
	assert_int_equal(say_eager(1, 0, 20), TOW_OK);
	assert_int_equal(say(TWI_FRAME_RTS, 2, 0, LARGE), TOW_OK);
	twi_frame_put(wire, &head);
	assert_int_equal(twi_session_control_in(session, wire, sizeof(wire) - 1), TOW_OK);
	twi_session_fail(session, TOW_EPEER);
	assert_int_equal(status_of(recv_op(50, 0)), TOW_OK);
	assert_int_equal(status_of(recv_op(50, 0)), TOW_EPEER);
}

/* Ended while half a message is there, in the table or on its way to a receive. */
static void test_fini_with_half_a_message(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 1 };
	uint8_t wire[TWI_FRAME_BYTES + 50] = { 0 };

	(void)state;
	twi_frame_put(wire, &head);
	assert_int_equal(twi_session_control_in(session, wire, 40), TOW_OK);
	twi_session_fini(session);
	free(peer);
	open_session(CREDIT, EAGER);
	assert_int_equal(twi_session_control_in(session, wire, 40), TOW_OK);
	recv_op(50, 0); /* waits for the rest */
}

static void test_queued_send_lets_others_go(void **state)
{
	struct tow_op *first, *small;

	(void)state;
	while (status_of(first = send_op(EAGER, 0)) == TOW_OK)
		;
	small = send_op(0, 0);
	assert_int_equal(status_of(small), TOW_AGAIN);
	assert_true(twi_session_abort(session, first, TOW_ECANCELED, false));
	assert_int_equal(status_of(small), TOW_OK);
}

/* The receive's time is over while its message arrives: the next receive gets all of it. */
static void test_small_message_outlives_its_receive(void **state)
{
	struct twi_frame head = { .type = TWI_FRAME_EAGER, .payload_bytes = 50, .seq = 1 };
	uint8_t wire[TWI_FRAME_BYTES + 50];
	struct tow_op *op = recv_op(50, 0), *next, *after;

	(void)state;
	twi_frame_put(wire, &head);
	memcpy(wire + TWI_FRAME_BYTES, bytes, 50);
	assert_int_equal(twi_session_control_in(session, wire, TWI_FRAME_BYTES + 20), TOW_OK);
	assert_false(twi_session_abort(session, op, TOW_ECANCELED, false));
	assert_true(twi_session_abort(session, op, TOW_EDEADLINE, true));
	memset(room, 0, 50);
	next = recv_op(50, 0);
	assert_true(twi_session_abort(session, next, TOW_EDEADLINE, true)); /* once more */
	after = recv_op(50, 0);
	assert_int_equal(twi_session_control_in(session, wire + TWI_FRAME_BYTES + 20, 30), TOW_OK);
	assert_int_equal(status_of(after), TOW_OK);
	assert_memory_equal(room, bytes, 50);
	assert_int_equal(session->credit_charged, session->credit_given);
	assert_int_equal(session->unexpected_bytes, 0);
}

static void test_small_fits_buffer_and_credit(void **state)
{
	(void)state;
	close_session();
	open_session(64u << 20, 1u << 20);
	assert_int_equal(status_of(send_op(512u << 10, 0)), TOW_AGAIN);
	expect(TWI_FRAME_RTS, 1);
	assert_int_equal(status_of(send_op(128u << 10, 0)), TOW_OK);
	close_session();
	open_session(CREDIT, CREDIT - 64);
	assert_int_equal(status_of(send_op(CREDIT - 64, 0)), TOW_AGAIN);
	expect(TWI_FRAME_RTS, 1);
}

static void test_wrong_streams_and_types(void **state)
{
	uint8_t junk[TWI_FRAME_BYTES];

	(void)state;
	memset(junk, 0xff, sizeof(junk));
	assert_int_equal(twi_session_control_in(session, junk, sizeof(junk)), TOW_EPROTOCOL);
	assert_int_equal(feed(junk, sizeof(junk), 32), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_DATA, 1, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(say(TWI_FRAME_HELLO, 0, 0, 0), TOW_EPROTOCOL);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

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
		CASE(test_cancel_crosses_grant),
		CASE(test_cancel_at_each_stage),
		CASE(test_abort_gives_the_receive_back),
		CASE(test_refused_at_each_stage),
		CASE(test_refused_during_the_last_send),
		CASE(test_taken_back_after_any_byte),
		CASE(test_unwanted_bytes_sink),
		CASE(test_frames_cut_anywhere),
		CASE(test_at_most_64_grants),
		CASE(test_full_control_buffer),
		CASE(test_grant_waits_for_room),
		CASE(test_peer_that_does_not_read),
		CASE(test_bye_is_the_last),
		CASE(test_end_keeps_what_has_come),
		CASE(test_fini_with_half_a_message),
		CASE(test_queued_send_lets_others_go),
		CASE(test_small_message_outlives_its_receive),
		CASE(test_small_fits_buffer_and_credit),
		CASE(test_wrong_streams_and_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
