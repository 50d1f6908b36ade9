/*
 * match.h - receives that match more than one peer and one tag, messages in parts, and probes.
 *
 * What is declared and not built in this version is refused by name with TOW_ENOTSUP (docs/abi.md):
 * receives and probes of any peer, and messages of more than one part.
 *
 * One order holds for all receives of an endpoint, as in MPI: a message goes to the receive that
 * was started first of those that it matches, and a receive takes the message that was sent first
 * of those of one peer that match. Between peers there is no order.
 */
#ifndef TOWLINE_MATCH_H
#define TOWLINE_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of memory that a message is gathered from or scattered to. */
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
};

/* The initial value of struct tow_match: tag 0 of any peer. */
#define TOW_MATCH_INIT                                                                             \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_match)), TOW_MEMBER(peer, NULL),                \
			TOW_MEMBER(tag, 0), TOW_MEMBER(tag_mask, UINT64_MAX)                       \
	}

/*
 * Starts to receive the next message that `match` takes into `part_count` parts, one behind the
 * other. With part_count 0 it is a view, as tow_recv_view_start. The result names the peer and the
 * tag. With TOW_OP_TRUNCATE in options->flags a longer message fills the parts and the rest is
 * dropped; without it the operation ends with TOW_ETRUNCATED.
 * Ownership: the memory of the parts stays the caller's, and is the library's to write until
 * completion; match and parts are only read; *op_out is the caller's until tow_op_release, of a
 * view until tow_view_release; it may be NULL where options->done is set.
 * Copies: as tow_recv_start; of a view as tow_recv_view_start.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: as tow_recv_start; TOW_EINVAL also for a match->peer that is not one of the endpoint's;
 * TOW_ECLOSED also when the endpoint was closed; TOW_ENOTSUP where match->peer is NULL, or
 * part_count above 1. The operation ends as that of tow_recv_start, or of tow_recv_view_start.
 */
int tow_recv_match_start(struct tow_endpoint *endpoint, const struct tow_match *match,
			 const struct tow_part *parts, uint32_t part_count,
			 const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to send a message that is gathered from `part_count` parts.
 * Ownership: the memory of the parts stays the caller's, unchanged until completion; parts is only
 * read; *op_out is the caller's until tow_op_release.
 * Copies: as tow_send_start.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later as tow_send_start.
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
 * it has gone and none is left; TOW_EINVAL, also for a match->peer that is not one of the
 * endpoint's; TOW_ECLOSED; TOW_ENOTSUP where match->peer is NULL; TOW_EFORKED.
 */
int tow_probe(struct tow_endpoint *endpoint, const struct tow_match *match,
	      struct tow_result *result_out);

#ifdef __cplusplus
}
#endif
#endif
