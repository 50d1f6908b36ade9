/*
 * channel.h - several streams of messages over one connection, each with credit and close of its
 * own.
 *
 * Declared so that programs and later versions agree on the shape; this library refuses each call
 * by name with TOW_ENOTSUP (docs/abi.md). Every frame on the wire has a place for the number
 * (docs/wire.md).
 *
 * A channel belongs to a pair of peers and has a number that both sides know. Messages that are
 * started with options->channel match those of the same channel alone; a receiver that is slow on
 * one channel, or closes it, does not hold up the others. The peer itself is channel 0.
 */
#ifndef TOWLINE_CHANNEL_H
#define TOWLINE_CHANNEL_H

#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_channel;

#define TOW_CHANNEL_MAX 65535u /* the largest number of a channel */

/*
 * Opens channel `number`, of 1 to TOW_CHANNEL_MAX, of a peer. Both sides open it, in any order;
 * messages wait for the other side as they do for a receive.
 * Ownership: *channel_out is the caller's until tow_channel_close or tow_peer_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version, and later where the other side is older; later TOW_OK,
 * TOW_EINVAL, TOW_EBUSY when it is open, TOW_ENOMEM, TOW_EFORKED.
 */
int tow_channel_open(struct tow_peer *peer, uint32_t number, struct tow_channel **channel_out);

/*
 * Closes a channel: operations in flight on it complete with TOW_ECLOSED, on the other side with
 * TOW_EPEER. The peer and its other channels go on.
 * Ownership: takes the channel.
 * Copies: none.
 * Blocks: never.
 * Threads: any, once.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EINVAL, TOW_EFORKED.
 */
int tow_channel_close(struct tow_channel *channel);

#ifdef __cplusplus
}
#endif
#endif
