/*
 * strategy.h - what one rank of a job allocates and sends in a step, by the strategy of the job.
 *
 *   plan   | set-up          | one step, repeated                 | end      |
 *          | ALLOC ALLOC ... | ALLOC SEND FREE ... SEND ... STEP  | FREE ... |
 *
 * Pure. tow-grads takes its buffers from a plan, and tow-size sizes pools by the same plan. So the
 * size that tow-size names is the size that tow-grads needs. A step frees what it allocates; the
 * end frees what the set-up has allocated.
 *
 *   data-parallel    Each rank has all parameters. Each tensor, in the file's order, has one
 *                    buffer for the rank's gradient and one for the mean of all ranks'. Both are
 *                    kept from start to end. A step sends the last tensor's first, a bucket of them
 *                    together. In place (as PyTorch's DDP): a bucket is one buffer, reduced in
 *                    place.
 *   fsdp             Each rank has 1/ranks of the parameters of each layer. Forward and
 *                    backward, a layer's parameters are gathered before their use, `prefetch`
 *                    layers ahead, and freed after it. Backward also fills a whole layer's
 *                    gradient. It is reduced and scattered into this rank's part, which is kept
 *                    until the end of the step.
 *   pipeline         This rank is one stage of several and sends activations, not gradients. For
 *                    each micro-batch it receives the activation of the stage before, and keeps
 *                    it until the backward pass. It sends its own activation to the next stage.
 *                    Backwards it does the same with the gradients of both. After a warm-up,
 *                    forward and backward passes alternate (1F1B). The first stage receives no
 *                    activation and sends no gradient of one; the last stage does the reverse.
 *   tensor-parallel  Each rank has a part of each matrix. Of a layer's output it has a partial
 *                    sum for all tokens, which is reduced in place: twice forward and twice
 *                    backward.
 *   expert-parallel  Each rank has some experts of each layer with experts. Tokens go to their
 *                    experts and come back, each way by an all-to-all, forward and backward.
 *   kv-transfer      Rank 0 reads prompts, and sends each layer's keys and values to rank 1 as
 *                    they are made. Rank 1 keeps those of `requests` prompts.
 *
 * SEND only starts a transfer. The transfer has ended before a buffer of it is freed (FREE) and at
 * the end of the step. At most STRATEGY_IN_FLIGHT transfers are under way. A message to another
 * rank depends on what was received, so the receives before it have ended.
 *
 * `assumptions` lists what a plan assumes, with the meaning of each number.
 */
#ifndef BENCH_STRATEGY_H
#define BENCH_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workloads/workload.h"

/* X(NAME, name, name of the number that says how many ranks there are) */
#define STRATEGY_MAP(X)                                                                            \
	X(DATA_PARALLEL, "data-parallel", "ranks")                                                 \
	X(FSDP, "fsdp", "ranks")                                                                   \
	X(PIPELINE, "pipeline", "stages")                                                          \
	X(TENSOR_PARALLEL, "tensor-parallel", "ranks")                                             \
	X(EXPERT_PARALLEL, "expert-parallel", "ranks")                                             \
	X(KV_TRANSFER, "kv-transfer", NULL)

enum strategy_kind {
#define X(name, text, ranks) STRATEGY_##name,
	STRATEGY_MAP(X)
#undef X
		STRATEGY_COUNT
};

/* STRATEGY_USE(name, budget line, why): the purpose of a buffer. */
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
	  "until the stage before has them")                                                       \
	X(BUCKET, "gradients: buckets", "flat, reduced in place, kept all the time")               \
	X(PARTIAL, "activations: partial sums", "reduced in place, until the next one is made")    \
	X(DISPATCH_SEND, "tokens to experts", "until they are sent")                               \
	X(DISPATCH_RECV, "tokens for this rank's experts", "until these have used them")           \
	X(COMBINE_SEND, "results of experts", "until they are sent back")                          \
	X(COMBINE_RECV, "results for this rank's tokens", "until they are added up")               \
	X(CACHE_SEND, "keys and values to send", "two blocks: one is made, one is sent")           \
	X(CACHE_RECV, "keys and values received", "of all requests, until the end of the step")    \
	X(LIBRARY, "the library: collectives", "scratch and fused buffers of the plans it chooses")

enum strategy_use {
	STRATEGY_USE_NONE,
#define X(name, line, why) STRATEGY_##name,
	STRATEGY_USE_MAP(X)
#undef X
		STRATEGY_USES
};

