/*
 * session_control.c - the control stream in: frames, and the payload of small messages.
 *
 * Frames are parsed in the lane's buffer. A header that is cut by the end of the buffer is
 * collected in `head`. The rest of a payload that is cut follows its beginning (the inbox's
 * `filling`). The stream may break at any byte. Parsing stops there, and continues there after the
 * resume.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/path.h"
#include "transport/stream/session_parts.h"
#include "transport/wire/feature.h"

/*
 * Handles the header of a small message. If all of its payload is there, up to `end`, this is read
 * too, and *data is behind it.
 */
static int on_eager(struct twi_session *session, const struct twi_frame *frame,
		    const uint8_t **data, const uint8_t *end)
{
	const struct twi_inbound in = {
		.payload = *data,
		.seq = frame->seq,
		.tag = frame->tag,
		.bytes = frame->payload_bytes,
		.sum = (uint32_t)frame->value,
		.channel = frame->channel,
		.space = frame->flags & TWI_FRAME_SPACE,
		.summed = (frame->flags & TWI_FRAME_SUM) != 0,
	};
	int status = twi_session_admit(session, frame);

	if (status < 0)
		return status;
	if (twi_unlikely(session->large_tags != 0))
		twi_session_note(session, frame->tag, false);
	if ((size_t)(end - *data) < in.bytes)
		return twi_inbox_begin(&session->inbox, &in);
	*data += in.bytes;
	twi_session_lone_came(session, in.bytes);
	return twi_inbox_small(&session->inbox, &in);
}

static int on_frame(struct twi_session *session, const struct twi_frame *frame,
		    const uint8_t **data, const uint8_t *end)
{
	twi_held_count(session->engine, TWI_C_control_frames_received, 1);
	switch (frame->type) {
	case TWI_FRAME_EAGER:
		return on_eager(session, frame, data, end);
	case TWI_FRAME_RTS:
		return twi_session_offered(session, frame);
	case TWI_FRAME_CTS:
	case TWI_FRAME_DONE:
	case TWI_FRAME_REFUSE:
		return twi_session_answered(session, frame);
	case TWI_FRAME_ACK:
		return twi_session_acked(session, frame);
	case TWI_FRAME_CANCEL:
		return twi_session_canceled(session, frame);
	case TWI_FRAME_RECEIVED:
	case TWI_FRAME_PONG:
		return twi_session_heard(session, frame->value);
	case TWI_FRAME_PING:
		session->pong_owed = true; /* sent when this input has been read */
		return twi_session_heard(session, frame->value);
	case TWI_FRAME_ANNOUNCE:
		return twi_session_announced(session, frame);
	case TWI_FRAME_BYE:
		session->peer->said_bye = true;
		session->bye = (uint8_t)frame->value;
		return TOW_OK;
	case TWI_FRAME_READ:
	case TWI_FRAME_WRITE:
		return twi_session_fault(
			session, TWI_RULE_FEATURE, "sent a frame (%s) of feature %d (%s)",
			twi_frame_type_name(frame->type), TWI_FEATURE_remote_memory,
			twi_feature_name(TWI_FEATURE_remote_memory));
	default:
		return twi_session_fault(session, TWI_FAULT_ORDER,
					 "sent a frame of type %u out of place", frame->type);
	}
}

static int get_frame(const struct twi_session *session, const uint8_t *head,
		     struct twi_frame *frame_out, enum twi_frame_fault *fault_out)
{
	const struct twi_frame_limits limits = {
		.eager_max_bytes = session->config.lone_bytes,
		.control = true,
		.hello_done = true,
	};

	return twi_frame_get(head, &limits, frame_out, fault_out);
}

/* *data: the bytes behind the header. */
static int parse_frame(struct twi_session *session, const uint8_t *head, const uint8_t **data,
		       const uint8_t *end)
{
	struct twi_frame frame;
	enum twi_frame_fault fault;

	if (get_frame(session, head, &frame, &fault) < 0)
		return twi_session_fault(session, (unsigned)fault, "sent a bad control frame");
	return on_frame(session, &frame, data, end);
}

/* The next whole header, which may have come in parts. NULL: its rest has not come. */
static const uint8_t *next_head(struct twi_session *session, const uint8_t **data,
				const uint8_t *end)
{
	const uint8_t *head = *data;

	if (session->head_fill == 0 && end - head >= TWI_FRAME_BYTES) {
		*data += TWI_FRAME_BYTES;
		return head;
	}
	while (*data < end && session->head_fill < TWI_FRAME_BYTES)
		session->head[session->head_fill++] = *(*data)++;
	if (session->head_fill < TWI_FRAME_BYTES)
		return NULL;
	session->head_fill = 0;
	return session->head;
}

/*
 * After the session has ended on this side, all input is dropped, except a BYE: the other side has
 * ended the session too. Without it, the end of its connection would look like a break that must be
 * resumed. Then two sides that close at the same time would wait for each other.
 */
static void input_scan_bye(struct twi_session *session, const uint8_t *data, const uint8_t *end)
{
	const uint8_t *head;
	struct twi_frame frame;
	enum twi_frame_fault fault;

	while (data < end) {
		size_t skipped = twi_min((size_t)(end - data), (size_t)session->skip_bytes);

		session->skip_bytes -= (uint32_t)skipped;
		data += skipped;
		head = data < end ? next_head(session, &data, end) : NULL;
		if (head == NULL)
			return;
		if (get_frame(session, head, &frame, &fault) < 0)
			continue;
		if (frame.type == TWI_FRAME_BYE && frame.channel == 0) {
			session->peer->said_bye = true;
			session->bye = (uint8_t)frame.value;
		} else if (frame.payload_bytes > 0) {
			session->skip_bytes = frame.payload_bytes;
		}
	}
}

int twi_session_control_in(struct twi_session *session, const uint8_t *data, size_t bytes)
{
	const uint8_t *end = data + bytes;
	int status;

	session->input_ns = twi_engine_now(session->engine);
	session->rx_total += bytes;
	while (data < end && session->failed == 0) {
		const uint8_t *head;

		if (session->inbox.filling.left > 0) {
			data += twi_inbox_fill(&session->inbox, data, (size_t)(end - data));
			if (session->inbox.filling.left == 0)
				twi_session_lone_came(session, session->inbox.filling.bytes);
			continue;
		}
		head = next_head(session, &data, end);
		if (head == NULL)
			break;
		status = parse_frame(session, head, &data, end);
		if (status < 0)
			return status;
	}
	if (twi_unlikely(session->failed != 0)) {
		input_scan_bye(session, data, end);
		return TOW_OK;
	}
	if (twi_unlikely(session->pong_owed))
		twi_session_say_pong(session);
	if (session->rx_total - session->rx_total_reported >= TWI_RECEIVED_URGENT)
		session->urgent = true;
	if (twi_unlikely(session->stuck))
		return twi_error(TOW_EPEER, "peer %s does not read its control stream",
				 session->peer->address);
	if (twi_unlikely(session->doubted)) /* found where no status was returned */
		return twi_session_fault(session, session->rule,
					 "answered a message that it had not received");
	return session->config.announce ? twi_session_bulk_look(session) : TOW_OK;
}
