/*
 * ofi.h - the ofi lane: messages over libfabric's reliable datagram endpoints (FI_EP_RDM).
 *
 *	tow_endpoint --- port: domain, endpoint, completion queue, addresses ---+--- peer
 *	                  |  slots: outgoing packets                            +--- peer
 *	                  |  buffers: packets that have come                    +--- ...
 *	                  |  gives: our large messages that are offered
 *	                  +  pulls: their large messages that have met a receive
 *
 *	small: op -> EAGER packet (injected, or from a slot): complete ... buffer -> user's memory
 *	large: op -> RTS -> [a receive is posted] -> READ:   fi_read into it -> DONE
 *	                                          -> TAGGED: CTS, fi_tsend into it -> DONE
 *	                                          -> FRAGS:  CTS, FRAG packets, copied -> DONE
 *
 * There are no connections. A peer is two numbers, one of each side for the other, which the
 * handshake exchanges (ofi_hello.c). They are random, so a process that has not seen them cannot
 * speak in a peer's name. All bounds, statuses and the order of messages are those of session.h.
 *
 * A sender may take back a message that is being read, at any time and without asking. Each offer
 * has a *cell* in the sender's registered memory, which holds the offer's number as long as the
 * offer stands. The receiver reads the cell after the payload. If the number is not there, the
 * message counts as never sent. A request that libfabric has (a read, a tagged receive, a tagged
 * send) cannot be taken back: its operation ends when libfabric completes it. If that takes too
 * long the whole port is closed, which forces it.
 *
 * A port outlives its endpoint until its last peer has gone.
 *
 * Budget of a small message: one packet is built, libfabric is called once, nothing is allocated.
 */
#ifndef TWI_OFI_OFI_H
#define TWI_OFI_OFI_H

#include "transport/lanes/lane.h"
#include "transport/lanes/ofi/address.h"
#include "transport/lanes/ofi/domain.h"
#include "transport/lanes/ofi/fabric.h"
#include "transport/lanes/ofi/packet.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/lane_host.h"

#ifdef TWI_HAVE_OFI

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "transport/security/auth.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

#define TWI_OFI_SMALL_BYTES 256u /* bytes of a packet in a small slot */
#define TWI_OFI_SMALL_SLOTS 512u
#define TWI_OFI_RESERVE     128u /* small slots reserved for control packets */
#define TWI_OFI_BIG_SLOTS   48u
#define TWI_OFI_BUFFERS     32u /* single receives, without FI_MULTI_RECV */
#define TWI_OFI_MULTI       8u  /* buffers with FI_MULTI_RECV */
#define TWI_OFI_GIVES       512u
#define TWI_OFI_PULLS       128u
#define TWI_OFI_READS       4u         /* reads of one message at a time */
#define TWI_OFI_READ_BYTES  (8u << 20) /* bytes of one read */
#define TWI_OFI_PEERS_MAX   4096u
#define TWI_OFI_STRANGERS   256u /* handshakes at once */
#define TWI_OFI_EARLY_MAX   4096u
#define TWI_OFI_LINGER_NS   (1000ull * 1000 * 1000)
#define TWI_OFI_LET_GO_NS   (2000ull * 1000 * 1000)
#define TWI_OFI_NAP_NS      (20ull * 1000)
#define TWI_OFI_QUIET_NS    (500ull * 1000)
#define TWI_OFI_BUSY_NS     (200ull * 1000)
#define TWI_OFI_IDLE_NS     (10ull * 1000 * 1000)
#define TWI_OFI_ACK_EVERY   256u
#define TWI_OFI_TIMED_NS    2000u

struct twi_ofi_peer;
struct twi_ofi_port;

enum twi_ofi_kind { TWI_OFI_REQ_BUFFER, TWI_OFI_REQ_SLOT, TWI_OFI_REQ_PULL, TWI_OFI_REQ_GIVE };

/* A request of libfabric, which may write into ctx until it completes the request (FI_CONTEXT). */
struct twi_ofi_req {
	struct fi_context2 ctx;
	uint8_t kind;
	bool busy;
	void *owner;
	uint64_t bytes;
};

