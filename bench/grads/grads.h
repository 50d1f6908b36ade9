/*
 * grads.h - what the parts of tow-grads share.
 *
 *   grad_exchange.c   options, the workload and its plan, the exit code
 *   grads_ranks.c     a process for each rank, and what they tell rank 0
 *   grads_buffers.c   the plan's buffers, from the pool or, where that is full, from the heap
 *   grads_rank.c      one rank: runtime, the steps of two that average gradients
 *   grads_walk.c      the steps of all other plans: event by event
 *   grads_check.c     payload of these that can be checked
 *   grads_report.c    what the library says about the run, and what to do about it
 *
 * The list of tensors, which buffers a step needs and which it sends come from bench/workloads:
 * tow-size sizes pools by it.
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

#define GRADS_SETS      16
#define GRADS_RANKS     64                 /* processes of one machine */
#define GRADS_IN_FLIGHT TOW_COLL_IN_FLIGHT /* all-reduces */

struct grads_options {
	const char *file, *label;
	uint64_t steps;
	const char *set[GRADS_SETS]; /* NAME=N of the strategy */
	int set_count;
	char bucket[48]; /* --bucket, as one of these */
	const char *lane;
	char store[64];  /* where the ranks meet */
	uint64_t limit;  /* only the first tensors; 0: all */
	uint64_t premap; /* 0: by the environment, else as much as the buffers need */
	double linger_s; /* stay after the last step, to be looked at */
	uint64_t timeout_ns;
};

/* What one rank has to tell when its steps are over; goes through a pipe as it is. */
struct grads_outcome {
	int code, rank;
	uint64_t steps, verified_bytes;
	double generate_s, exchange_s;                /* each alone, sums over the steps */
	double both_s, verify_s;                      /* one behind the other */
	double slowest_s, fastest_s;                  /* exchange alone, of one step */
	double slack_s, slack_least_s;                /* of the buckets: sum, least */
	uint64_t buckets;                             /* that were waited for, in both_s */
	uint64_t heap_buffers, heap_bytes;            /* that the pool had no room for */
	uint64_t copied;                              /* operations that ended with TOW_COPIED */
	uint64_t late_registrations, fallback_copies; /* as the library counted them */
	uint64_t ahead_copies;                        /* of them: collective_ahead */
	char pool_message[512];                       /* what tow_alloc said the first time */
};

struct grads_rank {
	const struct grads_options *options;
	const struct workload *work;
	struct strategy_plan plan; /* as this rank has it */
	struct tow_runtime *runtime;
	struct tow_group *group;
	int rank;
	void **buffer; /* by the plan's numbers */
	bool *heap;
	struct grads_outcome outcome;
};

/*
 * The pool that holds what is live of the plan's at once and what the library takes, without
 * looking closely: a sixteenth to spare, as /v1/pool recommends, half as much again where
 * collectives do not go by memory that is shared.
 */
uint64_t grads_premap(const struct strategy_plan *plan, const char *lane);
/* The tables of the plan's buffers, and those of its set-up, in its order. */
int grads_buffers_make(struct grads_rank *rank);
/* The buffer of one ALLOC, and the end of one FREE. */
int grads_buffer_take(struct grads_rank *rank, const struct strategy_event *event);
int grads_buffer_give(struct grads_rank *rank, const struct strategy_event *event);
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
/* Two ranks that average gradients, out of place or in place. */
bool grads_rank_fits(const struct grads_rank *rank);
int grads_rank_run(struct grads_rank *rank);
/* Any plan. */
int grads_walk_run(struct grads_rank *rank);
int grads_barrier(struct grads_rank *rank);
double grads_now(void);

/*
 * Payload of a transfer, the `number`-th of the step, that is told apart from any other's; and
 * whether it has come, in the buffer that receives. GRADS_MISMATCH: it has not, which is said.
 */
void grads_check_fill(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
		      uint64_t number);
int grads_check_payload(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
			uint64_t number);

/*
 * Runs all ranks, this process being rank 0, and reports. `plan` has the numbers of rank 0, and no
 * events yet.
 */
int grads_ranks_run(struct grads_options *options, const struct workload *work,
		    const struct strategy_plan *plan);
void grads_rank_close(struct grads_rank *rank);

/* One counter of /v1/counters, 0 where there is none of that name. */
uint64_t grads_report_counter(const struct grads_rank *rank, const char *name);
/* How often there was that reason. */
uint64_t grads_report_reason(const struct grads_rank *rank, const char *name);
void grads_report_head(const struct grads_rank *rank);
/* outcome[0] is rank 0's own. */
void grads_report_run(const struct grads_rank *rank, const struct grads_outcome *outcome);
void grads_report_library(const struct grads_rank *rank);

#endif
