/*
 * step.h - the training step that a runtime is in. Any thread may begin and end it, so it changes
 * by compare-and-swap. A thread that starts an operation only reads its number.
 */
#ifndef TWI_STEP_H
#define TWI_STEP_H

#include <stdatomic.h>
#include <stdint.h>

enum twi_step_state {
	TWI_STEP_NONE,
	TWI_STEP_OPEN,
	TWI_STEP_CHANGING, /* a thread is within tow_step_begin or tow_step_end */
};

struct twi_step {
	_Atomic uint32_t state;   /* stored with release; the next thread to change it acquires */
	_Atomic uint64_t number;  /* number of the open step; 0: none, or a step of number 0 */
	_Atomic uint64_t took_ns; /* sum of ended steps; the thread that set CHANGING writes it */
	_Atomic uint32_t ended;   /* count of ended steps, written likewise; both relaxed */
	/* Used by the thread that set CHANGING: */
	uint64_t start_ns;
	uint64_t blocked_ns; /* time blocked of the thread that began the step, at that time */
	uint32_t thread;
	struct twi_step_window *window; /* NULL: slow steps are not asked for; used likewise */
	/* Times of steps; made with the first step (release), kept as long as the engine. */
	struct twi_step_times *_Atomic times;
};

struct twi_emit;
struct twi_engine;
struct twi_step_window;

/* step.c: /v1/steps, and its part of /metrics. `arg` is the engine, which they do not take. */
void twi_step_describe(void *arg, struct twi_emit *emit);
void twi_step_metrics(void *arg, struct twi_emit *emit);
void twi_step_free(struct twi_engine *engine);

/* The step of operations that start now; 0: none. */
static inline uint64_t twi_step_number(const struct twi_step *step)
{
	return atomic_load_explicit(&step->number, memory_order_relaxed);
}

/* A step has ended. Called by the thread that set CHANGING. */
static inline void twi_step_took(struct twi_step *step, uint64_t ns)
{
	uint64_t took = atomic_load_explicit(&step->took_ns, memory_order_relaxed);
	uint32_t ended = atomic_load_explicit(&step->ended, memory_order_relaxed);

	atomic_store_explicit(&step->took_ns, took + ns, memory_order_relaxed);
	atomic_store_explicit(&step->ended, ended + 1, memory_order_relaxed);
}

#endif
