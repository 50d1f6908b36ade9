/*
 * step.c - steps, and the program's own spans. Each thread has a stack of spans for each runtime,
 * in the thread's block of the runtime's diag.
 */
#include "transport/engine/step.h"

#include <stdlib.h>

#include <towline/step.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/latency_report.h"
#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/engine/step_window.h"
#include "transport/op/op.h"
#include "transport/op/polled.h"
#include "transport/tracing.h"

struct twi_step_times {
	struct twi_latency steps,
		waits; /* waits: of steps that the thread that began them has ended */
};

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
	engine->step.blocked_ns = twi_polled_blocked(engine);
	engine->step.thread = twi_thread_mark();
	atomic_store_explicit(&engine->step.number, number, memory_order_relaxed);
	/* Logged before another step can begin: so steps are in the log in their order. */
	twi_alloclog_step(engine->alloclog, number, TWI_SITE_HERE);
	atomic_store_explicit(&engine->step.state, TWI_STEP_OPEN, memory_order_release);
	return TOW_OK;
}

/* Called by the thread that set CHANGING, so that one thread at a time writes. */
static void count_step(struct twi_engine *engine, uint64_t took_ns)
{
	struct twi_step *step = &engine->step;
	struct twi_step_times *times = atomic_load_explicit(&step->times, memory_order_relaxed);

	if (times == NULL) {
		times = calloc(1, sizeof(*times));
		if (times == NULL)
			return;
		/* release: a thread that finds it reads zeros at the least */
		atomic_store_explicit(&step->times, times, memory_order_release);
	}
	twi_latency_add(&times->steps, took_ns);
	if (step->thread == twi_thread_mark())
		twi_latency_add(&times->waits,
				twi_min(twi_polled_blocked(engine) - step->blocked_ns, took_ns));
}

/* Called likewise. Returns the median that the step was slow beside; 0: it was not slow. */
static uint64_t judge_step(struct twi_engine *engine, uint64_t took_ns)
{
	struct twi_step_window *window = engine->step.window;
	uint64_t slow_by = 0;

	if (window == NULL)
		return 0;
	if (twi_step_window_slow(window, took_ns, engine->knobs.trace_on_slow_step))
		slow_by = twi_step_window_median(window);
	twi_step_window_add(window, took_ns);
	return slow_by;
}

void twi_step_free(struct twi_engine *engine)
{
	free(atomic_load_explicit(&engine->step.times, memory_order_relaxed));
}

/* Reads what was counted. False: no step has ended. */
static bool read_steps(const struct twi_engine *engine, struct twi_latency_sum *steps_out,
		       struct twi_latency_sum *waits_out)
{
	const struct twi_step_times *times =
		atomic_load_explicit(&engine->step.times, memory_order_acquire);

	if (times == NULL || !twi_latency_read(&times->steps, steps_out))
		return false;
	if (!twi_latency_read(&times->waits, waits_out))
		*waits_out = (struct twi_latency_sum){ 0 };
	return true;
}

static void emit_steps(struct twi_emit *emit, const char *key, const struct twi_latency_sum *sum)
{
	twi_emit_object_begin(emit, key);
	twi_emit_u64(emit, "sum", sum->sum_ns);
	twi_latency_emit(emit, sum);
	twi_emit_object_end(emit);
}

void twi_step_describe(void *arg, struct twi_emit *emit)
{
	const struct twi_engine *engine = arg;
	struct twi_latency_sum steps = { 0 }, waits = { 0 };
	bool any = read_steps(engine, &steps, &waits);

	twi_emit_u64(emit, "step", twi_step_number(&engine->step));
	twi_emit_u64(emit, "ended", any ? steps.count : 0);
	if (!any)
		return;
	emit_steps(emit, "step_ns", &steps);
	emit_steps(emit, "wait_ns", &waits);
}

void twi_step_metrics(void *arg, struct twi_emit *emit)
{
	struct twi_latency_sum steps, waits;

	if (!read_steps(arg, &steps, &waits))
		return;
	twi_emit_metric_head(emit, "towline_step_seconds", "histogram", "seconds",
			     "time of a step, from tow_step_begin to tow_step_end");
	twi_report_fine_histogram(emit, "towline_step_seconds", "", &steps);
	twi_emit_metric_head(emit, "towline_step_wait_seconds", "histogram", "seconds",
			     "time of a step in which its thread was blocked in waits; steps that "
			     "another thread ends than began them are left out");
	twi_report_fine_histogram(emit, "towline_step_wait_seconds", "", &waits);
}

TOW_PUBLIC int tow_step_end(struct tow_runtime *runtime, uint64_t number)
{
	int status = twi_runtime_check(runtime, "tow_step_end");
	struct twi_span span = { .id = number, .kind = TWI_SPAN_STEP, .lane = TWI_SPAN_NO_LANE };
	uint32_t state = TWI_STEP_OPEN;
	struct twi_engine *engine;
	uint64_t open, median_ns, took_ns;

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
	took_ns = span.end_ns - twi_min(span.start_ns, span.end_ns);
	twi_step_took(&engine->step, took_ns);
	count_step(engine, took_ns);
	median_ns = judge_step(engine, took_ns);
	atomic_store_explicit(&engine->step.number, 0, memory_order_relaxed);
	atomic_store_explicit(&engine->step.state, TWI_STEP_NONE, memory_order_release);
	twi_span_record(engine->diag, &span);
	if (median_ns != 0)
		twi_tracing_slow_step(engine, &span, median_ns);
	if (!twi_pool_sealed(engine->pool))
		twi_pool_seal(engine->pool);
	return TOW_OK;
}

/* An id that no other span of the runtime has, and no step that is counted from 0. */
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
