/*
 * tcp.h - the tcp lane: a control connection and one to four bulk connections to each peer.
 *
 *	peer --- line 0, control:  frames and small messages. Gathered sends; multishot receive
 *	     |                     into the ring's buffers, parsed where they lie.
 *	     +-- line 1.., bulk:   chunks of large messages. Sent from the user's buffer (plainly,
 *	                           or by zero-copy send from the registered pool); received into it.
 *
 * A *line* is one of the connections as the session sees it. A *stream* is the TCP connection that
 * carries the line now. When a stream breaks, the line is broken until another stream resumes it
 * (tcp_break.c). The session and its operations go on.
 *
 * All sends and bulk receives are MSG_DONTWAIT: they have ended when they have been submitted. So
 * none sleeps in a ring with a pointer to memory that its user has back (poller.h). A stream that
 * can go no further has a one-shot poll armed, in each ring that drives.
 *
 * Handshake (docs/wire.md): both sides prove that they belong to the job; nothing else is parsed
 * before. The control HELLO is answered with a token, and bulk HELLOs carry it. A peer is ready
 * when all HELLOs are answered. The resources of unproven clients are bounded (tcp_accept.c).
 *
 * Requests name a stream by slot and generation, as completions may come after the stream's end.
 */
#ifndef TWI_TCP_H
#define TWI_TCP_H

#include <stddef.h>
#include <sys/socket.h>

#include "transport/lanes/lane.h"
#include "transport/lanes/tcp/tcp_direct.h"
#include "transport/lanes/tcp/tcp_greet.h"
#include "transport/lanes/tcp/tcp_measure.h"
#include "transport/lanes/tcp/tcp_name.h"
#include "transport/lanes/tcp/tcp_rails.h"
#include "transport/lanes/tcp/tcp_seal.h"
#include "transport/lanes/tcp/tcp_socket.h"
#include "transport/lanes/tcp/tcp_stall.h"
#include "transport/lanes/tcp/tcp_zerocopy.h"
#include "transport/op/lane_host.h"
#include "transport/stream/session.h"
#include "transport/wire/frame.h"

#define TWI_HANDSHAKES_MAX 256u
#define TWI_FLUSH_BYTES    (16u << 10)
#define TWI_TCP_LINES      (1u + TWI_BULK_MAX)

/* The kind of a completion; 4 bits of its user data. */
enum twi_tcp_event {
	TWI_TCP_ACCEPT,
	TWI_TCP_POLLIN,
	TWI_TCP_POLLOUT,
	TWI_TCP_RECV,    /* control: multishot into the ring's buffers */
	TWI_TCP_RECVMSG, /* bulk: in place; encrypted: into the staging buffer */
	TWI_TCP_SEND,
	TWI_TCP_SEND_ZC, /* its slot is a record's, not a stream's */
};

enum twi_tcp_state {
	TWI_TCP_CONNECTING, /* our connect is on its way */
	TWI_TCP_GREETING,   /* proofs and HELLOs are exchanged */
	TWI_TCP_PAIRING,    /* greeted; other streams of the peer are not yet */
	TWI_TCP_UP,
};

struct twi_tcp_peer;
struct twi_tcp_endpoint;

/*
 * A socket that listens. It outlives its endpoint while peers of that endpoint exist, because their
 * broken lines are resumed through it.
 */
struct twi_tcp_listener {
	struct twi_list link;              /* on lane->listeners */
	struct twi_tcp_endpoint *endpoint; /* NULL: closed; no new peer comes in */
	struct twi_tcp_address at;
	int fd;
	uint32_t users; /* the endpoint, and peers */
	uint32_t slot;
	uint16_t generation;
	uint32_t accept_rings;
	uint64_t pause_until_ns; /* 0: it accepts */
	uint64_t pause_ns;       /* length of the last pause after a failed accept */
};

struct twi_tcp_stream {
	struct twi_list link; /* on lane->handshakes until UP */
	int fd;
	uint32_t slot;
	uint16_t generation;
	uint8_t state;
	uint8_t line;          /* 0: control; 1 + channel: bulk */
	uint8_t rail;          /* ours: by which rail it was dialed */
	uint8_t denial;        /* enum twi_tcp_denial; while connecting: of a refusal */
	bool ours;             /* this side has connected it */
	bool redial;           /* ours, to resume a line */
	bool full;             /* ours: the other side takes no more peers, over any rail */
	bool left;             /* in its handshake: the other side has closed it without a reason */
	bool resumes;          /* not ours: it resumes a line of a peer, and makes no new peer */
	bool tx_busy, rx_busy; /* a request is submitted, its completion not yet reaped */
	bool tx_blocked;       /* the socket's buffer is full */
	bool shut;             /* control: this side has parted, and sends no more */
	bool ended;            /* control: the other side's end has come; ours has not gone yet */
	bool corked;           /* bulk: the last bytes may wait for the next send */
	bool rx_held;          /* the session takes nothing here until control brings more */
	bool direct;           /* control: polls read it themselves (tcp_direct.h) */
	bool readable;         /* control, on plain rings: a poll reported bytes, not read yet */
	uint8_t warm;          /* receives in a row without a sleep */
	uint16_t idle_turns;   /* direct: reads in a row that found nothing */
	uint32_t warm_sleeps;  /* value of direct.sleeps when `warm` began */
	uint32_t pollin_rings, pollout_rings, recv_rings; /* bit r: armed in ring r */
	struct twi_tcp_peer *peer;                        /* NULL: accepted, not yet greeted */
	struct twi_tcp_listener *listener;                /* the listener that accepted it */
	struct twi_tcp_greet *greet;                      /* until it is greeted */
	struct twi_tcp_seal *seal;                        /* NULL: it is not encrypted */
	uint64_t start_ns, deadline_ns;
	uint64_t tx_bytes; /* bytes that the socket has taken since the greeting */
	struct msghdr tx_msg, rx_msg;
	struct iovec tx_parts[3], rx_parts[2];
	struct twi_tcp_missed tx_missed;
	struct twi_tcp_sample sample;
	struct twi_tcp_pulse pulse;
};

