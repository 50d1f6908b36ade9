/*
 * lane_host.h - all that a lane may call of the engine and of operations.
 *
 * A lane includes this header, and no other one of transport/engine/ and transport/op/.
 * tests/check/lanes.py holds lanes to the functions that this list names, and the list to the
 * functions that lanes call.
 *
 *	a lane --lane_host.h--> engine: time, rings, sleepers of other processes
 *	                    --> op: endpoints and peers, operations, leases, copies, views, times
 *
 * The engine and operations call the functions of lane.h; lanes call the functions of this list.
 * The engine is held in all of them, except where their own header says otherwise.
 *
 * Operations (op.h, op_span.h, message_times.h)
 *	twi_op_complete       ends an operation that the lane has taken, exactly once
 *	twi_op_unwatch        removes its deadline: the lane ends it instead
 *	twi_message_is_over   ends a message after the lane has taken in its data
 *	twi_op_begun          the first byte of a send leaves, or a receive has met its message
 *	twi_op_match_ns, twi_latency_kind_of
 *	                      the parts of its time
 *	twi_peer_timed        counts the latency of a message that has ended, and writes its span
 *	twi_peer_rank         the peer's rank, for a message that says what happened to the peer
 *	twi_peer_rpc_id, twi_context_of
 *	                      the message's id at both sides; the context of its tag
 *	twi_space_counts      whether messages of its space are counted
 *
 * Memory of the payload (claim.h, message.h, parts.h, reach.h, op_fault.h)
 *	twi_claim_init, twi_claim_lease, twi_claim_need, twi_claim_share, twi_claim_drop
 *	                      the lease on the payload while it is under way
 *	twi_claim_count, twi_claim_reason
 *	                      counts a large message of unregistered memory; why it is copied
 *	twi_op_at, twi_op_end_of, twi_op_in_parts
 *	                      where the payload lies, which may be in parts (parts.h)
 *	twi_op_reach, twi_op_reach_ends, twi_access_check, twi_reach_maps, twi_reach_plain
 *	                      whether memory that the library is about to touch is accessible
 *	twi_op_checksum       the checksum of the payload, also of parts
 *	twi_op_fault, twi_op_fault_theirs
 *	                      the memory is not accessible here, or at the other side
 *
 * The lane's own memory (own_memory.h)
 *	twi_own_try, twi_own_give
 *	                      pool memory for an endpoint's buffers, with allocation log records
 *
 * Copies (path.h): no other code may copy payload
 *	twi_path_copy_small, twi_path_copy_large, twi_path_copy_remote
 *	                      copies that the lane's design needs
 *	twi_op_copy_out, twi_op_copy_in, twi_path_copy_opened
 *	                      copies that it does not need, and copies that encryption costs
 *	twi_path_copy_fallback  a copy that it does not need, of memory that was not lent
 *	twi_path_wire         a copy onto a simulated wire
 *	twi_path_learn        what a copy costs
 *	twi_route_init, twi_route_describe, twi_path_eligible, twi_path_pays, twi_path_choose,
 *	twi_path_tried, twi_path_report
 *	                      zero-copy sends: whether they pay on this route
 *
 * Time (engine.h)
 *	twi_engine_now, twi_engine_batch_now, twi_engine_clock
 *	                      the time: read once for a call or a poll, or read now
 *	twi_assert_held       stands at the head of functions that only the holder may call
 *
 * Rings (poller.h), for lanes with descriptors
 *	twi_ring_has, twi_ring_tag, twi_ring_submit, twi_ring_forget
 *	                      requests of the driver's ring; forgets requests armed in any ring
 *	twi_ring_reap, twi_ring_poll
 *	                      completions of a ring, before other code asks for what they report
 *	twi_engine_poll, twi_ring_sleep
 *	                      for the close of a lane, which waits until its bytes have left
 *	twi_ring_wake         there is work to do that no completion will report
 *	twi_poller_describe   which poller moves a connection, for /v1/peers
 *
 * Messages that wait for others (handoff.h)
 *	twi_handoff_hold, twi_handoff_sent
 *	                      the lane holds a message back; it has sent those that it held
 *
 * Sleepers (watch.h), for lanes whose news is in memory
 *	twi_watch, twi_watch_ring, twi_watch_nap
 *	                      a sleeper wakes when a descriptor of the lane is readable
 *
 * Requirements on connections (require.h)
 *	twi_peer_meet         whether this connection meets them; both sides ask before it is used
 *	twi_peer_refused_by   the error when it does not meet those of the other side
 *	twi_require_lane      whether a connection of a lane can meet them at all
 *	twi_require_said      whether a message reports a connection refused for this reason
 *	twi_require_names_iface, twi_iface_of
 *	                      which interface has an address, where that matters
 *
 * Connects on other lanes, for the lane that has all of them (auto/)
 *	twi_connect_start, twi_op_forget, twi_endpoint_drop, twi_peer_end
 *	                      a connect on a lane that it chooses, and its end
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

/* --- endpoints and peers: the part that all lanes have in common --- */

/* Two set up the common part. twi_endpoint_ready gives a ready peer to an accept, or queues it. */
void twi_endpoint_setup(struct tow_endpoint *endpoint, struct twi_lane *lane);
void twi_peer_setup(struct tow_peer *peer, struct twi_lane *lane, const char *address);
void twi_endpoint_ready(struct tow_endpoint *endpoint, struct tow_peer *peer);

/*
 * Zeroed memory for a lane's endpoint or peer, which begins with the common part. NULL: out of
 * memory. The frees take that memory, or NULL.
 */
void *twi_endpoint_alloc(size_t bytes);
void twi_endpoint_free(struct tow_endpoint *endpoint);
void *twi_peer_alloc(size_t bytes);
void twi_peer_free(struct tow_peer *peer);

/*
 * Sets the status with which the peer's operations end, also those that are started later. The
 * thread's message says why, and is kept for the later ones. Only the first call has an effect.
 */
void twi_peer_ended(struct tow_peer *peer, int status);

/* Counts and logs that the peer is gone, although this side has not closed it; `why` is logged. */
void twi_peer_tell_lost(const struct tow_peer *peer, const char *why);

/* The lane has let go of the peer: takes it off every list. The lane frees the memory. */
void twi_peer_teardown(struct tow_peer *peer);

/*
 * Whether no peer can be taken now: the most that are allowed wait to be accepted. A lane asks
 * before it tells the connector that it is connected, and refuses instead. twi_endpoint_refused
 * sets the message with which the connector's operation then ends, and returns TOW_EREFUSED.
 */
bool twi_endpoint_full(const struct tow_endpoint *endpoint);
int twi_endpoint_refused(const char *address);

/*
 * Keeps `way`, the properties of the connection, and checks them against the knob `require`.
 * TOW_OK; TOW_EREFUSED with a message that names the word that is not met, and why. Then the lane
 * refuses the connection, as if its handshake had failed.
 */
int twi_peer_meet(struct tow_peer *peer, const struct twi_way *way);

/* The other side has refused the connection by its own knob. Returns TOW_EREFUSED. */
int twi_peer_refused_by(const struct tow_peer *peer);

#endif
