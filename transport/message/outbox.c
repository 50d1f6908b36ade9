/*
 * outbox.c - sends on their way to the lane: their queue, their credit, and their end. See
 * outbox.h.
 *
 * Budget of a small send: the lane's write, one time stamp, three counters. There is no system call
 * and no allocation, except that the ring of times doubles a few times in the life of a connection.
 */
#include "transport/message/outbox.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "transport/engine/held_count.h"
#include "transport/lanes/lane.h"
#include "transport/message/channel.h"
#include "transport/op/message_times.h"
#include "transport/op/parts.h"
#include "transport/wire/rule.h"

#define SENDS_TOLD  64u /* most waiting sends that are counted */
#define TIMES_LEAST 64u

static struct tow_op *op_of(struct twi_list *link)
{
	return twi_container_of(link, struct tow_op, link);
}

void twi_outbox_init(struct twi_outbox *outbox, struct tow_peer *peer,
		     const struct twi_outbox_ops *ops)
{
	outbox->peer = peer;
	outbox->ops = ops;
	peer->outbox = outbox;
	twi_list_init(&outbox->queued);
	for (unsigned i = 0; i < TWI_OUTBOX_BUCKETS; i++)
		twi_list_init(&outbox->by_seq[i]);
}

void twi_outbox_configure(struct twi_outbox *outbox, const struct twi_outbox_config *config)
{
	uint64_t half;

	/* A peer may grant any amount; this side limits what it uses. */
	outbox->credit.bytes = twi_min(config->credit_bytes, (uint64_t)TWI_CREDIT_MAX);
	/* A receiver reports given credit once it is a quarter, so half of the credit must do. */
	half = outbox->credit.bytes / 2;
	half -= twi_min(half, (uint64_t)twi_frame_cost(0));
	outbox->eager_bytes = (uint32_t)twi_min(config->eager_bytes, half);
	outbox->peer->eager_bytes = outbox->eager_bytes;
	outbox->timed_every_ns = config->timed_every_ns;
	outbox->checksum_all = config->checksum_all;
	outbox->hears = config->hears;
}

void twi_outbox_fini(struct twi_outbox *outbox)
{
	free(outbox->times);
	outbox->times = NULL;
	outbox->times_room = outbox->times_count = 0;
	twi_channels_fini(outbox->peer);
}

/* --- the end of a send --- */

/* Ends a send that is not found by its number. */
static inline void end_small(struct twi_outbox *outbox, struct tow_op *op)
{
	if (op->claim.kind != TWI_CLAIM_NONE)
		twi_claim_drop(outbox->peer->engine, &op->claim);
	op->rpc_id = twi_peer_rpc_id(outbox->peer, op->seq, true);
	twi_op_complete(op, TOW_OK, op->bytes);
}

void twi_outbox_end(struct twi_outbox *outbox, struct tow_op *op, int status, uint64_t bytes)
{
	twi_list_remove(&op->seq_link);
	if (twi_unlikely(op->lane_state != NULL)) {
		outbox->ops->forget(outbox, op);
		op->lane_state = NULL;
	}
	if (op->claim.kind != TWI_CLAIM_NONE)
		twi_claim_drop(outbox->peer->engine, &op->claim);
	if (op->seq != 0)
		op->rpc_id = twi_peer_rpc_id(outbox->peer, op->seq, true);
	twi_op_complete(op, status, bytes);
}

static void end_by_seq(struct twi_outbox *outbox, struct twi_list *bucket, int status)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, bucket) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, seq_link);

		if (outbox->ops->lost == NULL || outbox->ops->lost(outbox, op, status))
			twi_outbox_end(outbox, op, status, 0);
	}
}

static void end_queued(struct twi_outbox *outbox, struct twi_list *queued, int status)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(queued)) != NULL)
		twi_outbox_end(outbox, op_of(entry), status, 0);
}

/* Sends begin to wait for credit, or no send waits for credit any more. */
static void note_starving(struct twi_outbox *outbox, bool starves)
{
	uint64_t now_ns = twi_engine_batch_now(outbox->peer->engine);

	if (outbox->starved_since_ns != 0)
		outbox->starved_ns += now_ns - twi_min(outbox->starved_since_ns, now_ns);
	outbox->starved_since_ns = starves ? twi_max(now_ns, 1u) : 0; /* a virtual clock may be 0 */
}

