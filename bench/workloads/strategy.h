/*
 * strategy.h - what one rank of a job allocates and sends in a step, by how the job is spread.
 *
 *   plan   | set-up          | one step, repeated                 | end      |
 *          | ALLOC ALLOC ... | ALLOC SEND FREE ... SEND ... STEP  | FREE ... |
 *
 * Pure. tow-grads takes its buffers from a plan, and memreg-bench sizes pools by the same plan, so
 * that the size which the one names is the size that the other needs. A step leaves the memory as
 * it found it: what it allocates it frees; the end frees what the set-up has allocated.
 *
 *   data-parallel  each rank has all parameters. For each tensor, in the file's order, one buffer
 *                  for the rank's gradient and one for the mean of all ranks', from the start to
 *                  the end; a step sends each gradient once.
 *   fsdp           each rank has 1/ranks of the parameters of each layer. Forward and backward, a
 *                  layer's parameters are gathered before their use, `prefetch` layers ahead, and
 *                  freed behind it; backward also fills a whole layer's gradient, which is reduced
 *                  and scattered into this rank's part of it, kept until the end of the step.
 *   pipeline       this rank is one stage of several and sends activations, not gradients. For
 *                  each micro-batch it receives the activation of the stage before, keeps it until
 *                  the backward pass, sends its own to the next; backwards likewise with the
 *                  gradients of both. One forward, one backward, after a warm-up (1F1B).
 *
 * What a plan takes for granted stands in `assumptions`, with the meaning of each number.
 */
#ifndef BENCH_STRATEGY_H
#define BENCH_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workloads/workload.h"

enum strategy_kind { STRATEGY_DATA_PARALLEL, STRATEGY_FSDP, STRATEGY_PIPELINE, STRATEGY_COUNT };

/* STRATEGY_USE(name, budget line, why): what a buffer is for. */
#define STRATEGY_USE_MAP(X)                                                                        \
	X(GRADIENT_SEND, "gradients: send buffers", "this rank's gradient of each tensor")         \
	X(GRADIENT_RECV, "gradients: receive buffers", "the mean of each tensor's, of all ranks")  \
	X(SHARD, "parameters: this rank's shards", "1/ranks of each layer, kept all the time")     \
	X(GATHERED, "parameters: gathered layers", "whole layers in use and on their way")         \
	X(GRADIENT_FULL, "gradients: whole layers", "from the backward pass until reduced")        \
	X(GRADIENT_SHARD, "gradients: this rank's shards", "kept until the end of the step")       \
	X(ACTIVATION_RECV, "activations received", "kept until the micro-batch's backward pass")   \
	X(ACTIVATION_SEND, "activations to send", "until the next stage has them")                 \
	X(ACTIVATION_GRADIENT_RECV, "activation gradients received", "until they are used")        \
	X(ACTIVATION_GRADIENT_SEND, "activation gradients to send",                                \
	  "until the stage before has them")

enum strategy_use {
	STRATEGY_USE_NONE,
#define X(name, line, why) STRATEGY_##name,
	STRATEGY_USE_MAP(X)
#undef X
		STRATEGY_USES
};

enum strategy_event_kind { STRATEGY_ALLOC, STRATEGY_FREE, STRATEGY_SEND, STRATEGY_STEP };

struct strategy_event {
	enum strategy_event_kind kind;
	enum strategy_use use; /* ALLOC */
	uint32_t buffer;       /* ALLOC, FREE; SEND: from */
	uint32_t to;           /* SEND: the buffer that receives the like of it */
	uint32_t tensor;       /* the tensor or the layer's first one, for messages */
	uint64_t bytes;        /* ALLOC, SEND */
};

/* A number that the plan is made by. */
struct strategy_assumption {
	char name[32];
	uint64_t value;
	char meaning[112];
};

#define STRATEGY_ASSUMPTIONS 8

struct strategy_plan {
	enum strategy_kind kind;
	struct strategy_event *events;
	uint64_t count;
	uint64_t step_begin, step_end; /* [0, begin) set-up, [begin, end) a step, then the end */
	uint32_t buffers;              /* buffer numbers are below */
	struct strategy_assumption assumptions[STRATEGY_ASSUMPTIONS];
	uint32_t assumption_count;
};

/* "data-parallel", "fsdp", "pipeline"; case and dashes do not matter. False: none of them. */
bool strategy_parse(const char *text, enum strategy_kind *out);
const char *strategy_name(enum strategy_kind kind);
const char *strategy_use_name(enum strategy_use use);
const char *strategy_use_why(enum strategy_use use);

/*
 * The assumptions of a strategy for a workload, with their defaults. Change the values, then plan.
 */
void strategy_assume(enum strategy_kind kind, const struct workload *work,
		     struct strategy_plan *out);
/* 0; -1: this strategy has no such number, or it cannot have that value. */
int strategy_set(struct strategy_plan *plan, const char *name, uint64_t value);

/*
 * Fills in the events; *plan is what strategy_assume made of it. 0; -1: no memory, or more events
 * than a plan may have. To be given to strategy_free either way.
 */
int strategy_make(struct strategy_plan *plan, const struct workload *work);
void strategy_free(struct strategy_plan *plan);

#endif
