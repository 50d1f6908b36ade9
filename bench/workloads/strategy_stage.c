/*
 * strategy_stage.c - plans of jobs that send activations and caches: pipeline, tensor-parallel,
 * expert-parallel, kv-transfer.
 */
#include <stdlib.h>

#include "bench/workloads/maker.h"

static uint64_t value_of(const struct maker *maker, const char *name)
{
	return strategy_value(maker->plan, name);
}

static uint64_t activation_bytes(const struct maker *maker)
{
	return value_of(maker, "tokens") * value_of(maker, "width") *
	       value_of(maker, "element_bytes");
}

static void put_message(struct maker *maker, enum strategy_transfer transfer, uint32_t buffer,
			uint64_t bytes, uint64_t peer, uint64_t tag)
{
	bool sends = transfer == STRATEGY_MESSAGE;

	maker_put(maker, (struct strategy_event){
				 .kind = STRATEGY_SEND,
				 .buffer = sends ? buffer : STRATEGY_NO_BUFFER,
				 .to = sends ? STRATEGY_NO_BUFFER : buffer,
				 .bytes = bytes,
				 .transfer = transfer,
				 .element_bytes = (uint32_t)value_of(maker, "element_bytes"),
				 .peer = (uint32_t)peer,
				 .tag = (uint32_t)tag,
				 .issue = true });
}

/*
 * A stage. `leaving` has its last sent buffers, one each way. They are freed after the next receive
 * is posted. Otherwise two stages that send to each other would wait for each other.
 */
struct stage {
	struct maker *maker;
	uint64_t bytes, number;
	bool first, last;
	uint32_t leaving[2];
};

static void free_leaving(struct stage *stage)
{
	for (int way = 0; way < 2; way++) {
		maker_give(stage->maker, stage->leaving[way]);
		stage->leaving[way] = STRATEGY_NO_BUFFER;
	}
}

/*
 * Forward of one micro-batch. Returns the received buffer, which is kept; STRATEGY_NO_BUFFER at the
 * first stage.
 */
static uint32_t pipe_forward(struct stage *stage, uint64_t batch)
{
	uint32_t in = STRATEGY_NO_BUFFER;

	if (!stage->first) {
		in = maker_take(stage->maker, STRATEGY_ACTIVATION_RECV, 0, stage->bytes);
		put_message(stage->maker, STRATEGY_RECEIVE, in, stage->bytes, stage->number - 1,
			    2 * batch);
	}
	free_leaving(stage);
	if (!stage->last) {
		stage->leaving[0] =
			maker_take(stage->maker, STRATEGY_ACTIVATION_SEND, 0, stage->bytes);
		put_message(stage->maker, STRATEGY_MESSAGE, stage->leaving[0], stage->bytes,
			    stage->number + 1, 2 * batch);
	}
	return in;
}

static void pipe_backward(struct stage *stage, uint64_t batch, uint32_t kept)
{
	uint32_t in = STRATEGY_NO_BUFFER;

	if (!stage->last) {
		in = maker_take(stage->maker, STRATEGY_ACTIVATION_GRADIENT_RECV, 0, stage->bytes);
		put_message(stage->maker, STRATEGY_RECEIVE, in, stage->bytes, stage->number + 1,
			    2 * batch + 1);
	}
	free_leaving(stage);
	if (!stage->first) {
		stage->leaving[1] = maker_take(stage->maker, STRATEGY_ACTIVATION_GRADIENT_SEND, 0,
					       stage->bytes);
		put_message(stage->maker, STRATEGY_MESSAGE, stage->leaving[1], stage->bytes,
			    stage->number - 1, 2 * batch + 1);
	}
	maker_give(stage->maker, in);
	maker_give(stage->maker, kept);
}

void make_pipeline(struct maker *maker)
{
	uint64_t batches = value_of(maker, "micro_batches"), stages = value_of(maker, "stages");
	uint64_t number = value_of(maker, "stage");
	struct stage stage = {
		maker,       activation_bytes(maker), number,
		number == 0, number + 1 == stages,    { STRATEGY_NO_BUFFER, STRATEGY_NO_BUFFER }
	};
	/*
	 * Before the first backward pass arrives, a stage has run one forward pass for itself and
	 * one for each later stage.
	 */
	uint64_t ahead = stages - number;
	uint32_t *kept = calloc(batches, sizeof(*kept));

	maker->failed = maker->failed || kept == NULL;
	maker_begin_step(maker);
	for (uint64_t i = 0; i < batches + ahead && !maker->failed; i++) {
		if (i < batches)
			kept[i] = pipe_forward(&stage, i);
		if (i + 1 >= ahead && i + 1 - ahead < batches)
			pipe_backward(&stage, i + 1 - ahead, kept[i + 1 - ahead]);
	}
	free_leaving(&stage);
	maker_end_step(maker);
	free(kept);
}

