/*
 * lane.h - the table of functions that a lane implements; it is the specification of a lane.
 *
 *	op/endpoint.c  --ops-->  lane (a folder beside)          --session.h-->  stream/
 *	     ^                                                                     |
 *	     +------ twi_endpoint_ready, twi_peer_ended, twi_op_complete ----------+
 *
 * The list of lanes is diag/record/lane.def. docs/lanes.md says how to add one.
 *
 * Every member is called by the thread that holds the engine (engine.h), so a lane needs no lock of
 * its own. No member may block unless its comment says so. A lane completes each operation that it
 * has taken exactly once, by twi_op_complete. A member that returns a failure has taken nothing.
 *
 * A lane may leave requests armed in a thread's ring when another thread takes the engine. Those
 * requests must be harmless: they run only when the first thread holds the engine again. A lane
 * therefore arms polls, and receives into buffers of the ring (poller.h). It never arms a receive
 * into a user's buffer.
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

/* What a lane needs of the memory of a large message. */
enum twi_need {
	TWI_NEED_NOTHING,
	TWI_NEED_WISHED,     /* registration is of use; the kernel copies other memory */
	TWI_NEED_REGISTERED, /* the lane cannot use unregistered memory and stages it */
};

struct twi_lane_ops {
	enum twi_lane_id id;
	const char *scheme; /* "tcp": the part before "://" in an address */

	/*
	 * Progress of this lane is a read of shared memory, which is cheap. A spinning waiter
	 * therefore polls this lane on every turn, and the other lanes on some turns.
	 */
	bool memory_polled;

	/*
	 * The lane moves a large message of parts (op/parts.h) run by run, wherever the parts lie:
	 * `gathers` for sends, `scatters` for receives. False: the lane copies such a message in
	 * pieces, as one in memory that it cannot use, and finds its lease `staged`.
	 */
	bool gathers, scatters;

	/* The lane can encrypt its connections. */
	bool encrypts;

	/*
	 * Replaces the names in an address (the part after "://") by numbers, so that endpoint_open
	 * and connect never wait for a name server. Any thread may call it, without the engine; it
	 * may block. NULL: addresses of this lane have no names. Returns TOW_OK, TOW_EINVAL,
	 * TOW_ENOMEM or TOW_ESYSTEM.
	 */
	int (*resolve)(const char *address, bool passive, char out[TOW_ADDRESS_MAX]);

	/*
	 * Makes the lane of one runtime, when the runtime opens. May block for as long as the
	 * set-up takes. Returns TOW_OK, TOW_ENOMEM, TOW_ENOTSUP or TOW_ESYSTEM.
	 */
	int (*open)(struct twi_engine *engine, struct twi_lane **lane_out);

	/*
	 * Returns whether this host has hardware or software that the lane is for. tow:// asks
	 * before it opens an endpoint that the user has not named. Loads nothing. When the result
	 * is false, *why_out says what is missing. NULL: the answer is always yes.
	 */
	bool (*wanted)(const struct twi_lane *lane, const char **why_out);

	/*
	 * Ends the lane; its peers and endpoints have been closed before. May block for up to a
	 * second, until bytes on their way have left and the kernel holds no memory any more.
	 */
	void (*close)(struct twi_lane *lane);

	/*
	 * Opens an endpoint at `address` (the part after "://"), which resolve has already
	 * processed, and writes the endpoint's real address with the scheme. Returns TOW_OK,
	 * TOW_EINVAL, TOW_EBUSY, TOW_ENOMEM, TOW_EPERM or TOW_ESYSTEM.
	 */
	int (*endpoint_open)(struct twi_lane *lane, const char *address, struct tow_endpoint **out);

	/* Stops listening and frees the endpoint. Its accept operations have ended before. */
	void (*endpoint_close)(struct tow_endpoint *endpoint);

	/*
	 * Starts to connect and takes `op`, which completes with the peer in op->peer. resolve has
	 * already processed `address`. Returns TOW_OK, TOW_EINVAL, TOW_ENOMEM, TOW_EBUSY or
	 * TOW_ESYSTEM.
	 */
	int (*connect)(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);

	/* Ends a connect early: completes `op` with `status` and leaves nothing behind. */
	void (*connect_abort)(struct tow_op *op, int status);

	/*
	 * Reports on a connect under way: how long a packet has had no answer, how often it was
	 * sent again, and to which address. NULL: the lane knows nothing.
	 */
	void (*connect_measure)(const struct tow_op *op, struct twi_state_dial *out);

	/* Takes a send or receive operation of op->peer. Failures become the operation's status. */
	void (*send)(struct tow_peer *peer, struct tow_op *op);
	void (*recv)(struct tow_peer *peer, struct tow_op *op);

	/*
	 * Sends a small message that can go now, without an operation. Returns false if nothing was
	 * done; the message then needs an operation. NULL: the lane never can.
	 */
	bool (*send_at_once)(struct tow_peer *peer, struct twi_outbound *out);