void twi_outbox_fail(struct twi_outbox *outbox, int status)
{
	struct twi_channels *channels = outbox->peer->channels;
	struct twi_list *entry;

	outbox->failed = status;
	end_queued(outbox, &outbox->queued, status);
	outbox->owes_credit = false;
	if (outbox->starved_since_ns != 0)
		note_starving(outbox, false);
	while (channels != NULL && (entry = twi_list_first(&channels->turns)) != NULL) {
		twi_list_remove(entry);
		end_queued(outbox, &twi_container_of(entry, struct twi_channel, turn)->queued,
			   status);
	}
	twi_channels_fail(outbox->peer);
	for (unsigned i = 0; i < TWI_OUTBOX_BUCKETS; i++)
		end_by_seq(outbox, &outbox->by_seq[i], status);
}

/* --- times --- */

/* Doubles the ring; the entries keep their order. False: no memory, or the limit is reached. */
static bool grow_times(struct twi_outbox *outbox)
{
	uint32_t room = twi_max(outbox->times_room * 2, TIMES_LEAST);
	struct twi_outbox_time *times;

	if (room > TWI_OUTBOX_TIMES_MAX)
		return false;
	times = malloc(room * sizeof(times[0]));
	if (times == NULL)
		return false;
	for (uint32_t i = 0; i < outbox->times_count; i++)
		times[i] = outbox->times[(outbox->times_first + i) & (outbox->times_room - 1)];
	free(outbox->times);
	outbox->times = times;
	outbox->times_first = 0;
	outbox->times_room = room;
	return true;
}

/* If there is no room, the oldest entries stay: they have waited longest. */
static void note_time(struct twi_outbox *outbox, const struct twi_outbound *out, uint64_t queue_ns)
{
	if (outbox->times_count == outbox->times_room && !grow_times(outbox))
		return;
	outbox->times[(outbox->times_first + outbox->times_count++) & (outbox->times_room - 1)] =
		(struct twi_outbox_time){
			.seq = out->seq,
			.start_ns = out->start_ns,
			.queue_ns = queue_ns,
			.bytes = (uint32_t)out->bytes,
			.space = out->space,
		};
}

static void time_report(struct twi_outbox *outbox, const struct twi_outbox_time *time,
			uint64_t kept_ns)
{
	struct tow_peer *peer = outbox->peer;
	struct twi_latency_reading reading = {
		.kind = twi_latency_kind_of(time->space),
		.lane = peer->lane->ops->id,
		.id = twi_peer_rpc_id(peer, time->seq, true),
		.bytes = time->bytes,
	};

	twi_peer_heard(peer, peer->engine, &reading, time->start_ns, kept_ns, time->queue_ns,
		       TWI_LATENCY_UNKNOWN);
}

void twi_outbox_arrived(struct twi_outbox *outbox, const struct tow_op *op, uint64_t kept_ns,
			uint64_t match_ns)
{
	struct tow_peer *peer = outbox->peer;
	struct twi_latency_reading reading = {
		.kind = twi_latency_kind_of(op->space),
		.lane = peer->lane->ops->id,
		.id = twi_peer_rpc_id(peer, op->seq, true),
		.bytes = op->bytes,
	};

	if (twi_space_counts(op->space))
		twi_peer_heard(peer, peer->engine, &reading, op->start_ns, kept_ns,
			       twi_op_queue_ns(op), match_ns);
	twi_count(peer->engine->diag, twi_counter_of(TWI_C_send_bytes, op->space), op->bytes);
}

/* --- writing --- */

/* Accounts a send that has its number now, and has used so much credit. */
static inline void charge_send(struct twi_outbox *outbox, struct twi_credit_out *credit,
			       uint64_t seq, uint8_t space, uint32_t cost)
{
	twi_assert(seq == outbox->seq_sent + 1);
	outbox->seq_sent = seq;
	twi_peer_sent(outbox->peer, space);
	credit->used += cost;
}

uint64_t twi_outbox_starved_ns(const struct twi_outbox *outbox, uint64_t now_ns)
{
	uint64_t since_ns = outbox->starved_since_ns;

	return outbox->starved_ns + (since_ns != 0 ? now_ns - twi_min(since_ns, now_ns) : 0);
}

static bool has_credit(struct twi_outbox *outbox, const struct twi_credit_out *credit,
		       const struct tow_op *op, uint32_t cost)
{
	if (twi_likely(twi_credit_has(credit, cost)))
		return true;
	if (outbox->starved_since_ns == 0)
		note_starving(outbox, true);
	twi_count(outbox->peer->engine->diag, TWI_C_credit_stalls,
		  op->stage == TWI_STAGE_NEW && op->space == TWI_SPACE_USER);
	return false;
}

