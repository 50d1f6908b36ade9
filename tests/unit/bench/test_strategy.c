/*
 * test_strategy.c - the plans of the strategies: what holds for each, and the peaks of small ones,
 * counted by hand.
 */
#include "twt.h"

#include <stdbool.h>
#include <string.h>

#include "bench/workloads/strategy.h"

/* Three layers of 1000, 500 and 300 bytes: an embedding, one block of two tensors, a norm. */
static struct workload_tensor tensors[] = {
	{ .name = "wte.weight", .extent = { 250 }, .dims = 1, .element_bytes = 4, .bytes = 1000 },
	{ .name = "h.0.a.weight",
	  .extent = { 10, 10 },
	  .dims = 2,
	  .element_bytes = 4,
	  .bytes = 400 },
	{ .name = "h.0.a.bias", .extent = { 25 }, .dims = 1, .element_bytes = 4, .bytes = 100 },
	{ .name = "ln_f.weight", .extent = { 25 }, .dims = 1, .element_bytes = 4, .bytes = 100 },
	{ .name = "ln_f.bias", .extent = { 50 }, .dims = 1, .element_bytes = 4, .bytes = 200 },
};
static const struct workload small = { tensors, 5, 1800 };

/* Walks a plan with its step repeated; fails unless it is sound. Returns the most that was live. */
static uint64_t walk(const struct strategy_plan *plan, int steps)
{
	uint64_t *bytes = calloc(plan->buffers + 1u, sizeof(*bytes)), live = 0, peak = 0;
	uint64_t at_begin = 0;

	assert_non_null(bytes);
	for (uint64_t i = 0; i < plan->count; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (i == plan->step_begin)
			at_begin = live;
		switch (event->kind) {
		case STRATEGY_ALLOC:
			assert_true(event->buffer < plan->buffers && event->bytes > 0);
			assert_int_equal(bytes[event->buffer], 0);
			assert_true(event->use > STRATEGY_USE_NONE && event->use < STRATEGY_USES);
			bytes[event->buffer] = event->bytes;
			live += event->bytes;
			break;
		case STRATEGY_FREE:
			assert_true(bytes[event->buffer] > 0);
			live -= bytes[event->buffer];
			bytes[event->buffer] = 0;
			break;
		case STRATEGY_SEND:
			/* From and into memory that is live, and not past its end. */
			assert_true(event->bytes > 0 && event->bytes <= bytes[event->buffer] &&
				    event->bytes <= bytes[event->to]);
			assert_true(event->buffer != event->to);
			break;
		case STRATEGY_STEP:
			break;
		}
		peak = live > peak ? live : peak;
		if (i + 1 == plan->step_end) {
			/* A step leaves nothing, so that the next one is like it. */
			assert_int_equal(event->kind, STRATEGY_STEP);
			assert_int_equal(live, at_begin);
			if (--steps > 0)
				i = plan->step_begin - 1;
		}
	}
	assert_int_equal(live, 0);
	free(bytes);
	return peak;
}

static uint64_t peak_of(enum strategy_kind kind, const struct workload *work, const char *name,
			uint64_t value)
{
	struct strategy_plan plan;
	uint64_t peak;

	strategy_assume(kind, work, &plan);
	if (name != NULL)
		assert_int_equal(strategy_set(&plan, name, value), 0);
	assert_int_equal(strategy_make(&plan, work), 0);
	peak = walk(&plan, 3);
	strategy_free(&plan);
	return peak;
}

static void data_parallel(void **state)
{
	struct strategy_plan plan;

	(void)state;
	assert_int_equal(peak_of(STRATEGY_DATA_PARALLEL, &small, NULL, 0), 2 * 1800);
	strategy_assume(STRATEGY_DATA_PARALLEL, &small, &plan);
	assert_int_equal(strategy_make(&plan, &small), 0);
	assert_int_equal(plan.step_begin, 10);
	assert_int_equal(plan.step_end, 16);
	/* The order pools are sized by: send, receive, tensor by tensor; then one send each. */
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(plan.events[2 * i].use, STRATEGY_GRADIENT_SEND);
		assert_int_equal(plan.events[2 * i + 1].use, STRATEGY_GRADIENT_RECV);
		assert_int_equal(plan.events[2 * i].bytes, tensors[i].bytes);
		assert_int_equal(plan.events[10 + i].kind, STRATEGY_SEND);
		assert_int_equal(plan.events[10 + i].tensor, i);
		assert_int_equal(plan.events[10 + i].buffer, 2 * i);
		assert_int_equal(plan.events[10 + i].to, 2 * i + 1);
	}
	strategy_free(&plan);
}

