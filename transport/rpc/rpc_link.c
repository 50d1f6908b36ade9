/*
 * rpc_link.c - the library's own messages to the other side of a peer. See rpc_link.h.
 *
 *	offset  0      1             8     16    24    32             40
 *	        +------+-------------+-----+-----+-----+--------------+--------+
 *	        | type | reserved: 0 | t1  | t2  | t3  | inline_bytes | window |
 *	        +------+-------------+-----+-----+-----+--------------+--------+
 *	ASK: t1. ANSWER: t1, t2, t3. OPEN: inline_bytes, window.
 *
 *	WHO: boot, PID namespace, PID, start of the process, time namespace (identity.h), 8 bytes
 *	each from 8 on. Older versions leave the last one 0.
 */
#include "transport/rpc/rpc_link.h"

#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/message.h"
#include "transport/rpc/rpc.h"

enum link_type { LINK_ASK = 1, LINK_ANSWER, LINK_OPEN, LINK_WHO };

int twi_rpc_io_start(struct twi_rpc_io *io, struct tow_peer *peer,
		     const struct twi_message *message, tow_op_callback done, void *user)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = done, .user = user
	};
	struct twi_message own = *message;
	struct tow_op *op;
	int status;

	/*
	 * A start reads completions, too. With one of them a closed peer may end and be freed. What
	 * has come of a peer may be read after that, as a request whose body is still to be
	 * fetched.
	 */
	if (peer == NULL || peer->closed)
		return twi_error(TOW_ECLOSED, "the peer was closed");
	twi_assert_held(peer->engine);
	twi_assert(!io->busy);
	own.op = &io->op;
	io->busy = true;
	status = twi_message_start(peer, &own, &options, &op);
	if (status < 0)
		io->busy = false;
	return status;
}

bool twi_rpc_io_abort(struct twi_rpc_io *io)
{
	/* The lane must not see an operation that has completed: the peer may have gone. */
	if (twi_rpc_io_held(io))
		twi_message_abort(&io->op, TOW_ECANCELED, true);
	return twi_rpc_io_held(io);
}

static void free_if_done(struct twi_link *link)
{
	if (link->peer == NULL && !link->in.busy && !link->out.busy)
		free(link);
}

static void pump_link(struct twi_link *link);

static void on_sent(struct tow_op *op, const struct tow_result *result)
{
	struct twi_link *link = op->user;

	link->out.busy = false;
	if (result->status >= 0)
		pump_link(link);
	free_if_done(link);
}

static void put_who(const struct twi_identity *self, uint8_t *out)
{
	out[0] = LINK_WHO;
	twi_put_le(out + 8, self->boot, 8);
	twi_put_le(out + 16, self->pid_namespace, 8);
	twi_put_le(out + 24, self->pid, 8);
	twi_put_le(out + 32, self->pid_start, 8);
	twi_put_le(out + 40, self->time_namespace, 8);
}

/* Writes the message that is due next. False: none is due. */
static bool next_out(struct twi_link *link)
{
	uint64_t now = twi_engine_clock(link->engine);
	uint8_t *out = link->out_data;

	for (unsigned i = 0; i < TWI_LINK_BYTES; i += 8)
		twi_put_le(out + i, 0, 8);
	if (link->who_due) {
		link->who_due = false;
		put_who(&link->engine->self, out);
	} else if (link->open_due) {
		link->open_due = false;
		out[0] = LINK_OPEN;
		twi_put_le(out + 32, link->open_bytes, 8);
		twi_put_le(out + 40, link->open_window, 8);
	} else if (link->answer_due) {
		link->answer_due = false;
		out[0] = LINK_ANSWER;
		twi_put_le(out + 8, link->answer_t1, 8);
		twi_put_le(out + 16, link->answer_t2, 8);
		twi_put_le(out + 24, now, 8);
	} else if (link->ask_due) {
		link->ask_due = false;
		link->asked_ns = now == 0 ? 1 : now;
		out[0] = LINK_ASK;
		twi_put_le(out + 8, link->asked_ns, 8);
	} else {
		return false;
	}
	return true;
}