/* A partial sum is kept until the next one is being made, as it is part of the next one's input. */
void make_tensor_parallel(struct maker *maker)
{
	uint64_t bytes = activation_bytes(maker), sums = 4 * value_of(maker, "layers");
	uint32_t before = STRATEGY_NO_BUFFER;

	maker_begin_step(maker);
	for (uint64_t i = 0; i < sums && !maker->failed; i++) {
		uint32_t sum = maker_take(maker, STRATEGY_PARTIAL, 0, bytes);

		maker_give(maker, before);
		maker_send(maker, STRATEGY_ALL_REDUCE, sum, sum, bytes,
			   (uint32_t)value_of(maker, "element_bytes"));
		before = sum;
	}
	maker_give(maker, before);
	maker_end_step(maker);
}

/* The rows that a rank sends to the experts of one rank: an equal share, scaled by the capacity. */
static uint64_t capacity_rows(const struct maker *maker)
{
	uint64_t ranks = value_of(maker, "ranks");
	uint64_t rows = value_of(maker, "tokens") * value_of(maker, "top_k") *
			value_of(maker, "capacity_percent");

	return (rows + 100 * ranks - 1) / (100 * ranks);
}

static void exchange_tokens(struct maker *maker, uint64_t bytes)
{
	uint32_t element = (uint32_t)value_of(maker, "element_bytes");
	uint32_t tokens = maker_take(maker, STRATEGY_DISPATCH_SEND, 0, bytes);
	uint32_t got = maker_take(maker, STRATEGY_DISPATCH_RECV, 0, bytes), results, back;

	maker_send(maker, STRATEGY_ALL_TO_ALL, tokens, got, bytes, element);
	maker_give(maker, tokens);
	results = maker_take(maker, STRATEGY_COMBINE_SEND, 0, bytes);
	maker_give(maker, got);
	back = maker_take(maker, STRATEGY_COMBINE_RECV, 0, bytes);
	maker_send(maker, STRATEGY_ALL_TO_ALL, results, back, bytes, element);
	maker_give(maker, results);
	maker_give(maker, back);
}

/*
 * Backward is the same with gradients: those of the results go to the experts, those of the tokens
 * come back.
 */
void make_expert_parallel(struct maker *maker)
{
	uint64_t passes = 2 * value_of(maker, "layers");
	uint64_t row = value_of(maker, "width") * value_of(maker, "element_bytes");
	uint64_t part = (capacity_rows(maker) * row + 7) & ~UINT64_C(7);

	maker_begin_step(maker);
	for (uint64_t i = 0; i < passes && !maker->failed; i++)
		exchange_tokens(maker, part * value_of(maker, "ranks"));
	maker_end_step(maker);
}

/* The bytes of keys and values of all tokens of one prompt in one layer. */
static uint64_t cache_bytes(const struct maker *maker)
{
	return 2 * value_of(maker, "kv_heads") * value_of(maker, "head_dim") *
	       value_of(maker, "tokens") * value_of(maker, "element_bytes");
}

void make_kv_transfer(struct maker *maker)
{
	uint64_t bytes = cache_bytes(maker);
	uint64_t blocks = value_of(maker, "requests") * value_of(maker, "layers");
	bool keeps = value_of(maker, "side") == 1;
	uint32_t first = 0, before = STRATEGY_NO_BUFFER;

	maker_begin_step(maker);
	for (uint64_t i = 0; i < blocks && !maker->failed; i++) {
		uint32_t block = maker_take(
			maker, keeps ? STRATEGY_CACHE_RECV : STRATEGY_CACHE_SEND, 0, bytes);

		put_message(maker, keeps ? STRATEGY_RECEIVE : STRATEGY_MESSAGE, block, bytes,
			    keeps ? 0 : 1, i);
		first = i == 0 ? block : first;
		if (!keeps)
			maker_give(maker, before);
		before = block;
	}
	for (uint64_t i = 0; i < blocks && keeps && !maker->failed; i++)
		maker_give(maker, first + (uint32_t)i);
	if (!keeps)
		maker_give(maker, before);
	maker_end_step(maker);
}
