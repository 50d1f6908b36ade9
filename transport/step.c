/*
 * step.c - steps, and the program's own spans, which are a stack of each thread.
 *
 * The stack is the thread's, not the runtime's, so that it needs no lookup; an entry says of which
 * runtime it is by a number that is never used again, so one that was left open when its runtime
 * closed can be told, and gives way when the stack is full.
 */
#include "transport/step.h"

#include <unistd.h>

#include <towline/step.h>

#include "diag/error.h"
#include "diag/span.h"
#include "diag/tag.h"
#include "memreg/pool.h"
#include "transport/engine.h"
#include "transport/runtime.h"

struct open_span {
	uint64_t diag_id, id, parent, start_ns;
	uint32_t name;
};

struct open_spans {
	uint32_t count, made;
	uint64_t tid; /* 0: not asked for yet */
	struct open_span rows[TOW_SPAN_DEPTH];
};

static __thread struct open_spans open_spans;

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
	atomic_store_explicit(&engine->step.number, 0, memory_order_relaxed);
	atomic_store_explicit(&engine->step.state, TWI_STEP_NONE, memory_order_release);
	twi_span_record(engine->diag, &span);
	if (!twi_pool_sealed(engine->pool))
		twi_pool_seal(engine->pool);
	return TOW_OK;
}

/* Entries of runtimes that are closed give way. */
static void forget_closed(struct open_spans *spans)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < spans->count; i++) {
		if (twi_diag_lives(spans->rows[i].diag_id))
			spans->rows[kept++] = spans->rows[i];
	}
	spans->count = kept;
}

/* The innermost open span of that runtime; NULL: none. */
static struct open_span *innermost(struct open_spans *spans, uint64_t diag_id)
{
	for (uint32_t i = spans->count; i > 0; i--) {
		if (spans->rows[i - 1].diag_id == diag_id)
			return &spans->rows[i - 1];
	}
	return NULL;
}

/* Unlike the number of any step that counts from 0, and of any other span of this process. */
static uint64_t next_id(struct open_spans *spans)
{
	if (spans->tid == 0)
		spans->tid = (uint64_t)gettid();
	return spans->tid << 32 | ++spans->made;
}

TOW_PUBLIC int tow_span_begin(struct tow_runtime *runtime, const char *name)
{
	int status = twi_runtime_check(runtime, "tow_span_begin");
	struct open_spans *spans = &open_spans;
	const struct open_span *around;
	struct twi_engine *engine;
	struct open_span *span;
	uint32_t tag;

	if (status < 0)
		return status;
	if (name == NULL)
		return twi_error(TOW_EINVAL, "tow_span_begin: name is NULL");
	status = twi_tag_number("tow_span_begin", name, &tag);
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	if (spans->count == TOW_SPAN_DEPTH)
		forget_closed(spans);
	if (spans->count == TOW_SPAN_DEPTH)
		return twi_error(TOW_EBUSY,
				 "tow_span_begin: this thread has %d spans open already, the last "
				 "of them '%s'",
				 TOW_SPAN_DEPTH, twi_tag_text(spans->rows[spans->count - 1].name));
	around = innermost(spans, engine->diag->id);
	span = &spans->rows[spans->count++];
	*span = (struct open_span){
		.diag_id = engine->diag->id,
		.id = next_id(spans),
		.parent = around != NULL ? around->id : twi_step_number(&engine->step),
		.name = tag,
		.start_ns = twi_engine_clock(engine),
	};
	return TOW_OK;
}

TOW_PUBLIC int tow_span_end(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_span_end");
	struct open_spans *spans = &open_spans;
	struct open_span *open;
	struct twi_engine *engine;
	struct twi_span span;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	open = innermost(spans, engine->diag->id);
	if (open == NULL)
		return twi_error(TOW_EINVAL,
				 "tow_span_end: this thread has no span open on this runtime");
	span = (struct twi_span){
		.start_ns = open->start_ns,
		.end_ns = twi_engine_clock(engine),
		.id = open->id,
		.parent = open->parent,
		.name = open->name,
		.kind = TWI_SPAN_USER,
		.lane = TWI_SPAN_NO_LANE,
	};
	for (struct open_span *end = &spans->rows[--spans->count]; open < end; open++)
		*open = open[1];
	twi_span_record(engine->diag, &span);
	return TOW_OK;
}
