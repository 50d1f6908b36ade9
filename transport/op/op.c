/* op.c - how an operation begins, is waited for and ends. See op.h. */
#include "transport/op/op.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/held_count.h"
#include "transport/op/endpoint.h"
#include "transport/op/failure.h"
#include "transport/op/message.h"
#include "transport/op/op_describe.h"
#include "transport/op/op_span.h"
#include "transport/op/op_table.h"
#include "transport/op/op_wait.h"
#include "transport/op/polled.h"
#include "transport/op/queue.h"

_Static_assert(TWI_C_call_messages == TWI_C_sends + TWI_SPACE_RPC &&
		       TWI_C_coll_messages == TWI_C_sends + TWI_SPACE_GROUP &&
		       TWI_C_internal_messages == TWI_C_sends + TWI_SPACE_LINK &&
		       TWI_C_call_send_bytes == TWI_C_send_bytes + TWI_SPACE_RPC &&
		       TWI_C_coll_send_bytes == TWI_C_send_bytes + TWI_SPACE_GROUP &&
		       TWI_C_internal_send_bytes == TWI_C_send_bytes + TWI_SPACE_LINK &&
		       TWI_C_call_recv_bytes == TWI_C_recv_bytes + TWI_SPACE_RPC &&
		       TWI_C_coll_recv_bytes == TWI_C_recv_bytes + TWI_SPACE_GROUP &&
		       TWI_C_internal_recv_bytes == TWI_C_recv_bytes + TWI_SPACE_LINK,
	       "the families of counter.def stand in the order of enum twi_space");

__thread uint64_t twi_op_blocked_ns __attribute__((tls_model("initial-exec")));

static void prepare_op(struct tow_op *op, struct twi_engine *engine, const struct twi_op_ops *ops,
		       const struct tow_op_options *options, bool early)
{
	twi_list_init(&op->match.link);
	twi_list_init(&op->link);
	twi_list_init(&op->seq_link);
	op->match.context = TWI_SPACE_USER;
	op->match.held = op->match.wild = op->match.any = false;
	op->wait.memory_polled = false;
	op->wait.crowd = false;
	op->wait.waits = NULL;
	op->ops = ops;
	op->engine = engine;
	op->peer = NULL;
	op->kind = (uint8_t)ops->kind;
	op->space = TWI_SPACE_USER;
	op->stage = TWI_STAGE_NEW;
	op->channel = 0;
	op->zerocopy = false;
	op->forgotten = false;
	op->view = TWI_VIEW_NONE;
	op->impatient = false;
	op->roomless = false;
	op->canceled = false;
	op->unused = 0;
	op->embedded = false;
	atomic_store_explicit(&op->held, TWI_HELD_NOT, memory_order_relaxed);
	op->early = early;
	op->start_ns = early ? twi_engine_seen(engine) : twi_engine_batch_now(engine);
	op->data = NULL;
	op->bytes = op->tag = op->seq = 0;
	op->deadline_ns = UINT64_MAX;
	op->done = NULL;
	op->user = NULL;
	op->site = TWI_SITE_NONE;
	memset(&op->rpc_id, 0, offsetof(struct tow_op, stamp) - offsetof(struct tow_op, rpc_id));
	op->stamp.record = NULL;
	twi_claim_init(&op->claim);
	op->timed.prev = NULL;
	op->truncate = TWI_TRUNCATE_NEVER;
	op->lent = false;
	op->awaits_view = false;
	if (options != NULL) {
		op->done = options->done;
		op->user = options->user;
		if (op->done != NULL)
			twi_told_start(engine, op->start_ns);
		op->truncate = (options->flags & TOW_OP_TRUNCATE) != 0 ? TWI_TRUNCATE_MAY
								       : TWI_TRUNCATE_NEVER;
		op->lent = (options->flags & TOW_OP_LEND) != 0;
		if (options->timeout_ns < UINT64_MAX - op->start_ns)
			op->deadline_ns = op->start_ns + options->timeout_ns;
	}
	atomic_store_explicit(&op->wait.state, TWI_OP_USED, memory_order_relaxed);
}

/* Frees the row. The engine is held. */
static void recycle_op(struct tow_op *op)
{
	struct twi_op_table *table = op->engine->ops;
	uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

	twi_assert_held(op->engine);
	twi_assert_hot((state & TWI_OP_USED) != 0);
	if (twi_unlikely(op->ops->release != NULL))
		op->ops->release(op);
	twi_failure_drop(op);
	if ((state & TWI_OP_DONE) != 0 && op->ops->release == NULL)
		twi_op_table_release(table, op);
	else
		twi_op_table_put_free(table, op);
}

