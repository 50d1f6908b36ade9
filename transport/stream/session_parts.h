/*
 * session_parts.h - what the files of a session share. No lane includes it.
 *
 *	session.c           set-up, taking back, the end
 *	session_retain.c    the control stream out: framed, kept until received, sent again
 *	session_control.c   the control stream in: frames, small messages
 *	session_send.c      sending: frames, and the peer's answers
 *	session_recv.c      receiving: matching, grants
 *	session_early.c     answers about bytes that the lane may not have sent yet
 *	session_out.c       a channel out: chunks, commits, aborts
 *	session_bulk.c      a channel in
 *	session_resume.c    channels that broke
 *	session_fault.c     memory that cannot be read or written
 *	session_announce.c  receives announced to the sender
 *	session_lone.c      longer messages that go with their header
 *	stripe.c            which bytes go on which channel
 */
#ifndef TWI_SESSION_PARTS_H
#define TWI_SESSION_PARTS_H

#include "diag/base/checksum.h"
#include "transport/stream/session.h"
#include "transport/stream/stripe.h"

/* The row of an offer (RTS) that waits. */
struct twi_session_offer {
	struct twi_unexpected arrival;
	bool sum;       /* the commits will carry checksums */
	bool allocated; /* else its memory ends with the call */
};

/* In tow_op.moved of a receive. */
#define TWI_RECV_SUM 1u /* its message's commits carry checksums */

/*
 * The peer has broken a rule; the text behind its address says how. The first broken rule is sent
 * to the peer. TOW_EPROTOCOL.
 */
#define twi_session_fault(session, number, ...)                                                    \
	((session)->rule = (session)->rule != 0 ? (session)->rule : (uint8_t)(number),             \
	 twi_rule_error((session)->peer->address, number, __VA_ARGS__))

/* session_retain.c */
int twi_session_retain_init(struct twi_session *session);
void twi_session_retain_fini(struct twi_session *session);
uint8_t *twi_session_room(struct twi_session *session, uint32_t bytes, bool control);
bool twi_session_put(struct twi_session *session, const struct twi_frame *frame);
/* session_lone.c: may a message go with its header now? One was sent so; a message has come. */
bool twi_session_goes_alone(const struct twi_session *session, const struct twi_outbound *out);
void twi_session_lone_went(struct twi_session *session, uint64_t seq);
void twi_session_lone_came(struct twi_session *session, uint64_t bytes);
void twi_session_owe(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t value);
void twi_session_say_pong(struct twi_session *session);
int twi_session_heard(struct twi_session *session, uint64_t received);

/* The context of the tag of a frame that has one. */
static inline uint32_t twi_frame_context(const struct twi_frame *frame)
{
	return twi_context_of(frame->flags & TWI_FRAME_SPACE, frame->channel);
}

/* session_send.c */
extern const struct twi_outbox_ops twi_session_outbox;
int twi_session_granted(struct twi_session *session, const struct twi_frame *frame);
int twi_session_done(struct twi_session *session, const struct twi_frame *frame);
int twi_session_refused(struct twi_session *session, const struct twi_frame *frame);
int twi_session_acked(struct twi_session *session, const struct twi_frame *frame);

/*
 * session_early.c.
 *
 * answered: a CTS, DONE or REFUSE has come. TOW_OK or TOW_EPROTOCOL.
 *
 * settle: the lane has let go of bytes, so answers that waited for that are judged. TOW_OK or
 * TOW_EPROTOCOL. settle_later: the same, but the next control_in returns the fault.
 *
 * handed: does the lane hold bytes of this message (NULL: of any) on a channel?
 *
 * early: does an answer about message seq wait?
 */
int twi_session_answered(struct twi_session *session, const struct twi_frame *frame);
int twi_session_settle(struct twi_session *session);
void twi_session_settle_later(struct twi_session *session);
bool twi_session_handed(const struct twi_session *session, const struct twi_grant *send);
bool twi_session_early(const struct twi_session *session, uint64_t seq);

/* session_recv.c */
void twi_session_grant(struct twi_session *session);
extern const struct twi_inbox_ops twi_session_inbox;
/* A copy of the offer in a row of its own, which must be freed. NULL: no memory. */
struct twi_session_offer *twi_session_offer_keep(const struct twi_session_offer *made);
void twi_session_repost(struct twi_session *session, struct tow_op *op);
int twi_session_canceled(struct twi_session *session, const struct twi_frame *frame);
int twi_session_offered(struct twi_session *session, const struct twi_frame *frame);
int twi_session_admit(struct twi_session *session, const struct twi_frame *frame);
struct twi_grant *twi_session_grant_find(struct twi_session *session, uint64_t seq);
void twi_session_grant_free(struct twi_session *session, struct twi_grant *grant);
bool twi_session_abort_recv(struct twi_session *session, struct tow_op *op, int status, bool force);

/* session_out.c: messages that the peer has asked for, or gets unasked. */
struct twi_grant *twi_session_send_find(struct twi_session *session, uint64_t seq);
void twi_session_send_begin(struct twi_session *session, struct tow_op *op, bool ready);
bool twi_session_send_whole(const struct twi_session *session, const struct twi_grant *send);
void twi_session_send_free(struct twi_session *session, struct twi_grant *send);
void twi_session_stripe_over(struct twi_session *session, struct twi_grant *send, unsigned c);
void twi_session_send_leave(struct twi_session *session, struct twi_grant *send);
void twi_session_send_refuse(struct twi_session *session, struct twi_grant *send, int status);
void twi_session_channel_queue(struct twi_bulk_channel *channel, uint8_t index, bool front);

/* session_bulk.c: looks again at headers that wait for their offers. */
int twi_session_bulk_look(struct twi_session *session);

/*
 * session_fault.c. back_why: why a message was taken back (enum twi_back). fault_tell: sets the
 * operation's error. unreadable: ends a receive whose sender cannot read the message.
 */
uint64_t twi_session_back_why(const struct twi_session *session, uint64_t seq);
void twi_session_fault_tell(struct twi_session *session, const struct tow_op *op);
void twi_session_unreadable(struct twi_session *session, struct tow_op *op, uint64_t bytes);

/* session_announce.c; mention: message seq is framed. */
void twi_session_announce(struct twi_session *session, const struct tow_op *op);
int twi_session_announced(struct twi_session *session, const struct twi_frame *frame);
bool twi_session_may_go(struct twi_session *session, const struct tow_op *op);
void twi_session_mention(struct twi_session *session, uint64_t tag, uint32_t context, uint64_t seq);
void twi_session_note(struct twi_session *session, uint64_t tag, bool large);

#endif
