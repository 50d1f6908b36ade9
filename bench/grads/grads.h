/*
 * grads.h - what the parts of tow-grads share.
 *
 *   grad_exchange.c   options, the two processes, the exit code
 *   grads_buffers.c   the plan's buffers, from the pool or, where that is full, from the heap
 *   grads_rank.c      one rank: runtime, the steps
 *   grads_report.c    what the library says about the run, and what to do about it
 *
 * The list of tensors, which buffers a step needs and which it sends come from bench/workloads:
 * memreg-bench sizes pools by it.
 *
 * Functions return 0, or an exit code of the program after having said why on stderr.
 */
#ifndef BENCH_GRADS_H
#define BENCH_GRADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/coll.h>
#include <towline/towline.h>

#include "bench/workloads/strategy.h"
#include "bench/workloads/workload.h"

#define GRADS_MISMATCH 1
#define GRADS_FAILED   2

#define GRADS_IN_FLIGHT TOW_COLL_IN_FLIGHT /* all-reduces */

struct grads_options {
	const char *file, *label;
	uint64_t steps;
	uint64_t bucket; /* bytes of gradients that are exchanged together, about */
	const char *lane;
	char store[64];  /* where the ranks meet */
	uint64_t limit;  /* only the first tensors; 0: all */
	uint64_t premap; /* 0: by the environment, else as much as the buffers need */
	double linger_s; /* stay after the last step, to be looked at */
	uint64_t timeout_ns;
};

/* What one rank has to tell when its steps are over; goes through a pipe as it is. */
struct grads_outcome {
	int code;
	uint64_t steps, verified_bytes;
	double generate_s, exchange_s;                /* each alone, sums over the steps */
	double both_s, verify_s;                      /* one behind the other */
	double slowest_s, fastest_s;                  /* exchange alone, of one step */
	double slack_s, slack_least_s;                /* of the buckets: sum, least */
	uint64_t buckets;                             /* that were waited for, in both_s */
	uint64_t heap_buffers, heap_bytes;            /* that the pool had no room for */
	uint64_t copied;                              /* operations that ended with TOW_COPIED */
	uint64_t late_registrations, fallback_copies; /* as the library counted them */
	char pool_message[512];                       /* what tow_alloc said the first time */
};

struct grads_rank {
	const struct grads_options *options;
	const struct workload *work;
	const struct strategy_plan *plan;
	struct tow_runtime *runtime;
	struct tow_group *group;
	int rank;
	void **buffer; /* by the plan's numbers */
	bool *heap;
	struct grads_outcome outcome;
};

/* The pool that holds the plan's buffers, without looking closely: a sixteenth to spare. */
uint64_t grads_premap(const struct strategy_plan *plan);
/* Makes the plan's buffers, in its order. */
int grads_buffers_make(struct grads_rank *rank);
/* Frees what the pool had no room for, after the runtime has let go of it. */
void grads_buffers_drop(struct grads_rank *rank);

/* What the bytes of a transfer are: bf16 or, of any other size of elements, f32. */
static inline enum tow_type grads_type(const struct strategy_event *event)
{
	return event->element_bytes == 2 ? TOW_BF16 : TOW_F32;
}

int grads_failed(int rank, const char *what, int status);
/* Opens the runtime, meets the other rank, ends start-up, and makes the buffers. */
int grads_rank_open(struct grads_rank *rank);
int grads_rank_run(struct grads_rank *rank);
void grads_rank_close(struct grads_rank *rank);

/* One counter of /v1/counters, 0 where there is none of that name. */
uint64_t grads_report_counter(const struct grads_rank *rank, const char *name);
void grads_report_head(const struct grads_rank *rank);
void grads_report_run(const struct grads_rank *rank, const struct grads_outcome *other);
void grads_report_library(const struct grads_rank *rank);

#endif
