/*
 * group_link.c - connections between ranks: dialing, and the rank at the other end. See group.h.
 *
 * Everything runs with the engine held, most of it in callbacks of the library's own operations.
 */
#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/job/group_handshake.h"
#include "transport/job/group_message.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/rpc/rpc_link.h"

#define WHO_MAGIC   0x4f48574fu /* "OWHO" */
#define WHO_VERSION 1u

enum answer { ANSWER_TAKEN = 1, ANSWER_WAIT, ANSWER_STRANGE };

static void accept_next(struct twi_ranks *ranks);

/*
 * Completes the waits for a connection. A failure, for the reason that the thread's message gives,
 * also ends the held messages.
 */
static void wake_waiters(struct twi_slot *slot, int status)
{
	char why[TWI_ERROR_BYTES] = "";
	struct twi_list *entry;

	if (status < 0)
		snprintf(why, sizeof(why), "no connection to rank %u of the job: %s", slot->rank,
			 tow_error_message());
	while ((entry = twi_list_first(&slot->waiting)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);

		op->peer = slot->peer;
		if (status < 0)
			twi_error(status, "%s", why);
		twi_op_complete(op, status, 0);
	}
	while (status < 0 && (entry = twi_list_first(&slot->held)) != NULL) {
		twi_error(status, "%s", why);
		twi_message_end_any(twi_container_of(entry, struct tow_op, match.link), status);
	}
}

/* Marks the connection as that to a rank of the job, or to this rank itself. */
static void mark_peer(struct tow_peer *peer, uint32_t rank)
{
	peer->passing = false;
	peer->job_rank = rank;
	peer->span_peer = twi_span_peer(peer->engine->diag, peer->address, rank);
}

/*
 * Gives the slot its connection. TOW_OK, or TOW_ENOMEM: the connection is of no use, and the slot
 * is unchanged. Only the first hook can fail, so no other hook has anything to undo.
 */
static int slot_up(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer)
{
	struct twi_slot *slot = twi_ranks_slot(ranks, rank);
	const enum twi_slot_state before = slot->state;
	const unsigned dials = slot->dials;
	struct tow_peer *previous = slot->peer;

	slot->state = TWI_SLOT_UP;
	slot->peer = peer;
	slot->dials = 0;
	mark_peer(peer, rank);
	/* The library sends itself no control messages. */
	for (unsigned i = 0; i < TWI_RANK_HOOKS && rank != ranks->rank; i++) {
		if (ranks->engine->hooks.ranks[i]->up(ranks, rank, peer) < 0) {
			slot->state = before;
			slot->peer = previous;
			slot->dials = dials;
			return TOW_ENOMEM;
		}
	}
	twi_tries_end(slot);
	wake_waiters(slot, TOW_OK);
	twi_group_messages_up(ranks, slot);
	return TOW_OK;
}

/* Ends a dial that has given no connection. The thread's message says why. */
static void dial_failed(struct twi_ranks *ranks, uint32_t rank, int status)
{
	struct twi_slot *slot = twi_ranks_slot(ranks, rank);

	if (slot->state == TWI_SLOT_UP)
		return;
	slot->state = TWI_SLOT_NONE;
	slot->dials = 0;
	twi_log(ranks->engine->diag, 2, "group: no connection to rank %u at %s: %s: %.250s", rank,
		ranks->addresses[rank], tow_status_name(status), tow_error_message());
	wake_waiters(slot, status);
}

/* True when no operation waits for the connection, and no message is held for it. */
static bool nobody_waits(const struct twi_slot *slot)
{
	return twi_list_empty(&slot->waiting) && twi_list_empty(&slot->held);
}

