/*
 * tcp_describe.c - the connections to a peer in /v1/peers. TCP_INFO for this page is read here
 * only, so a page that nobody reads costs nothing.
 */
#include <stdio.h>

#include "transport/lanes/tcp/tcp.h"
#include "transport/stream/session.h"

static const char *state_of(const struct twi_tcp_peer *peer, const struct twi_tcp_line *line)
{
	if (peer->lost)
		return "lost";
	if (line->stream != NULL)
		return peer->parting ? "closing" : "up";
	return line->trial != NULL ? "resuming" : "broken";
}

static void describe_ends(const struct twi_tcp_interfaces *have,
			  const struct twi_tcp_stream *stream, struct twi_emit *emit)
{
	struct twi_tcp_address at;
	char text[TOW_ADDRESS_MAX];
	const char *iface;

	if (twi_tcp_local(stream->fd, &at)) {
		twi_tcp_format(&at, text);
		twi_emit_str(emit, "local", text);
		iface = twi_tcp_interface_of(have, &at);
		if (iface[0] != '\0')
			twi_emit_str(emit, "iface", iface);
	}
	if (twi_tcp_remote(stream->fd, &at)) {
		twi_tcp_format(&at, text);
		twi_emit_str(emit, "remote", text);
	}
}

static void describe_line(const struct twi_tcp_peer *peer, unsigned index, struct twi_emit *emit)
{
	const struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);
	const struct twi_tcp_line *line = &peer->lines[index];
	uint64_t now = twi_engine_now(peer->base.engine);
	char name[16] = "control";

	if (index > 0)
		snprintf(name, sizeof(name), "bulk %u", index - 1);
	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "stream", name);
	twi_emit_str(emit, "state", state_of(peer, line));
	twi_emit_u64(emit, "breaks", line->breaks);
	twi_emit_u64(emit, "resumes", line->resumes);
	if (line->error[0] != '\0')
		twi_emit_str(emit, "last_error", line->error);
	if (line->broken_ns != 0) {
		twi_emit_u64(emit, "broken_for_ns", now - twi_min(now, line->broken_ns));
		twi_emit_u64(emit, "attempts", line->attempts);
	}
	if (line->stream != NULL) {
		twi_emit_bool(emit, "encrypted", line->stream->seal != NULL);
		describe_ends(&lane->have, line->stream, emit);
		twi_tcp_sample_describe(&line->stream->sample, line->stream->fd, now, emit);
	}
	twi_emit_object_end(emit);
}

void twi_tcp_peer_describe(struct tow_peer *base, struct twi_emit *emit)
{
	const struct twi_tcp_peer *peer = (const struct twi_tcp_peer *)(const void *)base;
	const char *connection = "up";
	uint64_t breaks = 0, resumes = 0;

	twi_tcp_refresh_interfaces(twi_tcp_lane_of(base->engine));
	twi_session_describe(twi_session_of(base), emit);
	for (unsigned i = 0; i < peer->line_count; i++) {
		const struct twi_tcp_line *line = &peer->lines[i];

		breaks += line->breaks;
		resumes += line->resumes;
		if (line->stream == NULL)
			connection = state_of(peer, line);
	}
	twi_poller_describe(base->engine, emit);
	twi_emit_str(emit, "connection", connection);
	twi_emit_u64(emit, "breaks", breaks);
	twi_emit_u64(emit, "resumes", resumes);
	twi_emit_array_begin(emit, "streams");
	for (unsigned i = 0; i < peer->line_count; i++)
		describe_line(peer, i, emit);
	twi_emit_array_end(emit);
	twi_route_describe(base->engine, &peer->route, emit);
}