/* A callback is no thread that leaves. */
static inline enum twi_left left_by(const struct twi_op_ops *ops,
				    const struct tow_op_options *options)
{
	if (options != NULL && (options->done != NULL || options->queue != NULL))
		return TWI_LEFT_TOLD;
	return ops->waited != NULL ? TWI_LEFT_COLL : TWI_LEFT_STARTED;
}

static inline struct tow_op *acquire_row(struct twi_engine *engine, const struct twi_op_ops *ops,
					 const struct tow_op_options *options, bool early)
{
	struct tow_op *op = twi_op_table_take(engine->ops);

	twi_assert_held(engine);
	if (op == NULL) {
		twi_error(TOW_EBUSY,
			  "all %u operations are in use; release finished ones or raise max_ops",
			  engine->ops->count);
		return NULL;
	}
	prepare_op(op, engine, ops, options, early);
	if (twi_unlikely(options != NULL && options->queue != NULL) &&
	    !twi_queue_join(options->queue, op)) {
		recycle_op(op);
		return NULL;
	}
	if (!engine->in_callback)
		twi_handoff_leave(&engine->handoff, left_by(ops, options),
				  early ? 0 : op->start_ns);
	return op;
}

struct tow_op *twi_op_acquire(struct twi_engine *engine, const struct twi_op_ops *ops,
			      const struct tow_op_options *options)
{
	return acquire_row(engine, ops, options, false);
}

struct tow_op *twi_op_acquire_early(struct twi_engine *engine, const struct twi_op_ops *ops,
				    const struct tow_op_options *options)
{
	return acquire_row(engine, ops, options, true);
}

void twi_op_embed(struct tow_op *op, struct twi_engine *engine, const struct twi_op_ops *ops,
		  const struct tow_op_options *options)
{
	twi_assert_held(engine);
	prepare_op(op, engine, ops, options, false);
	op->embedded = true;
}

void twi_op_discard(struct tow_op *op)
{
	twi_assert_held(op->engine);
	twi_assert_hot(op->stage != TWI_STAGE_COMPLETING); /* publish_op frees its row */
	if (twi_unlikely(twi_op_is_queued(op)))
		twi_queue_leave(op);
	if (!op->embedded)
		recycle_op(op);
}

void twi_op_forget(struct tow_op *op)
{
	twi_assert_held(op->engine);
	twi_assert_hot(
		(atomic_load_explicit(&op->wait.state, memory_order_relaxed) & TWI_OP_DONE) == 0);
	if (!twi_op_is_queued(op))
		atomic_store_explicit(&op->wait.state, TWI_OP_USED | TWI_OP_RELEASED,
				      memory_order_relaxed);
}

void twi_op_orphan(struct tow_op *op)
{
	twi_assert_held(op->engine);
	op->queue = NULL;
	if ((atomic_load_explicit(&op->wait.state, memory_order_relaxed) & TWI_OP_DONE) != 0)
		recycle_op(op);
	else
		atomic_store_explicit(&op->wait.state, TWI_OP_USED | TWI_OP_RELEASED,
				      memory_order_relaxed);
}

/* Shows the result to the user, or frees the row of an operation that no thread asks for. */
static void publish_op(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;
	uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

	twi_assert((state & TWI_OP_DONE) == 0);
	if ((state & TWI_OP_RELEASED) != 0) {
		recycle_op(op);
	} else { /* release: the result is written before; pairs with the load in twi_op_is_done */
		if (twi_likely(op->ops->release == NULL))
			twi_op_table_put_ended(engine->ops, op);
		atomic_store_explicit(&op->wait.state, state | TWI_OP_DONE, memory_order_release);
	}
	if (twi_unlikely(atomic_load_explicit(&engine->sleepers, memory_order_relaxed) > 0 ||
			 engine->any_waits > 0))
		twi_engine_tell(engine, &op->wait);
}

