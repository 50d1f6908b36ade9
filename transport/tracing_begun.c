/*
 * tracing_begun.c - what is under way at the end of a capture: collectives, messages, copies to and
 * from devices, calls, and threads that wait for them. Spans are written when they end, so the
 * rings show nothing of a job that hangs.
 *
 * Nothing is kept up to date for this. The operation table, the groups, the calls and the list of
 * waits are walked when a capture asks.
 */
#include "diag/record/span.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/engine_wait.h"
#include "transport/foreign/foreign.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_span.h"
#include "transport/op/op_table.h"
#include "transport/rpc/rpc.h"
#include "transport/tracing.h"

#define OPS_SCANNED 65536u

struct begun {
	struct twi_engine *engine;
	struct twi_span *out;
	size_t room, count;
};

static void begun_add(struct begun *begun, const struct twi_span *span)
{
	if (begun->count < begun->room)
		begun->out[begun->count] = *span;
	begun->count++;
}

static void add_colls(struct begun *begun)
{
	struct twi_list *group, *next_group, *pos, *next;

	twi_list_for_each_safe (group, next_group, &begun->engine->coll_groups) {
		const struct twi_coll_group *coll =
			twi_container_of(group, struct twi_coll_group, all);

		twi_list_for_each_safe (pos, next, &coll->runs) {
			const struct twi_coll_run *run =
				twi_container_of(pos, struct twi_coll_run, link);
			struct twi_span span;

			if (run->op == NULL || run->seq == 0) /* the set-up's own */
				continue;
			span = twi_coll_span(run, run->start_ns, TOW_OK);
			if (run->called_ns == 0) /* its thread may still be in the start call */
				span.queue_ns = 0;
			begun_add(begun, &span);
		}
	}
}

/* The number by which both sides know a message; 0: it has none yet. */
static uint64_t message_id(const struct tow_op *op)
{
	if (op->peer == NULL || op->seq == 0)
		return 0;
	return twi_peer_rpc_id(op->peer, op->seq, op->kind == TWI_OP_SEND);
}

static void add_op(struct begun *begun, const struct tow_op *op)
{
	struct twi_span span = {
		.start_ns = op->start_ns,
		.parent = op->span_parent,
		.bytes = op->bytes,
		.name = op->site.tag,
		.kind = op->ops->span,
		.lane = TWI_SPAN_NO_LANE,
	};

	if (op->kind == TWI_OP_COPY) {
		span.detail = op->copy.direction;
	} else {
		span.id = message_id(op);
		span.detail = op->space;
		span.queue_ns = twi_span_between(op->start_ns, op->begun_ns);
	}
	if (op->peer != NULL) {
		span.peer = twi_op_span_peer(op->peer);
		span.lane = (uint8_t)op->peer->lane->ops->id;
	}
	begun_add(begun, &span);
}

/* Adds the user's own operations, and not those that collectives and calls are made of. */
static void add_ops(struct begun *begun)
{
	const struct twi_op_table *table = begun->engine->ops;

	for (uint32_t i = 0; i < twi_min(table->made, OPS_SCANNED); i++) {
		const struct tow_op *op = &table->rows[i];
		uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

		if ((state & (TWI_OP_USED | TWI_OP_DONE)) == TWI_OP_USED &&
		    op->kind >= TWI_OP_SEND && op->kind <= TWI_OP_COPY &&
		    op->stage != TWI_STAGE_COMPLETING && twi_space_counts(op->space))
			add_op(begun, op);
	}
}

static uint64_t id_of(const struct tow_op *op)
{
	uint8_t state;
	uint64_t seq;
	uint32_t ctx;

	if (twi_coll_of_op(op, &ctx, &seq, &state))
		return (uint64_t)ctx << 32 | (seq & UINT32_MAX);
	if (op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV)
		return message_id(op);
	return op->ops == &twi_call_ops ? twi_rpc_call_id(op) : op->seq;
}

/*
 * When the program's wait began. Where the library asks other ranks meanwhile (op_late.c), the
 * engine's wait is only a part of it. That is so for operations in which all ranks take part.
 */
static uint64_t waited_since(const struct tow_op *op, uint64_t since_ns)
{
	const struct twi_coll_record *record = op->stamp.record;
	uint64_t ns;

	if (op->ops->waits_for == NULL)
		return since_ns;
	if (record == NULL || record->id != op->stamp.id ||
	    !twi_coll_record_word(record, &record->waited, &ns))
		ns = 0;
	return twi_min(since_ns, op->start_ns + ns);
}

/* Adds a wait; of several operations that a thread waits for, it shows the first. */
static void add_wait(struct begun *begun, const struct twi_wait *wait)
{
	const struct tow_op *op =
		twi_container_of(wait->entries[0].what, const struct tow_op, wait);
	const struct twi_span span = {
		.start_ns = waited_since(op, wait->since_ns),
		.id = id_of(op),
		.bytes = op->bytes,
		.name = op->site.tag,
		.kind = TWI_SPAN_WAIT,
		.lane = TWI_SPAN_NO_LANE,
		.detail = op->ops->span,
		.peer = op->peer != NULL ? twi_op_span_peer(op->peer) : 0,
	};

	begun_add(begun, &span);
}

static void add_waits(struct begun *begun)
{
	const struct twi_wait *driver =
		atomic_load_explicit(&begun->engine->driver, memory_order_relaxed);
	struct twi_list *pos, *next;

	if (driver != NULL && !driver->listed)
		add_wait(begun, driver);
	twi_list_for_each_safe (pos, next, &begun->engine->waiting)
		add_wait(begun, twi_container_of(pos, struct twi_wait, link));
}

size_t twi_tracing_unfinished(void *arg, struct twi_span *out, size_t room)
{
	struct begun begun = { .engine = arg, .out = out, .room = room };

	if (!twi_engine_enter_within(begun.engine, TWI_TRACING_PATIENCE_NS))
		return 0;
	if (begun.engine->ops != NULL)
		add_ops(&begun);
	add_colls(&begun);
	begun.count = twi_rpc_begun(begun.engine, out, room, begun.count);
	begun.count = twi_foreign_begun(begun.engine, out, room, begun.count);
	add_waits(&begun);
	twi_engine_leave(begun.engine);
	return begun.count;
}
