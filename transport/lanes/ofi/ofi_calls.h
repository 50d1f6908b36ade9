/*
 * ofi_calls.h - the functions that the files of the ofi lane call of each other. ofi.h has the
 * structures.
 */
#ifndef TWI_OFI_CALLS_H
#define TWI_OFI_CALLS_H

#include "transport/lanes/ofi/ofi.h"

#ifdef TWI_HAVE_OFI

/* ofi_port.c: opening, closing, sleeping, memory. */
int twi_ofi_port_open(struct twi_ofi_lane *lane, const struct twi_ofi_wish *wish,
		      struct twi_ofi_port **out);
void twi_ofi_port_close(struct twi_ofi_port *port);
void twi_ofi_arm(struct twi_ofi_port *port);
/* Frees the port when it has neither an endpoint nor peers. */
void twi_ofi_port_release(struct twi_ofi_port *port);
/*
 * Writes the descriptor of the leased memory for local operations; NULL if none is needed. Returns
 * false if one is needed and missing.
 */
bool twi_ofi_local(const struct twi_ofi_port *port, const struct twi_claim *claim, void **desc_out);
/*
 * Writes the address and key by which a peer reads `memory` of a registered region. Returns false
 * if a peer cannot.
 */
bool twi_ofi_remote(const struct twi_ofi_port *port, const struct twi_region *region,
		    const void *memory, uint64_t *address_out, uint64_t *key_out);

/* ofi_io.c: packets out and in, the completion queue. */
struct twi_ofi_slot *twi_ofi_slot_take(struct twi_ofi_port *port, uint32_t bytes, bool control);
bool twi_ofi_say(struct twi_ofi_peer *peer, uint8_t type, uint64_t seq, uint64_t tag,
		 uint64_t value);
/* The contents of a packet. */
struct twi_ofi_load {
	const void *data;
	const struct tow_op *op; /* a packet of this operation's message, or NULL */
	bool message;            /* part of a small message of `space` */
	uint8_t space;
};
extern const struct twi_ofi_load twi_ofi_no_load;
/* Returns false if there is no slot; nothing was done then. */
bool twi_ofi_send_packet(struct twi_ofi_peer *peer, struct twi_ofi_packet *packet,
			 const struct twi_ofi_load *load, bool control);
bool twi_ofi_unblock(struct twi_ofi_peer *peer);
unsigned twi_ofi_poll(struct twi_ofi_port *port);
int twi_ofi_post_buffers(struct twi_ofi_port *port);

/* ofi_av.c: gives the peer its address in libfabric. It is kept after a close in order. */
int twi_ofi_av_add(struct twi_ofi_peer *peer);
void twi_ofi_av_remove(struct twi_ofi_peer *peer, bool in_order);

/* ofi_peer.c: peers. */
struct twi_ofi_peer *twi_ofi_peer_create(struct twi_ofi_port *port, const struct twi_ofi_name *name,
					 const char *address);
struct twi_ofi_peer *twi_ofi_peer_find(const struct twi_ofi_port *port, uint64_t session);
void twi_ofi_peer_free(struct twi_ofi_peer *peer);
/* The peer cannot go on, and ends with the next progress. The thread's message says why. */
void twi_ofi_break(struct twi_ofi_peer *peer, int status);
/* The peer has broken a rule. The message has the peer's address and the details. TOW_EPROTOCOL. */
#define twi_ofi_fault(peer, number, ...)                                                           \
	((peer)->rule = (uint8_t)(number),                                                         \
	 twi_rule_error((peer)->base.address, number, __VA_ARGS__))
unsigned twi_ofi_bury(struct twi_ofi_port *port);
void twi_ofi_peer_close(struct tow_peer *base);
/* A request in libfabric has ended: frees a peer that waited for it. */
void twi_ofi_peer_let_go(struct twi_ofi_peer *peer);
void twi_ofi_peer_describe(struct tow_peer *base, struct twi_emit *emit);
/* ofi_measure.c: `fabric` has TWI_STATE_FABRIC bytes. */
void twi_ofi_peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric);
/*
 * Closes libfabric's endpoint, which ends all requests that it holds. All its peers are lost; the
 * thread's message says why.
 */
