/*
 * channel.h - several streams of messages over one connection, each with credit and close of its
 * own.
 *
 * A channel belongs to a pair of peers and has a number that both sides know. Messages that are
 * started with options->channel match those of the same channel alone; a receiver that is slow on
 * one channel, or closes it, does not hold up the others. The peer itself is channel 0.
 *
 * All channels of a peer share its connection and the order of its bytes, so 512 of them cost as
 * many descriptors as one, and some KiB each at both sides. Each has credit_bytes of its own for
 * messages that nobody has received yet. Sends, receives, views and receives by a mask of tags can
 * be a channel's, also at once (TOW_OP_AT_ONCE); calls and collectives cannot. A handle is one
 * peer's, so receives of any peer, and probes, name a channel by its number (match.h).
 *
 * The other side's end: when that closes the channel, sends and receives in flight on it end with
 * TOW_EPEER, and so do later ones; small messages that had come before can still be received. A
 * large message that the other side was just receiving may end with TOW_ECANCELED instead. A
 * receive of any peer waits on for the channels of that number of the others.
 */
#ifndef TOWLINE_CHANNEL_H
#define TOWLINE_CHANNEL_H

#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_channel;

#define TOW_CHANNEL_MAX 32767u /* the largest number of a channel; groups have those above */

/*
 * Opens channel `number`, of 1 to TOW_CHANNEL_MAX, of a peer. Both sides open it, in any order;
 * what is sent before the other side has opened it waits here. A number can be used again when both
 * sides have closed it.
 * Ownership: *channel_out is the caller's until tow_channel_close or tow_peer_close (or the close
 * of the runtime); later calls with it get TOW_ECLOSED, as tow_runtime_close says for peers.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ENOTSUP where the other side is of a version that has none;
 * TOW_EBUSY when it is open, or was closed here and not yet by the other side; TOW_ENOMEM;
 * TOW_ECLOSED; the status with which the peer has ended (TOW_EPEER and the like); TOW_EFORKED.
 */
int tow_channel_open(struct tow_peer *peer, uint32_t number, struct tow_channel **channel_out);

/*
 * Closes a channel: operations in flight on it complete with TOW_ECLOSED, on the other side with
 * TOW_EPEER. Small messages whose sends are complete are still delivered; messages that have come
 * and were not received are dropped. The peer and its other channels go on, and so does a receive
 * of any peer, unless it is just getting a message of this channel.
 * Ownership: takes the channel.
 * Copies: none.
 * Blocks: never.
 * Threads: any, also while others are inside calls with it.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_channel_close(struct tow_channel *channel);

#ifdef __cplusplus
}
#endif
#endif
