/*
 * far_side.h - the other side of a session, played by a test: says and hears frames; far_bulk.h has
 * the bulk channels. One session at a time, opened and closed by CASE.
 */
#ifndef TWT_FAR_SIDE_H
#define TWT_FAR_SIDE_H

#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/stream/session_parts.h"

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

static inline struct twi_session_config far_config(void)
{
	return (struct twi_session_config){
		.lane = TWI_LANE_LOOP,
		.connector = true,
		.local_credit_bytes = CREDIT,
		.remote_credit_bytes = CREDIT,
		.eager_max_bytes = EAGER,
	};
}

static inline void open_session_with(const struct twi_session_config *config)
{
	peer = calloc(1, sizeof(*peer));
	assert_non_null(peer);
	strcpy(peer->address, "loop://them");
	peer->engine = engine;
	peer->lane = &far_lane;
	twi_peer_claims_init(&peer->claims);
	session = &peer->session;
	assert_int_equal(twi_session_init(session, engine, peer, config), TOW_OK);
}

static inline void open_session(uint64_t credit, uint32_t eager_max)
{
	struct twi_session_config config = far_config();

	config.local_credit_bytes = config.remote_credit_bytes = credit;
	config.eager_max_bytes = eager_max;
	open_session_with(&config);
}

static inline int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 1 << 20;
	options.max_ops = 16384;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine); /* for the whole test: a session's calls are its holder's */
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
	twi_engine_leave(engine);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return 0;
}

static inline struct tow_op *start(enum twi_op_kind kind, void *data, uint64_t n, uint64_t tag)
{
	struct tow_op *op =
		twi_op_acquire(engine, kind == TWI_OP_SEND ? &twi_send_ops : &twi_recv_ops, NULL);

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
	return (atomic_load(&op->wait.state) & TWI_OP_DONE) != 0 ? op->status : TOW_AGAIN;
}

static inline int say_flags(uint8_t type, uint8_t flags, uint64_t seq, uint64_t tag, uint64_t value)
{
	struct twi_frame frame = { .type = type, .seq = seq, .tag = tag, .value = value };
	uint8_t head[TWI_FRAME_BYTES];

	frame.flags = flags;
	twi_frame_put(head, &frame);
	return twi_session_control_in(session, head, sizeof(head));
}

static inline int say(uint8_t type, uint64_t seq, uint64_t tag, uint64_t value)
{
	return say_flags(type, 0, seq, tag, value);
}

/* A small message whole, `step` bytes at a time; returns what the session says. */
static inline int say_summed(uint64_t seq, uint64_t tag, uint32_t n, uint8_t flags, uint32_t sum,
			     size_t step)
{
	struct twi_frame frame = { .type = TWI_FRAME_EAGER, .flags = flags, .payload_bytes = n };
	static uint8_t wire[TWI_FRAME_BYTES + EAGER + 1];
	int status = TOW_OK;

	frame.seq = seq;
	frame.tag = tag;
	frame.value = sum;
	twi_frame_put(wire, &frame);
	memcpy(wire + TWI_FRAME_BYTES, bytes, n);
	for (size_t at = 0; at < TWI_FRAME_BYTES + n && status == TOW_OK; at += step)
		status = twi_session_control_in(session, wire + at,
						twi_min(step, TWI_FRAME_BYTES + n - at));
	return status;
}

static inline int say_eager(uint64_t seq, uint64_t tag, uint32_t n)
{
	return say_summed(seq, tag, n, 0, 0, SIZE_MAX / 2);
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

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
