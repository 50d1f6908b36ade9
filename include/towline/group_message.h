/*
 * group_message.h - messages between the ranks of a group, by their numbers.
 *
 * Each group has tags of its own: a message goes to a receive of the same group at the other rank,
 * and to none of another group or of the peer itself (endpoint.h). Ranks connect when they first
 * send or receive; a rank may send to itself. All else is as for messages of a peer: matching by
 * tags, order, views, credit (each pair of ranks has credit_bytes in each group), deadlines.
 *
 *	tow_group_send_start(group, 1, data, bytes, tag, NULL, &op);      at rank 0
 *	tow_group_recv_start(group, 0, data, bytes, tag, NULL, &op);      at rank 1
 *
 * The end of a group: what is in flight in it at this rank ends with TOW_ECLOSED when it is closed,
 * and with TOW_EABORTED when it is aborted, by any rank. What another rank has started towards one
 * that has closed the group ends with TOW_EPEER; small messages that had come before can still be
 * received. A rank that has failed, and collectives that have, leave the others' messages alone.
 */
#ifndef TOWLINE_GROUP_MESSAGE_H
#define TOWLINE_GROUP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>
#include <towline/group.h>
#include <towline/match.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_RANK_ANY UINT32_MAX /* of a match: messages of every rank of the group */

/* Which messages of a group a receive or a probe takes. */
struct tow_group_match {
	size_t size;   /* sizeof(struct tow_group_match) of the caller */
	uint64_t rank; /* in the group; TOW_RANK_ANY: of every one, this process' own included */
	uint64_t tag;
	uint64_t tag_mask; /* bits of the tag that count: UINT64_MAX is this tag, 0 is any tag */
};

/* The initial value of struct tow_group_match: tag 0 of any rank. */
#define TOW_GROUP_MATCH_INIT                                                                       \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_group_match)), TOW_MEMBER(rank, TOW_RANK_ANY),  \
			TOW_MEMBER(tag, 0), TOW_MEMBER(tag_mask, UINT64_MAX)                       \
	}

/*
 * Starts to send `bytes` (0 is legal) from `data` with `tag` to a rank, and connects to it if need
 * be. Until there is a connection the message waits here, whatever its size, and messages to one
 * rank keep their order.
 * Ownership: as tow_send_start.
 * Copies: as tow_send_start; to oneself as on the lane by which this process reaches itself: one.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: as tow_send_start; TOW_EINVAL also for a rank that is none, and for options->channel;
 * TOW_EABORTED; TOW_EBUSY also for a group whose number is too high to have messages; TOW_ENOTSUP:
 * the other rank is of an older version, or this one is alone and has no lane to itself;
 * TOW_ENOMEM. The operation ends as that of tow_send_start, where it has to connect as
 * tow_group_connect_start's, or with TOW_EABORTED.
 */
int tow_group_send_start(struct tow_group *group, uint32_t rank, const void *data, uint64_t bytes,
			 uint64_t tag, const struct tow_op_options *options,
			 struct tow_op **op_out);

/*
 * Starts to receive the next message with `tag` from a rank into `data`, of room for `bytes`, and
 * connects to it if need be, so that a rank which is gone is noticed.
 * Ownership: as tow_recv_start.
 * Copies: as tow_recv_start.
 * Blocks: as tow_recv_start.
 * Threads: any.
 * Returns: as tow_group_send_start, with tow_recv_start's. The operation ends as that of
 * tow_recv_start, or as tow_group_connect_start's, or with TOW_EABORTED.
 */
int tow_group_recv_start(struct tow_group *group, uint32_t rank, void *data, uint64_t bytes,
			 uint64_t tag, const struct tow_op_options *options,
			 struct tow_op **op_out);

/*
 * Starts to receive the next message that `match` takes into `part_count` parts; with 0 it is a
 * view. As tow_recv_match_start: of the receives of a group at a rank a message goes to the one
 * that was started first, whether they name a rank or not. tow_group_peer_rank says whose it was.
 * One of any rank connects to nobody, waits on while ranks fail, and ends with the group.
 * Ownership: as tow_recv_match_start.
 * Copies: as tow_recv_match_start.
 * Blocks: as tow_recv_match_start.
 * Threads: any.
 * Returns: as tow_group_recv_start, with tow_recv_match_start's.
 */
int tow_group_recv_match_start(struct tow_group *group, const struct tow_group_match *match,
			       const struct tow_part *parts, uint32_t part_count,
			       const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Looks whether a message of the group that `match` takes has come and waits for a receive, as
 * tow_probe. It connects to nobody.
 * Ownership: *result_out is the caller's, its size set by the caller.
 * Copies: none; as the operations it moves.
 * Blocks: never.
 * Threads: any; what another thread receives meanwhile is not held back.
 * Returns: TOW_OK; TOW_AGAIN when there is none; TOW_EPEER, or as the rank's operations end, when
 * match->rank has gone, or has closed the group, and none of its messages is left; TOW_EINVAL;
 * TOW_ECLOSED; TOW_EABORTED; TOW_EFORKED.
 */
int tow_group_probe(struct tow_group *group, const struct tow_group_match *match,
		    struct tow_result *result_out);

/*
 * The rank in the group of the peer that a result names; UINT32_MAX where it is none of its ranks.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any, also in a callback.
 */
uint32_t tow_group_peer_rank(const struct tow_group *group, const struct tow_peer *peer);

/*
 * A number of the group, the same at all its ranks and another than every other group's of the job:
 * 0 is the group of all. UINT64_MAX for NULL or a group that was closed.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint64_t tow_group_id(const struct tow_group *group);

#ifdef __cplusplus
}
#endif
#endif
