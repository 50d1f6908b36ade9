/*
 * tcp.h - the tcp lane: two TCP connections to each peer, moved by the rings of the threads that
 *drive.
 *
 *	peer --- control stream: frames and small messages. Gathered sends; multishot receive into
 *the |                   ring's buffers, parsed where they lie.
 *	     +-- bulk stream:    chunks of large messages. Sent from the user's buffer (plainly, or
 *by zero-copy send from the registered pool); received into it.
 *
 * All sends and bulk receives are MSG_DONTWAIT: they are over when they have been submitted, so
 *that none sleeps in a ring with a pointer to memory that its user has back (ring.h). A stream that
 *can go no further has a one-shot poll armed, in each ring that drives.
 *
 * Handshake (docs/wire.md): control HELLO, answered with a token; bulk HELLO with that token,
 *answered. A peer is ready when both are. Streams in a handshake are bounded in number and time.
 *
 * A stream is known to its requests by slot and generation, never by pointer: completions may come
 * after it is gone.
 */
#ifndef TWI_TCP_H
#define TWI_TCP_H

#include <sys/socket.h>

#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/frame.h"
#include "transport/lane.h"
#include "transport/path.h"
#include "transport/uring/ring.h"

#define TWI_HELLO_FRAME    (TWI_FRAME_BYTES + TWI_HELLO_BYTES)
#define TWI_HANDSHAKES_MAX 256u
#define TWI_LINGER_NS      (1000ull * 1000 * 1000)
#define TWI_BULK_GRACE_NS  (100ull * 1000 * 1000)
#define TWI_FLUSH_BYTES    (16u << 10)
#define TWI_ZC_RECORDS     1024u

/* What a completion is of; 4 bits of its user data. */
enum twi_tcp_event {
	TWI_TCP_ACCEPT,
	TWI_TCP_POLLIN,
	TWI_TCP_POLLOUT,
	TWI_TCP_RECV,    /* control: multishot into the ring's buffers */
	TWI_TCP_RECVMSG, /* bulk: in place */
	TWI_TCP_SEND,
	TWI_TCP_SEND_ZC, /* its slot is a record's, not a stream's */
};

enum twi_tcp_state {
	TWI_TCP_CONNECTING, /* our connect is on its way */
	TWI_TCP_GREETING,   /* the other side's HELLO is awaited */
	TWI_TCP_PAIRING,    /* control, accepted: greeted, waits for its bulk stream */
	TWI_TCP_UP,
	TWI_TCP_DRAINING, /* shut down for writing; the other side's end is awaited */
};

struct twi_tcp_peer;
struct twi_tcp_endpoint;

/* Payload on its way by a plain send that would have gone by zero-copy, were it registered. */
struct twi_tcp_missed {
	enum twi_reason reason;
	uint64_t ahead, bytes; /* of the send: what stands before the payload, and the payload */
	struct twi_site site;
};

struct twi_tcp_stream {
	struct twi_list link; /* on lane->handshakes until UP */
	int fd;
	uint32_t slot;
	uint16_t generation;
	uint8_t state;
	bool bulk;
	bool ours;             /* we connected it */
	bool tx_busy, rx_busy; /* a request is submitted, its completion not yet reaped */
	bool tx_blocked;       /* the socket's buffer is full */
	uint32_t pollin_rings, pollout_rings, recv_rings; /* bit r: armed in ring r */
	struct twi_tcp_peer *peer;                        /* NULL: accepted, not yet greeted */
	struct twi_tcp_endpoint *endpoint;                /* that accepted it */
	uint64_t deadline_ns;
	uint32_t hello_fill;
	uint8_t hello[TWI_HELLO_FRAME];
	struct msghdr tx_msg, rx_msg;
	struct iovec tx_parts[3], rx_parts[2];
	struct twi_tcp_missed tx_missed;
};

struct twi_tcp_peer {
	struct tow_peer base;
	struct twi_list dirty; /* on lane->dirty */
	struct twi_list dying; /* on lane->dying: has a deadline */
	struct twi_tcp_stream *control, *bulk;
	struct tow_op *dial; /* connect operation */
	struct twi_tcp_endpoint *endpoint;
	struct sockaddr_storage remote;
	socklen_t remote_bytes;
	uint64_t session_id, token;
	uint64_t last_flush_ns;
	uint64_t deadline_ns; /* on lane->dying */
	bool session_up;      /* base.session is initialised */
	bool lost;
	struct twi_route route;
};

struct twi_tcp_endpoint {
	struct tow_endpoint base;
	int fd;
	int family;
	uint32_t slot;
	uint16_t generation;
	uint32_t accept_rings;
};

