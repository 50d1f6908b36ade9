/*
 * group_message.h - the messages of a group (towline/group_message.h).
 *
 * A group has a channel of its own (message/channel.h) at the connection to each of its ranks,
 * whose number is the group's. It is opened when one of the two first sends or receives there; the
 * other side hears of that and opens it as well, at once or when its group is made. So the messages
 * of each group have their own tags, credit and end, and need nobody's agreement.
 *
 *	start, connected      on the channel, which is opened if need be
 *	start, not connected  held at the slot, in order; the rank is dialed
 *	slot is UP            what is held goes; groups that the other side has opened are opened
 *	slot fails            what is held ends so
 *	group closed          its channels are closed, and what is in flight ends with TOW_ECLOSED
 *	group aborted         what is in flight ends with TOW_EABORTED; the channels stay
 *
 * A rank reaches itself by a connection as any other, whose two sides it has both (twi_self): what
 * it sends leaves by self.slot.peer, and comes in at self.back.
 *
 * The engine is held in all of it.
 */
#ifndef TWI_GROUP_MESSAGE_H
#define TWI_GROUP_MESSAGE_H

#include "transport/engine/hooks.h"
#include "transport/job/group.h"
#include "transport/op/channel.h"
#include "transport/op/message.h"

/* The channels of one group. */
struct twi_group_messages {
	struct twi_list link; /* on ranks->messages */
	struct tow_group *group;
	uint16_t number;
	struct tow_channel *back;       /* of this process' own rank: at self.back */
	struct tow_channel *channels[]; /* by rank in the group; NULL: not open here */
};

extern const struct twi_group_hooks twi_group_hooks;

/* The group is there: what others have opened of it is opened. Without memory it is made later. */
void twi_group_messages_begin(struct tow_group *group);

/* All that is in flight ends with the status and the thread's message. */
void twi_group_messages_abort(struct tow_group *group, int status);

/* The group goes: its channels are closed, and no other is opened any more. */
void twi_group_messages_close(struct tow_group *group);

/* The rank in the group of who is at the other end; UINT32_MAX: none of its members. */
uint32_t twi_group_rank_of(const struct tow_group *group, const struct tow_peer *peer);

/* A slot is UP: of a rank, or one's own. */
void twi_group_messages_up(struct twi_ranks *ranks, struct twi_slot *slot);

/*
 * Starts a message to or from a rank of the group, as twi_message_start and its like; mask NULL: of
 * one tag. After TOW_OK the parts are the operation's, or have gone; else the caller's still.
 */
int twi_group_message_start(struct tow_group *group, uint32_t rank,
			    const struct twi_message *message, const uint64_t *mask,
			    struct twi_parts *parts, const struct tow_op_options *options,
			    struct tow_op **op_out);

/* The same as a call of the user's, which takes the engine; `call` is named in messages. */
int twi_group_message_call(struct tow_group *group, const char *call, uint32_t rank,
			   const struct twi_message *message, const struct tow_op_options *options,
			   struct tow_op **op_out);

/* The same for a receive of any rank. */
int twi_group_message_start_any(struct tow_group *group, const struct twi_message *message,
				uint64_t mask, struct twi_parts *parts,
				const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The number of the group's channels; 0: none was ever opened. *peer_out is where messages of
 * `rank` come in; NULL: nowhere yet.
 */
uint16_t twi_group_message_from(struct tow_group *group, uint32_t rank, struct tow_peer **peer_out);

#endif