struct twi_tcp_line {
	struct twi_tcp_stream *stream; /* carries the line; NULL: broken */
	struct twi_tcp_stream *trial;  /* ours, in its handshake, to resume the line */
	uint64_t broken_ns;            /* since when it is broken, or was silent before; 0: whole */
	uint64_t redial_ns, backoff_ns; /* when to dial next, UINT64_MAX: never; and the step */
	uint32_t said, heard;           /* numbers of the last resume records (tcp_resume.h) */
	uint32_t attempts;              /* since it broke */
	uint32_t refusals;              /* in a row */
	uint64_t refused_ns;            /* time of the first of them */
	uint8_t rail;                   /* rail of the next dial */
	bool counted;                   /* this break is counted: the peer is not just closing */
	struct twi_tcp_stall stall;
	uint64_t breaks, resumes;
	char why[64];   /* why it broke the last time */
	char error[96]; /* last error, of a break or a redial */
};

struct twi_tcp_peer {
	struct tow_peer base; /* first, with the session: struct twi_stream_peer */
	struct twi_session session;
	struct twi_list dirty;    /* on lane->dirty */
	struct twi_list dying;    /* on lane->dying: closed, has a deadline */
	struct twi_list troubled; /* on lane->troubled: a line is broken */
	struct twi_list orphaned; /* on lane->orphans: its process has ended */
	struct twi_tcp_line lines[TWI_TCP_LINES];
	unsigned line_count;
	struct tow_op *dial; /* connect operation */
	int dial_errno;      /* of its last failed connect; 0: none has failed */
	struct twi_tcp_listener *listener;
	struct twi_tcp_address remote; /* connector: dialed; acceptor: source of control */
	struct twi_tcp_advertised advertised;
	struct twi_tcp_rails rails;
	uint64_t session_id, token;
	uint64_t last_flush_ns;
	uint32_t words_answered; /* lane->words at the last flush */
	uint64_t deadline_ns;    /* on lane->dying */
	uint64_t orphan_ns;      /* on lane->orphans: when it is lost, if nothing comes before */
	uint64_t heard_ns;       /* when bytes were last known to have come */
	bool heard;              /* bytes have come since the last look */
	bool session_up;         /* the session is initialised */
	bool up;                 /* all lines have been greeted once */
	bool several_ways;       /* its lines differ in their two ends (tcp_stall.h) */
	bool parting, lost;      /* parting: ended by this side; its last bytes are still sent */
	struct twi_route route;
	struct twi_tcp_watch watch;
};

_Static_assert(offsetof(struct twi_tcp_peer, session) == offsetof(struct twi_stream_peer, session),
	       "twi_session_of finds it");

struct twi_tcp_endpoint {
	struct tow_endpoint base;
	struct twi_tcp_listener *listener;
};

struct twi_tcp_slot {
	uint16_t generation;
	struct twi_tcp_stream *stream;
	struct twi_tcp_listener *listener;
};

struct twi_tcp_lane {
	struct twi_lane base;
	struct twi_list dirty;
	struct twi_list dying;
	struct twi_list troubled;
	struct twi_list orphans;    /* peers whose process has ended */
	struct twi_list handshakes; /* oldest first */
	struct twi_list listeners;
	struct twi_tcp_slot *slots;
	uint32_t slot_count, slot_cursor;
	struct twi_tcp_door door;
	struct twi_tcp_direct direct;
	uint64_t due_ns;    /* when the clock has work for this lane; UINT64_MAX: never */
	uint64_t beat_ns;   /* time of the next look at silence */
	uint64_t looked_ns; /* time of the last one */
	uint64_t watch_ns;  /* time of the next look at silent peers, while a caller waits */
	struct twi_tcp_stalls stalls;
	uint32_t turns;
	uint32_t words;   /* how often direct streams have brought bytes, of any peer */
	bool slept;       /* due_ns was asked for: the next turn reads the clock */
	uint32_t refused; /* socket settings that the kernel refuses: logged once each */
	struct twi_tcp_interfaces have;
	uint64_t have_ns; /* when they were read */
	struct twi_tcp_zc zc[TWI_ZC_RECORDS];
	uint32_t zc_free;                /* index + 1 */
	uint64_t zc_ask_ns, zc_pause_ns; /* when to ask next, and the pause (tcp_zerocopy.h) */
};

