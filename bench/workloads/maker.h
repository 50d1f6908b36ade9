/*
 * maker.h - a plan under construction: events are appended, and a failure is kept to the end.
 *
 *   strategy.c          names, numbers, and whether they go together
 *   strategy_facts.c    facts about a model from its list of tensors
 *   strategy_cost.c     the bytes that are sent
 *   strategy_replica.c  plans of jobs that send gradients and parameters
 *   strategy_stage.c    plans of jobs that send activations and caches
 */
#ifndef BENCH_MAKER_H
#define BENCH_MAKER_H

#include "bench/workloads/strategy.h"

struct maker {
	struct strategy_plan *plan;
	const struct workload *work;
	uint64_t room;
	bool failed;
};

uint32_t maker_take(struct maker *maker, enum strategy_use use, uint64_t tensor, uint64_t bytes);
/* STRATEGY_NO_BUFFER is ignored. */
void maker_give(struct maker *maker, uint32_t buffer);
/* Appends a SEND that is issued at once. */
void maker_send(struct maker *maker, enum strategy_transfer transfer, uint32_t from, uint32_t to,
		uint64_t bytes, uint32_t element_bytes);
/* Appends any event. */
void maker_put(struct maker *maker, struct strategy_event event);
void maker_begin_step(struct maker *maker);
void maker_end_step(struct maker *maker);

void make_data_parallel(struct maker *maker);
void make_fsdp(struct maker *maker);
void make_pipeline(struct maker *maker);
void make_tensor_parallel(struct maker *maker);
void make_expert_parallel(struct maker *maker);
void make_kv_transfer(struct maker *maker);

/* Neighbouring tensors of one layer, and this rank's buffers for them. */
struct layer {
	uint64_t tensor, bytes, shard_bytes;
	uint32_t element_bytes;
	uint32_t shard, full, gradient, gradient_shard;
	bool numbered, experts; /* has a number in its name; has experts */
};

/* The layers; the caller frees the array. NULL: no memory. */
struct layer *fact_layers(const struct workload *work, uint64_t *count_out);
/* Facts about a model; 0: the workload does not show them. */
uint64_t fact_width(const struct workload *work);
uint64_t fact_element_bytes(const struct workload *work);
uint64_t fact_layer_count(const struct workload *work);
uint64_t fact_expert_layers(const struct workload *work);
uint64_t fact_head_dim(const struct workload *work);
uint64_t fact_kv_heads(const struct workload *work);

#endif
