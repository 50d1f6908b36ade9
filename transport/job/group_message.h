/*
 * group_message.h - the messages of a group (towline/group_message.h).
 *
 * At the connection to each of its ranks a group has a channel of its own (message/channel.h). The
 * number of the channel is made of the group's number. The first send or receive of one side opens
 * the channel there. The other side learns of it and opens it too, at once or when its group is
 * made. So the messages of each group have their own tags, credit and end, without an agreement
 * first.
 *
 *	start, connected      on the channel, which is opened if need be
 *	start, not connected  held at the slot, in order; the rank is dialed
 *	slot is UP            held messages go; groups that the other side has opened are opened
 *	slot fails            held messages end with its status
 *	group closed          its channels are closed; what is in flight ends with TOW_ECLOSED
 *	group aborted         what is in flight ends with TOW_EABORTED; the channels stay
 *
 * A rank reaches itself by a connection like any other, and has both of its ends (twi_self). What
 * it sends leaves by self.slot.peer and arrives at self.back.
 *
 * The engine is held in all of these calls.
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
	struct tow_channel *back;       /* this rank's own, at self.back */
	struct tow_channel *channels[]; /* by rank in the group; NULL: not open here */
};

extern const struct twi_group_hooks twi_group_hooks;

/*
 * The group is there: opens the channels that other ranks have opened. If there is no memory, the
 * first message makes the struct later.
 */
void twi_group_messages_begin(struct tow_group *group);

/* Ends all messages in flight with the status and the thread's message. */
void twi_group_messages_abort(struct tow_group *group, int status);

/* The group is being closed: closes its channels, and opens no other any more. */
void twi_group_messages_close(struct tow_group *group);

/* Returns the group's rank at the other end of the connection. UINT32_MAX: no member is there. */
uint32_t twi_group_rank_of(const struct tow_group *group, const struct tow_peer *peer);

/*
 * Starts the held messages of a slot that is UP, and opens channels that the other side has opened.
 */
void twi_group_messages_up(struct twi_ranks *ranks, struct twi_slot *slot);

/*
 * Starts a message to or from a rank of the group, as twi_message_start and the like do. mask NULL:
 * the message has one tag. After TOW_OK the operation owns the parts or has freed them; else the
 * caller still owns them.
 */
int twi_group_message_start(struct tow_group *group, uint32_t rank,
			    const struct twi_message *message, const uint64_t *mask,
			    struct twi_parts *parts, const struct tow_op_options *options,
			    struct tow_op **op_out);

/* Does the same for a call of the application, and takes the engine. Messages name `call`. */
int twi_group_message_call(struct tow_group *group, const char *call, uint32_t rank,
			   const struct twi_message *message, const struct tow_op_options *options,
			   struct tow_op **op_out);

/* Does the same for a receive from any rank. */
int twi_group_message_start_any(struct tow_group *group, const struct twi_message *message,
				uint64_t mask, struct twi_parts *parts,
				const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Returns the number of the group's channels; 0: none was ever opened. *peer_out is the connection
 * by which messages of `rank` arrive; NULL: none yet.
 */
uint16_t twi_group_message_from(struct tow_group *group, uint32_t rank, struct tow_peer **peer_out);

#endif
