/*
 * lane.h - one way to reach a peer: this table is the specification of a lane.
 *
 *	op/endpoint.c  --ops-->  lane (a folder beside)          --session.h-->  stream/
 *	     ^                                                                     |
 *	     +------ twi_endpoint_ready, twi_peer_ended, twi_op_complete ----------+
 *
 * The list of lanes is diag/record/lane.def, and docs/lanes.md says how to add one.
 *
 * Every member is called by the thread that holds the engine (engine.h), so a lane needs no lock of
 * its own. No member may block, except where said. An operation that a lane takes is completed by
 * it exactly once through twi_op_complete; a member that returns a failure has taken nothing.
 *
 * Requests that a lane leaves armed in a thread's ring when the engine changes hands must be
 * harmless there: they run only when that thread holds the engine again. A lane therefore arms
 * polls and receives into buffers of the ring, and never a receive into a user's buffer (poller.h).
 */
#ifndef TWI_LANE_H
#define TWI_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

#include "diag/base/emit.h"
#include "diag/record/lane_id.h"
#include "transport/lanes/window.h"

struct tow_endpoint;
struct tow_op;
struct tow_peer;
struct twi_engine;
struct twi_lane;
struct twi_instant;
struct twi_outbound;
struct twi_state_dial;
struct twi_state_link;
struct twi_state_stream;

/* What a lane wants of the memory of a large message. */
enum twi_need {
	TWI_NEED_NOTHING,
	TWI_NEED_WISHED,     /* unregistered memory is copied by the kernel */
	TWI_NEED_REGISTERED, /* unregistered memory cannot be used: it is staged */
};

struct twi_lane_ops {
	enum twi_lane_id id;
	const char *scheme; /* "tcp": what stands before "://" in an address */

	/*
	 * Progress is a look at shared memory, which is cheap: a spinning waiter polls this lane on
	 * every turn, the others on some.
	 */
	bool memory_polled;

	/*
	 * It moves a large message of parts (op/parts.h) run by run, out of them (sends) or into
	 * them (receives), wherever they lie. False: it copies such a message in pieces, as one of
	 * memory that it cannot use, and finds its claim `staged`.
	 */
	bool gathers, scatters;

	/* Its connections can be encrypted. */
	bool encrypts;

	/*
	 * Replaces the names in an address (the part after "://") by numbers, so that endpoint_open
	 * and connect never wait for a name server. Called without the engine, by any thread, and
	 * may block. NULL: addresses of this lane have no names. TOW_OK, TOW_EINVAL, TOW_ENOMEM,
	 * TOW_ESYSTEM.
	 */
	int (*resolve)(const char *address, bool passive, char out[TOW_ADDRESS_MAX]);

	/*
	 * Makes the lane of one runtime. Called at open. May block for as long as set-up takes.
	 * TOW_OK, TOW_ENOMEM, TOW_ENOTSUP, TOW_ESYSTEM.
	 */
	int (*open)(struct twi_engine *engine, struct twi_lane **lane_out);

	/*
	 * What tow:// asks before it opens an endpoint here unasked: is there anything on this host
	 * that the lane is for? Loads nothing. *why_out: if not, what is missing. NULL: always.
	 */
	bool (*wanted)(const struct twi_lane *lane, const char **why_out);

	/*
	 * Ends the lane. Its peers and endpoints have been closed before. May block up to a second,
	 * until bytes on their way have left and the kernel holds no memory any more.
	 */
	void (*close)(struct twi_lane *lane);

	/*
	 * Opens an endpoint at `address` (the part after "://") and writes its real address, with
	 * the scheme. `address` has been through resolve. TOW_OK, TOW_EINVAL, TOW_EBUSY,
	 * TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM.
	 */
	int (*endpoint_open)(struct twi_lane *lane, const char *address, struct tow_endpoint **out);

	/* Stops listening and frees the endpoint. Its accept operations have ended before. */
	void (*endpoint_close)(struct tow_endpoint *endpoint);

	/*
	 * Starts to connect and takes `op`; it completes with the peer in op->peer. `address` has
	 * been through resolve. TOW_OK, TOW_EINVAL, TOW_ENOMEM, TOW_EBUSY, TOW_ESYSTEM.
	 */
	int (*connect)(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);

	/* Ends a connect before its time: the op is completed with `status` and nothing stays
	 * behind. */
	void (*connect_abort)(struct tow_op *op, int status);

	/*
	 * What it knows of a connect that is under way: how long a packet to there is not answered,
	 * how often it was sent again, to which address. NULL: nothing.
	 */
	void (*connect_measure)(const struct tow_op *op, struct twi_state_dial *out);

	/* Takes a send or receive operation of op->peer. Faults come as the operation's status. */
	void (*send)(struct tow_peer *peer, struct tow_op *op);
	void (*recv)(struct tow_peer *peer, struct tow_op *op);

