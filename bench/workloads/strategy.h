/*
 * strategy.h - what one rank of a job allocates and sends in a step, by how the job is spread.
 *
 *   plan   | set-up          | one step, repeated                 | end      |
 *          | ALLOC ALLOC ... | ALLOC SEND FREE ... SEND ... STEP  | FREE ... |
 *
 * Pure. tow-grads takes its buffers from a plan, and tow-size sizes pools by the same plan, so
 * that the size which the one names is the size that the other needs. A step leaves the memory as
 * it found it: what it allocates it frees; the end frees what the set-up has allocated.
 *
 *   data-parallel    each rank has all parameters. For each tensor, in the file's order, one buffer
 *                    for the rank's gradient and one for the mean of all ranks', from the start to
 *                    the end. A step sends the last tensor's first, a bucket of them together. In
 *                    place (as PyTorch's DDP): a bucket is one buffer, reduced where it is.
 *   fsdp             each rank has 1/ranks of the parameters of each layer. Forward and backward,
 *                    a layer's parameters are gathered before their use, `prefetch` layers ahead,
 *                    and freed behind it; backward also fills a whole layer's gradient, which is
 *                    reduced and scattered into this rank's part of it, kept until the end of the
 *                    step.
 *   pipeline         this rank is one stage of several and sends activations, not gradients. For
 *                    each micro-batch it receives the activation of the stage before, keeps it
 *                    until the backward pass, sends its own to the next; backwards likewise with
 *                    the gradients of both. One forward, one backward, after a warm-up (1F1B). The
 *                    first stage receives no activation and sends no gradient of one; the last one
 *                    the reverse.
 *   tensor-parallel  each rank has a part of each matrix, and of a layer's output a partial sum for
 *                    all tokens, which is reduced in place: twice forward and twice backward.
 *   expert-parallel  each rank has some experts of each layer that has any. Tokens go to their
 *                    experts and come back, by an all-to-all each, forward and backward.
 *   kv-transfer      rank 0 reads prompts and sends each layer's keys and values to rank 1 as they
 *                    are made; rank 1 keeps those of `requests` prompts.
 *
 * SEND only starts a transfer. It has ended before a buffer of it is freed (FREE), at the end of
 * the step, and where more than STRATEGY_IN_FLIGHT are under way. What a rank sends to one other
 * rank is made of what it has received: the receives before it have ended.
 *
 * What a plan takes for granted stands in `assumptions`, with the meaning of each number.
 */
#ifndef BENCH_STRATEGY_H
#define BENCH_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workloads/workload.h"

/* X(NAME, name, how many ranks there are: a number's name) */
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

/* What a SEND is: with all ranks, with one of them, or a message of one. */
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
	uint32_t to;           /* SEND: the buffer that receives the like of it */
	uint32_t tensor;       /* the tensor or the layer's first one, for messages */
	uint64_t bytes;        /* ALLOC, SEND */
	/* SEND */
	enum strategy_transfer transfer;
	uint32_t element_bytes;
	uint32_t peer, tag; /* MESSAGE, RECEIVE: the rank, and which of all between the two */
	bool issue;         /* the last of those that are started together */
};

#define STRATEGY_NO_BUFFER UINT32_MAX
#define STRATEGY_IN_FLIGHT 64 /* transfers at once: TOW_COLL_IN_FLIGHT */

/* In the meaning of a number on which neither buffers nor messages depend. */
#define STRATEGY_INTENSITY "for --intensity alone"

/* A number that the plan is made by. */
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
	uint32_t buffers;              /* buffer numbers are below */
	struct strategy_assumption assumptions[STRATEGY_ASSUMPTIONS];
	uint32_t assumption_count;
};

/* "data-parallel", "fsdp", ...; case and dashes do not matter. False: none of them. */
bool strategy_parse(const char *text, enum strategy_kind *out);
/* "data-parallel, fsdp, ..." */
#define STRATEGY_NAMES_BYTES 128
void strategy_names(char out[STRATEGY_NAMES_BYTES]);
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
/* "NAME=VALUE" of a command line; 0, or -1 with what is wrong with it in `error`. */
int strategy_set_text(struct strategy_plan *plan, const char *text, char *error, size_t error_size);
/* The value of one of its numbers; 0: it has no such number. */
uint64_t strategy_value(const struct strategy_plan *plan, const char *name);
/* Whether the numbers go together; -1: not, and why in `error`. */
int strategy_check(const struct strategy_plan *plan, char *error, size_t error_size);

/* How many ranks the job has, by its numbers; and the numbers as rank `rank` has them. */
uint32_t strategy_ranks(const struct strategy_plan *plan);
void strategy_become(struct strategy_plan *plan, uint32_t rank);
/* Which rank that is; where all ranks do alike, 0. */
uint32_t strategy_rank(const struct strategy_plan *plan);

/*
 * Fills in the events; *plan is what strategy_assume made of it, with numbers that
 * strategy_check has nothing against. 0; -1: no memory, or more events than a plan may have. To be
 * given to strategy_free either way.
 */
int strategy_make(struct strategy_plan *plan, const struct workload *work);
void strategy_free(struct strategy_plan *plan);

/* What a rank sends for an event, and in a step; receives are not counted (strategy_cost.c). */
uint64_t strategy_sent_bytes(const struct strategy_event *event, uint32_t ranks);
uint64_t strategy_step_bytes(const struct strategy_plan *plan);

#endif