/* An outgoing packet. */
struct twi_ofi_slot {
	struct twi_ofi_req req;
	struct twi_list link; /* free, or on peer->pending */
	struct twi_ofi_peer *peer;
	uint8_t *data;
	uint32_t bytes;
	bool big;
};

struct twi_ofi_buffer {
	struct twi_ofi_req req;
	uint8_t *data;
	bool posted;
};

/* A large message that this side offers, until it has arrived or was taken back. */
struct twi_ofi_give {
	struct twi_ofi_req req; /* of the tagged send */
	struct twi_list link;   /* free; or on port->sending: to be sent, whole or in pieces */
	struct tow_op *op;
	struct twi_ofi_peer *peer;
	volatile uint64_t *cell;
	uint64_t tag;      /* that the receiver wants on the message */
	uint8_t way;       /* 0: the receiver has not asked for it yet */
	int ending;        /* the operation's status once its memory is free; 0: none */
	bool acknowledged; /* DONE has come, and libfabric still has the tagged send */
};

/* A large message of the other side that has met a receive. */
struct twi_ofi_pull {
	struct twi_ofi_req reqs[TWI_OFI_READS];
	struct twi_list link;  /* free, or on peer->pulls */
	struct twi_list retry; /* on port->retry: libfabric's queue was full */
	struct twi_ofi_peer *peer;
	struct tow_op *op;
	struct twi_ofi_where where;
	uint64_t *cell; /* destination of the read of the sender's cell */
	uint64_t seq, bytes, issued, landed, tag;
	uint64_t whole_bytes; /* of the message; a part may be dropped */
	uint32_t checksum, in_flight;
	uint8_t way;
	uint8_t why; /* why it was withdrawn: enum twi_ofi_cancel */
	bool checked, cell_asked, withdrawn;
	int failed; /* error of a read: ends the peer when all reads have ended */
	int ending; /* as in twi_ofi_give */
};

/* A large message of the other side that waits for a receive, or has one and waits for a pull. */
struct twi_ofi_arrival {
	struct twi_unexpected arrival;
	struct twi_ofi_where where;
	uint32_t checksum;
	bool checked;
	bool allocated; /* false: it lives only during the call */
};

/* A packet that has overtaken packets sent before it. */
struct twi_ofi_early {
	struct twi_list link;
	uint32_t number, bytes;
	uint8_t data[];
};

/* A control packet that waits for a slot. */
struct twi_ofi_owed {
	uint8_t type;
	uint64_t seq, tag, value;
};

enum twi_ofi_state {
	TWI_OFI_GREETING, /* authentication and HELLO are on their way */
	TWI_OFI_UP,
	TWI_OFI_CLOSING, /* starts nothing new; sends BYE when neither side reads the other */
	TWI_OFI_LOST,
};

struct twi_ofi_peer {
	struct tow_peer base;
	struct twi_ofi_port *port;
	struct twi_list blocked; /* on port->blocked: `pending` is not empty */
	struct twi_list stalled; /* on port->stalled: a send or a control packet waits */
	struct twi_list ailing;  /* on port->ailing: broken, to be ended */
	uint64_t here, there;    /* session numbers: ours for the peer, the peer's for us */
	struct twi_ofi_name name;
	fi_addr_t address;
	uint8_t state, rule;                /* rule: the one that it has broken (rule.h); 0: none */
	bool said_hello, heard_hello, left; /* left: the peer gave up its connect */
	bool said_bye, heard_bye;
	int broken; /* the status that it ends with; 0: not broken */
	char fault[400];
	struct tow_op *dial;
	uint64_t deadline_ns; /* of the handshake, or of the close */
	uint64_t heard_ns, asked_ns;
	uint64_t ended_ns;     /* when its process was seen to have ended; 0: not seen */
	uint64_t unreached_ns; /* when libfabric failed to send to it, for `fault`; 0: never */
	struct twi_auth auth;

