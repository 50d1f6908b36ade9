/*
 * rpc_link.h - the library's own messages to the other side of a peer, in TWI_SPACE_LINK. They say
 * which process this is, exchange time stamps (clock_sync.h), and open a peer for calls.
 *
 *	up      a connect or accept has ended well: posts a receive, and tells the other side
 *	        which process this is, so that it notices the process' end (process.h)
 *	ask     there is traffic (twi_peer_touch): compares the clocks, as that is due
 *	detach  the peer's memory goes
 *
 * At the first traffic TWI_LINK_BURST exchanges are made one after the other. One more follows
 * after TWI_LINK_SOON_NS, and later one each TWI_LINK_EVERY_NS. Without traffic there are none. A
 * side that is asked answers at once.
 *
 * The link has memory of its own, because callbacks of its operations may still be due when the
 * peer has gone. At most one message is sent at a time. What is due meanwhile is noted, once for
 * each kind. So a peer that asks too often only gets fewer answers.
 */
#ifndef TWI_RPC_LINK_H
#define TWI_RPC_LINK_H

#include "diag/base/emit.h"
#include "transport/engine/process.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/rpc/clock_sync.h"

#define TWI_LINK_BURST    4
#define TWI_LINK_SOON_NS  1000000000ull
#define TWI_LINK_EVERY_NS 10000000000ull
#define TWI_LINK_BYTES    48u

struct twi_message;
struct twi_rpc_peer;

/* An operation of the library's own; `busy` from its start to its callback. */
struct twi_rpc_io {
	struct tow_op op;
	bool busy;
};

struct twi_link {
	struct twi_engine *engine;
	struct tow_peer *peer; /* NULL: the peer has gone */
	struct twi_rpc_peer *rpc;
	struct twi_clock_sync clock;
	bool one_clock;    /* both sides have one clock: there is nothing to compare */
	uint64_t asked_ns; /* t1 of the exchange under way; 0: none */
	unsigned burst;    /* exchanges left of the burst */
	struct twi_rpc_io in, out;
	bool who_due, ask_due, answer_due, open_due;
	struct twi_process_user process; /* the peer's process, if it is another one of this host */
	uint64_t answer_t1, answer_t2;
	uint64_t open_bytes, open_window; /* content of OPEN: inline limit, calls at once */
	uint8_t in_data[TWI_LINK_BYTES], out_data[TWI_LINK_BYTES];
};

/* The engine is held in all calls. */
extern const struct twi_link_hooks twi_link_hooks;

/* Sends OPEN: this side reads calls of up to inline_bytes inline, `window` of them at once. */
void twi_link_open(struct twi_link *link, uint64_t inline_bytes, uint64_t window);

/* Compares the clocks now, as at the first traffic. False: there is one clock, or no link. */
bool twi_link_compare(struct tow_peer *peer);

/* How many exchanges there have been. */
uint64_t twi_link_exchanges(const struct tow_peer *peer);

/* Compares the peer's clock with ours. False: nothing is known yet. */
bool twi_link_clock(const struct tow_peer *peer, struct twi_clock_estimate *out);

/* Writes the member "clock" of one object of /v1/peers. */
void twi_link_describe(const struct tow_peer *peer, struct twi_emit *emit);

/* Starts an operation of the library's own. TOW_OK, or it has not been started. peer may be NULL:
 * it has gone. */
int twi_rpc_io_start(struct twi_rpc_io *io, struct tow_peer *peer,
		     const struct twi_message *message, tow_op_callback done, void *user);

/* Returns whether a lane, or a view of the peer's, may still touch its payload. */
static inline bool twi_rpc_io_held(const struct twi_rpc_io *io)
{
	return io->busy && io->op.stage != TWI_STAGE_COMPLETING;
}

/* Returns whether all that is left of a send is a view of its memory. */
static inline bool twi_rpc_io_viewed(const struct twi_rpc_io *io)
{
	return io->busy && io->op.stage == TWI_STAGE_VIEWED;
}

/*
 * Ends it if it is under way. Its callback will still run. Returns true if the lane may touch its
 * payload until then, because libfabric has it in hand: no operation of the user ends before.
 */
bool twi_rpc_io_abort(struct twi_rpc_io *io);

#endif
