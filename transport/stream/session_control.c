/*
 * session_control.c - the control stream in: frames, and the payload of small messages.
 *
 * It is parsed where it lies, in the lane's buffer; a header that is cut by the end of the buffer
 * is collected in `head`, a payload that is cut goes on where it was going (rx_at). So a small
 * message is copied once, from the lane's buffer to the user's; twice when nobody had posted for
 * it, which is counted as a fallback copy. Where the stream breaks parsing stops, at any byte, and
 * goes on there when it is resumed.
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

/* All payload of the present small message has come. */
static void finish_eager(struct twi_session *session)
{
	struct twi_unexpected *message = session->rx_unexpected;
	struct tow_op *op = session->rx_op;
	bool corrupt = false;

	if (twi_unlikely(session->rx_sum) && session->rx_at != NULL) {
		twi_count(session->engine->diag, TWI_C_checksums_checked, 1);
		corrupt = session->rx_crc != session->rx_told;
	}
	session->rx_unexpected = NULL;
	session->rx_op = NULL;
	session->rx_at = NULL;
	if (message != NULL) {
		message->whole = true;
		message->corrupt = corrupt;
		if (message->waiter != NULL) {
			struct tow_op *waiter = message->waiter;

			twi_session_deliver(session, message, waiter);
		}
		return;
	}
	twi_session_give_credit(session, session->rx_bytes);
	if (op != NULL && twi_unlikely(corrupt))
		twi_session_corrupt(session, op, session->rx_bytes);
	else if (op != NULL)
		twi_session_received(session, op, session->rx_bytes);
}

/* Of the present small message, whose bytes go somewhere. */
static uint8_t rx_space(const struct twi_session *session)
{
	return session->rx_op != NULL ? session->rx_op->space : session->rx_unexpected->match.space;
}

/* Takes up to rx_left bytes of payload; returns how many. */
static size_t take_eager(struct twi_session *session, const uint8_t *data, size_t bytes)
{
	size_t n = twi_min(bytes, (size_t)session->rx_left);

	if (session->rx_at != NULL && n > 0) {
		twi_path_copy_small(session->engine, rx_space(session), session->rx_at, data, n);
		if (twi_unlikely(session->rx_sum))
			session->rx_crc = twi_checksum(session->rx_crc, session->rx_at, n);
		session->rx_at += n;
	}
	session->rx_left -= (uint32_t)n;
	if (session->rx_left == 0)
		finish_eager(session);
	return n;
}

/* The header of a small message: finds out where its payload goes. */
static int on_eager(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op;
	int status = twi_session_admit(session, frame);

	if (status < 0)
		return status;
	session->rx_left = frame->payload_bytes;
	session->rx_bytes = frame->payload_bytes;
	session->rx_sum = (frame->flags & TWI_FRAME_SUM) != 0;
	session->rx_told = (uint32_t)frame->value;
	if (twi_unlikely(session->large_tags != 0))
		twi_session_note(session, frame->tag, false);
	session->rx_crc = 0;
	op = twi_session_take_posted(session, frame, frame->payload_bytes);
	if (twi_likely(op != NULL)) {
		op->seq = frame->seq;
		op->stage = TWI_STAGE_FILLING;
		session->rx_op = op;
		status = twi_session_room_for(op, frame->payload_bytes);
		if (status < 0) {
			session->rx_op = NULL; /* the payload is dropped */
			if (frame->payload_bytes == 0)
				twi_session_give_credit(session, 0);
			twi_session_op_end(session, op, status, frame->payload_bytes);
			return TOW_OK;
		}
		session->rx_at = frame->payload_bytes <= op->bytes ? op->data : NULL;
		return TOW_OK;
	}
	session->rx_unexpected = twi_session_unexpected(frame, frame->payload_bytes);
	if (session->rx_unexpected == NULL)
		return TOW_ENOMEM;
	session->rx_at = session->rx_unexpected->data;
	session->unexpected_bytes += frame->payload_bytes;
	if (session->rx_unexpected->match.space == TWI_SPACE_USER) {
		twi_count_two(session->engine->diag, TWI_C_unexpected_messages, 1,
			      TWI_C_unexpected_bytes, frame->payload_bytes);
	}
	twi_match_arrive(&session->match, &session->rx_unexpected->match);
	return TOW_OK;
}

static int on_frame(struct twi_session *session, const struct twi_frame *frame)
{
	twi_held_count(session->engine, TWI_C_control_frames_received, 1);
	switch (frame->type) {
	case TWI_FRAME_EAGER:
		return on_eager(session, frame);
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
		session->pong_owed = true; /* said when this input has been read */
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

int twi_session_no_channel(struct twi_session *session, const struct twi_frame *frame)
{
	return twi_session_fault(session, TWI_RULE_CHANNEL,
				 "sent a frame (%s) of channel %u, which is not open",
				 twi_frame_type_name(frame->type), frame->channel);
}

static int get_frame(const struct twi_session *session, const uint8_t *head,
		     struct twi_frame *frame_out, enum twi_frame_fault *fault_out)
{
	const struct twi_frame_limits limits = {
		.eager_max_bytes = session->config.eager_max_bytes,
		.control = true,
		.hello_done = true,
	};

	return twi_frame_get(head, &limits, frame_out, fault_out);
}

static int parse_frame(struct twi_session *session, const uint8_t *head)
{
	struct twi_frame frame;
	enum twi_frame_fault fault;

	if (get_frame(session, head, &frame, &fault) < 0)
		return twi_session_fault(session, (unsigned)fault, "sent a bad control frame");
	if (twi_unlikely(frame.channel != 0))
		return twi_session_no_channel(session, &frame);
	return on_frame(session, &frame);
}

/* The next whole header, which may have come in parts; NULL: its rest is to come. */
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
 * After the session has ended on this side what comes is dropped, but for one word: that the other
 * side has ended it, too. Else the end of its connection would be a break to be mended, and two
 * sides that close at the same time would wait for each other.
 */
static void listen_for_bye(struct twi_session *session, const uint8_t *data, const uint8_t *end)
{
	const uint8_t *head;
	struct twi_frame frame;
	enum twi_frame_fault fault;

	while (data < end) {
		size_t skipped = twi_min((size_t)(end - data), (size_t)session->rx_left);

		session->rx_left -= (uint32_t)skipped;
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
			session->rx_left = frame.payload_bytes;
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

		if (session->rx_left > 0) {
			data += take_eager(session, data, (size_t)(end - data));
			continue;
		}
		head = next_head(session, &data, end);
		if (head == NULL)
			break;
		status = parse_frame(session, head);
		if (status < 0)
			return status;
		if (session->rx_left == 0 &&
		    (session->rx_op != NULL || session->rx_unexpected != NULL))
			finish_eager(session); /* a message of no bytes */
	}
	if (twi_unlikely(session->failed != 0)) {
		listen_for_bye(session, data, end);
		return TOW_OK;
	}
	if (twi_unlikely(session->pong_owed))
		twi_session_say_pong(session);
	if (session->rx_total - session->rx_total_told >= TWI_RECEIVED_URGENT)
		session->urgent = true;
	if (twi_unlikely(session->stuck))
		return twi_error(TOW_EPEER, "peer %s does not read its control stream",
				 session->peer->address);
	if (twi_unlikely(session->doubted)) /* found where nobody could be told */
		return twi_session_fault(session, session->rule,
					 "answered what it had not received");
	return session->config.announce ? twi_session_bulk_look(session) : TOW_OK;
}
