/*
 * shm.h - the shm lane, which connects peers on one host by shared memory. docs/shm.md draws it.
 *
 *	small   copied into the shared ring, and out of it: complete when it is in the ring
 *	large   offered; the receiver copies it once. It copies out of the sender's pool, which
 *	        it has mapped, or reads other memory with process_vm_readv. If it may not do
 *	        that, the sender copies the message in pieces into its mapped staging
 *	view    the receiver gets the address of the sender's bytes in that mapping
 *
 *	link    the mappings: two shared segments (shm_ring.h) and the other side's extents. A
 *	        link is counted: a view that the user still has holds it beyond its peer
 *	socket  a unix socket for the handshake, for later extents of the pool, for the byte that
 *	        wakes a sleeper, and to notice the other side's end. It carries no payload. (If
 *	        that byte were an eventfd, its write would signal the ring's own eventfd. The
 *	        kernel delays such a signal by a grace period, up to 100 ms.)
 *
 * The word of an offer, in the sender's segment, changes so; the arrows are compare-and-swaps:
 *
 *	FREE -> OFFERED -+-> ACCEPTED   by the receiver, when its copy is whole, or views it
 *	                 +-> CUT, REFUSED, SPOILED, UNWRITABLE (its memory is bad)   by the receiver
 *	                 +-> TAKEN_BACK   by the sender: the copy is void, the receive waits on
 *	                 +-> UNREADABLE   by the sender: its memory is bad, the receive ends
 *
 * A control record of the receiver follows: DONE, VIEWED, TRUNCATED, CANCELED, CORRUPT, BAD_MEMORY
 * or GONE. The last record about an offer frees the offer.
 */
#ifndef TWI_SHM_H
#define TWI_SHM_H

#include <sys/types.h>

#include "memreg/pool/pool.h"
#include "transport/lanes/lane.h"
#include "transport/lanes/shm/shm_link.h"
#include "transport/lanes/shm/shm_ring.h"
#include "transport/lanes/shm/shm_row.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/lane_host.h"
#include "transport/security/auth.h"
#include "transport/wire/rule.h"

#define TWI_SHM_HANDSHAKES_MAX 64u
#define TWI_SHM_NAME_MAX       80u
#define TWI_SHM_BATCH          32u          /* messages of one peer in one round */
#define TWI_SHM_ALL            UINT32_MAX   /* all messages: there will be no more */
#define TWI_SHM_CHUNK          (512u << 10) /* bytes of a large message in one round */
#define TWI_SHM_POPULATE_MAX   (1ull << 30) /* larger extents are not faulted in when mapped */
#define TWI_SHM_POPULATE_TOTAL (2ull << 30) /* what a process has faulted in of others at most */
#define TWI_SHM_PACKETS        32u          /* packets of one socket in one round */
#define TWI_SHM_RETRY_NS       (1000ull * 1000)
#define TWI_SHM_TIMED_NS       100000u /* two reads of the kernel's clock a message are slow */

struct twi_shm_lane;
struct twi_shm_peer;

enum twi_shm_watch_kind { TWI_SHM_WATCH_LISTENER, TWI_SHM_WATCH_SOCKET };

/* A descriptor that driving threads poll in their rings. Its slot and generation identify it. */
struct twi_shm_watch {
	int fd;
	uint32_t slot;
	uint16_t generation;
	uint8_t kind; /* enum twi_shm_watch_kind */
	bool live;
	uint32_t rings; /* bit r: the poll is armed in ring r */
};

enum twi_shm_stage {
	TWI_SHM_CONNECTING, /* retries: the listener's queue was full */
	TWI_SHM_PROVING,    /* auth.h */
	TWI_SHM_GREETING,   /* waits for the other side's HELLO and extents */
	TWI_SHM_READYING,   /* waits for READY */
	TWI_SHM_UP,
	TWI_SHM_LOST,
};

struct twi_shm_peer {
	struct tow_peer base;
	struct twi_list link; /* on lane->handshakes, then on up or idle; lost: on none */
	struct twi_shm_watch socket;
	uint8_t stage;
	bool fenced;        /* a write needs a fence before the read of `asleep` */
	bool remote_mine;   /* the other side can read this process's memory */
	bool remote_theirs; /* this process can read the other side's memory */
	bool writes;        /* the other side sends its extents as writable descriptors */
	bool writable;      /* both sides may write to each other's pool */
	bool helps;         /* both sides know TWI_SHM_HELP */
	bool busy;          /* there is work besides reading the rings */
	bool idle;          /* on lane->idle */
	bool moved;         /* a message came or went since the last sweep */
	pid_t pid;          /* of the other side; 0: not visible from here */
	bool other_clock;   /* of the other side: its times of sending say nothing here */
	struct twi_shm_link *shared;
	struct twi_shm_out out;
	struct twi_shm_in in;
	struct twi_shm_notes notes_out, notes_in;
	struct twi_shm_limits limits;
	uint32_t expecting; /* records may come: offers in use, pieces awaited */
	uint32_t announced; /* extents of our pool that the other side has */
	uint8_t rule;       /* the rule that the other side broke; 0: none yet */
	bool stalled;       /* not read until the next message's receive is an operation */
	struct twi_inbox inbox;
	struct twi_outbox outbox;
	struct twi_list copying; /* matched offers that this side copies */
	struct twi_list helped;  /* those that both sides copy (shm_help.c) */
	uint64_t help_due_ns;    /* no piece came until then: a part is read */
	uint32_t help_part_bytes;
	uint16_t help_unasked, help_misses;  /* messages that go without, asked in vain */
	uint32_t piece_cost, read_cost;      /* of this side, ps a KiB; 0: not known yet */
	struct twi_list staging;             /* offers that go in pieces */
	struct twi_list revoked;             /* offers whose withdrawal is not written yet */
	uint16_t offer_free;                 /* index + 1 */
	uint16_t offers_made, incoming_made; /* rows from here on were never touched */
	uint32_t offer_count;

