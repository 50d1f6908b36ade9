/*
 * shm.h - the shm lane: peers on one host, joined by memory. docs/shm.md draws it.
 *
 *	small   copied into the shared ring, and out of it: complete when it is in the ring
 *	large   offered; the receiver copies it once, out of the sender's pool, which it has mapped,
 *	        or with process_vm_readv out of other memory; where that is not allowed the sender
 *	        copies it in pieces into its staging, which is mapped
 *	view    the receiver gets the address of the sender's bytes in that mapping
 *
 *	link    the mappings: two boxes (shm_ring.h) and the other side's extents. Counted: a view
 *	        that is out holds it beyond its peer
 *	socket  a unix socket for the handshake, for extents that the pool grows later, for the bell
 *	        that wakes a sleeper, and whose end is the other side's end. No payload passes over
 *	        it. (An eventfd would not do: the ring's own eventfd, signalled from within the
 *	        writing of another, is put off by the kernel for a grace period, up to 100 ms.)
 *
 * The life of an offer, by its word in the sender's box (the arrows are compare-and-swaps):
 *
 *	FREE -> OFFERED -+-> ACCEPTED   by the receiver, when its copy is whole, or views it
 *	                 +-> CUT, REFUSED, UNWRITABLE (its memory is bad)   by the receiver
 *	                 +-> TAKEN_BACK   by the sender: the copy is void, the receive waits on
 *	                 +-> UNREADABLE   by the sender: its memory is bad, the receive ends
 *
 * A note of the receiver's follows (DONE, VIEWED, TRUNCATED, CANCELED, BAD_MEMORY, GONE), and with
 * the last one about it the offer is free.
 */
#ifndef TWI_SHM_H
#define TWI_SHM_H

#include <sys/types.h>

#include "memreg/pool/pool.h"
#include "transport/lanes/lane.h"
#include "transport/lanes/shm/shm_link.h"
#include "transport/lanes/shm/shm_ring.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/lane_host.h"
#include "transport/security/auth.h"
#include "transport/wire/rule.h"

#define TWI_SHM_HANDSHAKES_MAX 64u
#define TWI_SHM_NAME_MAX       80u
#define TWI_SHM_BATCH          32u          /* messages of one peer in one round */
#define TWI_SHM_ALL            UINT32_MAX   /* messages: they are the last */
#define TWI_SHM_CHUNK          (512u << 10) /* of a large message in one round */
#define TWI_SHM_POPULATE_MAX   (1ull << 30) /* an extent up to this is faulted in when mapped */
#define TWI_SHM_PACKETS        32u          /* of one socket in one round */
#define TWI_SHM_RETRY_NS       (1000ull * 1000)
#define TWI_SHM_TIMED_NS       100000u /* reading the kernel's clock at both ends takes long */

struct twi_shm_lane;
struct twi_shm_peer;

enum twi_shm_watch_kind { TWI_SHM_WATCH_LISTENER, TWI_SHM_WATCH_SOCKET };

/* A descriptor that is polled in the rings of those who drive; known by slot and generation. */
struct twi_shm_watch {
	int fd;
	uint32_t slot;
	uint16_t generation;
	uint8_t kind; /* enum twi_shm_watch_kind */
	bool live;
	uint32_t rings; /* bit r: armed in ring r */
};

enum twi_shm_offer_use {
	TWI_SHM_UNUSED,
	TWI_SHM_OPEN,
	TWI_SHM_SETTLED, /* its operation ended by the word; the note is still to come */
	TWI_SHM_REVOKED, /* taken back; GONE is still to come */
	TWI_SHM_IN_VIEW, /* complete; the receiver looks at the memory */
};

/* The sender's account of one of its offers. */
struct twi_shm_offer {
	struct twi_list link;   /* on peer->staging, or on peer->revoked */
	struct tow_op *op;      /* OPEN */
	struct twi_claim claim; /* SETTLED, IN_VIEW: the hold on the memory */
	uint32_t generation;
	uint8_t use;
	bool wanted;     /* in pieces */
	uint64_t staged; /* bytes copied into pieces */
	void *pieces[2]; /* staging chunks that the receiver has not taken yet */
	unsigned piece_count;
	uint16_t next_free;
};

/* An offer of the other side's. */
struct twi_shm_incoming {
	struct twi_unexpected arrival;
	struct twi_list link; /* on peer->copying */
	struct tow_op *op;    /* matched */
	uint64_t where, copied;
	uint32_t extent, generation;
	uint8_t type; /* enum twi_shm_type */
	bool used;
	bool wanted; /* it comes in pieces */
	bool summed;
	bool unreadable;    /* its sender has taken it back for that */
	uint32_t told, sum; /* what its sender has computed, what has come so far */
};

/* How much of one that was matched goes into memory: the rest is dropped (op->truncate). */
static inline uint64_t twi_shm_takes(const struct twi_shm_incoming *incoming)
{
	return twi_min(incoming->arrival.bytes, incoming->op->bytes);
}

