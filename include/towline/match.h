/*
 * match.h - receives that match more than one peer and one tag, messages in parts, and probes.
 *
 * A message of several parts is gathered from them and scattered to others: the two sides cut it as
 * they like, and neither knows of the other's parts. Where a lane can it moves large ones between
 * the parts as they lie; else it copies them in pieces, for reasons that /v1/copies names
 * (docs/copies.md has which). Parts that lie one behind the other in one allocation, or outside all
 * of them, count as one, and empty ones not at all.
 *
 * One order holds for all receives of an endpoint, as in MPI: a message goes to the receive that
 * was started first of those that it matches, and a receive takes the message that was sent first
 * of those of one peer that match. Between peers there is no order; those whose messages wait have
 * their turns. A view that waits for room in the pool keeps its message, and each later receive
 * that would have to take that one first waits with it.
 *
 * The peers of an endpoint are those that its connects and accepts have given, until they are
 * closed. Of one that has failed the messages that have come whole can still be received.
 *
 * With a number in match->channel the messages are those of that channel of the peers that have it
 * open here, now or later; all else is as without one. A channel that the other side has closed is
 * as a peer that has failed, and one that is closed here as a peer that is closed: who waits for
 * messages of any peer waits on for those of the others.
 */
#ifndef TOWLINE_MATCH_H
#define TOWLINE_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_PARTS_MAX 1024u /* of one message, on one side */

/* A piece of memory that a message is gathered from or scattered to; of no bytes it may be NULL. */
struct tow_part {
	void *data;
	uint64_t bytes;
};

/* Which messages a receive or a probe takes. */
struct tow_match {
	size_t size;           /* sizeof(struct tow_match) of the caller */
	struct tow_peer *peer; /* of this peer alone; NULL: of every peer of the endpoint */
	uint64_t tag;
	uint64_t tag_mask; /* bits of the tag that count: UINT64_MAX is this tag, 0 is any tag */
	uint64_t channel;  /* of this number (channel.h); 0: messages of the peers themselves */
};

/* The initial value of struct tow_match: tag 0 of any peer, of no channel. */
#define TOW_MATCH_INIT                                                                             \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_match)), TOW_MEMBER(peer, NULL),                \
			TOW_MEMBER(tag, 0), TOW_MEMBER(tag_mask, UINT64_MAX),                      \
			TOW_MEMBER(channel, 0)                                                     \
	}

/*
 * Starts to receive the next message that `match` takes into `part_count` parts, one behind the
 * other, which do not overlap. With part_count 0 it is a view, as tow_recv_view_start. The result
 * names the peer and the tag; its data is NULL where there are several parts. With
 * TOW_OP_TRUNCATE in options->flags a longer message fills the parts and the rest is dropped;
 * without it the operation ends with TOW_ETRUNCATED.
 * With match->peer NULL it waits on while peers and their channels fail, are closed, and come; when
 * it has met a message it is as a receive of that peer, which the result names. Until then the
 * result's peer is NULL.
 * A channel of match->peer is named by match->channel, by options->channel, or by both alike. One
 * of any peer is named by match->channel alone.
 * Ownership: the memory of the parts stays the caller's, and is the library's to write until
 * completion; match and parts are only read; *op_out is the caller's until tow_op_release, of a
 * view until tow_view_release; it may be NULL where options->done is set.
 * Copies: as tow_recv_start; of a view as tow_recv_view_start; a large message into several parts
 * over ofi once more, in pieces (reason parts_recv).
 * Blocks: as tow_send_start; of any peer never: its memory is pinned when a large message is met.
 * Threads: any.
 * Returns: as tow_recv_start; TOW_EINVAL also for a match->peer that is not one of the endpoint's,
 * a match->channel above TOW_CHANNEL_MAX or other than options->channel, and for options->channel
 * where match->peer is NULL; TOW_ECLOSED also when the endpoint was closed, or match->peer has not
 * got match->channel open; TOW_EINVAL where part_count is above
 * TOW_PARTS_MAX, a part is NULL, or all are more than 2^63-1 bytes; TOW_ENOMEM. The operation ends
 * as that of tow_recv_start, or of tow_recv_view_start; of any peer also with TOW_ECLOSED when the
 * endpoint is closed and it has met no message, and a view of a small message of a peer that has
 * failed with TOW_EEXHAUSTED where the pool has no room.
 */
int tow_recv_match_start(struct tow_endpoint *endpoint, const struct tow_match *match,
			 const struct tow_part *parts, uint32_t part_count,
			 const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to send a message that is gathered from `part_count` parts, which may overlap; with
 * part_count 0 one of no bytes.
 * Ownership: the memory of the parts stays the caller's, unchanged until completion; parts is only
 * read; *op_out is the caller's until tow_op_release.
 * Copies: as tow_send_start; of several parts, a small message once more (reason parts_small), a
 * large one over shm and ofi once more, in pieces (parts_send). With require_zero_copy the latter
 * ends with TOW_EZEROCOPY instead.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: as tow_send_start; TOW_EINVAL also where part_count is above TOW_PARTS_MAX, a part is
 * NULL, or all are more than 2^63-1 bytes; TOW_ENOMEM.
 */
int tow_send_parts_start(struct tow_peer *peer, const struct tow_part *parts, uint32_t part_count,
			 uint64_t tag, const struct tow_op_options *options,
			 struct tow_op **op_out);

/*
 * Looks whether a message that `match` takes has come and waits for a receive: the one that a
 * receive with this match would get if it was started now. Where there is none it drives the
 * runtime once, as tow_op_test does, and looks again. The result has its peer, tag, bytes and
 * rpc_id; the bytes need not all have come.
 * Ownership: *result_out is the caller's, its size set by the caller.
 * Copies: none; as the operations it moves.
 * Blocks: never.
 * Threads: any; what another thread receives meanwhile is not held back.
 * Returns: TOW_OK; TOW_AGAIN when there is none; TOW_EPEER, or as the peer's operations end, when
 * match->peer has gone and none of its messages is left; TOW_EPEER also when it has closed
 * match->channel; TOW_EINVAL, also for a match->peer that is not one of the endpoint's, or a
 * match->channel above TOW_CHANNEL_MAX; TOW_ECLOSED, also when match->peer has not got
 * match->channel open; TOW_EFORKED.
 */
int tow_probe(struct tow_endpoint *endpoint, const struct tow_match *match,
	      struct tow_result *result_out);

#ifdef __cplusplus
}
#endif
#endif
