/*
 * session_retain.c - the control stream out. Frames are written into chunks of memory, and sent
 * from there. They stay there until the peer reports that it has read them. So a connection that
 * breaks loses none.
 *
 *	tx_first                    tx_send                tx_last
 *	[.. acked | sent ......] -> [sent | not sent] -> [ not sent | free ]
 *	^ tx_base                         ^ tx_head               ^ tx_tail
 *
 * Positions count the bytes of the stream since its start. A frame lies whole in one chunk. Chunks
 * that the peer has acknowledged become spare ones, and the last one is used first. So a stream
 * whose peer keeps up cycles through little memory. While the peer lags, more chunks are taken from
 * the heap, up to TWI_RETAIN_BYTES.
 *
 * A chunk is released when it has been acknowledged and sent. A peer may acknowledge a chunk before
 * the send's completion is seen, when the lane still holds the chunk.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/stream/session_parts.h"

#define RECORD_BYTES 16u

struct twi_tx_chunk {
	struct twi_tx_chunk *next;
	uint32_t end; /* bytes written */
	_Alignas(64) uint8_t data[];
};

static uint32_t spares_kept(const struct twi_session *session)
{
	return twi_max(TWI_CONTROL_BYTES / session->tx_chunk_bytes, 2);
}

static struct twi_tx_chunk *chunk_make(struct twi_session *session)
{
	struct twi_tx_chunk *chunk = malloc(sizeof(*chunk) + session->tx_chunk_bytes);

	if (chunk != NULL) {
		session->tx_chunks++;
		chunk->next = NULL;
		chunk->end = 0;
	}
	return chunk;
}

static void chunk_spare(struct twi_session *session, struct twi_tx_chunk *chunk)
{
	if (session->tx_spares >= spares_kept(session)) {
		session->tx_chunks--;
		free(chunk);
		return;
	}
	chunk->next = session->tx_spare;
	session->tx_spare = chunk;
	session->tx_spares++;
}

int twi_session_retain_init(struct twi_session *session)
{
	uint32_t most = twi_max(session->outbox.eager_bytes,
				twi_min(session->config.lone_bytes, TWI_LONE_BYTES));

	/* A chunk holds the longest message that goes with its header. */
	session->tx_chunk_bytes = twi_max(TWI_RETAIN_CHUNK_BYTES, most + TWI_FRAME_BYTES);
	session->tx_first = chunk_make(session);
	session->tx_send = session->tx_last = session->tx_first;
	if (session->tx_first == NULL)
		return TOW_ENOMEM;
	while (session->tx_chunks < spares_kept(session)) {
		struct twi_tx_chunk *chunk = chunk_make(session);

		if (chunk == NULL)
			return TOW_ENOMEM;
		chunk_spare(session, chunk);
	}
	return TOW_OK;
}

