/*
 * inquiry_waits.c - adds waits and messages to this rank's state. See inquiry_self.c.
 *
 * The messages are those of the user: under way, whether a thread waits for them or not, or arrived
 * without a receive.
 */
#include <string.h>

#include "diag/record/counter.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/coll_run.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group_barrier.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op_table.h"

#define OPS_SCANNED    8192u /* rows of the table that are searched for the oldest operations */
#define STRAYS_OF_PEER 2u
#define USUAL_FOR      100u /* a long time stays usual for this many times its length */

_Static_assert((int)TWI_STATE_SEND == TWI_OP_SEND && (int)TWI_STATE_RECV == TWI_OP_RECV &&
		       (int)TWI_STATE_COPY == TWI_OP_COPY && (int)TWI_STATE_CALL_OP > TWI_OP_CALL,
	       "the judge knows the kinds of operations by these numbers");
_Static_assert(TWI_STATE_QUEUED == TWI_STAGE_QUEUED && TWI_STATE_OFFERED == TWI_STAGE_OFFERED &&
		       TWI_STATE_POSTED == TWI_STAGE_POSTED,
	       "and these stages");

static uint32_t rank_of(const struct twi_ranks *ranks, const struct tow_op *op)
{
	const struct tow_peer *peer = op->peer;

	if ((op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV) && op->stage == TWI_STAGE_HELD)
		return ((const struct twi_slot *)op->owner)->rank;
	for (uint32_t i = 0; ranks != NULL && peer != NULL && i < ranks->size; i++) {
		if (ranks->slots[i].peer == peer)
			return i;
	}
	return TWI_STATE_NO_RANK;
}

/* A call and the pieces of a stream are recognized by their nouns. */
static uint8_t kind_of(const struct tow_op *op)
{
	static const struct {
		const char *noun;
		uint8_t kind;
	} calls[] = { { "call", TWI_STATE_CALL_OP },
		      { "push", TWI_STATE_PUSH },
		      { "pull", TWI_STATE_PULL } };

	for (size_t i = 0; op->kind == TWI_OP_CALL && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(op->ops->noun, calls[i].noun) == 0)
			return calls[i].kind;
	}
	return op->kind;
}

static void fill_wait(const struct tow_op *op, uint64_t since_ns, const struct twi_ranks *ranks,
		      struct twi_state_wait *out)
{
	*out = (struct twi_state_wait){ .kind = kind_of(op),
					.stage = op->stage,
					.rank = rank_of(ranks, op),
					.tag = op->tag,
					.bytes = op->bytes,
					.moved = op->moved,
					.since_ns = since_ns };
	if (op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV)
		out->ctx = op->channel;
}

/* --- threads --- */

static void add_wait(const struct tow_op *op, uint64_t since_ns, const struct twi_ranks *ranks,
		     struct twi_rank_state *out)
{
	struct twi_state_wait *wait = &out->waits[out->wait_count++];

	fill_wait(op, since_ns, ranks, wait);
	if (twi_coll_of_op(op, &wait->ctx, &wait->seq, &wait->stage) ||
	    twi_barrier_of_op(op, &wait->ctx, &wait->seq))
		wait->kind = TWI_STATE_COLL;
	if (op->kind != TWI_OP_COPY)
		return;
	out->copies++;
	if (out->copy_since_ns == 0 || op->start_ns < out->copy_since_ns)
		out->copy_since_ns = op->start_ns;
}

/* A thread that waits for any of several operations has a row for each, while there is room. */
static void add_waiter(const struct twi_wait *wait, const struct twi_ranks *ranks,
		       struct twi_rank_state *out)
{
	out->waiters++;
	for (size_t i = 0; i < wait->count && out->wait_count < TWI_STATE_WAITS; i++) {
		if (!wait->listed || wait->entries[i].wait != NULL)
			add_wait(twi_container_of(wait->entries[i].what, struct tow_op, wait),
				 wait->since_ns, ranks, out);
	}
}

static void add_waits(const struct twi_engine *engine, const struct twi_ranks *ranks,
		      struct twi_rank_state *out)
{
	const struct twi_wait *driver = atomic_load_explicit(&engine->driver, memory_order_relaxed);
	struct twi_list *pos, *next;

	if (driver != NULL && !driver->listed)
		add_waiter(driver, ranks, out);
	twi_list_for_each_safe (pos, next, &engine->waiting)
		add_waiter(twi_container_of(pos, struct twi_wait, link), ranks, out);
}

/* --- messages under way --- */

static bool is_message(const struct tow_op *op)
{
	uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

	if ((state & (TWI_OP_USED | TWI_OP_DONE)) != TWI_OP_USED || op->space != TWI_SPACE_USER ||
	    op->stage == TWI_STAGE_COMPLETING)
		return false;
	return op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV || kind_of(op) != op->kind;
}

/* Keeps the oldest operations, in their order. */
static void keep_oldest(const struct tow_op *op, const struct tow_op *kept[TWI_STATE_MESSAGES],
			uint32_t *count_io)
{
	uint32_t at = *count_io;

	if (at == TWI_STATE_MESSAGES && op->start_ns >= kept[at - 1]->start_ns)
		return;
	if (at < TWI_STATE_MESSAGES)
		++*count_io;
	else
		at--;
	for (; at > 0 && kept[at - 1]->start_ns > op->start_ns; at--)
		kept[at] = kept[at - 1];
	kept[at] = op;
}

