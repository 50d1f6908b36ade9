/*
 * ofi_silence.c - peers from which nothing has come: they get a PING, and after a timeout they are
 * lost. There is no connection whose end could tell. Peers to which nothing can be sent are lost as
 * soon as their last packets have been read.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdio.h>

#include "diag/base/error.h"
#include "transport/op/lane_host.h"

#define ORPHAN_NS    100000000ull /* packets of a process that ended may come for so long */
#define UNREACHED_NS 10000000ull  /* and those of a peer to which nothing can be sent */

/*
 * A peer that has closed in order cannot be reached either, and it may have acknowledged our last
 * messages before: libfabric reports that a send has failed before the packets that have come.
 */
void twi_ofi_unreached(struct twi_ofi_peer *peer, int err)
{
	bool greets = peer->state == TWI_OFI_GREETING;
	char rank[TWI_PEER_RANK];

	if (peer->broken != 0 || peer->unreached_ns != 0)
		return;
	twi_error(greets ? TOW_EREFUSED : TOW_EPEER, "peer %s%s cannot be reached: %s",
		  peer->base.address, twi_peer_rank(&peer->base, rank), twi_fi.strerror(err));
	if (peer->state != TWI_OFI_UP) {
		twi_ofi_break(peer, greets ? TOW_EREFUSED : TOW_EPEER);
		return;
	}
	snprintf(peer->fault, sizeof(peer->fault), "%s", tow_error_message());
	peer->unreached_ns = twi_engine_now(peer->base.engine);
	peer->port->timer_ns = twi_min(peer->port->timer_ns, peer->unreached_ns + UNREACHED_NS);
	peer->base.engine->armed_since_enter = true; /* a sleeper must look in time */
}

void twi_ofi_process_ended(struct tow_peer *base)
{
	struct twi_ofi_peer *peer = twi_ofi_peer_of(base);

	if (peer->state != TWI_OFI_UP || peer->broken != 0)
		return;
	peer->ended_ns = twi_engine_now(base->engine);
	peer->port->timer_ns = twi_min(peer->port->timer_ns, peer->ended_ns + ORPHAN_NS);
}

uint64_t twi_ofi_listen(struct twi_ofi_peer *peer, uint64_t now_ns)
{
	const struct twi_knobs *knobs = &peer->base.engine->knobs;
	uint64_t heartbeat = knobs->heartbeat_ns;
	uint64_t timeout = knobs->peer_timeout_ns;
	uint64_t silent = now_ns - twi_min(peer->heard_ns, now_ns);
	bool asked = peer->asked_ns > peer->heard_ns;
	char rank[TWI_PEER_RANK];

	if (peer->unreached_ns != 0) {
		if (now_ns < peer->unreached_ns + UNREACHED_NS)
			return peer->unreached_ns + UNREACHED_NS;
		twi_error(TOW_EPEER, "%s", peer->fault);
		twi_ofi_break(peer, TOW_EPEER);
		return now_ns;
	}
	if (peer->ended_ns != 0) {
		uint64_t last_ns = twi_max(peer->ended_ns, peer->heard_ns);

		if (now_ns < last_ns + ORPHAN_NS)
			return last_ns + ORPHAN_NS;
		twi_error(TOW_EPEER, "peer %s%s is gone: its process has ended", peer->base.address,
			  twi_peer_rank(&peer->base, rank));
		twi_ofi_break(peer, TOW_EPEER);
		return now_ns;
	}
	heartbeat = twi_min(heartbeat, timeout / 2);
	if (asked && silent >= timeout && now_ns - peer->asked_ns >= heartbeat) {
		twi_error(TOW_EPEER, "peer %s%s has been silent for %llu ms (peer_timeout_ns)",
			  peer->base.address, twi_peer_rank(&peer->base, rank),
			  (unsigned long long)(silent / 1000000));
		twi_ofi_break(peer, TOW_EPEER);
		return now_ns;
	}
	if (!asked && silent >= heartbeat) {
		peer->asked_ns = twi_max(now_ns, peer->heard_ns + 1);
		if (peer->slots == 0)
			twi_ofi_say(peer, TWI_OFI_PING, 0, 0, 0);
		asked = true;
	}
	return asked ? twi_max(peer->heard_ns + timeout, peer->asked_ns + heartbeat)
		     : peer->heard_ns + heartbeat;
}

#endif
