/*
 * rule.h - the rules of the protocol that a peer can break, each with a number that never changes.
 *
 * A side that finds that its peer has broken a rule ends the connection, and names the rule in its
 * own error message. It also sends the number to the peer, as the value of its last frame:
 *
 *	BYE value = TWI_BYE_RULE + number     (a reader that knows no rules takes it for "closed")
 *
 * So the faulty program, too, can report what was wrong. Only a number travels and never a text, as
 * a peer's text would reach logs and terminals. Numbers below 32 are enum twi_frame_fault.
 */
#ifndef TWI_RULE_H
#define TWI_RULE_H

#include <stdbool.h>

#include "transport/wire/frame.h"

#define TWI_BYE_RULE 128u

/* X(number, name, what the peer that broke it did) */
#define TWI_RULE_MAP(X)                                                                            \
	X(32, MESSAGE_ORDER, "a message came twice, or before the one ahead of it")                \
	X(33, CREDIT, "messages came for which there was no credit")                               \
	X(34, UNASKED, "too many large messages came without a request")                           \
	X(35, ACK,                                                                                 \
	  "messages were acknowledged that had not been sent, or had been "                        \
	  "acknowledged before")                                                                   \
	X(36, CREDIT_BACK, "credit was given back that had not been used")                         \
	X(37, NO_SUCH_MESSAGE, "an answer was about a message that had not been sent")             \
	X(38, ASKED, "a message was requested twice, or by a protocol that was not offered")       \
	X(39, GRANTS, "too many messages were requested at once")                                  \
	X(40, DONE_EARLY, "a message was acknowledged before all of it was sent")                  \
	X(41, NOT_READY, "a message was deferred that had been requested")                         \
	X(42, ANSWERS, "too many control messages came about one message")                         \
	X(43, CANCEL_LATE, "an offer was taken back whose data had begun")                         \
	X(44, DATA_UNASKED, "data came of a message that was not requested")                       \
	X(45, DATA_PLACE, "data came out of its place")                                            \
	X(46, RECEIVED, "more of the control stream was acknowledged than was sent")               \
	X(47, RESUME, "a stream was resumed where it cannot go on")                                \
	X(48, PACKETS, "a packet came twice, or one of them never")                                \
	X(49, OFFER, "an offer was of memory in which it cannot lie, or came twice")               \
	X(50, NOTE,                                                                                \
	  "a control record was about an offer in another state, or could not be "                 \
	  "read")                                                                                  \
	X(51, SLOT, "the ring held an entry that is not valid")                                    \
	X(52, NOTES_UNREAD, "control records were not read, or read before they were written")     \
	X(53, SOCKET, "the socket brought data that is not allowed on it")                         \
	X(54, CHANNEL, "a frame was of a channel that is not open")                                \
	X(55, FEATURE, "a frame needs a feature that was not agreed on")                           \
	X(56, CHANNEL_CONTROL, "a control message about a channel was not valid")

enum twi_rule {
#define TWI_RULE_ENUM(number, name, text) TWI_RULE_##name = (number),
	TWI_RULE_MAP(TWI_RULE_ENUM)
#undef TWI_RULE_ENUM
};

/* What broke the rule: a clause, static. A number without a rule has a clause that says so. */
const char *twi_rule_text(unsigned rule);

/* The value of BYE for an end by this rule; 0: by none. The other way: the value's rule, or 0. */
static inline uint64_t twi_rule_bye(unsigned rule)
{
	return rule == 0 ? 0 : TWI_BYE_RULE + rule;
}

static inline unsigned twi_rule_of_bye(uint64_t value)
{
	return value > TWI_BYE_RULE && value <= TWI_WIRE_STATUS_MAX
		       ? (unsigned)(value - TWI_BYE_RULE)
		       : 0;
}

/*
 * Sets the message for a peer at `address` that has broken a rule: the details, and the rule.
 * Returns TOW_EPROTOCOL.
 */
int twi_rule_error(const char *address, unsigned rule, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same if the thread's message has the details already: adds the rule to it. */
int twi_rule_add(unsigned rule);

/*
 * Sets the message for a peer that has sent BYE with this value, or has gone without it
 * (value < 0). rank: " (rank 3)", or "". Returns TOW_EPEER.
 */
int twi_rule_bye_error(const char *address, const char *rank, int value);

/* Whether a message of twi_rule_bye_error says only that the peer has closed in order. */
bool twi_rule_is_goodbye(const char *why);

#endif