enum twi_shm_stage {
	TWI_SHM_CONNECTING, /* the listener's queue was full: tried again */
	TWI_SHM_PROVING,    /* auth.h */
	TWI_SHM_GREETING,   /* the other side's HELLO and extents are awaited */
	TWI_SHM_READYING,   /* READY is awaited */
	TWI_SHM_UP,
	TWI_SHM_LOST,
};

struct twi_shm_peer {
	struct tow_peer base;
	struct twi_list link; /* on lane->handshakes, then on up or idle; lost: on none */
	struct twi_shm_watch socket;
	uint8_t stage;
	bool fenced;        /* writes need a fence before the look at `asleep` */
	bool remote_mine;   /* the other side can read this one's memory */
	bool remote_theirs; /* and this side the other's */
	bool writes;        /* the other side's extents come as descriptors that can be written */
	bool writable;      /* both sides may write to each other's pool */
	bool busy;          /* there is more to do than to look at the rings */
	bool idle;          /* on lane->idle */
	bool moved;         /* something came or went since the last sweep */
	pid_t pid;          /* of the other side; 0: not to be seen from here */
	struct twi_shm_link *shared;
	struct twi_shm_out out;
	struct twi_shm_in in;
	struct twi_shm_notes notes_out, notes_in;
	struct twi_shm_limits limits;
	uint32_t expecting; /* notes may come: offers in use, pieces awaited */
	uint32_t announced; /* extents of our pool that the other side has */
	uint8_t rule;       /* that the other side has broken; 0: none yet */
	bool stalled;       /* the next message is to have an operation: the ring is not read */
	struct twi_inbox inbox;
	struct twi_outbox outbox;
	struct twi_list copying;             /* incoming, matched, to be copied by this side */
	struct twi_list staging;             /* offers that go in pieces */
	struct twi_list revoked;             /* offers whose withdrawal is still to be said */
	uint16_t offer_free;                 /* index + 1 */
	uint16_t offers_made, incoming_made; /* rows from there on were never touched */
	uint32_t offer_count;

	/* handshake */
	struct tow_op *dial;
	struct twi_shm_endpoint *endpoint;
	uint64_t deadline_ns, retry_ns;
	uint32_t extents_expected;
	char path[108];
	struct twi_auth auth;

	/* last, as most of it is never touched */
	struct twi_shm_offer offers[TWI_SHM_OFFERS];
	struct twi_shm_incoming incoming[TWI_SHM_OFFERS];
};

struct twi_shm_endpoint {
	struct tow_endpoint base;
	struct twi_shm_watch listener;
	char path[108];
	uint64_t device, inode;
};

struct twi_shm_watch_slot {
	struct twi_shm_watch *watch;
	uint16_t generation;
};

struct twi_shm_lane {
	struct twi_lane base;
	struct twi_list handshakes, up, links;
	struct twi_list idle; /* up, and quiet: they ring (shm_idle.c) */
	uint32_t up_count, turns;
	uint64_t swept_ns;
	struct twi_list extents; /* of other processes' pools (shm_extent.h) */
	uint32_t handshake_count;
	struct twi_shm_watch_slot *slots;
	uint32_t slot_count;
	bool barriers; /* membarrier reaches the other processes of this kind, and this one */
};

static inline struct twi_shm_lane *twi_shm_lane_of(const struct twi_engine *engine)
{
	return (struct twi_shm_lane *)(void *)engine->lanes[TWI_LANE_SHM];
}

/* shm.c */
int twi_shm_watch_open(struct twi_shm_lane *lane, struct twi_shm_watch *watch,
		       enum twi_shm_watch_kind kind, int fd);
void twi_shm_watch_close(struct twi_shm_lane *lane, struct twi_shm_watch *watch);
void twi_shm_watch_arm(struct twi_shm_lane *lane, struct twi_shm_watch *watch);
void twi_shm_peer_lost(struct twi_shm_peer *peer, int status);
void twi_shm_peer_free(struct twi_shm_peer *peer);
void twi_shm_protocol_error(struct twi_shm_peer *peer, enum twi_rule rule);

/*
 * shm_idle.c. Doze: somebody is about to sleep: whoever writes from now on rings. Sweep: in every
 * turn of the poll, where there are more peers than are always polled. Ready: there is something to
 * do that no descriptor will tell of. Wake: a connection that was idle is polled again. join:
 * membarrier is to be had; what works once will when it is needed.
 */
void twi_shm_doze(struct twi_shm_lane *lane);
void twi_shm_sweep(struct twi_shm_lane *lane);
bool twi_shm_peer_ready(struct twi_shm_peer *peer);
void twi_shm_wake(struct twi_shm_peer *peer);
bool twi_shm_barriers_join(void);

/* Wakes the other side if it sleeps; after something was written that it waits for. */
void twi_shm_ring_bell(struct twi_shm_peer *peer);