	/* handshake */
	struct tow_op *dial;
	struct twi_shm_endpoint *endpoint;
	uint64_t deadline_ns, retry_ns;
	uint32_t extents_expected;
	char path[108];
	struct twi_auth auth;

	/* last, because most of it is never touched */
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
	struct twi_list idle; /* up but quiet, with `asleep` set (shm_idle.c) */
	uint32_t up_count, turns;
	uint64_t swept_ns;
	struct twi_list extents; /* of other processes' pools (shm_extent.h) */
	uint32_t handshake_count;
	struct twi_shm_watch_slot *slots;
	uint32_t slot_count;
	int maps;      /* of this process (twi_reach_maps) */
	bool barriers; /* membarrier works here and reaches other processes that registered */
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
void twi_shm_socket_failed(struct twi_shm_peer *peer, int status); /* what _socket_read returned */

/*
 * shm_idle.c. doze: this side is about to sleep, so writers must wake it from now on. sweep: runs
 * in every turn of the poll when there are more peers than are always polled. ready: there is work
 * that no descriptor reports. wake: an idle connection is polled again. join: returns whether
 * membarrier works; a call that works once works later, too. pass_barrier: what this side has
 * written is visible before it reads what the others have written, and they have a barrier, too.
 */
void twi_shm_doze(struct twi_shm_lane *lane);
void twi_shm_sweep(struct twi_shm_lane *lane);
bool twi_shm_peer_ready(struct twi_shm_peer *peer);
void twi_shm_wake(struct twi_shm_peer *peer);
bool twi_shm_barriers_join(void);
void twi_shm_pass_barrier(const struct twi_shm_lane *lane);

/* Wakes the other side if it sleeps; called after a write that the other side awaits. */
void twi_shm_ring_bell(struct twi_shm_peer *peer);

static inline void twi_shm_wrote(struct twi_shm_peer *peer)
{
	/* The caller's writes come before this load. Pairs with twi_shm_pass_barrier: either
	 * both sides pass a fence, or the sleeper makes every processor pass one (membarrier). */
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
/* Reads packets of the socket. TOW_OK; TOW_EPEER: it has ended; any other failure ends the peer. */
int twi_shm_socket_read(struct twi_shm_peer *peer);
/* Announces all extents up to this one. Returns false if the other side did not get one of them. */
bool twi_shm_announce(struct twi_shm_peer *peer, uint32_t extent);
void twi_shm_peer_up(struct twi_shm_peer *peer);

/*
 * shm_stamp.c: both return the type of a slot. They write the payload's checksum into it, or for a
 * small message the send time if that is used. It is of the kernel's clock, as each process scales
 * the fast clock itself. A slot has room for one; while everything is recorded it is the time.
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
/* Ends an open offer, on the other side too, because its memory cannot be read. */
void twi_shm_unreadable(struct twi_shm_peer *peer, struct twi_shm_offer *offer);
/* Takes an open offer back, which the receiver cannot read and this side cannot stage. */
void twi_shm_unstaged(struct twi_shm_peer *peer, struct twi_shm_offer *offer);
void twi_shm_look_again(struct tow_peer *base, uint64_t tag, uint32_t context);
/* Lets the ring be read again: a receive for the next message may exist now. */
void twi_shm_unstall(struct twi_shm_peer *peer);
bool twi_shm_abort_recv(struct twi_shm_peer *peer, struct tow_op *op, int status, bool force);
/* Takes up to `most` messages, or TWI_SHM_ALL. Returns their number. It may end the peer. */
unsigned twi_shm_take_messages(struct twi_shm_peer *peer, unsigned most);
unsigned twi_shm_take_notes(struct twi_shm_peer *peer); /* at most TWI_SHM_BATCH */
unsigned twi_shm_take_all_notes(struct twi_shm_peer *peer);
/* There is work besides reading the rings. A thread that is about to sleep does it first. */
void twi_shm_busy(struct twi_shm_peer *peer);
/* Does some of the work, and sets peer->busy anew. */
unsigned twi_shm_work(struct twi_shm_peer *peer);
unsigned twi_shm_send_work(struct twi_shm_peer *peer);
unsigned twi_shm_recv_work(struct twi_shm_peer *peer);
/* Returns whether send work is possible now. If so, no thread may sleep. */
bool twi_shm_send_ready(struct twi_shm_peer *peer);
/* Returns whether the process lives. Its pid may be another process's by now; the socket tells. */
bool twi_shm_is_alive(const struct twi_shm_peer *peer);
/* Copies the next piece of one staged offer. Returns the number of pieces made. */
unsigned twi_shm_stage(struct twi_shm_peer *peer);
bool twi_shm_has_chunk(struct twi_shm_peer *peer);
/* Returns whether a piece is due. Staging may lack room for it, so the caller retries later. */
bool twi_shm_send_stages(const struct twi_shm_peer *peer);
void twi_shm_send_fail(struct twi_shm_peer *peer, int status);
void twi_shm_recv_fail(struct twi_shm_peer *peer, int status);
int twi_shm_offer_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
int twi_shm_piece_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
void twi_shm_say(struct twi_shm_peer *peer, const struct twi_shm_remark *remark);
void twi_shm_view_release(struct tow_op *op);

/* Records the latency of the last small message, whose slot has its send time. */
void twi_shm_timed_small(struct twi_shm_peer *peer, const struct twi_shm_message *message);

#endif
