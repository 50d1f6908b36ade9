/*
 * op_deadline.c - a heap of the operations that have a deadline.
 */
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"

void twi_op_watch(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;

	twi_assert_held(engine);
	if (twi_likely(op->deadline_ns == UINT64_MAX) || op->stage == TWI_STAGE_COMPLETING)
		return;
	twi_heap_insert(&engine->timed, &op->timed, op->deadline_ns);
	if (op->deadline_ns < engine->next_expiry_ns) {
		engine->next_expiry_ns = op->deadline_ns;
		engine->armed_since_enter = true; /* a sleeping thread must wake up for it */
	}
}

void twi_op_unwatch(struct tow_op *op)
{
	twi_assert_held(op->engine);
	twi_heap_remove(&op->engine->timed, &op->timed);
}

void twi_op_expire(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_heap *timed = &engine->timed;

	twi_assert_held(engine);
	while (timed->root != NULL && timed->root->key <= now_ns) {
		struct tow_op *op = twi_container_of(timed->root, struct tow_op, timed);

		/* Removed first: an operation that cannot end at once must not be ended again. */
		twi_op_unwatch(op);
		twi_assert(op->stage != TWI_STAGE_COMPLETING); /* completion removes it */
		op->ops->abort(op, TOW_EDEADLINE);
	}
	engine->next_expiry_ns = timed->root != NULL ? timed->root->key : UINT64_MAX;
}
