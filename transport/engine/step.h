/*
 * step.h - the training step that a runtime is in. Any thread may begin and end it, so it changes
 * by compare-and-swap; who starts something only looks at its number.
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
	_Atomic uint32_t state;   /* release, with the acquire of who changes it next */
	_Atomic uint64_t number;  /* 0: none, or the step of that number */
	_Atomic uint64_t took_ns; /* all that have ended; whose it is while CHANGING writes */
	_Atomic uint32_t ended;   /* likewise: how many; both relaxed */
	/* Of who has made it CHANGING: */
	uint64_t start_ns;
	uint64_t blocked_ns; /* of the thread that has begun it, by then */
	uint32_t thread;
	struct twi_step_window *window; /* NULL: nobody asks which steps are slow; kept likewise */
	/* What steps took; made with the first (release), kept with the engine. */
	struct twi_step_times *_Atomic times;
};

struct twi_emit;
struct twi_engine;
struct twi_step_window;

/* step.c: /v1/steps, and their part of /metrics; arg is the engine, which is not taken. */
void twi_step_describe(void *arg, struct twi_emit *emit);
void twi_step_metrics(void *arg, struct twi_emit *emit);
void twi_step_free(struct twi_engine *engine);

/* The parent of what starts now; 0: none. */
static inline uint64_t twi_step_number(const struct twi_step *step)
{
	return atomic_load_explicit(&step->number, memory_order_relaxed);
}

/* One has ended; of who has made it CHANGING. */
static inline void twi_step_took(struct twi_step *step, uint64_t ns)
{
	uint64_t took = atomic_load_explicit(&step->took_ns, memory_order_relaxed);
	uint32_t ended = atomic_load_explicit(&step->ended, memory_order_relaxed);

	atomic_store_explicit(&step->took_ns, took + ns, memory_order_relaxed);
	atomic_store_explicit(&step->ended, ended + 1, memory_order_relaxed);
}

#endif