/* Dials again, after a pause or because the lower rank's connection has not come. */
static void on_dial_pause(struct tow_op *op, const struct tow_result *result)
{
	struct twi_handshake *handshake = result->user;
	struct twi_ranks *ranks = handshake->ranks;
	struct twi_slot *slot = twi_ranks_slot(ranks, handshake->rank);
	uint32_t rank = handshake->rank;
	bool on = twi_handshake_release(handshake, op);

	twi_ranks_use(ranks);
	twi_handshake_end(handshake, true);
	if (on && slot->state == TWI_SLOT_WAITING) {
		if (nobody_waits(slot))
			slot->state = TWI_SLOT_NONE; /* no operation needs it any more */
		else if (slot->dials >= TWI_GROUP_DIALS)
			dial_failed(ranks, rank,
				    twi_error(TOW_EPEER,
					      "it took none of %u connections, nor came itself",
					      slot->dials));
		else
			twi_ranks_dial(ranks, rank);
	}
	twi_ranks_drop(ranks);
}

static void end_now(struct tow_op *op, int status)
{
	twi_op_complete(op, status, 0);
}

/* A pause before a rank is dialed again. */
static const struct twi_op_ops pause_ops = {
	.kind = TWI_OP_CALL, .noun = "pause", .span = TWI_SPAN_CALL, .abort = end_now
};

/* Dials again after a pause. All ranks may dial one rank at once, and it refuses some. The network
 * may reset a handshake (TOW_EPEER). Or the rank has gone: few such dials. False: none is left. */
static bool dial_later(struct twi_handshake *handshake)
{
	struct twi_slot *slot = twi_ranks_slot(handshake->ranks, handshake->rank);
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = 5000000ull << slot->dials,
						.done = on_dial_pause,
						.user = handshake };

	if (slot->dials >= TWI_GROUP_REFUSALS)
		return false;
	handshake->op = twi_op_acquire(handshake->ranks->engine, &pause_ops, &options);
	if (handshake->op == NULL)
		return false;
	handshake->op->space = TWI_SPACE_LINK;
	slot->state = TWI_SLOT_WAITING;
	twi_op_watch(handshake->op);
	return true;
}

static int judge_answer(struct twi_handshake *handshake, const struct tow_result *result)
{
	uint32_t answer = (uint32_t)twi_get_le(handshake->in, 4);

	if (result->status < 0)
		return twi_error(result->status, "%s", result->message);
	if (result->bytes == TWI_GROUP_ANSWER_BYTES && answer == ANSWER_TAKEN)
		return TOW_OK;
	if (result->bytes == TWI_GROUP_ANSWER_BYTES && answer == ANSWER_WAIT)
		return TOW_AGAIN;
	if (result->bytes == TWI_GROUP_ANSWER_BYTES && answer == ANSWER_STRANGE)
		return twi_error(TOW_EMISMATCH, "who listens at %s is not rank %u of this job",
				 handshake->peer->address, handshake->rank);
	return twi_error(TOW_EPROTOCOL, "%llu bytes from %s are no answer of a rank",
			 (unsigned long long)result->bytes, handshake->peer->address);
}

static void on_answer(struct tow_op *op, const struct tow_result *result)
{
	struct twi_handshake *handshake = result->user;
	struct twi_ranks *ranks = handshake->ranks;
	struct twi_slot *slot = twi_ranks_slot(ranks, handshake->rank);
	int status = judge_answer(handshake, result);
	uint64_t pause_ns = 20000000ull << twi_min(slot->dials, 6u);

	if (!twi_handshake_release(handshake, op) || slot->state == TWI_SLOT_UP) {
		twi_handshake_end(handshake, true);
		return;
	}
	if (status == TOW_OK)
		status = slot_up(ranks, handshake->rank, handshake->peer);
	if (status == TOW_OK) {
		twi_handshake_end(handshake, false);
		return;
	}
	if (status == TOW_AGAIN) {
		slot->state = TWI_SLOT_WAITING;
		status = twi_handshake_receive(handshake, TWI_GROUP_TAG_NEVER, pause_ns,
					       on_dial_pause);
		if (status == TOW_OK)
			return;
	} else if (status == TOW_EPEER && dial_later(handshake)) {
		return; /* the rank has closed a connection that it could not take */
	}
	dial_failed(ranks, handshake->rank, status);
	twi_handshake_end(handshake, true);
}