static inline void twi_shm_wrote(struct twi_shm_peer *peer)
{
	/* What was written comes before this look. Pairs with pass_barrier in shm_idle.c: a fence
	 * on both sides, or one there that makes every processor pass one (membarrier). */
	if (peer->fenced)
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (twi_unlikely(atomic_load_explicit(&peer->in.box.head->asleep, memory_order_relaxed) !=
			 0))
		twi_shm_ring_bell(peer);
}

/* shm_dial.c: names, the socket, the handshake. */
int twi_shm_endpoint_open(struct twi_lane *base, const char *name, struct tow_endpoint **out);
void twi_shm_endpoint_close(struct tow_endpoint *base);
int twi_shm_connect(struct tow_endpoint *base, const char *name, struct tow_op *op);
void twi_shm_connect_abort(struct tow_op *op, int status);
void twi_shm_accept_event(struct twi_shm_lane *lane, struct twi_shm_endpoint *endpoint);
void twi_shm_handshake_expire(struct twi_shm_lane *lane, uint64_t now_ns);
void twi_shm_handshake_failed(struct twi_shm_peer *peer, int status);
int twi_shm_path(const struct twi_engine *engine, const char *name, char out[108]);

/* shm_greet.c: the packets of the handshake, and the ones about extents after it. */
int twi_shm_greet_begin(struct twi_shm_peer *peer);
/* Reads what the socket has. TOW_OK; TOW_AGAIN: the other side has gone; else why it must go. */
int twi_shm_socket_read(struct twi_shm_peer *peer);
/* Tells the other side of all extents up to this one. False: it does not know it. */
bool twi_shm_announce(struct twi_shm_peer *peer, uint32_t extent);
void twi_shm_peer_up(struct twi_shm_peer *peer);

/*
 * shm_stamp.c: the type of a slot, with the checksum of the payload in it, or of a small message
 * the time that it was sent, where that is looked at: by the kernel's clock, for each process has
 * its own scale of the fast one. There is room for one of them; while everything is recorded that
 * is the time.
 */
unsigned twi_shm_stamp(struct twi_shm_peer *peer, struct twi_shm_slot *slot,
		       const struct twi_outbound *out, enum twi_shm_type type);
unsigned twi_shm_stamp_offer(const struct twi_shm_peer *peer, struct twi_shm_slot *slot,
			     const struct tow_op *op, enum twi_shm_type type);

/* shm_send.c, shm_recv.c, shm_copy.c: messages. */
extern const struct twi_inbox_ops twi_shm_inbox;
extern const struct twi_outbox_ops twi_shm_outbox;
int twi_shm_traffic_init(struct twi_shm_peer *peer);
void twi_shm_traffic_fini(struct twi_shm_peer *peer);
void twi_shm_recv(struct tow_peer *base, struct tow_op *op);
/* The memory of an open offer cannot be read: it ends, at the other side, too. */
void twi_shm_unreadable(struct twi_shm_peer *peer, struct twi_shm_offer *offer);
void twi_shm_look_again(struct tow_peer *base, uint64_t tag, uint32_t context);

/* The ring is read again: there may be a receive for what stands in front. */
void twi_shm_unstall(struct twi_shm_peer *peer);
bool twi_shm_abort_recv(struct twi_shm_peer *peer, struct tow_op *op, int status, bool force);
/* Up to `most` of them, or TWI_SHM_ALL. Returns how many; the peer may be lost by it. */
unsigned twi_shm_take_messages(struct twi_shm_peer *peer, unsigned most);
unsigned twi_shm_take_notes(struct twi_shm_peer *peer); /* some of them, for one round */
unsigned twi_shm_take_all_notes(struct twi_shm_peer *peer);
/* There is more to do than to look at the rings, and whoever sleeps must do it. */
void twi_shm_busy(struct twi_shm_peer *peer);
/* Does some of it; sets peer->busy anew. */
unsigned twi_shm_work(struct twi_shm_peer *peer);
unsigned twi_shm_send_work(struct twi_shm_peer *peer);
unsigned twi_shm_recv_work(struct twi_shm_peer *peer);
/* Whether work would find something to do now: nobody may sleep. */
bool twi_shm_send_ready(struct twi_shm_peer *peer);
/* The next piece of one of them; how many were made. */
unsigned twi_shm_stage(struct twi_shm_peer *peer);
bool twi_shm_has_chunk(struct twi_shm_peer *peer);
/* A piece is due, for which there may be no staging: it is tried again after a while. */
bool twi_shm_send_stages(const struct twi_shm_peer *peer);
void twi_shm_send_fail(struct twi_shm_peer *peer, int status);
void twi_shm_recv_fail(struct twi_shm_peer *peer, int status);
int twi_shm_offer_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
int twi_shm_piece_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
void twi_shm_say(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
void twi_shm_view_release(struct tow_op *op);

/* The small message that came last says when it was sent: it is timed where it ends. */
void twi_shm_timed_small(struct twi_shm_peer *peer, const struct twi_shm_message *message);

#endif