void twi_ofi_port_kill(struct twi_ofi_port *port);
/* Ends everything and frees the port, when the lane is closed. */
void twi_ofi_port_end(struct twi_ofi_port *port);
void twi_ofi_timers(struct twi_ofi_port *port, uint64_t now_ns);
uint64_t twi_ofi_due(struct twi_ofi_port *port, uint64_t now_ns);

/* ofi_hello.c: the handshake. */
int twi_ofi_dial(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);
void twi_ofi_dial_abort(struct tow_op *op, int status);
void twi_ofi_stranger(struct twi_ofi_port *port, const struct twi_ofi_packet *packet,
		      const uint8_t *payload);
int twi_ofi_greeted(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		    const uint8_t *payload);

/* ofi_send.c */
extern const struct twi_outbox_ops twi_ofi_outbox;
void twi_ofi_drain(struct twi_ofi_peer *peer);
int twi_ofi_asked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet);
/* Returns whether a send that was taken back waits for the other side's answer. */
bool twi_ofi_awaits_answer(const struct twi_ofi_peer *peer);
/*
 * Sends CANCEL for each message that the other side awaits with a tag and that is not sent yet.
 * Returns whether there was one. If not, the other side may be gone, and nothing can be sent to it.
 */
bool twi_ofi_withdraw_unsent(struct twi_ofi_peer *peer);
int twi_ofi_arrived(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet);
int twi_ofi_refused(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet);
int twi_ofi_acked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet);
unsigned twi_ofi_push(struct twi_ofi_port *port);
void twi_ofi_give_done(struct twi_ofi_give *give, int err);
void twi_ofi_give_free(struct twi_ofi_give *give);
enum twi_need twi_ofi_need(struct tow_peer *base, const struct tow_op *op);

/* ofi_recv.c */
void twi_ofi_recv(struct tow_peer *base, struct tow_op *op);
void twi_ofi_look_again(struct tow_peer *base, uint64_t tag, uint32_t context);
bool twi_ofi_abort_recv(struct twi_ofi_peer *peer, struct tow_op *op, int status, bool force);
int twi_ofi_eager(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		  const uint8_t *payload);
int twi_ofi_more(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		 const uint8_t *payload);
int twi_ofi_offered(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		    const uint8_t *payload);
int twi_ofi_withdrawn(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet);
/* The sender has taken back the message of `op` (enum twi_ofi_cancel). No read of it is left. */
void twi_ofi_taken_back(struct twi_ofi_peer *peer, struct tow_op *op, uint8_t why);
bool twi_ofi_ack(struct twi_ofi_peer *peer);
extern const struct twi_inbox_ops twi_ofi_inbox;
/* Copies an offer into a row of its own, which is freed later. NULL: no memory. */
struct twi_ofi_arrival *twi_ofi_arrival_keep(const struct twi_ofi_arrival *made);

/* ofi_pull.c */
void twi_ofi_pull_start(struct twi_ofi_peer *peer, struct tow_op *op,
			const struct twi_ofi_arrival *offer);
void twi_ofi_pull_done(struct twi_ofi_req *req, int err, uint64_t bytes);
/* Starts receives that waited for a free pull. */
void twi_ofi_pull_matched(struct twi_ofi_peer *peer);
void twi_ofi_pull_go(struct twi_ofi_pull *pull);
struct twi_ofi_pull *twi_ofi_pull_find(struct twi_ofi_peer *peer, uint64_t seq);
void twi_ofi_pull_end(struct twi_ofi_pull *pull);
int twi_ofi_frag(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		 const uint8_t *payload);
unsigned twi_ofi_pull_retry(struct twi_ofi_port *port);

/* The id of an operation whose message has a number. */
static inline uint64_t twi_ofi_rpc_id(const struct twi_ofi_peer *peer, const struct tow_op *op)
{
	return twi_peer_rpc_id(&peer->base, op->seq, op->kind == TWI_OP_SEND);
}

/*
 * ofi_silence.c. listen: checks an open connection for silence and returns when to check again.
 * process_ended: the peer's process has ended. unreached: libfabric could not send to the peer, for
 * this positive error. The peer is lost soon.
 */
uint64_t twi_ofi_listen(struct twi_ofi_peer *peer, uint64_t now_ns);
void twi_ofi_unreached(struct twi_ofi_peer *peer, int err);
void twi_ofi_process_ended(struct tow_peer *base);

#endif
#endif
