/*
 * grads.h - what the parts of tow-grads share.
 *
 *   grad_exchange.c   options, the workload and its plan, the exit code
 *   grads_ranks.c     a process for each rank, and their reports to rank 0
 *   grads_buffers.c   the plan's buffers, from the pool or, where that is full, from the heap
 *   grads_rank.c      one rank: runtime, the steps of two ranks that average gradients
 *   grads_walk.c      the steps of all other plans: event by event
 *   grads_check.c     payload of these that can be checked
 *   grads_report.c    what the library says about the run, and what to do about it
 *
 * The list of tensors, and the buffers and transfers of a step, come from bench/workloads. tow-size
 * sizes pools by the same plan.
 *
 * Functions return 0, or an exit code of the program after printing the error on stderr.
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
#define GRADS_RANKS     64                 /* processes on one machine */
#define GRADS_IN_FLIGHT TOW_COLL_IN_FLIGHT /* all-reduces */

struct grads_options {
	const char *file, *label;
	uint64_t steps;
	const char *set[GRADS_SETS]; /* NAME=N, of the strategy */
	int set_count;
	char bucket[48]; /* --bucket, in the same form */
	const char *lane;
	char store[64];  /* address of the job's store */
	uint64_t limit;  /* only the first tensors; 0: all of them */
	uint64_t premap; /* 0: from the environment, else as the buffers need */
	double linger_s; /* how long to stay after the last step, to be observed */
	uint64_t timeout_ns;
};

/* The results of one rank, sent through a pipe as they are. */
struct grads_outcome {
	int code, rank;
	uint64_t steps, verified_bytes;
	double generate_s, exchange_s;                /* each alone, summed over the steps */
	double both_s, verify_s;                      /* both in one step, and the check */
	double slowest_s, fastest_s;                  /* exchange alone, in one step */
	double slack_s, slack_least_s;                /* of the buckets: sum and least */
	uint64_t buckets;                             /* that were waited for, in both_s */
	uint64_t heap_buffers, heap_bytes;            /* without room in the pool */
	uint64_t copied;                              /* operations that ended with TOW_COPIED */
	uint64_t late_registrations, fallback_copies; /* counted by the library */
	uint64_t ahead_copies;                        /* those of reason collective_ahead */
	char pool_message[512];                       /* the first error of tow_alloc */
};

struct grads_rank {
	const struct grads_options *options;
	const struct workload *work;
	struct strategy_plan plan; /* in this rank's form */
	struct tow_runtime *runtime;
	struct tow_group *group;
	int rank;
	void **buffer; /* by the buffer numbers of the plan */
	bool *heap;
	struct grads_outcome outcome;
};

/*
 * A pool size for all live buffers of the plan and for the library. It is an estimate with a
 * sixteenth to spare, as /v1/pool recommends. It has half as much again for a lane that shares no
 * memory.
 */
uint64_t grads_premap(const struct strategy_plan *plan, const char *lane);
/* Makes the tables of the plan's buffers, and the buffers of its set-up, in its order. */
int grads_buffers_make(struct grads_rank *rank);
/* Allocate the buffer of an ALLOC event, and free that of a FREE event. */
int grads_buffer_take(struct grads_rank *rank, const struct strategy_event *event);
int grads_buffer_give(struct grads_rank *rank, const struct strategy_event *event);
/* Frees the buffers from the heap, after the runtime has let go of them. */
void grads_buffers_drop(struct grads_rank *rank);

/* The element type of a transfer: bf16, or f32 for any other element size. */
static inline enum tow_type grads_type(const struct strategy_event *event)
{
	return event->element_bytes == 2 ? TOW_BF16 : TOW_F32;
}

int grads_failed(int rank, const char *what, int status);
/* Opens the runtime, connects to the other ranks, ends start-up, and makes the buffers. */
int grads_rank_open(struct grads_rank *rank);
/* Whether this is a plan of two ranks that average gradients, out of place or in place. */
bool grads_rank_fits(const struct grads_rank *rank);
int grads_rank_run(struct grads_rank *rank);
/* Runs the steps of any plan. */
int grads_walk_run(struct grads_rank *rank);
int grads_barrier(struct grads_rank *rank);
double grads_now(void);

/*
 * Fill and check the payload of the `number`-th transfer of a step. It differs from that of any
 * other transfer. The check returns GRADS_MISMATCH after printing what is wrong in the receive
 * buffer.
 */
void grads_check_fill(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
		      uint64_t number);
int grads_check_payload(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
			uint64_t number);

/*
 * Runs all ranks, with this process as rank 0, and prints the report. `plan` has the numbers of
 * rank 0 and no events.
 */
int grads_ranks_run(struct grads_options *options, const struct workload *work,
		    const struct strategy_plan *plan);
void grads_rank_close(struct grads_rank *rank);

/* One counter of /v1/counters; 0 when it has none of that name. */
uint64_t grads_report_counter(const struct grads_rank *rank, const char *name);
/* The number of events of one reason. */
uint64_t grads_report_reason(const struct grads_rank *rank, const char *name);
void grads_report_head(const struct grads_rank *rank);
/* outcome[0] is that of rank 0. */
void grads_report_run(const struct grads_rank *rank, const struct grads_outcome *outcome);
void grads_report_library(const struct grads_rank *rank);

#endif
