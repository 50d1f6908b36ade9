/*
 * ofi_calls.h - what the files of the ofi lane call of each other. ofi.h has the structures.
 */
#ifndef TWI_OFI_CALLS_H
#define TWI_OFI_CALLS_H

#include "transport/lanes/ofi/ofi.h"

#ifdef TWI_HAVE_OFI

/* ofi_port.c: opening, closing, memory. */
int twi_ofi_port_open(struct twi_ofi_lane *lane, const struct twi_ofi_wish *wish,
		      struct twi_ofi_port **out);
void twi_ofi_port_close(struct twi_ofi_port *port);
/* Frees the port when neither endpoint nor peers are left. */
void twi_ofi_port_release(struct twi_ofi_port *port);
/* The descriptor that local operations on memory of `claim` name; NULL where none is needed. False:
 * one is needed, and there is none. */
bool twi_ofi_local(const struct twi_ofi_port *port, const struct twi_claim *claim, void **desc_out);
/* How a peer names `memory` in a registered region. False: it cannot. */
bool twi_ofi_remote(const struct twi_ofi_port *port, const struct twi_region *region,
		    const void *memory, uint64_t *address_out, uint64_t *key_out);

/* ofi_io.c: packets out and in, the completion queue, sleeping. */
struct twi_ofi_slot *twi_ofi_slot_take(struct twi_ofi_port *port, uint32_t bytes, bool control);
bool twi_ofi_say(struct twi_ofi_peer *peer, uint8_t type, uint64_t seq, uint64_t tag,
		 uint64_t value);
/* What a packet carries. */
struct twi_ofi_load {
	const void *data;
	const struct tow_op *op; /* it is a piece of this one's message, or NULL */
	bool message;            /* it is of a small message, of `space` */
	uint8_t space;
};
extern const struct twi_ofi_load twi_ofi_no_load;
/* False: there is no slot, and nothing was done. */
bool twi_ofi_send_packet(struct twi_ofi_peer *peer, struct twi_ofi_packet *packet,
			 const struct twi_ofi_load *load, bool control);
bool twi_ofi_unblock(struct twi_ofi_peer *peer);
unsigned twi_ofi_poll(struct twi_ofi_port *port);
int twi_ofi_post_buffers(struct twi_ofi_port *port);
void twi_ofi_arm(struct twi_ofi_port *port);

/* ofi_peer.c: who is there. */
struct twi_ofi_peer *twi_ofi_peer_create(struct twi_ofi_port *port, const struct twi_ofi_name *name,
					 const char *address);
struct twi_ofi_peer *twi_ofi_peer_find(const struct twi_ofi_port *port, uint64_t session);
void twi_ofi_peer_free(struct twi_ofi_peer *peer);
/* The peer cannot go on: its end comes with the next progress. The thread's message says why. */
void twi_ofi_break(struct twi_ofi_peer *peer, int status);
/* The peer has broken a rule: what it did exactly, behind its address. TOW_EPROTOCOL. */
#define twi_ofi_fault(peer, number, ...)                                                           \
	((peer)->rule = (uint8_t)(number),                                                         \
	 twi_rule_error((peer)->base.address, number, __VA_ARGS__))
unsigned twi_ofi_bury(struct twi_ofi_port *port);
void twi_ofi_peer_close(struct tow_peer *base);
/* Something that libfabric had in hand has ended: a peer that waited for it may go. */
void twi_ofi_peer_let_go(struct twi_ofi_peer *peer);
void twi_ofi_peer_describe(struct tow_peer *base, struct twi_emit *emit);
/* ofi_measure.c: `fabric` has TWI_STATE_FABRIC bytes. */
void twi_ofi_peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric);
/* Everything ends now: for a lane that is closed. The port is freed. */
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
/* A send that was taken back ends when the other side has answered. */
bool twi_ofi_awaits_answer(const struct twi_ofi_peer *peer);
/*
 * The other side may wait for what was to be sent with a tag: it is told of what never will be.
 * True: it does wait. Else it may be gone, and nothing can be said to it.
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
/* The sender has taken back the message that op has met (enum twi_ofi_cancel); nobody reads it. */
void twi_ofi_taken_back(struct twi_ofi_peer *peer, struct tow_op *op, uint8_t why);
bool twi_ofi_ack(struct twi_ofi_peer *peer);
extern const struct twi_inbox_ops twi_ofi_inbox;
/* A row of its own for the offer, that is to be freed. NULL: no memory. */
struct twi_ofi_arrival *twi_ofi_arrival_keep(const struct twi_ofi_arrival *made);

/* ofi_pull.c */
void twi_ofi_pull_start(struct twi_ofi_peer *peer, struct tow_op *op,
			const struct twi_ofi_arrival *offer);
void twi_ofi_pull_done(struct twi_ofi_req *req, int err, uint64_t bytes);
/* Pulls have become free: receives that wait for one. */
void twi_ofi_pull_matched(struct twi_ofi_peer *peer);
void twi_ofi_pull_go(struct twi_ofi_pull *pull);
struct twi_ofi_pull *twi_ofi_pull_find(struct twi_ofi_peer *peer, uint64_t seq);
void twi_ofi_pull_end(struct twi_ofi_pull *pull);
int twi_ofi_frag(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		 const uint8_t *payload);
unsigned twi_ofi_pull_retry(struct twi_ofi_port *port);

/* Of an operation whose message has a number. */
static inline uint64_t twi_ofi_rpc_id(const struct twi_ofi_peer *peer, const struct tow_op *op)
{
	return twi_peer_rpc_id(&peer->base, op->seq, op->kind == TWI_OP_SEND);
}

/* ofi_silence.c: looks at an open connection; when to look again. Its process has ended. */
uint64_t twi_ofi_listen(struct twi_ofi_peer *peer, uint64_t now_ns);
void twi_ofi_process_ended(struct tow_peer *base);

#endif
#endif
