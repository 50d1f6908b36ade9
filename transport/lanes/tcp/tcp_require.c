/*
 * tcp_require.c - the properties of a tcp connection for the knob `require`.
 *
 * Each stream of a connection is checked, also one that resumes a broken line. So no stream uses
 * another interface later. The interface is the one with the stream's address on this host.
 */
#include "transport/lanes/tcp/tcp.h"
#include "transport/op/lane_host.h"

/*
 * The reason why payload is copied, if it is known before the first trial. Copies because of the
 * network card are not known yet.
 */
static const char *why_copied(const struct twi_tcp_peer *peer, const struct twi_tcp_stream *stream,
			      bool one_host)
{
	const struct twi_knobs *knobs = &peer->base.engine->knobs;

	if (!peer->route.able)
		return "the kernel has no zero-copy send for this process";
	if (knobs->zerocopy == TWI_ZEROCOPY_NEVER || knobs->zerocopy_min_bytes == 0)
		return "the knobs zerocopy or zerocopy_min_bytes forbid it";
	if (stream->seal != NULL)
		return "encrypted payload is copied";
	if (one_host)
		return "the kernel copies payload for a receiver on this host";
	return NULL;
}

int twi_tcp_meet(struct twi_tcp_peer *peer, const struct twi_tcp_stream *stream)
{
	struct twi_way way = { .lane = TWI_LANE_TCP, .encrypted = stream->seal != NULL };
	const struct twi_way first = peer->base.way;
	struct twi_tcp_address here = { 0 }, there = { 0 };
	bool ends = twi_tcp_local(stream->fd, &here) && twi_tcp_remote(stream->fd, &there);
	int status;

	way.copied = why_copied(peer, stream,
				ends && (twi_tcp_same_host(&here, &there) ||
					 (twi_tcp_loopback(&here) && twi_tcp_loopback(&there))));
	if (ends && twi_require_names_iface(peer->base.engine->knobs.require))
		twi_iface_of(&here.any, way.iface);
	status = twi_peer_meet(&peer->base, &way);
	if (stream->line > 0 || peer->up) /* the peer shows its first control stream */
		peer->base.way = first;
	return status;
}