/*
 * Two ranks: shards 500 + 250 + 150 = 900 for ever. Backward, last layer first; when the first
 * layer's turn has come: its parameters 1000, its gradient 1000, and all three gradient shards 900.
 */
static void fsdp(void **state)
{
	(void)state;
	assert_int_equal(peak_of(STRATEGY_FSDP, &small, "ranks", 2), 900 + 1000 + 1000 + 900);
	/* Nothing ahead, or everything: all parameters at once, when the first backward begins. */
	assert_true(peak_of(STRATEGY_FSDP, &small, "prefetch", 0) <=
		    peak_of(STRATEGY_FSDP, &small, "prefetch", 1));
	/* 8 ranks: shards 125 + 63 + 38 = 226. With all ahead: 1800 gathered, then the gradient of
	 * the last layer 300 and its shard 38; then 1500 + 500 + 38 + 63; then 1000 + 1000 + 226.
	 */
	assert_int_equal(peak_of(STRATEGY_FSDP, &small, "prefetch", 100), 226 + 1000 + 1000 + 226);
}

/*
 * Activations of 10 x 25 x 4 = 1000 bytes (25 is the commonest one-dimensional extent). Stage 1 of
 * 4: three micro-batches forward before the first backward, which has a buffer each way.
 */
static void pipeline(void **state)
{
	(void)state;
	assert_int_equal(peak_of(STRATEGY_PIPELINE, &small, "tokens", 10), 3000 + 2000);
	assert_true(peak_of(STRATEGY_PIPELINE, &small, "stage", 0) >
		    peak_of(STRATEGY_PIPELINE, &small, "stage", 3));
	/* Fewer micro-batches than stages: no more are kept than there are. */
	assert_int_equal(peak_of(STRATEGY_PIPELINE, &small, "micro_batches", 1),
			 3 * (uint64_t)4096 * 25 * 4);
}

static void models(void **state)
{
	static const char *const names[] = { "gpt2", "resnet50", "llama3-8b" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		char path[4096], error[1024];
		struct workload work;

		assert_int_equal(workload_find(names[i], path, sizeof(path), error, sizeof(error)),
				 0);
		assert_int_equal(workload_load(path, 0, &work, error, sizeof(error)), 0);
		assert_int_equal(peak_of(STRATEGY_DATA_PARALLEL, &work, NULL, 0), 2 * work.bytes);
		/* Sharding saves memory; one rank's share of all and a few layers is left. */
		assert_in_range(peak_of(STRATEGY_FSDP, &work, NULL, 0), work.bytes / 8,
				2 * work.bytes);
		assert_true(peak_of(STRATEGY_PIPELINE, &work, NULL, 0) > 0);
		workload_free(&work);
	}
}

static void names(void **state)
{
	enum strategy_kind kind = STRATEGY_COUNT;

	(void)state;
	assert_true(strategy_parse("data-parallel", &kind) && kind == STRATEGY_DATA_PARALLEL);
	assert_true(strategy_parse("FSDP", &kind) && kind == STRATEGY_FSDP);
	assert_true(strategy_parse("data_parallel", &kind) && kind == STRATEGY_DATA_PARALLEL);
	assert_true(strategy_parse("pipeline", &kind) && kind == STRATEGY_PIPELINE);
	assert_false(strategy_parse("", &kind));
	assert_false(strategy_parse("pipe", &kind));
	assert_false(strategy_parse("pipelines", &kind));
	for (int i = 0; i < STRATEGY_COUNT; i++)
		assert_true(strategy_parse(strategy_name((enum strategy_kind)i), &kind) &&
			    (int)kind == i);
}

static void numbers(void **state)
{
	struct strategy_plan plan;

	(void)state;
	strategy_assume(STRATEGY_FSDP, &small, &plan);
	assert_int_equal(strategy_set(&plan, "ranks", 0), -1);
	assert_int_equal(strategy_set(&plan, "ranks", 1000001), -1);
	assert_int_equal(strategy_set(&plan, "stages", 2), -1);
	strategy_assume(STRATEGY_DATA_PARALLEL, &small, &plan);
	assert_int_equal(strategy_set(&plan, "ranks", 2), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_parallel), cmocka_unit_test(fsdp),
		cmocka_unit_test(pipeline),      cmocka_unit_test(models),
		cmocka_unit_test(names),         cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
