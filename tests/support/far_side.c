/* far_side.c - the other side of a session, played by a test. */
#include "far_side.h"

struct twt_far twt_far;

static const struct twi_lane_ops far_lane_ops = { .id = TWI_LANE_LOOP };
static struct twi_lane far_lane = { .ops = &far_lane_ops };

struct twi_session_config twt_far_config(void)
{
	return (struct twi_session_config){
		.lane = TWI_LANE_LOOP,
		.local_credit_bytes = CREDIT,
		.remote_credit_bytes = CREDIT,
		.eager_max_bytes = EAGER,
	};
}

void twt_far_open_session_with(const struct twi_session_config *config)
{
	twt_far.peer = calloc(1, sizeof(struct twi_stream_peer));
	assert_non_null(twt_far.peer);
	strcpy(twt_far.peer->address, "loop://them");
	twt_far.peer->engine = twt_far.engine;
	twt_far.peer->lane = &far_lane;
	twt_far.peer->connector = true;
	twi_peer_claims_init(&twt_far.peer->claims);
	twt_far.session = twi_session_of(twt_far.peer);
	assert_int_equal(twi_session_init(twt_far.session, twt_far.engine, twt_far.peer, config),
			 TOW_OK);
}

void twt_far_open_session(uint64_t credit, uint32_t eager_max)
{
	struct twi_session_config config = twt_far_config();

	config.local_credit_bytes = config.remote_credit_bytes = credit;
	config.eager_max_bytes = eager_max;
	twt_far_open_session_with(&config);
}

int twt_far_set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 1 << 20;
	options.max_ops = 16384;
	assert_int_equal(twi_runtime_open_sim(&options, &twt_far.runtime), TOW_OK);
	twt_far.engine = twi_runtime_engine(twt_far.runtime);
	/* For the whole test: a session's calls are its holder's. */
	twi_engine_enter(twt_far.engine);
	for (size_t i = 0; i < sizeof(twt_far.bytes); i++)
		twt_far.bytes[i] = (uint8_t)(i * 7 + i / 251);
	memset(twt_far.room, 0, sizeof(twt_far.room));
	twt_far_open_session(CREDIT, EAGER);
	return 0;
}

void twt_far_close_session(void)
{
	twi_session_fail(twt_far.session, TOW_ECLOSED);
	twi_session_fini(twt_far.session);
	free(twt_far.peer);
}

int twt_far_tear_down(void **state)
{
	(void)state;
	twt_far_close_session();
	twi_engine_leave(twt_far.engine);
	assert_int_equal(tow_runtime_close(twt_far.runtime), TOW_OK);
	return 0;
}

static struct tow_op *start(enum twi_op_kind kind, void *data, uint64_t n, uint64_t tag)
{
	struct tow_op *op = twi_op_acquire(
		twt_far.engine, kind == TWI_OP_SEND ? &twi_send_ops : &twi_recv_ops, NULL);

	assert_non_null(op);
	op->peer = twt_far.peer;
	op->data = data;
	op->bytes = n;
	op->tag = tag;
	if (kind == TWI_OP_SEND)
		twi_outbox_send(&twt_far.session->outbox, op);
	else
		twi_session_recv(twt_far.session, op);
	return op;
}

struct tow_op *twt_far_send_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_SEND, twt_far.bytes, n, tag);
}

struct tow_op *twt_far_recv_op(uint64_t n, uint64_t tag)
{
	return start(TWI_OP_RECV, twt_far.room, n, tag);
}

int twt_far_status_of(const struct tow_op *op)
{
	return (atomic_load(&op->wait.state) & TWI_OP_DONE) != 0 ? op->status : TOW_AGAIN;
}

int twt_far_say_flags(uint8_t type, uint8_t flags, uint64_t seq, uint64_t tag, uint64_t value)
{
	struct twi_frame frame = { .type = type, .seq = seq, .tag = tag, .value = value };
	uint8_t head[TWI_FRAME_BYTES];

	frame.flags = flags;
	twi_frame_put(head, &frame);
	return twi_session_control_in(twt_far.session, head, sizeof(head));
}

int twt_far_say(uint8_t type, uint64_t seq, uint64_t tag, uint64_t value)
{
	return twt_far_say_flags(type, 0, seq, tag, value);
}

int twt_far_say_summed(uint64_t seq, uint64_t tag, uint32_t n, uint8_t flags, uint32_t sum,
		       size_t step)
{
	struct twi_frame frame = { .type = TWI_FRAME_EAGER, .flags = flags, .payload_bytes = n };
	static uint8_t wire[TWI_FRAME_BYTES + EAGER + 1];
	int status = TOW_OK;

	frame.seq = seq;
	frame.tag = tag;
	frame.value = sum;
	twi_frame_put(wire, &frame);
	memcpy(wire + TWI_FRAME_BYTES, twt_far.bytes, n);
	for (size_t at = 0; at < TWI_FRAME_BYTES + n && status == TOW_OK; at += step)
		status = twi_session_control_in(twt_far.session, wire + at,
						twi_min(step, TWI_FRAME_BYTES + n - at));
	return status;
}

int twt_far_say_eager(uint64_t seq, uint64_t tag, uint32_t n)
{
	return twt_far_say_summed(seq, tag, n, 0, 0, SIZE_MAX / 2);
}

uint8_t twt_far_hear(struct twi_frame *frame)
{
	const struct twi_frame_limits limits = { .eager_max_bytes = 1 << 20,
						 .control = true,
						 .hello_done = true };
	enum twi_frame_fault fault;
	struct iovec out;

	if (!twi_session_control_out(twt_far.session, &out))
		return 0;
	assert_int_equal(twi_frame_get(out.iov_base, &limits, frame, &fault), TOW_OK);
	twi_session_control_sent(twt_far.session, TWI_FRAME_BYTES + frame->payload_bytes);
	return frame->type;
}

void twt_far_expect(uint8_t type, uint64_t seq)
{
	struct twi_frame frame = { 0 };

	assert_int_equal(twt_far_hear(&frame), type);
	assert_int_equal(frame.seq, seq);
}
