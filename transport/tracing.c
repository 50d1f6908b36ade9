/*
 * tracing.c - tow_trace_begin and tow_trace_end, and captures that begin by themselves. See
 * tracing.h.
 */
#include "transport/tracing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <towline/trace.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/span.h"
#include "diag/record/stacks.h"
#include "diag/trace/capture/trace_capture.h"
#include "diag/trace/capture/trace_signal.h"
#include "diag/trace/capture/trace_writer.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/runtime.h"
#include "transport/engine/step_window.h"
#include "transport/op/endpoint.h"
#include "transport/rpc/rpc_link.h"

#define COMPARE_NAP_NS 1000000
#define COMPARE_NAPS   30

/*
 * The offset by the best connection to rank 0 on which clocks were compared. False: there is none.
 */
static bool rank0_clock(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out)
{
	struct twi_engine *engine = arg;
	struct twi_list *pos, *next;
	bool known = false;

	if (atomic_load_explicit(&engine->job_rank, memory_order_relaxed) == 0) {
		*offset_ns_out = 0;
		*error_ns_out = 0;
		return true;
	}
	if (!twi_engine_enter_within(engine, TWI_TRACING_PATIENCE_NS))
		return false;
	twi_list_for_each_safe (pos, next, &engine->peers) {
		const struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);
		struct twi_clock_estimate estimate;

		if (peer->job_rank != 0 || !twi_link_clock(peer, &estimate) ||
		    (known && estimate.error_ns >= *error_ns_out))
			continue;
		*offset_ns_out = estimate.offset_ns;
		*error_ns_out = estimate.error_ns;
		known = true;
	}
	twi_engine_leave(engine);
	return known;
}

/*
 * Counts the exchanges with rank 0 until now. asks: it also begins new ones; *any_out: there are
 * some.
 */
static uint64_t count_exchanges(struct twi_engine *engine, bool asks, bool *any_out)
{
	struct twi_list *pos, *next;
	uint64_t sum = 0;

	*any_out = false;
	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

		if (peer->job_rank != 0)
			continue;
		sum += twi_link_exchanges(peer);
		*any_out |= asks && twi_link_compare(peer);
	}
	return sum;
}

/*
 * Compares clocks with rank 0. The thread that drives the engine lets the answer in. If the program
 * does not drive, the capture goes on without it.
 */
static void compare_clock(void *arg, bool wait)
{
	const struct timespec nap = { .tv_nsec = COMPARE_NAP_NS };
	struct twi_engine *engine = arg;
	uint64_t before, now;
	bool any;

	if (atomic_load_explicit(&engine->job_rank, memory_order_relaxed) == 0 ||
	    !twi_engine_enter_within(engine, TWI_TRACING_PATIENCE_NS))
		return;
	before = count_exchanges(engine, true, &any);
	twi_engine_leave(engine);
	for (unsigned i = 0; wait && any && i < COMPARE_NAPS; i++) {
		nanosleep(&nap, NULL);
		if (!twi_engine_enter_within(engine, TWI_TRACING_PATIENCE_NS))
			return;
		now = count_exchanges(engine, false, &any);
		twi_engine_leave(engine);
		any = now < before + TWI_LINK_BURST;
	}
}

static int identify_rank(struct twi_engine *engine, int64_t rank, int64_t world)
{
	const struct twi_trace_about about = { .job = engine->knobs.job,
					       .rank = rank,
					       .world = world,
					       .clock = rank0_clock,
					       .compare = compare_clock,
					       .unfinished = twi_tracing_unfinished,
					       .arg = engine };

	return twi_trace_identify(engine->diag, &about);
}

static int find_rank(struct twi_engine *engine, int64_t rank, int64_t world)
{
	atomic_store_explicit(&engine->job_rank, rank, memory_order_relaxed);
	return identify_rank(engine, rank, world);
}

/* --- what begins a capture by itself --- */

/* A verdict tells of ranks that were late up to so long ago (docs/verdict.md). */
#define VERDICT_PAST_NS 15000000000ull

void twi_tracing_slow_step(struct twi_engine *engine, const struct twi_span *step,
			   uint64_t median_ns)
{
	struct twi_trace_trigger *trigger = twi_trace_writer_claim(engine->trace_writer);
	uint64_t took_ns = step->end_ns - step->start_ns;

	if (trigger == NULL)
		return;
	/* The name is the same at all ranks, so that the files of one step lie in one folder. */
	snprintf(trigger->session, sizeof(trigger->session), "step_%llu",
		 (unsigned long long)step->id);
	snprintf(trigger->why, sizeof(trigger->why),
		 "step %llu, which took %.3f ms, %.1f times the median",
		 (unsigned long long)step->id, (double)took_ns / 1e6,
		 (double)took_ns / (double)median_ns);
	/* The capture has the step before it, too, for comparison. */
	trigger->since_ns = step->start_ns > 2 * median_ns ? step->start_ns - 2 * median_ns : 1;
	twi_trace_writer_fire(engine->trace_writer);
}

static void capture_found(struct twi_engine *engine, uint64_t unix_s, const char *what)
{
	struct twi_trace_trigger *trigger;
	uint64_t now = twi_engine_clock(engine);

	if (!engine->knobs.trace_on_verdict)
		return;
	trigger = twi_trace_writer_claim(engine->trace_writer);
	if (trigger == NULL)
		return;
	twi_trace_session_at("verdict_", unix_s, trigger->session);
	snprintf(trigger->why, sizeof(trigger->why), "the verdict that %.100s", what);
	trigger->since_ns = now > VERDICT_PAST_NS ? now - VERDICT_PAST_NS : 1;
	twi_trace_writer_fire(engine->trace_writer);
}

