/*
 * lane_host.h - all that a lane may call of the engine and of operations: a lane includes this
 * header, and none of transport/engine/ and transport/op/ beside it. tests/check/lanes.py holds
 * lanes to the functions that are named here, and this list to what lanes call.
 *
 *	a lane --lane_host.h--> engine: time, rings, sleepers of other processes
 *	                    --> op: endpoints and peers, operations, leases, copies, views, times
 *
 * What stands in lane.h is called by the engine and by operations; what stands here is called by
 * lanes. The engine is held in all of it, except where its own header says something else.
 *
 * Operations (op.h, op_span.h, message_times.h)
 *	twi_op_complete       ends one that the lane has taken, exactly once
 *	twi_op_unwatch        its deadline does not end it any more: the lane does
 *	twi_message_is_over   one that is to end, once what was under way for it has come in
 *	twi_op_begun          the first byte of a send leaves, or a receive has met its message
 *	twi_op_match_ns, twi_latency_kind_of
 *	                      the parts of its time
 *	twi_peer_timed        a message has ended: its latency is counted, and its span written
 *	twi_peer_rank         which rank the peer is, for a message that says what has become of it
 *	twi_peer_rpc_id, twi_context_of
 *	                      a message's number as both sides know it; whose its tag is
 *	twi_space_counts      whether messages of its space are counted
 *
 * Its memory (claim.h, message.h, parts.h, reach.h, op_fault.h)
 *	twi_claim_init, twi_claim_lease, twi_claim_need, twi_claim_share, twi_claim_drop
 *	                      the lease on its payload while it is on its way
 *	twi_claim_count, twi_claim_reason
 *	                      a large message of unregistered memory; why it is copied
 *	twi_op_at, twi_op_end_of
 *	                      where the payload lies, which may be in parts (parts.h)
 *	twi_op_reach, twi_op_reach_ends, twi_reached
 *	                      whether memory that the library is about to touch is there
 *	twi_op_checksum       of payload wherever it lies
 *	twi_op_fault, twi_op_fault_theirs
 *	                      it is not, here or at the other side
 *
 * Its own memory (own_memory.h)
 *	twi_own_try, twi_own_give
 *	                      of the pool, for an endpoint's buffers; the allocation log has it
 *
 * Copies (path.h): nothing else may copy payload
 *	twi_path_copy_small, twi_path_copy_large, twi_path_copy_remote
 *	                      copies that the lane's design needs
 *	twi_op_copy_out, twi_op_copy_in, twi_path_copy_opened
 *	                      those that it does not, and those that encryption costs
 *	twi_path_copy_fallback  one that it does not need, of what was not lent
 *	twi_path_wire         onto a simulated wire
 *	twi_route_init, twi_route_describe, twi_path_eligible, twi_path_pays, twi_path_choose,
 *	twi_path_tried, twi_path_report
 *	                      zero-copy sends: whether they pay on this route
 *
 * Time (engine.h)
 *	twi_engine_now, twi_engine_batch_now, twi_engine_clock
 *	                      what time it is: once for a call or poll, or read now
 *	twi_assert_held       stands at the head of what is for the holder alone
 *
 * Rings (poller.h), for lanes with descriptors
 *	twi_ring_has, twi_ring_tag, twi_ring_submit, twi_ring_forget
 *	                      requests of the driver's ring, and what was armed in any
 *	twi_ring_reap, twi_ring_poll
 *	                      completions of a ring, before what they tell of is asked elsewhere
 *	twi_engine_poll, twi_ring_sleep
 *	                      for the close of a lane, which waits until bytes have left
 *	twi_ring_wake         there is something to do that no completion will tell of
 *	twi_poller_describe   which poller moves a connection, for /v1/peers
 *
 * Sleepers (watch.h), for lanes whose news is in memory
 *	twi_watch, twi_watch_ring, twi_watch_nap
 *	                      a sleeper wakes when a descriptor of the lane's is readable
 *
 * What a connection must be like (require.h)
 *	twi_peer_meet         whether this one is so; asked by both sides, before it is anybody's
 *	twi_peer_refused_by   what the other side is told when it is not so there
 *	twi_require_lane      whether one of a lane can be so at all
 *	twi_require_said      whether a message is of a connection that was refused so
 *	twi_require_names_iface, twi_iface_of
 *	                      which interface has an address, where that matters
 *
 * Connects of other lanes, for the one that has all (auto/)
 *	twi_connect_start, twi_op_forget, twi_endpoint_drop, twi_peer_end
 *	                      a connect on a lane of its own choice, and its end
 */
#ifndef TWI_LANE_HOST_H
#define TWI_LANE_HOST_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/held_count.h"
#include "transport/engine/poller.h"
#include "transport/engine/require.h"
#include "transport/engine/watch.h"
#include "transport/op/claim.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/message_times.h"
#include "transport/op/op.h"
#include "transport/op/op_fault.h"
#include "transport/op/op_span.h"
#include "transport/op/own_memory.h"
#include "transport/op/parts.h"
#include "transport/op/path.h"
#include "transport/op/reach.h"

/* --- endpoints and peers: what all lanes' have in common --- */

/* Set up the common part; put a peer that is ready to an accept, or in the queue. */
void twi_endpoint_setup(struct tow_endpoint *endpoint, struct twi_lane *lane);
void twi_peer_setup(struct tow_peer *peer, struct twi_lane *lane, const char *address);
void twi_endpoint_ready(struct tow_endpoint *endpoint, struct tow_peer *peer);

/*
 * Memory for a lane's endpoint or peer, which begins with the common part; zeroed. NULL: none. The
 * frees take it back, and NULL.
 */
void *twi_endpoint_alloc(size_t bytes);
void twi_endpoint_free(struct tow_endpoint *endpoint);
void *twi_peer_alloc(size_t bytes);
void twi_peer_free(struct tow_peer *peer);

/*
 * The peer's operations end now, and those that are started later with them: the thread's message
 * says why, and is kept for the later ones. The first call counts.
 */
void twi_peer_ended(struct tow_peer *peer, int status);

/* The peer has gone, and this side has not closed it; why: counted and logged. */
void twi_peer_tell_lost(const struct tow_peer *peer, const char *why);

/* The lane has let go of the peer: takes it off every list. The lane frees the memory. */
void twi_peer_teardown(struct tow_peer *peer);

/*
 * No peer can be taken now: as many as may be wait to be accepted. A lane asks before it tells the
 * connector that it is connected, and says no instead; twi_endpoint_refused is what the connector's
 * operation ends with then. Returns TOW_EREFUSED.
 */
bool twi_endpoint_full(const struct tow_endpoint *endpoint);
int twi_endpoint_refused(const char *address);

/*
 * Keeps `way` as what the connection is, and asks whether the knob `require` allows it. TOW_OK;
 * TOW_EREFUSED with a message that says which word is not met, and why: then the lane refuses the
 * connection, as if its handshake had failed.
 */
int twi_peer_meet(struct tow_peer *peer, const struct twi_way *way);

/* The other side has refused the connection by its own knob. Returns TOW_EREFUSED. */
int twi_peer_refused_by(const struct tow_peer *peer);

#endif
