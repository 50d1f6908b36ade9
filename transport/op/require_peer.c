/*
 * require_peer.c - checks a connection against the knob `require` (engine/require.h), and describes
 * it for /v1/peers.
 */
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "transport/op/endpoint.h"
#include "transport/op/lane_host.h"

int twi_peer_meet(struct tow_peer *peer, const struct twi_way *way)
{
	const char *require = peer->engine->knobs.require;
	char why[TWI_REQUIRE_WHY];

	twi_assert_held(peer->engine);
	peer->way = *way;
	if (twi_require_meets(require, way, why))
		return TOW_OK;
	peer->unmet = true;
	return twi_error(TOW_EREFUSED, "%s; the connection %s %s is refused here", why,
			 peer->connector ? "to" : "from", peer->address);
}

int twi_peer_refused_by(const struct tow_peer *peer)
{
	return twi_error(TOW_EREFUSED,
			 "the knob require of %s refused the connection; the log there says "
			 "which property is missing",
			 peer->address);
}

void twi_way_describe(const struct tow_peer *peer, struct twi_emit *emit)
{
	const struct twi_way *way = &peer->way;

	twi_emit_object_begin(emit, "path");
	if (peer->engine->knobs.require[0] != '\0')
		twi_emit_str(emit, "require", peer->engine->knobs.require);
	if (way->iface[0] != '\0')
		twi_emit_str(emit, "iface", way->iface);
	twi_emit_bool(emit, "zero_copy", way->copied == NULL);
	if (way->copied != NULL)
		twi_emit_str(emit, "zero_copy_not", way->copied);
	twi_emit_bool(emit, "encrypted", way->encrypted);
	twi_emit_object_end(emit);
}
