/*
 * tcp_stream.c - streams, their slots, and peers: when they are made and freed.
 *
 * A peer is freed when both hold: the user has closed it, or never saw it; and its streams are
 * gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/bpf/bpf.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_part.h"
#include "transport/op/lane_host.h"

#define SLOTS_MAX 65536u

struct twi_tcp_lane *twi_tcp_lane_of(const struct twi_engine *engine)
{
	return (struct twi_tcp_lane *)(void *)engine->lanes[TWI_LANE_TCP];
}

/*
 * Finds a free slot; the table doubles when there is none. The search goes round the table. So the
 * generations of a slot do not wrap while a sleeping ring still has a request of an old one.
 */
int twi_tcp_take_slot(struct twi_tcp_lane *lane, uint32_t *slot_out)
{
	uint32_t count = lane->slot_count, more = count == 0 ? 64 : count * 2;
	struct twi_tcp_slot *slots;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (lane->slot_cursor + i) % count;

		if (lane->slots[at].stream == NULL && lane->slots[at].listener == NULL) {
			lane->slot_cursor = at + 1;
			*slot_out = at;
			return TOW_OK;
		}
	}
	if (count >= SLOTS_MAX)
		return twi_error(TOW_EBUSY, "more than %u connections", SLOTS_MAX);
	slots = realloc(lane->slots, more * sizeof(slots[0]));
	if (slots == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %u connections", more);
	for (uint32_t i = count; i < more; i++)
		slots[i] = (struct twi_tcp_slot){ 0 };
	lane->slots = slots;
	lane->slot_count = more;
	*slot_out = count;
	return TOW_OK;
}

/* Takes the socket, also when it fails. */
int twi_tcp_stream_create(struct twi_tcp_lane *lane, int fd, struct twi_tcp_stream **out)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_stream *stream = calloc(1, sizeof(*stream));
	uint32_t slot;
	int status = stream == NULL ? twi_error(TOW_ENOMEM, "no memory for a connection")
				    : twi_tcp_take_slot(lane, &slot);

	if (status < 0) {
		free(stream);
		close(fd);
		return status;
	}
	stream->fd = fd;
	stream->slot = slot;
	stream->generation = ++lane->slots[slot].generation;
	stream->start_ns = twi_engine_now(engine);
	stream->deadline_ns = stream->start_ns + engine->knobs.connect_timeout_ns;
	twi_tcp_due(lane, stream->deadline_ns);
	twi_list_push_back(&lane->handshakes, &stream->link);
	lane->slots[slot].stream = stream;
	twi_bpf_socket_add(engine->bpf, fd);
	*out = stream;
	return TOW_OK;
}

void twi_tcp_stream_destroy(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_ring *ring = lane->base.engine->ring;
	struct twi_tcp_peer *peer = stream->peer;

	/* Prepared requests point into the stream and into users' buffers: they must run now. */
	if (ring != NULL)
		twi_ring_submit(ring);
	twi_tcp_direct_forget(lane, stream);
	twi_list_remove(&stream->link);
	lane->slots[stream->slot].stream = NULL;
	if (peer != NULL && peer->lines[stream->line].stream == stream)
		peer->lines[stream->line].stream = NULL;
	if (peer != NULL && peer->lines[stream->line].trial == stream)
		peer->lines[stream->line].trial = NULL;
	twi_tcp_greet_end(lane, stream);
	twi_tcp_seal_destroy(stream->seal);
	twi_tcp_zerocopy_cut(lane, stream);
	/* Sleeping polls of other rings still hold the file: the end must not wait for them. */
	shutdown(stream->fd, SHUT_RDWR);
	twi_bpf_socket_remove(lane->base.engine->bpf, stream->fd);
	twi_ring_forget(lane->base.engine, stream->fd);
	close(stream->fd);
	free(stream);
}

/* The stream and its peer are greeted: data may flow. */
void twi_tcp_stream_up(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	twi_list_remove(&stream->link);
	twi_tcp_greet_end(lane, stream);
	stream->state = TWI_TCP_UP;
	stream->sample.reach = (uint8_t)twi_tcp_route_setup(lane->base.engine, stream->fd);
	twi_tcp_arm(lane, stream);
}

struct twi_tcp_peer *twi_tcp_peer_create(struct twi_tcp_lane *lane, const char *address,
					 struct twi_tcp_listener *listener)
{
	struct twi_tcp_peer *peer = twi_peer_alloc(sizeof(*peer));
	struct twi_ring *ring = lane->base.engine->ring;

	if (peer == NULL) {
		twi_error(TOW_ENOMEM, "no memory for a peer");
		return NULL;
	}
	twi_peer_setup(&peer->base, &lane->base, address);
	twi_list_init(&peer->dirty);
	twi_list_init(&peer->dying);
	twi_list_init(&peer->troubled);
	twi_list_init(&peer->orphaned);
	peer->line_count = 1;
	peer->listener = listener;
	listener->users++;
	twi_route_init(&peer->route, ring == NULL || ring->zerocopy);
	return peer;
}

static void drop_streams(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);

	for (unsigned i = 0; i < TWI_TCP_LINES; i++) {
		if (peer->lines[i].stream != NULL)
			twi_tcp_stream_destroy(lane, peer->lines[i].stream);
		if (peer->lines[i].trial != NULL)
			twi_tcp_stream_destroy(lane, peer->lines[i].trial);
	}
}

void twi_tcp_peer_free(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);

	drop_streams(peer);
	twi_list_remove(&peer->dirty);
	twi_list_remove(&peer->dying);
	twi_list_remove(&peer->troubled);
	twi_list_remove(&peer->orphaned);
	twi_peer_teardown(&peer->base);
	if (peer->session_up)
		twi_session_fini(&peer->session);
	twi_tcp_listener_release(lane, peer->listener);
	twi_peer_free(&peer->base);
}

void twi_tcp_peer_lost(struct twi_tcp_peer *peer, int status)
{
	if (peer->lost)
		return;
	peer->lost = true;
	twi_peer_ended(&peer->base, status);
	drop_streams(peer); /* before the operations end: then nothing may touch their buffers */
	if (!peer->base.closed && !peer->parting)
		twi_peer_tell_lost(&peer->base, tow_error_message());
	twi_session_fail(&peer->session, status);
	twi_list_remove(&peer->dying);
	twi_list_remove(&peer->troubled);
	twi_list_remove(&peer->orphaned);
	if (peer->base.closed)
		twi_tcp_peer_free(peer);
}

void twi_tcp_bad_bytes(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, int status)
{
	struct twi_engine *engine = lane->base.engine;

	twi_count(engine->diag, TWI_C_protocol_errors, status != TOW_ENOMEM);
	if (peer->session.rule == 0 || peer->parting) {
		twi_tcp_peer_lost(peer, status);
		return;
	}
	twi_tcp_peer_part(peer, status);
	twi_tcp_mark_dirty(peer);
	engine->armed_since_enter = true; /* the next driver sends the reason */
}

bool twi_tcp_bulk_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes)
{
	struct twi_tcp_peer *peer = stream->peer;
	int status = twi_session_bulk_sent(&peer->session, stream->line - 1u, bytes);

	if (twi_unlikely(status < 0))
		twi_tcp_bad_bytes(lane, peer, status);
	return status == TOW_OK;
}

void twi_tcp_mark_dirty(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);

	if (twi_list_empty(&peer->dirty))
		twi_list_push_back(&lane->dirty, &peer->dirty);
}