/* Is the message to have a span? Then it needs an operation, which has the span's times. */
static inline bool has_span(const struct twi_engine *engine, const struct twi_outbound *out)
{
#ifndef TWI_NO_DIAGNOSTICS
	return twi_unlikely(twi_span_chosen(engine->diag, out->bytes, out->seq));
#else
	(void)engine, (void)out;
	return false;
#endif
}

/*
 * Writes a message that has credit. False: there is no room. framed_ns: when it left its queue.
 * started: counts the message as a send that has just been started.
 */
static inline __attribute__((always_inline)) bool
write_small(struct twi_outbox *outbox, struct twi_credit_out *credit,
	    const struct twi_outbound *out, uint32_t cost, uint64_t framed_ns, bool started)
{
	const struct twi_engine *engine = outbox->peer->engine;

	if (twi_unlikely(!outbox->ops->small(outbox, out)))
		return false;
	charge_send(outbox, credit, out->seq, out->space, cost);
	if (outbox->hears && twi_outbox_times(outbox, out))
		note_time(outbox, out, framed_ns - twi_min(out->start_ns, framed_ns));
	twi_held_count_two(engine, TWI_C_eager_sends, out->space == TWI_SPACE_USER,
			   twi_counter_of(TWI_C_send_bytes, out->space), out->bytes);
	if (started)
		twi_held_count(engine, twi_counter_of(TWI_C_sends, out->space), 1);
	return true;
}

/* Gives an early send the present time as its start. */
static inline void stamp_start(struct twi_outbox *outbox, struct tow_op *op)
{
	op->early = false;
	op->framed_ns = op->start_ns = twi_engine_batch_now(outbox->peer->engine);
}

static inline __attribute__((always_inline)) bool
put_small(struct twi_outbox *outbox, struct twi_credit_out *credit, struct tow_op *op, bool started)
{
	uint32_t cost = twi_frame_cost((uint32_t)op->bytes);

	if (!has_credit(outbox, credit, op, cost))
		return false;
	op->seq = outbox->seq_sent + 1;
	if (op->early &&
	    (has_span(outbox->peer->engine, &op->out) || twi_outbox_is_due(outbox, &op->out)))
		stamp_start(outbox, op);
	twi_op_framed(outbox->peer->engine, op);
	if (!write_small(outbox, credit, &op->out, cost, op->framed_ns, started)) {
		op->seq = 0;
		return false;
	}
	if (op->early)
		stamp_start(outbox, op);
	end_small(outbox, op);
	return true;
}

bool twi_outbox_at_once(struct twi_outbox *outbox, struct twi_outbound *out)
{
	struct twi_engine *engine = outbox->peer->engine;
	struct twi_credit_out *credit = &outbox->credit;
	const struct twi_list *queued = &outbox->queued;
	uint32_t cost;

	if (twi_unlikely(out->channel != 0)) {
		struct twi_channel *channel = twi_channel_find(outbox->peer, out->channel);

		if (channel == NULL)
			return false; /* the peer ended before it could be opened */
		credit = &channel->out;
		queued = &channel->queued;
	}
	if (outbox->failed != 0 || !twi_list_empty(queued) ||
	    (twi_unlikely(out->bytes > outbox->eager_bytes) &&
	     (outbox->ops->alone == NULL || !outbox->ops->alone(outbox, out))))
		return false;
	cost = twi_frame_cost((uint32_t)out->bytes);
	out->seq = outbox->seq_sent + 1;
	if (!twi_credit_has(credit, cost) || has_span(engine, out) ||
	    !write_small(outbox, credit, out, cost, out->start_ns, true))
		return false;
	twi_held_count(engine, TWI_C_ops_completed, 1);
	return true;
}

bool twi_outbox_control(struct twi_outbox *outbox, uint64_t tag)
{
	const struct twi_outbound out = { .seq = outbox->seq_sent + 1,
					  .tag = tag,
					  .start_ns = twi_engine_batch_now(outbox->peer->engine),
					  .space = TWI_SPACE_LINK,
					  .channel = TWI_CHANNEL_CONTROL };

	return write_small(outbox, &outbox->credit, &out, 0, out.start_ns, true);
}

