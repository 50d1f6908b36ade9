/*
 * step.c - steps, and the program's own spans: a stack for each thread and runtime, in the thread's
 * block of the runtime's diag.
 */
#include "transport/engine/step.h"

#include <towline/step.h>

#include "diag/base/error.h"
#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

_Static_assert(TOW_SPAN_DEPTH == TWI_OPEN_SPANS, "as many as the header says");

TOW_PUBLIC int tow_step_begin(struct tow_runtime *runtime, uint64_t number)
{
	int status = twi_runtime_check(runtime, "tow_step_begin");
	uint32_t state = TWI_STEP_NONE;
	struct twi_engine *engine;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	if (!atomic_compare_exchange_strong_explicit(&engine->step.state, &state, TWI_STEP_CHANGING,
						     memory_order_acquire, memory_order_relaxed))
		return twi_error(TOW_EBUSY, "tow_step_begin(%llu): step %llu is under way",
				 (unsigned long long)number,
				 (unsigned long long)twi_step_number(&engine->step));
	engine->step.start_ns = twi_engine_clock(engine);
	atomic_store_explicit(&engine->step.number, number, memory_order_relaxed);
	/* Before another can begin: steps are in the log in their order. */
	twi_alloclog_step(engine->alloclog, number, TWI_SITE_HERE);
	atomic_store_explicit(&engine->step.state, TWI_STEP_OPEN, memory_order_release);
	return TOW_OK;
}

TOW_PUBLIC int tow_step_end(struct tow_runtime *runtime, uint64_t number)
{
	int status = twi_runtime_check(runtime, "tow_step_end");
	struct twi_span span = { .id = number, .kind = TWI_SPAN_STEP, .lane = TWI_SPAN_NO_LANE };
	uint32_t state = TWI_STEP_OPEN;
	struct twi_engine *engine;
	uint64_t open;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	if (!atomic_compare_exchange_strong_explicit(&engine->step.state, &state, TWI_STEP_CHANGING,
						     memory_order_acquire, memory_order_relaxed))
		return twi_error(TOW_EINVAL, "tow_step_end(%llu): no step is under way",
				 (unsigned long long)number);
	open = twi_step_number(&engine->step);
	if (open != number) {
		atomic_store_explicit(&engine->step.state, TWI_STEP_OPEN, memory_order_release);
		return twi_error(TOW_EINVAL,
				 "tow_step_end(%llu): the step that is under way is %llu",
				 (unsigned long long)number, (unsigned long long)open);
	}
	span.start_ns = engine->step.start_ns;
	span.end_ns = twi_engine_clock(engine);
	twi_step_took(&engine->step, span.end_ns - span.start_ns);
	atomic_store_explicit(&engine->step.number, 0, memory_order_relaxed);
	atomic_store_explicit(&engine->step.state, TWI_STEP_NONE, memory_order_release);
	twi_span_record(engine->diag, &span);
	if (!twi_pool_sealed(engine->pool))
		twi_pool_seal(engine->pool);
	return TOW_OK;
}

/* Unlike the number of any step that counts from 0, and of any other span of the runtime. */
static uint64_t next_id(struct twi_diag_block *block)
{
	return block->owner << 32 | ++block->opened;
}

TOW_PUBLIC int tow_span_begin(struct tow_runtime *runtime, const char *name)
{
	int status = twi_runtime_check(runtime, "tow_span_begin");
	struct twi_diag_block *block;
	struct twi_engine *engine;
	uint32_t tag;

	if (status < 0)
		return status;
	if (name == NULL)
		return twi_error(TOW_EINVAL, "tow_span_begin: name is NULL");
	status = twi_tag_number("tow_span_begin", name, &tag);
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	block = twi_diag_block_of(engine->diag);
	if (block == NULL)
		return twi_error(TOW_ENOMEM, "tow_span_begin: no memory for this thread's spans");
	if (block->open_count == TOW_SPAN_DEPTH)
		return twi_error(TOW_EBUSY,
				 "tow_span_begin: this thread has %d spans open already, the last "
				 "of them '%s'",
				 TOW_SPAN_DEPTH,
				 twi_tag_text(block->open[TOW_SPAN_DEPTH - 1].name));
	block->open[block->open_count] = (struct twi_open_span){
		.id = next_id(block),
		.parent = block->open_count > 0 ? block->open[block->open_count - 1].id
						: twi_step_number(&engine->step),
		.name = tag,
		.start_ns = twi_engine_clock(engine),
	};
	block->open_count++;
	return TOW_OK;
}

TOW_PUBLIC int tow_span_end(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_span_end");
	const struct twi_open_span *open;
	struct twi_diag_block *block;
	struct twi_engine *engine;
	struct twi_span span;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	block = twi_diag_block_of(engine->diag);
	if (block == NULL || block->open_count == 0)
		return twi_error(TOW_EINVAL,
				 "tow_span_end: this thread has no span open on this runtime");
	open = &block->open[--block->open_count];
	span = (struct twi_span){
		.start_ns = open->start_ns,
		.end_ns = twi_engine_clock(engine),
		.id = open->id,
		.parent = open->parent,
		.name = open->name,
		.kind = TWI_SPAN_USER,
		.lane = TWI_SPAN_NO_LANE,
	};
	twi_span_record(engine->diag, &span);
	return TOW_OK;
}
