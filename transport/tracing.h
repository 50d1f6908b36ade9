/* tracing.h - traces of a runtime: their rank, their clock, and what begins them. */
#ifndef TWI_TRACING_H
#define TWI_TRACING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct twi_engine;
struct twi_span;
struct twi_trace_capture;
struct twi_trace_signal;
struct twi_trace_writer;

struct twi_tracing {
	pthread_mutex_t lock;
	struct twi_trace_capture *capture; /* of tow_trace_begin */
	struct twi_trace_writer *writer;   /* NULL: none */
	struct twi_trace_signal *signal;   /* NULL: none */
	int stacks_signal;                 /* a signal that this runtime has allowed; 0: none */
};

/* `tracing` is all zero before. After a failure twi_tracing_close closes what was opened. */
int twi_tracing_open(struct twi_tracing *tracing, struct twi_engine *engine);

/*
 * Lets no capture begin by itself any more. A capture under way ends, and its file is written,
 * while all that it tells of is still there.
 */
void twi_tracing_stop(struct twi_tracing *tracing);

/* Called when the stats socket is closed, as the source goes away. */
void twi_tracing_close(struct twi_tracing *tracing, struct twi_engine *engine);

extern const struct twi_trace_hooks twi_trace_hooks;

/* `step`, which has ended, was slow beside the median of those before it. It never waits. */
void twi_tracing_slow_step(struct twi_engine *engine, const struct twi_span *step,
			   uint64_t median_ns);

/* The longest time that a capture waits for an engine that a callback keeps. */
#define TWI_TRACING_PATIENCE_NS 200000000u

/*
 * tracing_begun.c: what is under way, as struct twi_trace_about says. `arg` is the engine, which is
 * taken if that is possible in time.
 */
size_t twi_tracing_unfinished(void *arg, struct twi_span *out, size_t room);

#endif