void twi_op_complete(struct tow_op *op, int status, uint64_t bytes)
{
	struct twi_engine *engine = op->engine;
	enum twi_op_span_is span;

	twi_assert_held(engine);
	twi_assert(op->stage != TWI_STAGE_COMPLETING);
	op->stage = TWI_STAGE_COMPLETING;
	op->status = status;
	op->result_bytes = bytes;
	op->latency_ns = twi_engine_batch_now(engine) - op->start_ns;
	span = twi_op_span_is(op);
	if (twi_likely(span == TWI_OP_SPAN_PASSED))
		twi_held_count(engine, TWI_C_spans_sampled_out, 1);
	else if (span == TWI_OP_SPAN_WANTED)
		twi_op_span(op);
	if (twi_unlikely(twi_heap_has(&op->timed)))
		twi_op_unwatch(op);
	twi_list_remove(&op->link);
	if (twi_unlikely(op->channel != 0))
		twi_list_remove(&op->on_channel);
	if (twi_unlikely(op->roomless))
		twi_view_settled(op);
	if (twi_likely(!op->embedded)) {
		twi_held_count(engine, TWI_C_ops_completed, op->space == TWI_SPACE_USER);
		if (twi_unlikely(op->latency_ns >= TWI_LONG_NS) && status >= 0 &&
		    op->space == TWI_SPACE_USER)
			twi_long_ops_note(&engine->long_ops, op->latency_ns,
					  twi_engine_batch_now(engine));
		if (twi_unlikely(status < 0)) {
			if (op->space == TWI_SPACE_USER)
				twi_failure_count(op, status);
			twi_failure_keep(op);
		}
	}
	if (twi_unlikely(op->forgotten && status < 0))
		twi_failure_tell(op, status);
	if (op->done != NULL || (op->ops->ended != NULL && status == TOW_OK))
		twi_list_push_back(&engine->callbacks, &op->link);
	else
		publish_op(op);
}

static void fill_result(const struct tow_op *op, struct tow_result *out)
{
	const struct tow_result result = {
		.size = sizeof(result),
		.status = op->status,
		.bytes = op->result_bytes,
		.tag = op->tag,
		.rpc_id = op->rpc_id,
		.latency_ns = op->latency_ns,
		.peer = op->peer,
		.user = op->user,
		.data = op->kind == TWI_OP_RECV || op->kind == TWI_OP_CALL ? op->data : NULL,
		.message = twi_unlikely(op->status < 0) ? twi_failure_text(op) : NULL,
		.dropped_bytes = op->truncate == TWI_TRUNCATE_DONE && op->status >= 0
					 ? op->dropped_bytes
					 : 0,
	};

	*out = result;
}

/* The ends that the library's own thread reports in one run of callbacks. */
struct callback_report {
	bool own, looked;
	struct twi_told_look look;
	struct twi_told_long longest; /* set if `looked` */
};

/* The end of a user's operation is about to be reported. */
static void note_reported(const struct tow_op *op, struct callback_report *report)
{
	if (twi_unlikely(op->engine->told.near > 0))
		twi_told_end(&op->engine->told);
	if (twi_likely(!report->own))
		return;
	twi_handoff_told(&op->engine->handoff);
	if (op->ops->waited != NULL)
		twi_told_coll(&op->engine->told);
	if (op->latency_ns < TWI_TOLD_LEAST)
		return;
	if (!report->looked) {
		twi_told_before(op->engine, &report->look);
		report->longest.took_ns = 0;
		report->looked = true;
	}
	if (op->latency_ns > report->longest.took_ns)
		report->longest =
			(struct twi_told_long){ op->latency_ns, op->ops->wait_kind, op->peer };
}

static bool run_callbacks(struct twi_engine *engine)
{
	struct callback_report report = { .own = twi_background_self(engine) };
	struct twi_list *entry;
	uint64_t since_ns = 0;
	bool any = false;

	twi_assert_held(engine);
	if (engine->in_callback)
		return false;
	engine->in_callback = true;
	while ((entry = twi_list_first(&engine->callbacks)) != NULL &&
	       !(any && twi_engine_is_asked(engine, &since_ns))) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);
		struct tow_result result;

		twi_list_remove(entry);
		fill_result(op, &result);
		any = true;
		if (op->embedded) {
			op->done(op, &result); /* op may be started again by now, or freed */
			engine->now_ns = 0;    /* the callback may have taken long */
			if (twi_unlikely(engine->away.push_due))
				twi_engine_push(engine);
			continue;
		}
		if (op->ops->ended != NULL && op->status == TOW_OK)
			op->ops->ended(op);
		if (twi_unlikely(twi_op_is_queued(op))) {
			note_reported(op, &report);
			publish_op(op);
			twi_queue_put(op); /* last: another thread may free the row at once */
			continue;
		}
		if (op->done != NULL) {
			if (op->space == TWI_SPACE_USER) { /* otherwise it is the library's own */
				twi_polled_ended(op);
				note_reported(op, &report);
			}
			if (twi_unlikely(result.status < 0))
				twi_failure_recall(op);
			op->done(op, &result);
			engine->now_ns = 0;
		}
		publish_op(op);
	}
	engine->in_callback = false;
	if (twi_unlikely(report.looked))
		twi_told_after(engine, &report.look, &report.longest);
	return any;
}