static int send_identity(struct twi_handshake *handshake)
{
	const struct twi_ranks *ranks = handshake->ranks;
	const uint32_t words[TWI_GROUP_WHO_BYTES / 4] = { WHO_MAGIC,
							  WHO_VERSION,
							  (uint32_t)ranks->session,
							  (uint32_t)(ranks->session >> 32),
							  ranks->rank,
							  handshake->rank,
							  ranks->size,
							  handshake->rank == ranks->rank
								  ? ranks->self.word
								  : 0 };

	return twi_handshake_send(handshake, TWI_GROUP_TAG_WHO, words, TWI_GROUP_WHO_BYTES / 4);
}

static void on_connected(struct tow_op *op, const struct tow_result *result)
{
	struct twi_handshake *handshake = result->user;
	struct twi_ranks *ranks = handshake->ranks;
	int status = result->status, error = (int)op->moved;
	bool on;

	if (status < 0)
		twi_error(status, "%s", result->message); /* to be told if this dial was the last */
	on = twi_handshake_release(handshake, op);
	twi_ranks_slot(ranks, handshake->rank)->tries.op = NULL;
	handshake->peer = status == TOW_OK ? result->peer : NULL;
	if (handshake->peer != NULL)
		handshake->peer->passing = true; /* the other rank's dial may win */
	if (!on || twi_ranks_slot(ranks, handshake->rank)->state == TWI_SLOT_UP) {
		twi_handshake_end(handshake, true);
		return;
	}
	if (status < 0)
		twi_tries_fail(twi_ranks_slot(ranks, handshake->rank), error,
			       twi_engine_batch_now(ranks->engine));
	if ((status == TOW_EREFUSED || status == TOW_EPEER) && dial_later(handshake))
		return;
	if (status == TOW_OK)
		status = send_identity(handshake);
	if (status == TOW_OK)
		status = twi_handshake_receive(handshake, TWI_GROUP_TAG_ANSWER, TWI_GROUP_DIAL_NS,
					       on_answer);
	if (status < 0) {
		dial_failed(ranks, handshake->rank, status);
		twi_handshake_end(handshake, true);
	}
}

void twi_ranks_dial(struct twi_ranks *ranks, uint32_t rank)
{
	struct twi_slot *slot = twi_ranks_slot(ranks, rank);
	struct twi_handshake *handshake = twi_handshake_begin(ranks, rank);
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TWI_GROUP_DIAL_NS,
						.done = on_connected,
						.user = handshake };
	int status = TOW_ENOMEM; /* twi_handshake_begin's */

	slot->state = TWI_SLOT_DIALING;
	slot->dials++;
	if (rank == ranks->rank && ranks->self.back != NULL) { /* of a failed dial */
		tow_peer_close(ranks->self.back);
		ranks->self.back = NULL;
	}
	if (handshake != NULL)
		status = twi_connect_own(ranks->endpoint, ranks->addresses[rank], &options,
					 &handshake->op);
	if (status == TOW_OK) {
		twi_tries_begin(slot, handshake->op, twi_engine_batch_now(ranks->engine));
		return;
	}
	dial_failed(ranks, rank, status);
	if (handshake != NULL)
		twi_handshake_end(handshake, true);
}

/* The slot lives as long as the ranks, and its number never changes. */
static bool waits_for_rank(const struct tow_op *op, char *out, size_t room)
{
	const struct twi_slot *slot = op->owner;

	snprintf(out, room, "waiting for a connection to rank %u", slot->rank);
	return true;
}

static const struct twi_op_ops link_ops = { .kind = TWI_OP_CALL,
					    .noun = "connection to a rank",
					    .span = TWI_SPAN_CALL,
					    .abort = end_now,
					    .waits_for = waits_for_rank };

