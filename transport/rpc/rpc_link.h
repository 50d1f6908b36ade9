/*
 * rpc_link.h - what the library has to say to itself on the other side of a peer, in messages of
 * TWI_SPACE_LINK: who this is, exchanges of time stamps (clock_sync.h), and that a side wants to
 * make calls.
 *
 *	up      a connect or accept has ended well: a receive for what may come is posted, and the
 *	        other side hears which process this is, whose end it then sees (process.h)
 *	ask     there is traffic (twi_peer_touch): the clocks are compared, as that is due
 *	detach  the peer's memory goes
 *
 * At the first traffic TWI_LINK_BURST exchanges are made one after the other, one more after
 * TWI_LINK_SOON_NS, later one each TWI_LINK_EVERY_NS; while there is no traffic, none. A side that
 * is asked answers at once.
 *
 * It is memory of its own, because its operations may still be on their way to their callbacks when
 * the peer has gone. At most one message goes out at a time; what is due meanwhile is noted, once
 * of each kind, so a peer that asks too often gets fewer answers, and costs nothing.
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

/* An operation of the library's own. `busy` from its start to its callback. */
struct twi_rpc_io {
	struct tow_op op;
	bool busy;
};

struct twi_link {
	struct twi_engine *engine;
	struct tow_peer *peer; /* NULL: gone */
	struct twi_rpc_peer *rpc;
	struct twi_clock_sync clock;
	bool one_clock;    /* with the peer: there is nothing to compare */
	uint64_t asked_ns; /* t1 of the exchange under way; 0: none */
	unsigned burst;    /* exchanges of the first traffic that are left */
	struct twi_rpc_io in, out;
	bool who_due, ask_due, answer_due, open_due;
	struct twi_process_user process; /* the peer's, if it is another one of this host */
	uint64_t answer_t1, answer_t2;
	uint64_t open_bytes, open_window; /* what OPEN says: inline limit, calls at once */
	uint8_t in_data[TWI_LINK_BYTES], out_data[TWI_LINK_BYTES];
};

/* The engine is held in all of them. */
extern const struct twi_link_hooks twi_link_hooks;

/* Says OPEN: this side reads calls of up to inline_bytes inline, `window` of them at once. */
void twi_link_open(struct twi_link *link, uint64_t inline_bytes, uint64_t window);

/* Compares the clocks now, as at the first traffic. False: they are one, or there is no link. */
bool twi_link_compare(struct tow_peer *peer);

/* How many there have been. */
uint64_t twi_link_exchanges(const struct tow_peer *peer);

/* The peer's clock against ours; false while nothing is known. */
bool twi_link_clock(const struct tow_peer *peer, struct twi_clock_estimate *out);

/* The member "clock" of one object of /v1/peers. */
void twi_link_describe(const struct tow_peer *peer, struct twi_emit *emit);

/* Starts and ends operations of the library's own. start: TOW_OK, or it has not been started. */
int twi_rpc_io_start(struct twi_rpc_io *io, struct tow_peer *peer,
		     const struct twi_message *message, tow_op_callback done, void *user);

/* Ends it if it is under way; its payload is no longer touched, its callback is to come. */
void twi_rpc_io_abort(struct twi_rpc_io *io);

#endif