const struct twi_op_hooks twi_op_hooks = { .run_callbacks = run_callbacks,
					   .expire = twi_op_expire,
					   .in_flight = twi_op_table_in_flight };

TOW_PUBLIC int tow_op_cancel(struct tow_op *op)
{
	struct twi_engine *engine;

	if (!twi_op_valid(op))
		return twi_op_refuse("tow_op_cancel");
	engine = op->engine;
	if (twi_engine_forked(engine))
		return twi_error(TOW_EFORKED, "tow_op_cancel in a forked child");
	twi_engine_enter(engine);
	/* Reaps other rings' requests first. A thread that can have no ring cancels without one. */
	twi_engine_bind_ring(engine);
	if (op->stage != TWI_STAGE_COMPLETING && op->ops->abort != NULL)
		op->ops->abort(op, TOW_ECANCELED);
	twi_engine_leave(engine);
	return TOW_OK;
}

TOW_PUBLIC int tow_op_result(struct tow_op *op, struct tow_result *result_out)
{
	struct tow_result result;

	if (!twi_op_valid(op))
		return twi_op_refuse("tow_op_result");
	if (twi_unlikely(result_out == NULL || result_out->size != sizeof(result)) &&
	    twi_sized_check_out(TWI_SIZED_tow_result, "tow_op_result", result_out) < 0)
		return TOW_EINVAL;
	if (twi_engine_forked(op->engine)) /* first: nothing will ever be done in the child */
		return twi_error(TOW_EFORKED, "tow_op_result in a forked child");
	if (!twi_op_is_done(op))
		return TOW_AGAIN;
	if (twi_likely(result_out->size == sizeof(result))) {
		fill_result(op, result_out);
		return TOW_OK;
	}
	fill_result(op, &result);
	return TWI_SIZED_OUT(tow_result, "tow_op_result", &result, result_out);
}

/* Releases an operation that is in flight, or that has more to free than its row. */
static void release_held(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;

	twi_engine_enter(engine);
	if (twi_op_is_done(op))
		recycle_op(op);
	else
		atomic_store_explicit(&op->wait.state, TWI_OP_USED | TWI_OP_RELEASED,
				      memory_order_relaxed);
	twi_engine_leave(engine);
}

static int refuse_release(const struct tow_op *op, const char *call)
{
	if (!twi_op_valid(op))
		return twi_op_refuse(call);
	return twi_error(TOW_EINVAL,
			 "%s: the operation belongs to a queue, and only tow_queue_take gives "
			 "it back",
			 call);
}

/* Whether the operation is in use, and the user may release it. */
static bool may_release(const struct tow_op *op)
{
	uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

	return (state & (TWI_OP_USED | TWI_OP_RELEASED | TWI_OP_QUEUED)) == TWI_OP_USED;
}

void twi_op_take(struct tow_op *op, struct tow_result *out)
{
	fill_result(op, out);
	if (op->ops->release != NULL || op->failure != NULL) {
		atomic_store_explicit(&op->wait.state, TWI_OP_USED | TWI_OP_DONE,
				      memory_order_relaxed);
		out->op = op;
		return;
	}
	twi_op_table_release(op->engine->ops, op);
}

TOW_PUBLIC int tow_view_release(struct tow_op *op)
{
	if (op != NULL && twi_op_valid(op) && op->ops->release == NULL)
		return twi_error(TOW_EINVAL,
				 "tow_view_release: the operation was not started as a view");
	return tow_op_release(op);
}

TOW_PUBLIC int tow_op_release(struct tow_op *op)
{
	if (op == NULL)
		return TOW_OK;
	if (twi_unlikely(!may_release(op)))
		return refuse_release(op, "tow_op_release");
	if (twi_engine_forked(op->engine))
		return twi_error(TOW_EFORKED, "tow_op_release in a forked child");
	if (twi_unlikely(op->ops->release != NULL || !twi_op_is_done(op))) {
		release_held(op);
		return TOW_OK;
	}
	twi_failure_drop(op);
	twi_op_table_release(op->engine->ops, op);
	return TOW_OK;
}