	/*
	 * Lets a receive take a small message that is already here, without an operation. Returns
	 * false if nothing was done except a poll; the receive then needs an operation. NULL: the
	 * lane never can.
	 */
	bool (*recv_at_once)(struct tow_peer *peer, struct twi_instant *instant);

	/*
	 * Ends a send or receive with `status` (TOW_ECANCELED, TOW_EDEADLINE) if that is still
	 * possible. With `force` the operation must end, and the payload is no longer touched on
	 * return. Returns true when the operation has completed.
	 */
	bool (*abort)(struct tow_peer *peer, struct tow_op *op, int status, bool force);

	/*
	 * Makes queued receives with this tag and context (match_entry.h) look for their messages
	 * again, from the oldest on, until one must wait. A receive that was held (match.h) may go
	 * on now, or has gone.
	 */
	void (*look_again)(struct tow_peer *peer, uint64_t tag, uint32_t context);

	/*
	 * The user has finished with the peer. Everything in flight completes with TOW_ECLOSED.
	 * Buffered data is still sent, for a bounded time. The lane frees the peer when it no
	 * longer uses it.
	 */
	void (*peer_close)(struct tow_peer *peer);

	/*
	 * The peer's process on this host has ended, though its connection may still be open
	 * (engine/process.h). The lane delivers what the process has sent and then loses the peer.
	 * NULL: both ends of this lane's connections are in one process.
	 */
	void (*process_ended)(struct tow_peer *peer);

	/* Sends data that is held back. Called before the engine sleeps, and by tow_flush. */
	void (*flush)(struct twi_lane *lane, bool acks_too);

	/*
	 * Sends data that is held back, between two callbacks when the first has taken long. Reads
	 * nothing, or the callbacks would never end. NULL: no data of this lane waits for a poll.
	 */
	void (*push)(struct twi_lane *lane);

	/* Moves everything that can move now. Returns the number of events, 0 when idle. */
	unsigned (*progress)(struct twi_lane *lane);

	/* When progress must run again if no event comes, in engine time; UINT64_MAX: never. */
	uint64_t (*deadline_ns)(struct twi_lane *lane);

	/* Another thread drives from now on, with engine->ring: arms there what must be armed. */
	void (*driver_changed)(struct twi_lane *lane);

	/* Ring `index` and all requests armed in it are gone. A new ring may get its index. */
	void (*ring_gone)(struct twi_lane *lane, unsigned index);

	/* A completion of a thread's ring for this lane; user data begins with the lane's id. */
	void (*completed)(struct twi_lane *lane, uint64_t user_data, int res, uint32_t flags,
			  const void *data);

	/*
	 * What the lane needs of the memory of this large message (op->kind, op->bytes). NULL: the
	 * lane needs nothing.
	 */
	enum twi_need (*need)(struct tow_peer *peer, const struct tow_op *op);

	/* Access to the pool memory of peers in place (window.h). NULL: the lane has none. */
	const struct twi_window_ops *windows;

	/* Writes members of one object of /v1/peers: what this lane knows of the peer. */
	void (*peer_describe)(struct tow_peer *peer, struct twi_emit *emit);

	/*
	 * Reports how the peer's connections do, as far as the lane knows. `fabric` has
	 * TWI_STATE_FABRIC bytes; it gets the name of what carries the connections when that is
	 * other software. Of a lost peer the lane reports what it still knows. NULL: it knows
	 * nothing.
	 */
	void (*peer_measure)(struct tow_peer *peer, struct twi_state_link *out, char *fabric);

	/*
	 * Reports on each of several streams that carry large messages to the peer. Returns their
	 * count, at most `room`, or 0 when there is only one stream. NULL: there is never more than
	 * one.
	 */
	uint32_t (*peer_streams)(struct tow_peer *peer, struct twi_state_stream *out,
				 uint32_t room);
};

/* Every lane's own structure begins with this. */
struct twi_lane {
	const struct twi_lane_ops *ops;
	struct twi_engine *engine;
	uint32_t peers; /* number of this lane's peers */
	bool used;      /* the lane has, or had, an endpoint */
};

/* Checks the knob `lanes`. Returns TOW_OK, or TOW_EINVAL with a message that names the bad name. */
int twi_lanes_check(const char *knob);

/* Returns whether the knob allows this lane. An inner lane is always allowed. */
bool twi_lanes_allow(const char *knob, enum twi_lane_id id);

/* Returns whether the lane stays within this process, or, as tow does, uses other lanes. */
bool twi_lane_is_inner(enum twi_lane_id id);

/* Makes the list of used lanes anew after lanes[] has changed. Polls visit only lanes in use. */
void twi_lanes_pack(struct twi_engine *engine);

/* Marks the lane as used; an endpoint of it is about to be made. The engine is held. */
void twi_lane_use(struct twi_lane *lane);

/* twi_lane_<name> of each row of lane.def is in the lane's folder. tow:// has one, too. */
#define TWI_LANE(id, name, ...) extern const struct twi_lane_ops twi_lane_##name;
#include "diag/record/lane.def"
#undef TWI_LANE
extern const struct twi_lane_ops twi_lane_auto;

#endif