	/* sending */
	struct twi_outbox outbox;
	struct twi_list pending; /* slots that libfabric has not accepted yet */
	struct twi_ofi_owed *owed;
	uint32_t owed_count, owed_room;
	uint32_t gives; /* large messages that are offered or being sent */
	uint32_t slots; /* packets of ours that libfabric has, or will get */
	uint32_t number_out, number_in;
	uint32_t piece_bytes; /* of a large message that goes in pieces */
	bool can_tagged;

	/* receiving */
	struct twi_inbox inbox;
	struct twi_list matched; /* receives whose message waits for a pull */
	struct twi_list pulls;
	struct twi_list early; /* in order of their numbers */
	uint32_t early_count;
	uint64_t received_ns;
	uint32_t acks_owed;
	uint32_t held; /* requests in libfabric that touch users' memory */
};

#define TWI_OFI_KEPT 32u

/* The address of a peer that was closed in order (ofi_av.c). */
struct twi_ofi_kept {
	struct twi_ofi_name name;
	fi_addr_t address;
};

struct twi_ofi_port {
	struct twi_list link; /* on lane->ports */
	struct twi_ofi_lane *lane;
	struct tow_endpoint *endpoint; /* NULL: closed */
	struct twi_ofi_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct twi_ofi_name name;
	struct twi_ofi_candidates *candidates;
	char provider[TWI_OFI_PROVIDER_MAX];
	uint32_t index;
	uint64_t inject_bytes, message_bytes_max;
	bool local_mr, virtual_addresses, reads, tagged, reads_in_order, prefers_tagged;
	bool reads_two; /* one read takes two addresses, in order */
	bool multi_recv, registered, dead;
	bool driven; /* needs calls all the time while a packet is out */
	int wait_fd; /* -1: the queue is polled */
	uint32_t armed_rings;
	uint64_t nap_ns, quiet_ns; /* quiet since then with a waiter; 0: not quiet */
	bool asleep_ok;            /* the last fi_trywait: the descriptor may be waited on */

	uint8_t *memory; /* of the pool: slots, buffers, cells */
	uint64_t memory_bytes;
	void *memory_desc;
	uint32_t packet_bytes; /* the largest packet */
	struct twi_ofi_slot *slots;
	struct twi_list small_free, big_free;
	uint32_t small_count, big_count, slots_out;
	uint32_t quick_bytes; /* larger packets cost much more; 0: no such size */
	struct twi_ofi_buffer buffers[TWI_OFI_BUFFERS];
	uint32_t buffer_count, buffer_bytes;
	uint32_t unposted;   /* buffers that libfabric did not take back: a poll tries again */
	uint32_t deaf_tries; /* polls since deaf_ns, all with no buffer posted or no queue read */
	uint64_t deaf_ns;
	uint64_t in_flight; /* requests other than receives of packets */
	struct twi_ofi_give *gives;
	struct twi_list give_free;
	struct twi_ofi_pull *pulls;
	struct twi_list pull_free;
	uint64_t next_cell;

	struct twi_list blocked, stalled, ailing, sending, retry;
	uint32_t turns;
	bool freed; /* a slot, give, pull or credit has come back */
	uint64_t next_tag, tag_mask;
	struct twi_ofi_peer **peers;
	uint32_t peer_room, peer_count, strangers, closing, kept_count;
	struct twi_ofi_kept kept[TWI_OFI_KEPT]; /* the oldest first */
	uint64_t logged_ns;                     /* the last log line about a failed handshake */
	uint64_t timer_ns;                      /* the next check of handshakes and silence */
	uint64_t let_go_ns; /* when the port is closed to end its requests; 0: not */
};

struct twi_ofi_endpoint {
	struct tow_endpoint base;
	struct twi_ofi_port *port;
};

struct twi_ofi_lane {
	struct twi_lane base;
	struct twi_list ports;
	uint32_t next_index;
};

static inline struct twi_ofi_peer *twi_ofi_peer_of(struct tow_peer *peer)
{
	return (struct twi_ofi_peer *)(void *)peer;
}

static inline struct twi_ofi_lane *twi_ofi_lane_of(struct twi_lane *lane)
{
	return (struct twi_ofi_lane *)(void *)lane;
}

#endif
#endif