int twi_ranks_connect(struct twi_ranks *ranks, uint32_t rank, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out)
{
	struct twi_slot *slot = &ranks->slots[rank];
	struct tow_op *op = twi_op_acquire(ranks->engine, &link_ops, options);

	twi_assert_held(ranks->engine);
	if (op == NULL)
		return TOW_EBUSY;
	*op_out = op;
	op->space = (uint8_t)space;
	op->owner = slot;
	if (slot->state == TWI_SLOT_UP) {
		op->peer = slot->peer;
		twi_op_complete(op, TOW_OK, 0);
		return TOW_OK;
	}
	twi_list_push_back(&slot->waiting, &op->link);
	slot->tries.wanted = true;
	twi_op_watch(op);
	if (slot->state == TWI_SLOT_NONE)
		twi_ranks_dial(ranks, rank);
	return TOW_OK;
}

void twi_ranks_give_up(struct twi_ranks *ranks, const void *user)
{
	twi_assert_held(ranks->engine);
	for (uint32_t i = 0; i < ranks->size; i++) {
		struct twi_list *pos, *next;

		twi_list_for_each_safe (pos, next, &ranks->slots[i].waiting) {
			struct tow_op *op = twi_container_of(pos, struct tow_op, link);

			if (op->user == user)
				twi_op_complete(op, TOW_ECANCELED, 0);
		}
	}
}

/* A refused guest closes its end. Then, or after a while, this end is closed. */
static void on_turned_away(struct tow_op *op, const struct tow_result *result)
{
	struct twi_handshake *guest = result->user;

	twi_handshake_release(guest, op);
	twi_handshake_end(guest, true);
}

/* True for this rank's own connection, which has a random number that no other process knows. */
static bool is_oneself(const struct twi_ranks *ranks, uint32_t word)
{
	return ranks->self.slot.state == TWI_SLOT_DIALING && ranks->self.back == NULL &&
	       ranks->self.word != 0 && word == ranks->self.word;
}

static enum answer judge_guest(const struct twi_handshake *guest, uint64_t bytes,
			       uint32_t *rank_out)
{
	const struct twi_ranks *ranks = guest->ranks;
	const uint8_t *in = guest->in;
	uint64_t session = twi_get_le(in + 8, 8);
	uint32_t from = (uint32_t)twi_get_le(in + 16, 4);
	const struct twi_slot *slot;

	if (bytes != TWI_GROUP_WHO_BYTES || twi_get_le(in, 4) != WHO_MAGIC ||
	    twi_get_le(in + 4, 4) != WHO_VERSION || session != ranks->session ||
	    from >= ranks->size || twi_get_le(in + 20, 4) != ranks->rank)
		return ANSWER_STRANGE;
	*rank_out = from;
	if (from == ranks->rank)
		return is_oneself(ranks, (uint32_t)twi_get_le(in + 28, 4)) ? ANSWER_TAKEN
									   : ANSWER_STRANGE;
	slot = &ranks->slots[from];
	/* When both ranks dial, the lower rank's connection stays. */
	if (slot->state == TWI_SLOT_UP || (slot->state == TWI_SLOT_DIALING && from > ranks->rank))
		return ANSWER_WAIT;
	return ANSWER_TAKEN;
}

/* Takes a guest, and returns as slot_up. This rank's own slot is UP only after the answer. */
static int take_guest(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer)
{
	if (rank != ranks->rank)
		return slot_up(ranks, rank, peer);
	ranks->self.back = peer;
	mark_peer(peer, rank);
	return TOW_OK;
}