/* The kind of a SEND: a collective of all ranks, or a message to or from one rank. */
enum strategy_transfer {
	STRATEGY_ALL_REDUCE,     /* the mean */
	STRATEGY_ALL_GATHER,     /* bytes: of one rank's part */
	STRATEGY_REDUCE_SCATTER, /* the mean; bytes: of one rank's part */
	STRATEGY_ALL_TO_ALL,     /* bytes: of all parts */
	STRATEGY_MESSAGE,        /* to `peer` */
	STRATEGY_RECEIVE,        /* from `peer` */
};

enum strategy_event_kind { STRATEGY_ALLOC, STRATEGY_FREE, STRATEGY_SEND, STRATEGY_STEP };

struct strategy_event {
	enum strategy_event_kind kind;
	enum strategy_use use; /* ALLOC */
	uint32_t buffer;       /* ALLOC, FREE; SEND: from */
	uint32_t to;           /* SEND: the receive buffer, if any */
	uint32_t tensor;       /* the tensor, or the layer's first one, for printing */
	uint64_t bytes;        /* ALLOC, SEND */
	/* SEND */
	enum strategy_transfer transfer;
	uint32_t element_bytes;
	uint32_t peer, tag; /* MESSAGE, RECEIVE: the rank, and the message between the two */
	bool issue;         /* the last of those that start together */
};

#define STRATEGY_NO_BUFFER UINT32_MAX
#define STRATEGY_IN_FLIGHT 64 /* transfers at once: TOW_COLL_IN_FLIGHT */

/* Ends the meaning of a number on which neither buffers nor transfers depend. */
#define STRATEGY_INTENSITY "for --intensity alone"

/* A number on which the plan depends. */
struct strategy_assumption {
	char name[32];
	uint64_t value;
	char meaning[112];
	uint64_t least, most;
};

#define STRATEGY_ASSUMPTIONS 8

struct strategy_plan {
	enum strategy_kind kind;
	struct strategy_event *events;
	uint64_t count;
	uint64_t step_begin, step_end; /* [0, begin) set-up, [begin, end) a step, then the end */
	uint32_t buffers;              /* buffer numbers are below this */
	struct strategy_assumption assumptions[STRATEGY_ASSUMPTIONS];
	uint32_t assumption_count;
};

/*
 * Reads "data-parallel", "fsdp", ...; case and dashes do not matter. Returns false for another
 * name.
 */
bool strategy_parse(const char *text, enum strategy_kind *out);
/* "data-parallel, fsdp, ..." */
#define STRATEGY_NAMES_BYTES 128
void strategy_names(char out[STRATEGY_NAMES_BYTES]);
const char *strategy_name(enum strategy_kind kind);
const char *strategy_use_name(enum strategy_use use);
const char *strategy_use_why(enum strategy_use use);

/*
 * Sets the assumptions of a strategy for a workload to their defaults. The caller may change the
 * values before it makes the plan.
 */
void strategy_assume(enum strategy_kind kind, const struct workload *work,
		     struct strategy_plan *out);
/* Returns 0, or -1 when the strategy has no such number, or the value is out of range. */
int strategy_set(struct strategy_plan *plan, const char *name, uint64_t value);
/* Takes "NAME=VALUE" of a command line. Returns 0, or -1 with the reason in `error`. */
int strategy_set_text(struct strategy_plan *plan, const char *text, char *error, size_t error_size);
/* The value of a number; 0: the strategy has no such number. */
uint64_t strategy_value(const struct strategy_plan *plan, const char *name);
/* Checks whether the numbers go together. Returns 0, or -1 with the reason in `error`. */
int strategy_check(const struct strategy_plan *plan, char *error, size_t error_size);

/* The number of ranks of the job, and the change of the numbers to those of rank `rank`. */
uint32_t strategy_ranks(const struct strategy_plan *plan);
void strategy_become(struct strategy_plan *plan, uint32_t rank);
/* The rank that the numbers are for; 0 when they are the same for all ranks. */
uint32_t strategy_rank(const struct strategy_plan *plan);

/*
 * Fills in the events. *plan comes from strategy_assume and has passed strategy_check. Returns 0,
 * or -1 when there is no memory or too many events. The caller calls strategy_free in either case.
 */
int strategy_make(struct strategy_plan *plan, const struct workload *work);
void strategy_free(struct strategy_plan *plan);

/*
 * The bytes that a rank sends for an event, and in a step. Receives are not counted
 * (strategy_cost.c).
 */
uint64_t strategy_sent_bytes(const struct strategy_event *event, uint32_t ranks);
uint64_t strategy_step_bytes(const struct strategy_plan *plan);

#endif