/* tcp_stream.c: streams, their slots, peers. */
struct twi_tcp_lane *twi_tcp_lane_of(const struct twi_engine *engine);
int twi_tcp_take_slot(struct twi_tcp_lane *lane, uint32_t *slot_out);
int twi_tcp_stream_create(struct twi_tcp_lane *lane, int fd, struct twi_tcp_stream **out);
void twi_tcp_stream_destroy(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_stream_up(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
struct twi_tcp_peer *twi_tcp_peer_create(struct twi_tcp_lane *lane, const char *address,
					 struct twi_tcp_listener *listener);
void twi_tcp_peer_lost(struct twi_tcp_peer *peer, int status);
/* After bad_bytes, and bulk_sent with false, the peer has parted or is lost, and may be freed. */
void twi_tcp_bad_bytes(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, int status);
bool twi_tcp_bulk_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes);
void twi_tcp_peer_free(struct twi_tcp_peer *peer);
void twi_tcp_mark_dirty(struct twi_tcp_peer *peer);

/* The lane looks at the clock at `at_ns`, engine time. */
static inline void twi_tcp_due(struct twi_tcp_lane *lane, uint64_t at_ns)
{
	lane->due_ns = twi_min(lane->due_ns, at_ns);
}

/* tcp_accept.c: endpoints, listeners, and which clients may come in. */
int twi_tcp_endpoint_open(struct twi_lane *base, const char *address, struct tow_endpoint **out);
void twi_tcp_endpoint_close(struct tow_endpoint *base);
void twi_tcp_listener_release(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener);
void twi_tcp_accept_event(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener);
/* Resumes the listeners whose pause is over. Returns when the next pause ends. */
uint64_t twi_tcp_accept_resume(struct twi_tcp_lane *lane, uint64_t now_ns);

/* tcp_dial.c: connecting, for the first time and again. */
int twi_tcp_dial(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);
void twi_tcp_dial_abort(struct tow_op *op, int status);
void twi_tcp_dial_failed(struct twi_tcp_peer *peer, int status);
int twi_tcp_dial_lines(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer);
int twi_tcp_dial_again(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
		       enum twi_tcp_denial *denial_out);
/* TOW_OK: another rail is tried instead of the one that failed, and the stream is freed. */
int twi_tcp_dial_elsewhere(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
enum twi_tcp_denial twi_tcp_denial_of(const struct twi_tcp_peer *peer,
				      const struct twi_tcp_address *remote, int err);
int twi_tcp_connect_error(struct twi_tcp_peer *peer, int err);
void twi_tcp_refresh_interfaces(struct twi_tcp_lane *lane);

uint64_t twi_tcp_random_id(void); /* never 0 */

/* tcp_hello.c: what a stream that is not up yet has to read and send. */
void twi_tcp_handshake_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_handshake_failed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int status);
/* Ends handshakes that take too long. Returns when the next one does. */
uint64_t twi_tcp_handshake_expire(struct twi_tcp_lane *lane, uint64_t now_ns);

/* tcp_require.c: TOW_OK, or TOW_EREFUSED: the knob `require` does not allow the stream. */
int twi_tcp_meet(struct twi_tcp_peer *peer, const struct twi_tcp_stream *stream);

/* tcp_fault.c: a request failed with EFAULT. True: its message has ended, the stream goes on. */
bool twi_tcp_sent_fault(struct twi_tcp_stream *stream);
bool twi_tcp_received_fault(struct twi_tcp_stream *stream);
void twi_tcp_peer_describe(struct tow_peer *base, struct twi_emit *emit);

/* [event: 4][ring: 5][generation: 16][slot: 31] */
static inline uint64_t twi_tcp_tag(const struct twi_ring *ring, enum twi_tcp_event event,
				   uint16_t generation, uint32_t slot)
{
	return twi_ring_tag(TWI_LANE_TCP, (uint64_t)event << 52 | (uint64_t)ring->index << 47 |
						  (uint64_t)generation << 31 | slot);
}

/* tcp_io.c: moving bytes. */
void twi_tcp_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res);
/* Control bytes have come, or the end (0), or an error (-errno). The peer may be freed by it. */
void twi_tcp_received(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
		      const void *data);
void twi_tcp_poll_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_poll_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_accept_arm(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener);
void twi_tcp_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
void twi_tcp_flush_peer(struct twi_tcp_peer *peer);
void twi_tcp_pump(struct twi_tcp_peer *peer);
enum twi_need twi_tcp_need(struct tow_peer *base, const struct tow_op *op);
void twi_tcp_completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
		       const void *data);

#endif