static void on_identity(struct tow_op *op, const struct tow_result *result)
{
	struct twi_handshake *guest = result->user;
	struct twi_ranks *ranks = guest->ranks;
	uint64_t bytes = result->bytes;
	int status = result->status;
	enum answer answer;
	uint32_t rank = 0;

	if (!twi_handshake_release(guest, op) || status < 0) {
		twi_handshake_end(guest, true);
		return;
	}
	answer = judge_guest(guest, bytes, &rank);
	if (answer == ANSWER_STRANGE)
		twi_log(ranks->engine->diag, 2,
			"group: a connection from %s is of another job, or of no rank",
			guest->peer->address);
	status = twi_handshake_send(guest, TWI_GROUP_TAG_ANSWER, (const uint32_t[]){ answer, 0 },
				    TWI_GROUP_ANSWER_BYTES / 4);
	if (status == TOW_OK && answer == ANSWER_TAKEN) {
		status = take_guest(ranks, rank, guest->peer);
		twi_handshake_end(guest, status < 0);
		return;
	}
	if (status == TOW_OK)
		status = twi_handshake_receive(guest, TWI_GROUP_TAG_NEVER, TWI_GROUP_GUEST_NS,
					       on_turned_away);
	if (status < 0)
		twi_handshake_end(guest, true);
}

static void greet_guest(struct twi_ranks *ranks, struct tow_peer *peer)
{
	struct twi_handshake *guest =
		ranks->guests < TWI_GROUP_GUESTS ? twi_handshake_begin(ranks, ranks->size) : NULL;

	if (guest == NULL) {
		tow_peer_close(peer);
		return;
	}
	ranks->guests++;
	guest->peer = peer;
	peer->passing = true;
	if (twi_handshake_receive(guest, TWI_GROUP_TAG_WHO, TWI_GROUP_GUEST_NS, on_identity) < 0)
		twi_handshake_end(guest, true);
}

static void on_accepted(struct tow_op *op, const struct tow_result *result)
{
	struct twi_ranks *ranks = result->user;

	tow_op_release(op);
	ranks->accept = NULL;
	if (!ranks->closing && result->status == TOW_OK) {
		greet_guest(ranks, result->peer);
		accept_next(ranks);
	} else if (result->status == TOW_OK) {
		tow_peer_close(result->peer);
	}
	twi_ranks_drop(ranks);
}

/* Without an operation no connection is accepted any more, and dials end at their deadlines. */
static void accept_next(struct twi_ranks *ranks)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_accepted,
						.user = ranks };

	if (twi_accept_own(ranks->endpoint, &options, &ranks->accept) < 0) {
		ranks->accept = NULL;
		twi_log(ranks->engine->diag, 1, "group: no more connections are accepted: %.160s",
			tow_error_message());
		return;
	}
	twi_ranks_use(ranks);
}

int twi_ranks_listen(struct twi_ranks *ranks)
{
	twi_assert_held(ranks->engine);
	ranks->endpoint->ranks = ranks;
	accept_next(ranks);
	return ranks->accept != NULL ? TOW_OK : TOW_EBUSY;
}

static void hang_up_slot(struct twi_slot *slot)
{
	struct tow_peer *peer = slot->peer;

	slot->state = TWI_SLOT_NONE;
	slot->peer = NULL;
	if (!nobody_waits(slot))
		wake_waiters(slot, twi_error(TOW_ECLOSED, "%s", tow_status_text(TOW_ECLOSED)));
	if (peer != NULL)
		tow_peer_close(peer);
}

void twi_ranks_hang_up(struct twi_ranks *ranks)
{
	struct twi_list *pos, *next;

	twi_assert_held(ranks->engine);
	ranks->closing = true;
	if (ranks->accept != NULL)
		tow_op_cancel(ranks->accept);
	twi_list_for_each_safe (pos, next, &ranks->handshakes) {
		struct twi_handshake *handshake = twi_container_of(pos, struct twi_handshake, link);

		if (handshake->op != NULL)
			tow_op_cancel(handshake->op);
	}
	for (uint32_t i = 0; i < ranks->size; i++)
		hang_up_slot(&ranks->slots[i]);
	hang_up_slot(&ranks->self.slot);
	if (ranks->self.back != NULL)
		tow_peer_close(ranks->self.back);
	ranks->self.back = NULL;
	if (ranks->endpoint != NULL)
		tow_endpoint_close(ranks->endpoint);
	ranks->endpoint = NULL;
}