static __attribute__((noinline)) bool put_offer(struct twi_outbox *outbox,
						struct twi_credit_out *credit, struct tow_op *op)
{
	struct twi_engine *engine = outbox->peer->engine;
	uint8_t stage = op->stage;
	uint32_t cost = twi_frame_cost(0);

	if (!has_credit(outbox, credit, op, cost))
		return false;
	twi_op_framed(engine, op);
	op->seq = outbox->seq_sent + 1;
	op->stage = TWI_STAGE_OFFERED;
	if (!outbox->ops->offer(outbox, op)) {
		op->seq = 0;
		op->stage = stage;
		return false;
	}
	charge_send(outbox, credit, op->seq, op->space, cost);
	twi_count(engine->diag, TWI_C_rendezvous_sends, op->space == TWI_SPACE_USER);
	twi_list_remove(&op->link);
	twi_claim_count(op, op->bytes);
	twi_list_push_back(&outbox->by_seq[op->seq % TWI_OUTBOX_BUCKETS], &op->seq_link);
	return true;
}

static inline __attribute__((always_inline)) bool
put_message(struct twi_outbox *outbox, struct twi_credit_out *credit, struct tow_op *op)
{
	return twi_likely(op->bytes <= outbox->eager_bytes) ? put_small(outbox, credit, op, false)
							    : put_offer(outbox, credit, op);
}

bool twi_outbox_put(struct twi_outbox *outbox, struct twi_credit_out *credit, struct tow_op *op)
{
	return put_message(outbox, credit, op);
}

static int claim_memory(struct twi_outbox *outbox, struct tow_op *op)
{
	return outbox->ops->claim != NULL ? outbox->ops->claim(outbox, op)
					  : twi_claim_need(outbox->peer, op);
}

void twi_outbox_queue(struct twi_outbox *outbox, struct twi_list *queued, struct tow_op *op)
{
	op->stage = TWI_STAGE_QUEUED;
	twi_claim_lease(outbox->peer, op);
	twi_list_push_back(queued, &op->link);
	if (outbox->ops->waits != NULL)
		outbox->ops->waits(outbox, op);
}

bool twi_outbox_begin(struct twi_outbox *outbox, struct tow_op *op, int status)
{
	twi_held_count(outbox->peer->engine, twi_counter_of(TWI_C_sends, op->space), 1);
	if (twi_likely(status == 0) && op->bytes > outbox->eager_bytes)
		status = claim_memory(outbox, op);
	if (twi_unlikely(status < 0))
		twi_outbox_end(outbox, op, status, 0);
	return status >= 0;
}

/* Sends a large message, or a small one that cannot go now. */
static __attribute__((noinline)) void send_slowly(struct twi_outbox *outbox, struct tow_op *op)
{
	if (op->early)
		stamp_start(outbox, op);
	if (!twi_outbox_begin(outbox, op, outbox->failed))
		return;
	if (op->bytes > outbox->eager_bytes && twi_list_empty(&outbox->queued) &&
	    put_offer(outbox, &outbox->credit, op))
		return;
	twi_outbox_queue(outbox, &outbox->queued, op);
}

void twi_outbox_send(struct twi_outbox *outbox, struct tow_op *op)
{
	bool goes = outbox->failed == 0 && op->bytes <= outbox->eager_bytes &&
		    twi_list_empty(&outbox->queued);

	if (twi_unlikely(op->channel != 0)) {
		if (op->early)
			stamp_start(outbox, op);
		twi_outbox_send_on_channel(outbox, op);
	} else if (twi_unlikely(!goes) || !put_small(outbox, &outbox->credit, op, true))
		send_slowly(outbox, op);
}

static unsigned drain_queue(struct twi_outbox *outbox, unsigned most)
{
	struct twi_list *entry;
	unsigned count = 0;

	while (count < most && (entry = twi_list_first(&outbox->queued)) != NULL &&
	       put_message(outbox, &outbox->credit, op_of(entry)))
		count++;
	return count;
}

unsigned twi_outbox_drain(struct twi_outbox *outbox, unsigned most)
{
	bool channels = outbox->peer->channels != NULL || outbox->owes_credit, starves;
	unsigned count = twi_unlikely(channels) ? twi_outbox_drain_channels(outbox, most)
						: drain_queue(outbox, most);

	starves = twi_outbox_no_credit(outbox);
	if (starves != (outbox->starved_since_ns != 0))
		note_starving(outbox, starves);
	return count;
}