/* A zero-copy send whose notification is still to come: the lease of its memory. */
struct twi_tcp_zc {
	struct twi_claim claim;
	uint64_t sent_ns; /* when the first completion came; 0: not yet */
	uint64_t bytes;
	uint64_t peer_id;
	uint32_t slot; /* of the stream */
	uint16_t generation;
	uint8_t ring; /* whose thread alone can fetch the notification */
	bool used;
	uint32_t next_free;
};

struct twi_tcp_slot {
	uint16_t generation;
	struct twi_tcp_stream *stream;
	struct twi_tcp_endpoint *endpoint;
};

struct twi_tcp_lane {
	struct twi_lane base;
	struct twi_list dirty;
	struct twi_list dying;
	struct twi_list handshakes;
	uint32_t handshake_count;
	struct twi_tcp_slot *slots;
	uint32_t slot_count;
	struct twi_tcp_zc zc[TWI_ZC_RECORDS];
	uint32_t zc_free; /* index + 1 */
};

/* tcp.c: streams and peers. */
struct twi_tcp_lane *twi_tcp_lane_of(const struct twi_engine *engine);
int twi_tcp_stream_create(struct twi_tcp_lane *lane, int fd, struct twi_tcp_stream **out);
void twi_tcp_stream_destroy(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_peer_lost(struct twi_tcp_peer *peer, int status);
void twi_tcp_peer_free(struct twi_tcp_peer *peer);
void twi_tcp_mark_dirty(struct twi_tcp_peer *peer);
struct twi_tcp_peer *twi_tcp_peer_create(struct twi_tcp_lane *lane, const char *address);
void twi_tcp_socket_setup(int fd);
void twi_tcp_route_setup(int fd);

/* tcp_dial.c: the handshake. */
int twi_tcp_dial(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);
void twi_tcp_dial_abort(struct tow_op *op, int status);
void twi_tcp_accepted(struct twi_tcp_lane *lane, struct twi_tcp_endpoint *endpoint, int fd);
void twi_tcp_handshake_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_handshake_expire(struct twi_tcp_lane *lane, uint64_t now_ns);
int twi_tcp_resolve(const char *address, bool passive, struct sockaddr_storage *out,
		    socklen_t *bytes_out);
void twi_tcp_format(const struct sockaddr_storage *address, char out[TOW_ADDRESS_MAX]);

/* [event: 4][ring: 5][generation: 16][slot: 31] */
static inline uint64_t twi_tcp_tag(const struct twi_ring *ring, enum twi_tcp_event event,
				   uint16_t generation, uint32_t slot)
{
	return twi_ring_tag(TWI_LANE_TCP, (uint64_t)event << 52 | (uint64_t)ring->index << 47 |
						  (uint64_t)generation << 31 | slot);
}

/* A request, or NULL when the calling thread has no ring or the queue is stuck. */
static inline struct io_uring_sqe *twi_tcp_request(struct twi_tcp_lane *lane)
{
	struct twi_ring *ring = lane->base.engine->ring;

	return ring != NULL ? twi_ring_sqe(ring) : NULL;
}

/*
 * tcp_zerocopy.c. wants: whether the payload of `out` goes by zero-copy send, in one piece of a
 * registered buffer, whose slot is written and at whose end it is cut; where it would if it were
 * registered, that is noted in the stream. missed: `bytes` of the noted send are out, and the
 * kernel's copy is counted with its reason. go: sends parts[0] by zero-copy; false when it cannot
 * be done now.
 */
bool twi_tcp_zerocopy_wants(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			    struct twi_bulk_out *out, int *slot_out);
void twi_tcp_zerocopy_missed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			     uint64_t bytes);
bool twi_tcp_zerocopy_go(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			 const struct twi_bulk_out *out, int slot);
void twi_tcp_zerocopy_sent(struct twi_tcp_lane *lane, uint32_t index, int res, uint32_t flags);
/* The ring is given up: its notifications will never be seen. */
void twi_tcp_zerocopy_ring_gone(struct twi_tcp_lane *lane, unsigned ring);

/* tcp_io.c: moving bytes. */
void twi_tcp_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res);
void twi_tcp_poll_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_poll_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_accept_arm(struct twi_tcp_lane *lane, struct twi_tcp_endpoint *endpoint);
void twi_tcp_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_flush_peer(struct twi_tcp_peer *peer);
void twi_tcp_pump(struct twi_tcp_peer *peer);
enum twi_need twi_tcp_need(struct tow_peer *base, const struct tow_op *op);
void twi_tcp_completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
		       const void *data);

#endif
