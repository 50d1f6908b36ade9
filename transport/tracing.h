/*
 * tracing.h - traces of a runtime: whose they are, by which clock, and who asks for them.
 */
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
	struct twi_trace_signal *signal;   /* likewise */
	int stacks_signal;                 /* that this runtime has allowed; 0: none */
};

/* All zero before. What was opened before a failure is closed by twi_tracing_close. */
int twi_tracing_open(struct twi_tracing *tracing, struct twi_engine *engine);

/* No capture is begun by itself any more; one that is under way ends, and its file is written,
 * while all that it tells of is still there. */
void twi_tracing_stop(struct twi_tracing *tracing);

/* The source goes when the stats socket is closed. */
void twi_tracing_close(struct twi_tracing *tracing, struct twi_engine *engine);

extern const struct twi_trace_hooks twi_trace_hooks;

/* That step, which has ended, was slow beside the median of those before it. Never waits. */
void twi_tracing_slow_step(struct twi_engine *engine, const struct twi_span *step,
			   uint64_t median_ns);

/* A capture does not wait for longer for an engine that a callback keeps. */
#define TWI_TRACING_PATIENCE_NS 200000000u

/*
 * tracing_begun.c: what is under way, as struct twi_trace_about says; arg is the engine, which is
 * taken, if that can be had.
 */
size_t twi_tracing_unfinished(void *arg, struct twi_span *out, size_t room);

#endif
