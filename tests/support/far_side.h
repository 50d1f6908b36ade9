/*
 * far_side.h - the other side of a session, played by a test: says and hears frames, feeds and
 * drinks bulk bytes in pieces of any size. One session at a time, opened and closed by CASE.
 */
#ifndef TWT_FAR_SIDE_H
#define TWT_FAR_SIDE_H

#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/op.h"
#include "transport/runtime.h"
#include "transport/session_parts.h"

#define CREDIT (64u << 10)
#define EAGER  1000u
#define LARGE  5000u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *peer;
static const struct twi_lane_ops far_lane_ops;
static struct twi_lane far_lane = { .ops = &far_lane_ops };
static struct twi_session *session;
static uint8_t bytes[1 << 20]; /* what messages are sent from */
static uint8_t room[1 << 20];  /* and received into */

static inline void open_session(uint64_t credit, uint32_t eager_max)
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
	peer->engine = engine;
	peer->lane = &far_lane;
	twi_peer_claims_init(&peer->claims);
	session = &peer->session;
	assert_int_equal(twi_session_init(session, engine, peer, &config), TOW_OK);
}

static inline int set_up(void **state)
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

static inline void close_session(void)
{
	twi_session_fail(session, TOW_ECLOSED);
	twi_session_fini(session);
	free(peer);
}

static inline int tear_down(void **state)
{
	(void)state;
	close_session();
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return 0;
}

static inline struct tow_op *start(enum twi_op_kind kind, void *data, uint64_t n, uint64_t tag)
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

static inline struct tow_op *send_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_SEND, bytes, n, tag);
}

static inline struct tow_op *recv_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_RECV, room, n, tag);
}

/* TOW_AGAIN while it is in flight. */
static inline int status_of(const struct tow_op *op)
{
	return (atomic_load(&op->state) & TWI_OP_DONE) != 0 ? op->status : TOW_AGAIN;
}

static inline int say(uint8_t type, uint64_t seq, uint64_t tag, uint64_t value)
{
	struct twi_frame frame = { .type = type, .seq = seq, .tag = tag, .value = value };
	uint8_t head[TWI_FRAME_BYTES];

	twi_frame_put(head, &frame);
	return twi_session_control_in(session, head, sizeof(head));
}

/* A small message whole; returns what the session says. */
static inline int say_eager(uint64_t seq, uint64_t tag, uint32_t n)
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
static inline uint8_t hear(struct twi_frame *frame)
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

static inline void expect(uint8_t type, uint64_t seq)
{
	struct twi_frame frame = { 0 };

	assert_int_equal(hear(&frame), type);
	assert_int_equal(frame.seq, seq);
}

/* Gives bytes of the bulk stream, `step` at a time. */
static inline int feed(const uint8_t *at, size_t n, size_t step)
{
	while (n > 0) {
		struct iovec parts[2];
		int count = twi_session_bulk_want(session, 0, step, parts);
		size_t done = 0;
		int status;

		assert_true(count > 0);
		for (int i = 0; i < count && done < twi_min(n, step); i++) {
			size_t part = twi_min(twi_min(n, step) - done, parts[i].iov_len);

			memcpy(parts[i].iov_base, at + done, part);
			done += part;
		}
		status = twi_session_bulk_in(session, 0, done);
		if (status < 0)
			return status;
		at += done;
		n -= done;
	}
	return TOW_OK;
}

static inline int say_data(uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags)
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
static inline size_t drink(uint8_t *to, size_t n)
{
	struct twi_bulk_out out;
	size_t done = 0;

	while (done < n && twi_session_bulk_out(session, 0, n, &out)) {
		size_t before = done;

		for (int i = 0; i < out.count && done < n; i++) {
			size_t part = twi_min(n - done, out.parts[i].iov_len);

			memcpy(to + done, out.parts[i].iov_base, part);
			done += part;
		}
		twi_session_bulk_sent(session, 0, done - before);
	}
	return done;
}

static inline void drink_data(uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n)
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
static inline struct tow_op *granted(void)
{
	struct tow_op *op = send_op(LARGE, 1);

	expect(TWI_FRAME_RTS, op->seq);
	assert_int_equal(say(TWI_FRAME_CTS, op->seq, 0, LARGE), TOW_OK);
	return op;
}

/* A receive whose large message has been offered and asked for. */
static inline struct tow_op *asked(uint64_t seq)
{
	struct tow_op *op = recv_op(LARGE, 1);

	assert_int_equal(say(TWI_FRAME_RTS, seq, 1, LARGE), TOW_OK);
	expect(TWI_FRAME_CTS, seq);
	return op;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