static void pump_link(struct twi_link *link)
{
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .space = TWI_SPACE_LINK,
					     .data = link->out_data,
					     .bytes = TWI_LINK_BYTES };

	if (link->peer == NULL || link->peer->closed || link->out.busy || !next_out(link))
		return;
	twi_rpc_io_start(&link->out, link->peer, &message, on_sent, link);
}

static void ask_clock(struct tow_peer *peer, uint64_t now_ns)
{
	struct twi_link *link = peer->link_state;

	twi_assert_held(peer->engine);
	/* Set before the exchange, which is traffic, too. The second exchange comes soon, since two
	 * show the rate. */
	peer->link_due_ns = now_ns + (link->clock.exchanges < TWI_LINK_BURST ? TWI_LINK_SOON_NS
									     : TWI_LINK_EVERY_NS);
	link->ask_due = true;
	pump_link(link);
}

void twi_link_open(struct twi_link *link, uint64_t inline_bytes, uint64_t window)
{
	twi_assert_held(link->engine);
	link->open_due = true;
	link->open_bytes = inline_bytes;
	link->open_window = window;
	pump_link(link);
}

static void on_answer(struct twi_link *link, uint64_t now)
{
	const uint8_t *in = link->in_data;
	uint64_t t1 = link->asked_ns;

	if (t1 == 0 || twi_get_le(in + 8, 8) != t1)
		return; /* not asked, or the answer to an older ASK */
	link->asked_ns = 0;
	twi_clock_sync_add(&link->clock, t1, twi_get_le(in + 16, 8), twi_get_le(in + 24, 8), now);
	if (link->burst > 0 && --link->burst > 0) {
		link->ask_due = true;
		pump_link(link);
	}
}

static void receive_next(struct twi_link *link);

static void on_process_ended(struct twi_process_user *user)
{
	struct twi_link *link = twi_container_of(user, struct twi_link, process);

	if (link->peer != NULL && !link->peer->closed)
		twi_peer_process_ended(link->peer);
}

/* Only the first WHO counts. A false identity can end nothing but the peer's own connection. */
static void on_who(struct twi_link *link)
{
	const uint8_t *in = link->in_data;
	const struct twi_identity who = { twi_get_le(in + 8, 8), twi_get_le(in + 16, 8),
					  twi_get_le(in + 24, 8), twi_get_le(in + 32, 8),
					  twi_get_le(in + 40, 8) };

	link->one_clock = !link->engine->virtual_clock &&
			  twi_identity_shares_clock(&link->engine->self, &who);
	if (link->process.ended != NULL || !twi_peer_has_process(link->peer))
		return;
	link->process.ended = on_process_ended;
	if (twi_process_watch(link->engine, &who, &link->process) == TWI_PROCESS_GONE)
		on_process_ended(&link->process);
}

static void on_message(struct twi_link *link, uint64_t now)
{
	switch (link->in_data[0]) {
	case LINK_ASK:
		link->answer_t1 = twi_get_le(link->in_data + 8, 8);
		link->answer_t2 = now;
		link->answer_due = true;
		pump_link(link);
		twi_peer_touch(link->peer, now); /* a side that is asked may only receive */
		break;
	case LINK_ANSWER:
		on_answer(link, now);
		break;
	case LINK_OPEN:
		twi_rpc_opened(link, twi_get_le(link->in_data + 32, 8),
			       twi_get_le(link->in_data + 40, 8));
		break;
	case LINK_WHO:
		on_who(link);
		break;
	default: /* of a newer version: ignored */
		break;
	}
}

static void on_received(struct tow_op *op, const struct tow_result *result)
{
	struct twi_link *link = op->user;

	link->in.busy = false;
	if (link->peer == NULL) { /* the peer has gone; this is no error */
		free_if_done(link);
		return;
	}
	if (result->status == TOW_OK && result->bytes == TWI_LINK_BYTES) {
		/* Not the poll's time, which may precede the sending: t2 and t4 are bounds. */
		on_message(link, twi_engine_clock(link->engine));
		receive_next(link);
	} else if (result->status == TOW_OK || result->status == TOW_ETRUNCATED) {
		twi_count(link->engine->diag, TWI_C_protocol_errors, 1);
		receive_next(link);
	} else if (link->rpc != NULL) {
		twi_rpc_lost(link->rpc, result->status);
	}
	free_if_done(link);
}