bool twi_outbox_abort(struct twi_outbox *outbox, struct tow_op *op, int status, bool force)
{
	if (op->stage != TWI_STAGE_QUEUED)
		return outbox->ops->take_back(outbox, op, status, force);
	twi_outbox_end(outbox, op, status, 0);
	/* Smaller sends behind it may have waited for it alone. */
	twi_outbox_drain(outbox, UINT32_MAX);
	return true;
}

/* --- what the other side acknowledges --- */

bool twi_outbox_has_large(const struct twi_outbox *outbox)
{
	for (unsigned i = 0; i < TWI_OUTBOX_BUCKETS; i++) {
		if (!twi_list_empty(&outbox->by_seq[i]))
			return true;
	}
	return false;
}

struct tow_op *twi_outbox_find(const struct twi_outbox *outbox, uint64_t seq)
{
	const struct twi_list *bucket = &outbox->by_seq[seq % TWI_OUTBOX_BUCKETS];

	for (struct twi_list *pos = bucket->next; pos != bucket; pos = pos->next) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, seq_link);

		if (op->seq == seq)
			return op;
	}
	return NULL;
}

static int break_rule(uint8_t *rule, enum twi_rule which)
{
	*rule = *rule != 0 ? *rule : (uint8_t)which;
	return TOW_EPROTOCOL;
}

int twi_outbox_acked(struct twi_outbox *outbox, uint64_t seq, uint64_t credit_returned,
		     uint64_t kept_ns, uint8_t *rule)
{
	const char *address = outbox->peer->address;

	if (twi_unlikely(seq > outbox->seq_sent || seq < outbox->seq_acked)) {
		twi_rule_error(address, TWI_RULE_ACK,
			       "acknowledged message %llu, sent are %llu to %llu",
			       (unsigned long long)seq, (unsigned long long)outbox->seq_acked,
			       (unsigned long long)outbox->seq_sent);
		return break_rule(rule, TWI_RULE_ACK);
	}
	if (twi_unlikely(credit_returned > outbox->credit.used ||
			 credit_returned < outbox->credit.returned)) {
		twi_rule_error(address, TWI_RULE_CREDIT_BACK,
			       "returned credit that was never used");
		return break_rule(rule, TWI_RULE_CREDIT_BACK);
	}
	while (outbox->times_count > 0) {
		const struct twi_outbox_time *time = &outbox->times[outbox->times_first];

		if (time->seq > seq)
			break;
		time_report(outbox, time, kept_ns);
		outbox->times_first = (outbox->times_first + 1) & (outbox->times_room - 1);
		outbox->times_count--;
	}
	outbox->seq_acked = seq;
	outbox->credit.returned = credit_returned;
	twi_assert_hot(twi_credit_has(&outbox->credit, 0));
	return TOW_OK;
}

/* --- checksums --- */

bool twi_outbox_sum_offer(const struct twi_outbox *outbox, const struct tow_op *op,
			  uint32_t *sum_out)
{
	if (twi_likely(!twi_outbox_sums(outbox, op->seq)))
		return false;
	if (op->bytes > TWI_OUTBOX_SUM_MAX && !outbox->checksum_all)
		return false;
	if (twi_op_reach(op, 0, op->bytes, false) != op->bytes)
		return false;
	*sum_out = twi_op_checksum(op, 0, 0, op->bytes);
	return true;
}

/* --- state for /v1/peers --- */

void twi_outbox_describe(const struct twi_outbox *outbox, struct twi_emit *emit)
{
	if (outbox->hears)
		twi_emit_u64(emit, "messages_unacknowledged", outbox->seq_sent - outbox->seq_acked);
	twi_emit_u64(emit, "credit_bytes", outbox->credit.bytes);
	twi_emit_u64(emit, "credit_used_bytes", outbox->credit.used - outbox->credit.returned);
	twi_channels_describe(outbox->peer, emit);
}

static uint32_t count_queued(const struct twi_list *queued, uint32_t count)
{
	for (const struct twi_list *pos = queued->next; pos != queued && count < SENDS_TOLD;
	     pos = pos->next)
		count++;
	return count;
}

uint32_t twi_outbox_waiting(const struct twi_outbox *outbox)
{
	const struct twi_channels *channels = outbox->peer->channels;
	uint32_t count = count_queued(&outbox->queued, 0);

	if (channels == NULL)
		return count;
	for (struct twi_list *pos = channels->turns.next;
	     pos != &channels->turns && count < SENDS_TOLD; pos = pos->next)
		count = count_queued(&twi_container_of(pos, struct twi_channel, turn)->queued,
				     count);
	return count;
}