const struct twi_trace_hooks twi_trace_hooks = { .rank = find_rank, .found = capture_found };

/* Makes the window. With a knob up to 100 every other step would be slow. */
static int open_window(struct twi_engine *engine)
{
	uint32_t percent = engine->knobs.trace_on_slow_step;

	if (percent == 0)
		return TOW_OK;
	if (percent <= 100)
		return twi_error(TOW_EINVAL,
				 "trace_on_slow_step = %u is not valid: use 0, or more than 100 "
				 "percent of the median step; 200 means twice as long",
				 percent);
	engine->step.window = calloc(1, sizeof(*engine->step.window));
	return engine->step.window != NULL ? TOW_OK
					   : twi_error(TOW_ENOMEM, "no memory for a runtime");
}

/*
 * Opens the writer, a thread of its own, where a knob asks for captures that begin by themselves.
 */
static int open_writer(struct twi_tracing *tracing, struct twi_engine *engine)
{
	const struct twi_knobs *knobs = &engine->knobs;
	const struct twi_trace_writer_options options = { .seconds = knobs->trace_seconds,
							  .dir = knobs->trace_dir };
	int status;

	if (knobs->trace_signal == 0 && knobs->trace_on_slow_step == 0 && !knobs->trace_on_verdict)
		return TOW_OK;
	status = twi_trace_writer_open(engine->diag, &options, &tracing->writer);
	if (status == TOW_OK)
		status = open_window(engine);
	if (status == TOW_OK && knobs->trace_signal != 0)
		status = twi_trace_signal_open(tracing->writer, (int)knobs->trace_signal,
					       &tracing->signal);
	engine->trace_writer = tracing->writer;
	return status;
}

/* Allows the signal for stacks. The library has one handler for a signal. */
static int allow_stacks(struct twi_tracing *tracing, const struct twi_knobs *knobs)
{
	int number = (int)knobs->stacks_signal, status;

	if (number != 0 && number == (int)knobs->trace_signal)
		return twi_error(TOW_EINVAL, "stacks_signal = %d is trace_signal as well", number);
	if (number == SIGQUIT && knobs->verdict_on_sigquit)
		return twi_error(TOW_EINVAL,
				 "stacks_signal = %d is SIGQUIT, which asks for the "
				 "verdict (verdict_on_sigquit)",
				 number);
	status = twi_stacks_allow(number);
	if (status == TOW_OK)
		tracing->stacks_signal = number;
	return status;
}

int twi_tracing_open(struct twi_tracing *tracing, struct twi_engine *engine)
{
	int status;

	pthread_mutex_init(&tracing->lock, NULL);
	/* The knob tells the rank, but not how this clock differs from that of rank 0. */
	atomic_store_explicit(&engine->job_rank, -1, memory_order_relaxed);
	status = identify_rank(engine, engine->knobs.rank, engine->knobs.world_size);
	if (status == TOW_OK)
		status = twi_trace_source_add(engine->diag);
	if (status == TOW_OK && !engine->virtual_clock)
		status = open_writer(tracing, engine);
	if (status == TOW_OK && !engine->virtual_clock)
		status = allow_stacks(tracing, &engine->knobs);
	return status;
}

void twi_tracing_stop(struct twi_tracing *tracing)
{
	twi_trace_signal_close(tracing->signal);
	tracing->signal = NULL;
	twi_trace_writer_stop(tracing->writer);
}

void twi_tracing_close(struct twi_tracing *tracing, struct twi_engine *engine)
{
	twi_stacks_forbid(tracing->stacks_signal);
	twi_tracing_stop(tracing);
	twi_trace_writer_close(tracing->writer);
	engine->trace_writer = NULL;
	free(engine->step.window);
	engine->step.window = NULL;
	if (tracing->capture != NULL)
		twi_trace_capture_finish(tracing->capture, NULL);
	twi_trace_source_remove(engine->diag);
	pthread_mutex_destroy(&tracing->lock);
}

TOW_PUBLIC int tow_trace_begin(struct tow_runtime *runtime)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_trace_begin");
	struct twi_tracing *tracing;

	if (status < 0)
		return status;
	tracing = twi_runtime_tracing(runtime);
	pthread_mutex_lock(&tracing->lock);
	if (tracing->capture != NULL)
		status = twi_error(TOW_EBUSY, "tow_trace_begin: a trace is being recorded already");
	else
		status = twi_trace_capture_start(twi_runtime_engine(runtime)->diag,
						 &tracing->capture);
	pthread_mutex_unlock(&tracing->lock);
	return status;
}

TOW_PUBLIC int tow_trace_end(struct tow_runtime *runtime, struct tow_trace **trace_out)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_trace_end");
	struct twi_trace_capture *capture;
	struct twi_tracing *tracing;

	if (status < 0)
		return status;
	if (trace_out == NULL)
		return twi_error(TOW_EINVAL, "tow_trace_end: trace_out is NULL");
	*trace_out = NULL;
	/* The clock is asked for under the engine, which a callback's thread holds. */
	if (twi_engine_in_callback(twi_runtime_engine(runtime)))
		return twi_error(TOW_EINVAL, "tow_trace_end in a completion callback");
	tracing = twi_runtime_tracing(runtime);
	pthread_mutex_lock(&tracing->lock);
	capture = tracing->capture;
	tracing->capture = NULL;
	pthread_mutex_unlock(&tracing->lock);
	if (capture == NULL)
		return twi_error(TOW_EINVAL, "tow_trace_end: no trace is being recorded");
	return twi_trace_capture_take(capture, trace_out);
}