	/*
	 * Sends a message without an operation, if it is small and can go now. False: nothing was
	 * done, and it is to be sent with one. NULL: never.
	 */
	bool (*send_at_once)(struct tow_peer *peer, struct twi_outbound *out);

	/*
	 * A receive takes a small message that is here, without an operation. False: nothing was
	 * done but what a poll does, and it is to be made an operation. NULL: never.
	 */
	bool (*recv_at_once)(struct tow_peer *peer, struct twi_instant *instant);

	/*
	 * Ends a send or receive with `status` (TOW_ECANCELED, TOW_EDEADLINE) if that can still be
	 * done. With `force` it must be: the payload is no longer touched when this returns. True
	 * when the operation has completed.
	 */
	bool (*abort)(struct tow_peer *peer, struct tow_op *op, int status, bool force);

	/*
	 * Receives with this tag and context (match_entry.h) that are queued look for their
	 * messages again, the oldest first, until one must wait: one that was held (match.h) may go
	 * on, or has gone.
	 */
	void (*look_again)(struct tow_peer *peer, uint64_t tag, uint32_t context);

	/*
	 * The user is done with the peer: everything in flight completes with TOW_ECLOSED; what is
	 * buffered is still sent, for a bounded time; the lane frees the peer when it has let go.
	 */
	void (*peer_close)(struct tow_peer *peer);

	/*
	 * The process of the peer, of this host, has ended, though perhaps not its connection
	 * (engine/process.h): what it has sent still counts, and then the peer is lost. NULL: what
	 * the lane connects is of one process.
	 */
	void (*process_ended)(struct tow_peer *peer);

	/* Sends what is held back. Called before the engine sleeps, and by tow_flush. */
	void (*flush)(struct twi_lane *lane, bool acks_too);

	/*
	 * Between two callbacks of which one has taken long: sends what is held back, and reads
	 * nothing, as the callbacks would never end. NULL: nothing of it waits for a poll.
	 */
	void (*push)(struct twi_lane *lane);

	/* Moves whatever can be moved now. Returns how many events there were, 0 when idle. */
	unsigned (*progress)(struct twi_lane *lane);

	/* When to call progress again if no event has come, in engine time; UINT64_MAX: never. */
	uint64_t (*deadline_ns)(struct twi_lane *lane);

	/* Another thread drives from now on, with engine->ring: arm there what must be armed. */
	void (*driver_changed)(struct twi_lane *lane);

	/* Ring `index` is gone, with all that was armed in it; another may take its place. */
	void (*ring_gone)(struct twi_lane *lane, unsigned index);

	/* One completion of a thread's ring that is this lane's (user data begins with its id). */
	void (*completed)(struct twi_lane *lane, uint64_t user_data, int res, uint32_t flags,
			  const void *data);

	/*
	 * What the lane wants of the memory of this large message (op->kind, op->bytes). NULL: it
	 * does not care.
	 */
	enum twi_need (*need)(struct tow_peer *peer, const struct tow_op *op);

	/* Its peers' pool memory where it lies (window.h). NULL: there is no such thing. */
	const struct twi_window_ops *windows;

	/* Members of one object of /v1/peers: what this lane knows of the peer. */
	void (*peer_describe)(struct tow_peer *peer, struct twi_emit *emit);

	/*
	 * What the lane knows of how its connections to the peer do; fabric: TWI_STATE_FABRIC
	 * bytes, what carries them, where that is another's work. Also of a peer that is lost: what
	 * is known still. NULL: nothing.
	 */
	void (*peer_measure)(struct tow_peer *peer, struct twi_state_link *out, char *fabric);

	/*
	 * How each of several streams does, by which large messages go to the peer; their count, at
	 * most `room`, else 0. NULL: there is never more than one.
	 */
	uint32_t (*peer_streams)(struct tow_peer *peer, struct twi_state_stream *out,
				 uint32_t room);
};

/* Every lane's own structure begins with this. */
struct twi_lane {
	const struct twi_lane_ops *ops;
	struct twi_engine *engine;
	uint32_t peers; /* that it has */
	bool used;      /* it has, or had, an endpoint */
};

/* The knob `lanes`: TOW_OK, or TOW_EINVAL naming what is no lane. */
int twi_lanes_check(const char *knob);

/* May this lane be used? One that stays within the process, and tow, always may. */
bool twi_lanes_allow(const char *knob, enum twi_lane_id id);

/* Does it stay within this process, or leave that to other lanes (tow)? */
bool twi_lane_is_inner(enum twi_lane_id id);

/* lanes[] has changed. Polls visit the lanes that are used. */
void twi_lanes_pack(struct twi_engine *engine);

/* It is about to get an endpoint. The engine is held. */
void twi_lane_use(struct twi_lane *lane);

/* twi_lane_<name> of each row of lane.def, in the lane's folder; and that of tow://. */
#define TWI_LANE(id, name, ...) extern const struct twi_lane_ops twi_lane_##name;
#include "diag/record/lane.def"
#undef TWI_LANE
extern const struct twi_lane_ops twi_lane_auto;

#endif
