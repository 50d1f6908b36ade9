/*
 * strategy_replica.c - plans of jobs that send gradients and parameters: data-parallel and fsdp.
 */
#include <stdlib.h>

#include "bench/workloads/maker.h"

/* The first tensor of the bucket of gradients that begins with tensor `end - 1` and goes down. */
static uint64_t bucket_first(const struct maker *maker, uint64_t end, bool flat)
{
	const struct workload_tensor *tensors = maker->work->tensors;
	uint64_t most = strategy_value(maker->plan, "bucket_bytes"), first = end - 1;
	uint64_t bytes = tensors[first].bytes;

	/*
	 * Half of the transfers that may be in flight, so that the next bucket can start behind
	 * this one.
	 */
	while (first > 0 && bytes < most && (flat || end - first < STRATEGY_IN_FLIGHT / 2)) {
		if (flat && tensors[first - 1].element_bytes != tensors[first].element_bytes)
			break;
		bytes += tensors[--first].bytes;
	}
	return first;
}

static void send_gradient(struct maker *maker, uint32_t from, uint32_t to, uint64_t tensor,
			  uint64_t bytes, bool issue)
{
	maker_put(maker, (struct strategy_event){
				 .kind = STRATEGY_SEND,
				 .buffer = from,
				 .to = to,
				 .tensor = (uint32_t)tensor,
				 .bytes = bytes,
				 .transfer = STRATEGY_ALL_REDUCE,
				 .element_bytes = maker->work->tensors[tensor].element_bytes,
				 .issue = issue });
}

/* Each bucket is one buffer, which is reduced in place. */
static void make_flat(struct maker *maker)
{
	const struct workload *work = maker->work;
	uint64_t *bytes = calloc(work->count, sizeof(*bytes));
	uint64_t *first = calloc(work->count, sizeof(*first));
	uint32_t buckets = 0;

	maker->failed = maker->failed || bytes == NULL || first == NULL;
	for (uint64_t end = work->count; !maker->failed && end > 0; end = first[buckets++]) {
		first[buckets] = bucket_first(maker, end, true);
		for (uint64_t i = first[buckets]; i < end; i++)
			bytes[buckets] += work->tensors[i].bytes;
		maker_take(maker, STRATEGY_BUCKET, first[buckets], bytes[buckets]);
	}
	maker_begin_step(maker);
	for (uint32_t b = 0; b < buckets; b++)
		send_gradient(maker, b, b, first[b], bytes[b], true);
	maker_end_step(maker);
	for (uint32_t b = 0; b < buckets; b++)
		maker_give(maker, b);
	free(bytes);
	free(first);
}

void make_data_parallel(struct maker *maker)
{
	const struct workload *work = maker->work;

	if (strategy_value(maker->plan, "in_place") != 0) {
		make_flat(maker);
		return;
	}
	/* Buffer 2i sends tensor i, buffer 2i + 1 receives it. */
	for (uint64_t i = 0; i < work->count; i++) {
		maker_take(maker, STRATEGY_GRADIENT_SEND, i, work->tensors[i].bytes);
		maker_take(maker, STRATEGY_GRADIENT_RECV, i, work->tensors[i].bytes);
	}
	maker_begin_step(maker);
	for (uint64_t end = work->count; end > 0;) {
		uint64_t first = bucket_first(maker, end, false);

		for (uint64_t i = end; i-- > first;)
			send_gradient(maker, (uint32_t)(2 * i), (uint32_t)(2 * i + 1), i,
				      work->tensors[i].bytes, i == first);
		end = first;
	}
	maker_end_step(maker);
	for (uint32_t i = 0; i < 2 * work->count; i++)
		maker_give(maker, i);
}

static void gather_layer(struct maker *maker, struct layer *layer, uint64_t ranks)
{
	layer->full =
		maker_take(maker, STRATEGY_GATHERED, layer->tensor, layer->shard_bytes * ranks);
	maker_send(maker, STRATEGY_ALL_GATHER, layer->shard, layer->full, layer->shard_bytes,
		   layer->element_bytes);
}

static void backward_layer(struct maker *maker, struct layer *layer, uint64_t ranks)
{
	layer->gradient = maker_take(maker, STRATEGY_GRADIENT_FULL, layer->tensor,
				     layer->shard_bytes * ranks);
	layer->gradient_shard =
		maker_take(maker, STRATEGY_GRADIENT_SHARD, layer->tensor, layer->shard_bytes);
	maker_send(maker, STRATEGY_REDUCE_SCATTER, layer->gradient, layer->gradient_shard,
		   layer->shard_bytes, layer->element_bytes);
	maker_give(maker, layer->gradient);
	maker_give(maker, layer->full);
}

/* Parts are whole elements of any type. The rest is padding, as in FSDP. */
static void cut_shards(struct maker *maker, struct layer *layers, uint64_t count, uint64_t ranks)
{
	for (uint64_t l = 0; l < count; l++) {
		layers[l].shard_bytes = ((layers[l].bytes + ranks - 1) / ranks + 7) & ~UINT64_C(7);
		layers[l].shard =
			maker_take(maker, STRATEGY_SHARD, layers[l].tensor, layers[l].shard_bytes);
	}
}

void make_fsdp(struct maker *maker)
{
	uint64_t ahead = strategy_value(maker->plan, "prefetch"), count = 0;
	uint64_t ranks = strategy_value(maker->plan, "ranks");
	struct layer *layers = fact_layers(maker->work, &count);

	maker->failed = maker->failed || layers == NULL;
	/* A prefetch above the number of layers gathers all of them. */
	ahead = ahead < count ? ahead : count;
	cut_shards(maker, layers, count, ranks);
	maker_begin_step(maker);
	for (uint64_t l = 0; l < count + ahead; l++) {
		if (l < count)
			gather_layer(maker, &layers[l], ranks);
		if (l >= ahead)
			maker_give(maker, layers[l - ahead].full);
	}
	for (uint64_t l = 0; l < count + ahead; l++) {
		if (l < count)
			gather_layer(maker, &layers[count - 1 - l], ranks);
		if (l >= ahead)
			backward_layer(maker, &layers[count - 1 - (l - ahead)], ranks);
	}
	for (uint64_t l = 0; l < count; l++)
		maker_give(maker, layers[l].gradient_shard);
	maker_end_step(maker);
	for (uint64_t l = 0; l < count; l++)
		maker_give(maker, layers[l].shard);
	free(layers);
}