static void add_messages(const struct twi_engine *engine, const struct twi_ranks *ranks,
			 struct twi_rank_state *out)
{
	const struct tow_op *kept[TWI_STATE_MESSAGES];
	uint32_t count = 0;

	for (uint32_t i = 0; i < twi_min(engine->ops->made, OPS_SCANNED); i++) {
		const struct tow_op *op = &engine->ops->rows[i];

		if (is_message(op))
			keep_oldest(op, kept, &count);
	}
	for (uint32_t i = 0; i < count; i++)
		fill_wait(kept[i], kept[i]->start_ns, ranks, &out->messages[out->message_count++]);
}

/* --- messages that nobody receives --- */

/*
 * Tests whether an operation here waits for that rank. The messages of such ranks are listed first.
 */
static bool is_awaited(const struct twi_rank_state *out, uint32_t rank)
{
	for (uint32_t i = 0; i < out->wait_count; i++) {
		if (out->waits[i].kind == TWI_STATE_RECV && out->waits[i].rank == rank)
			return true;
	}
	for (uint32_t i = 0; i < out->message_count; i++) {
		if (out->messages[i].kind == TWI_STATE_RECV && out->messages[i].rank == rank)
			return true;
	}
	return false;
}

static void add_strays_of(const struct tow_peer *peer, uint32_t rank, struct twi_rank_state *out)
{
	struct twi_unreceived some[STRAYS_OF_PEER];
	uint32_t count = twi_message_unreceived(
		peer, some, twi_min(STRAYS_OF_PEER, TWI_STATE_STRAYS - out->stray_count));

	for (uint32_t i = 0; i < count; i++)
		out->strays[out->stray_count++] =
			(struct twi_state_stray){ .rank = rank,
						  .channel = some[i].channel,
						  .seq = some[i].seq,
						  .tag = some[i].tag,
						  .bytes = some[i].bytes };
}

static void add_strays(const struct twi_ranks *ranks, struct twi_rank_state *out)
{
	for (unsigned turn = 0; ranks != NULL && turn < 2; turn++) {
		for (uint32_t i = 0; i < ranks->size && out->stray_count < TWI_STATE_STRAYS; i++) {
			const struct twi_slot *slot = &ranks->slots[i];

			if (slot->state == TWI_SLOT_UP && slot->peer != NULL &&
			    is_awaited(out, i) == (turn == 0))
				add_strays_of(slot->peer, i, out);
		}
	}
}

/* --- progress --- */

/*
 * Returns the time that is usual for an operation. In a job where some take long now and then, that
 * long time is usual.
 */
static uint64_t usual_of(const struct twi_engine *engine, uint64_t now)
{
	const struct twi_long_ops *ops = &engine->long_ops;
	uint64_t usual = 0;

	for (uint32_t i = 0; i < twi_min(ops->count, TWI_LONG_OPS); i++) {
		uint64_t took = ops->took_ns[i];

		if (took > usual && now < ops->ended_ns[i] + took * USUAL_FOR)
			usual = took;
	}
	return usual;
}

/* --- waited times --- */

static uint32_t rank_of_peer(const void *arg, const void *peer)
{
	const struct twi_ranks *ranks = arg;

	for (uint32_t i = 0; ranks != NULL && i < ranks->size; i++) {
		if (ranks->slots[i].peer == peer)
			return i;
	}
	return TWI_STATE_NO_RANK;
}

static enum twi_waited waited_of(uint8_t kind)
{
	switch (kind) {
	case TWI_STATE_COLL:
		return TWI_WAITED_COLL;
	case TWI_STATE_SEND:
		return TWI_WAITED_SEND;
	case TWI_STATE_RECV:
		return TWI_WAITED_RECV;
	case TWI_STATE_CALL_OP:
		return TWI_WAITED_CALL;
	case TWI_STATE_PUSH:
	case TWI_STATE_PULL:
		return TWI_WAITED_STREAM;
	case TWI_STATE_COPY:
		return TWI_WAITED_COPY;
	default:
		return TWI_WAITED_OTHER;
	}
}

/* Adds waited times. The open wait of the followed thread is the one that began at seen_ns. */
static void add_waited(const struct twi_engine *engine, const struct twi_ranks *ranks,
		       struct twi_rank_state *out)
{
	struct twi_wait_log_ask ask = {
		.now_ns = out->now_ns, .step = &engine->step, .rank_of = rank_of_peer, .arg = ranks
	};

	for (uint32_t i = 0; i < out->wait_count; i++) {
		const struct twi_state_wait *wait = &out->waits[i];

		if (wait->since_ns != engine->cpu_log.seen_ns || wait->since_ns >= out->now_ns)
			continue;
		ask.open_ns = out->now_ns - wait->since_ns;
		ask.open_kind = waited_of(wait->kind);
		break;
	}
	twi_wait_log_tell(&engine->wait_log, &ask, out);
}

void twi_inquiry_waits(const struct twi_engine *engine, const struct twi_ranks *ranks,
		       struct twi_rank_state *out)
{
	uint64_t polls = atomic_load_explicit(&engine->drives, memory_order_relaxed);

	twi_assert_held(engine);
	add_waits(engine, ranks, out);
	add_messages(engine, ranks, out);
	add_strays(ranks, out);
	out->tells |= TWI_TELLS_MESSAGES;
	out->ended = twi_counter_sum(engine->diag, TWI_C_ops_completed);
	out->polls = polls - engine->own_polls;
	out->usual_ns = usual_of(engine, out->now_ns);
	add_waited(engine, ranks, out);
}