static void free_chunks(struct twi_tx_chunk *chunk)
{
	while (chunk != NULL) {
		struct twi_tx_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

void twi_session_retain_fini(struct twi_session *session)
{
	free_chunks(session->tx_first);
	free_chunks(session->tx_spare);
	session->tx_first = session->tx_send = session->tx_last = session->tx_spare = NULL;
}

/* The last chunk is full: adds one. The last one within the bound is for control frames only. */
static struct twi_tx_chunk *next_chunk(struct twi_session *session, bool control)
{
	uint32_t most = TWI_RETAIN_BYTES / session->tx_chunk_bytes - (control ? 0 : 1);
	struct twi_tx_chunk *chunk = session->tx_spare;

	if (session->tx_chunks - session->tx_spares >= most)
		return NULL;
	if (chunk != NULL) {
		session->tx_spare = chunk->next;
		session->tx_spares--;
		chunk->next = NULL;
		chunk->end = 0;
	} else {
		chunk = chunk_make(session);
		if (chunk == NULL)
			return NULL;
	}
	session->tx_last->next = chunk;
	session->tx_last = chunk;
	return chunk;
}

/*
 * Room for `bytes` at the end of the control stream, or NULL. The last TWI_CONTROL_RESERVE unsent
 * bytes are for control frames. So acknowledgements get through when messages fill the buffer.
 */
uint8_t *twi_session_room(struct twi_session *session, uint32_t bytes, bool control)
{
	uint64_t limit = TWI_CONTROL_BYTES - (control ? 0 : TWI_CONTROL_RESERVE);
	struct twi_tx_chunk *chunk = session->tx_last;
	uint8_t *at;

	if (twi_unlikely(session->tx_tail - session->tx_head + bytes > limit))
		return NULL;
	if (twi_unlikely(session->tx_chunk_bytes - chunk->end < bytes)) {
		chunk = next_chunk(session, control);
		if (chunk == NULL)
			return NULL;
	}
	at = chunk->data + chunk->end;
	chunk->end += bytes;
	session->tx_tail += bytes;
	return at;
}

bool twi_session_has_words(const struct twi_session *session)
{
	return session->urgent || session->tx_tail != session->tx_head;
}

/* Adds a control frame. False: the peer has read so little that the reserve is full. */
bool twi_session_put(struct twi_session *session, const struct twi_frame *frame)
{
	uint8_t *at = twi_session_room(session, TWI_FRAME_BYTES, true);

	if (at == NULL)
		return false;
	twi_frame_put(at, frame);
	twi_held_count(session->engine, TWI_C_control_frames_sent, 1);
	return true;
}

/*
 * Sends a frame that must not be lost: an offer is withdrawn, a message refused or complete, the
 * side closes. If there is no room, it waits outside the buffer, at most one for each operation
 * that there can be. A peer that reads even less is taken as lost (twi_session_control_in).
 */
void twi_session_owe(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t value)
{
	const struct twi_frame frame = { .type = type, .seq = seq, .value = value };
	uint32_t room = session->owed_room == 0 ? 64 : session->owed_room * 2;
	struct twi_frame *owed = session->owed;

	/* While other messages come, the sender has work, so a DONE can wait. */
	session->urgent |=
		type != TWI_FRAME_DONE || session->grant_count + session->ready_grants == 1;
	if (session->owed_count == 0 && twi_session_put(session, &frame))
		return;
	if (session->owed_count == session->owed_room) {
		owed = session->owed_count > session->engine->knobs.max_ops
			       ? NULL
			       : realloc(owed, room * sizeof(owed[0]));
		if (owed == NULL) {
			session->stuck = true;
			return;
		}
		session->owed = owed;
		session->owed_room = room;
	}
	owed[session->owed_count++] = frame;
}

static bool say_count(struct twi_session *session, uint8_t type)
{
	const struct twi_frame frame = { .type = type, .value = session->rx_total };

	if (!twi_session_put(session, &frame))
		return false;
	session->rx_total_reported = session->rx_total;
	session->urgent = true;
	return true;
}

/* PING and PONG are flags: at most one of each waits, however often it is asked for. */
void twi_session_say_pong(struct twi_session *session)
{
	session->pong_owed = !say_count(session, TWI_FRAME_PONG);
}

void twi_session_ping(struct twi_session *session)
{
	if (session->failed == 0)
		session->ping_owed = !say_count(session, TWI_FRAME_PING);
}

/* There is room again: sends the frames that wait, in order. */
static void owed_flush(struct twi_session *session)
{
	uint32_t paid = 0;

	while (paid < session->owed_count && twi_session_put(session, &session->owed[paid]))
		paid++;
	session->owed_count -= paid;
	for (uint32_t i = 0; i < session->owed_count; i++)
		session->owed[i] = session->owed[i + paid];
	session->urgent = paid > 0;
	if (twi_unlikely(session->pong_owed))
		twi_session_say_pong(session);
	if (twi_unlikely(session->ping_owed))
		twi_session_ping(session);
}

static void refill_output(struct twi_session *session)
{
	owed_flush(session);
	twi_session_grant(session);
	twi_outbox_drain(&session->outbox, UINT32_MAX);
}

bool twi_session_ack(struct twi_session *session)
{
	uint64_t unreported = session->rx_total - session->rx_total_reported, hold_ns;
	struct twi_frame frame = { .type = TWI_FRAME_ACK };
	bool any = false;

	if (session->failed != 0)
		return false; /* after a failure BYE is the last frame */
	if (session->acks_owed > 0 ||
	    session->inbox.credit.reported != session->inbox.credit.given) {
		hold_ns = twi_engine_now(session->engine) - session->received_ns;
		frame.seq = session->inbox.seq_received;
		frame.tag = session->inbox.credit.given;
		frame.value = twi_min(hold_ns, (uint64_t)TWI_WIRE_HOLD_MAX_NS);
		if (!twi_session_put(session, &frame))
			return false;
		session->acks_owed = 0;
		session->inbox.credit.reported = session->inbox.credit.given;
		any = true;
	}
	if (unreported >= (any ? TWI_RECEIVED_EVERY : TWI_RECEIVED_URGENT))
		any = say_count(session, TWI_FRAME_RECEIVED) || any;
	return any;
}

void twi_session_bye(struct twi_session *session)
{
	twi_session_owe(session, TWI_FRAME_BYE, 0, twi_rule_bye(session->rule));
}

/* Releases the chunks that are both acknowledged and sent. */
static void chunks_release(struct twi_session *session)
{
	uint64_t done = twi_min(session->tx_acked, session->tx_head);
	struct twi_tx_chunk *chunk;

	while ((chunk = session->tx_first) != session->tx_last &&
	       done - session->tx_base >= chunk->end) {
		session->tx_base += chunk->end;
		session->tx_first = chunk->next;
		if (session->tx_send == chunk) {
			session->tx_send = chunk->next;
			session->tx_send_at = 0;
		}
		chunk_spare(session, chunk);
	}
	if (done == session->tx_tail) { /* all of it: the last chunk begins again */
		session->tx_base = done;
		session->tx_last->end = 0;
		session->tx_send_at = 0;
	}
}

bool twi_session_control_out(struct twi_session *session, struct iovec *out)
{
	struct twi_tx_chunk *chunk = session->tx_send;

	if (session->tx_head == session->tx_tail || session->control_broken)
		return false;
	if (session->tx_send_at == chunk->end) {
		session->tx_send = chunk = chunk->next;
		session->tx_send_at = 0;
	}
	out->iov_base = chunk->data + session->tx_send_at;
	out->iov_len = chunk->end - session->tx_send_at;
	session->tx_handed = twi_max(session->tx_handed, session->tx_head + out->iov_len);
	return true;
}

void twi_session_control_sent(struct twi_session *session, size_t bytes)
{
	twi_assert(bytes <= session->tx_tail - session->tx_head);
	twi_assert(bytes <= session->tx_send->end - session->tx_send_at);
	session->tx_head += bytes;
	session->tx_send_at += (uint32_t)bytes;
	if (twi_unlikely(session->tx_acked > session->tx_head - bytes))
		chunks_release(session);
	if (session->tx_head == session->tx_tail)
		refill_output(session);
}

/* The peer reports how much it has read. Its report in a resume can be ahead of its frames. */
int twi_session_heard(struct twi_session *session, uint64_t received)
{
	if (received <= session->tx_acked)
		return TOW_OK;
	if (received > session->tx_handed)
		return twi_session_fault(
			session, TWI_RULE_RECEIVED,
			"says that it has %llu bytes of %llu on the control stream",
			(unsigned long long)received, (unsigned long long)session->tx_handed);
	session->tx_acked = received;
	chunks_release(session);
	if (twi_unlikely(session->owed_count > 0 || session->pong_owed || session->ping_owed ||
			 twi_outbox_waits(&session->outbox) || !twi_list_empty(&session->matched)))
		refill_output(session);
	return TOW_OK;
}

void twi_session_control_broken(struct twi_session *session)
{
	session->control_broken = true;
}

/* length 16, kind 0, bytes of the control stream that have been read */
size_t twi_session_control_resume_put(struct twi_session *session, uint8_t *out)
{
	twi_put_le32(out, RECORD_BYTES);
	twi_put_le32(out + 4, TWI_STREAM_CONTROL);
	twi_put_le64(out + 8, session->rx_total);
	session->rx_total_reported = session->rx_total;
	twi_session_resume_said(session, 0, out, RECORD_BYTES, false);
	return RECORD_BYTES;
}

/* Goes back to the position that the peer has read, and sends from there. */
static void rewind_to(struct twi_session *session, uint64_t received)
{
	struct twi_tx_chunk *chunk;
	uint64_t base;

	twi_count(session->engine->diag, TWI_C_replayed_control_bytes,
		  session->tx_head > received ? session->tx_head - received : 0);
	session->tx_head = session->tx_acked = session->tx_handed = received;
	session->tx_send = session->tx_first;
	session->tx_send_at = 0;
	chunks_release(session);
	chunk = session->tx_first;
	base = session->tx_base;
	while (chunk->next != NULL && received - base >= chunk->end) {
		base += chunk->end;
		chunk = chunk->next;
	}
	session->tx_send = chunk;
	session->tx_send_at = (uint32_t)(received - base);
}

int twi_session_control_resume(struct twi_session *session, const uint8_t *in, size_t bytes,
			       size_t *used_out)
{
	uint64_t received;

	if (bytes >= 8 &&
	    (twi_get_le32(in) != RECORD_BYTES || twi_get_le32(in + 4) != TWI_STREAM_CONTROL))
		return twi_session_fault(session, TWI_RULE_RESUME,
					 "sent a bad record of a resumed control stream");
	if (bytes < RECORD_BYTES)
		return TOW_AGAIN;
	received = twi_get_le64(in + 8);
	if (received < session->tx_acked || received > session->tx_handed)
		return twi_session_fault(
			session, TWI_RULE_RESUME,
			"resumes its control stream at byte %llu, but only bytes %llu to %llu "
			"are kept",
			(unsigned long long)received, (unsigned long long)session->tx_acked,
			(unsigned long long)session->tx_handed);
	*used_out = RECORD_BYTES;
	twi_count(session->engine->diag, TWI_C_streams_resumed, 1);
	twi_session_resume_heard(session, 0, in, RECORD_BYTES, session->tx_tail > received);
	rewind_to(session, received);
	session->control_broken = false;
	session->urgent = true;
	refill_output(session);
	session->urgent = true;
	return TOW_OK;
}