static void receive_next(struct twi_link *link)
{
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .space = TWI_SPACE_LINK,
					     .data = link->in_data,
					     .bytes = TWI_LINK_BYTES };

	if (link->peer != NULL && !link->peer->closed)
		twi_rpc_io_start(&link->in, link->peer, &message, on_received, link);
}

static void link_up(struct tow_peer *peer)
{
	struct twi_link *link;

	twi_assert_held(peer->engine);
	if (peer->engine->failing || peer->link_state != NULL)
		return;
	link = calloc(1, sizeof(*link));
	if (link == NULL) {
		twi_log(peer->engine->diag, 2,
			"no memory for the link to %s: no calls, and its clock stays unknown",
			peer->address);
		return;
	}
	link->engine = peer->engine;
	link->peer = peer;
	link->burst = TWI_LINK_BURST;
	link->who_due = twi_peer_has_process(peer);
	peer->link_state = link;
	peer->link_due_ns = 0;
	receive_next(link);
	pump_link(link);
}

static void link_detach(struct tow_peer *peer)
{
	struct twi_link *link = peer->link_state;

	twi_assert_held(peer->engine);
	if (link == NULL)
		return;
	peer->link_state = NULL;
	peer->link_due_ns = UINT64_MAX;
	link->peer = NULL;
	twi_process_unwatch(link->engine, &link->process);
	if (link->rpc != NULL)
		twi_rpc_detach(link->rpc);
	link->rpc = NULL;
	free_if_done(link);
}

const struct twi_link_hooks twi_link_hooks = { .up = link_up,
					       .detach = link_detach,
					       .ask = ask_clock };

bool twi_link_compare(struct tow_peer *peer)
{
	struct twi_link *link = peer->link_state;

	twi_assert_held(peer->engine);
	if (link == NULL || link->one_clock || peer->closed)
		return false;
	link->burst = TWI_LINK_BURST;
	ask_clock(peer, twi_engine_clock(peer->engine));
	return true;
}

uint64_t twi_link_exchanges(const struct tow_peer *peer)
{
	twi_assert_held(peer->engine);
	return peer->link_state != NULL ? peer->link_state->clock.exchanges : 0;
}

bool twi_link_clock(const struct tow_peer *peer, struct twi_clock_estimate *out)
{
	bool known;

	twi_assert_held(peer->engine);
	if (peer->link_state == NULL)
		return false;
	known = twi_clock_sync_read(&peer->link_state->clock, twi_engine_clock(peer->engine), out);
	if (peer->link_state->one_clock)
		*out = (struct twi_clock_estimate){ .delay_ns = known ? out->delay_ns : 0 };
	return known || peer->link_state->one_clock;
}

void twi_link_describe(const struct tow_peer *peer, struct twi_emit *emit)
{
	struct twi_clock_estimate estimate;
	bool known = twi_link_clock(peer, &estimate);

	twi_emit_object_begin(emit, "clock");
	twi_emit_bool(emit, "known", known);
	if (known) {
		twi_emit_i64(emit, "offset_ns", estimate.offset_ns);
		twi_emit_u64(emit, "error_ns", estimate.error_ns);
		twi_emit_u64(emit, "age_ns", estimate.age_ns);
		twi_emit_u64(emit, "round_trip_ns", estimate.delay_ns);
		twi_emit_bool(emit, "shared", peer->link_state->one_clock);
	}
	if (peer->link_state != NULL) {
		twi_emit_u64(emit, "exchanges", peer->link_state->clock.exchanges);
		twi_emit_u64(emit, "refused", peer->link_state->clock.refused);
	}
	twi_emit_object_end(emit);
}
