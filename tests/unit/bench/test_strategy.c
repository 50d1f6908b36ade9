/*
 * test_strategy.c - plans of what a rank allocates and sends: each frees what it allocates, and
 * sends from what lives; ranks agree about their transfers; sizes are those that were reckoned by
 * hand; numbers that make no sense are refused; and published models have the parameters published.
 */
#include "twt.h"

#include <string.h>

#include "bench/workloads/strategy.h"

#define HEADER "name\tshape\tdtype\tbytes\n"

/* Four layers of width 64, with an expert and keys of 2 x 16. */
static void small_model(struct workload *out)
{
	char text[4096] = HEADER "embed.weight\t100x64\tbf16\t12800\n", error[256];
	FILE *file;

	for (int i = 0; i < 4; i++) {
		size_t fill = strlen(text);

		snprintf(text + fill, sizeof(text) - fill,
			 "h.%d.norm.weight\t64\tbf16\t128\nh.%d.wk.weight\t32x64\tbf16\t4096\n"
			 "h.%d.experts.0.weight\t128x64\tbf16\t16384\n",
			 i, i, i);
	}
	file = fmemopen(text, strlen(text), "r");
	assert_non_null(file);
	assert_int_equal(workload_read(file, "small", 0, out, error, sizeof(error)), 0);
	fclose(file);
}

/* A plan with some numbers set, `sets` being "NAME=N NAME=N". */
static struct strategy_plan plan_of(const struct workload *work, enum strategy_kind kind,
				    const char *sets, uint32_t rank)
{
	struct strategy_plan plan;
	char copy[256], error[512], *rest = copy;

	strategy_assume(kind, work, &plan);
	snprintf(copy, sizeof(copy), "%s", sets);
	for (char *one = strsep(&rest, " "); one != NULL; one = strsep(&rest, " "))
		if (*one != '\0')
			assert_int_equal(strategy_set_text(&plan, one, error, sizeof(error)), 0);
	assert_int_equal(strategy_check(&plan, error, sizeof(error)), 0);
	strategy_become(&plan, rank);
	assert_int_equal(strategy_make(&plan, work), 0);
	return plan;
}

/* A plan's numbers for a job of a few ranks. */
static const struct {
	enum strategy_kind kind;
	const char *sets;
	uint32_t ranks;
} jobs[] = {
	{ STRATEGY_DATA_PARALLEL, "", 2 },
	{ STRATEGY_DATA_PARALLEL, "in_place=1 bucket_bytes=20000 ranks=3", 3 },
	{ STRATEGY_FSDP, "ranks=3 prefetch=2", 3 },
	{ STRATEGY_FSDP, "ranks=2 prefetch=0", 2 },
	{ STRATEGY_FSDP, "ranks=2 prefetch=1000000", 2 },
	{ STRATEGY_PIPELINE, "stages=2 micro_batches=1", 2 },
	{ STRATEGY_PIPELINE, "stages=5 micro_batches=7", 5 },
	{ STRATEGY_PIPELINE, "stages=4 micro_batches=2", 4 },
	{ STRATEGY_TENSOR_PARALLEL, "ranks=4", 4 },
	{ STRATEGY_EXPERT_PARALLEL, "ranks=3", 3 },
	{ STRATEGY_KV_TRANSFER, "", 2 },
};

static void check_lives(const struct strategy_plan *plan)
{
	bool *live = calloc(plan->buffers + 1u, sizeof(*live));
	uint64_t before = 0, now = 0;

	assert_non_null(live);
	for (uint64_t i = 0; i < plan->count; i++) {
		const struct strategy_event *event = &plan->events[i];

		before = i == plan->step_begin ? now : before;
		if (i == plan->step_end)
			assert_int_equal(now, before);
		if (event->kind == STRATEGY_SEND) {
			assert_true(event->buffer == STRATEGY_NO_BUFFER || live[event->buffer]);
			assert_true(event->to == STRATEGY_NO_BUFFER || live[event->to]);
			assert_true(event->bytes > 0);
		}
		if (event->kind != STRATEGY_ALLOC && event->kind != STRATEGY_FREE)
			continue;
		assert_int_equal(live[event->buffer], event->kind == STRATEGY_FREE);
		live[event->buffer] = event->kind == STRATEGY_ALLOC;
		now += live[event->buffer] ? 1 : (uint64_t)-1;
	}
	assert_int_equal(now, 0);
	free(live);
}

/* The n-th transfer of a plan's step that is of this kind; with whom and which, for messages. */
static const struct strategy_event *find_transfer(const struct strategy_plan *plan,
						  enum strategy_transfer transfer, uint32_t peer,
						  uint32_t tag)
{
	for (uint64_t i = plan->step_begin; i < plan->step_end; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind == STRATEGY_SEND && event->transfer == transfer &&
		    event->peer == peer && event->tag == tag)
			return event;
	}
	return NULL;
}

/* What one rank sends another receives, and the reverse; collectives are the same in all. */
static void check_agreement(const struct strategy_plan *plans, uint32_t ranks)
{
	for (uint32_t rank = 0; rank < ranks; rank++) {
		const struct strategy_plan *plan = &plans[rank];

		for (uint64_t i = plan->step_begin; i < plan->step_end; i++) {
			const struct strategy_event *event = &plan->events[i], *other = event;

			if (event->kind != STRATEGY_SEND)
				continue;
			if (event->transfer >= STRATEGY_MESSAGE) {
				assert_true(event->peer < ranks && event->peer != rank);
				other = find_transfer(&plans[event->peer],
						      event->transfer == STRATEGY_MESSAGE
							      ? STRATEGY_RECEIVE
							      : STRATEGY_MESSAGE,
						      rank, event->tag);
			} else {
				assert_int_equal(plan->count, plans[0].count);
				other = &plans[0].events[i];
				assert_int_equal(other->transfer, event->transfer);
			}
			assert_non_null(other);
			assert_int_equal(other->bytes, event->bytes);
		}
	}
}

static void plans_hold(void **state)
{
	struct workload work;

	(void)state;
	small_model(&work);
	for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++) {
		struct strategy_plan plans[8];

		for (uint32_t r = 0; r < jobs[j].ranks; r++) {
			plans[r] = plan_of(&work, jobs[j].kind, jobs[j].sets, r);
			assert_int_equal(strategy_ranks(&plans[r]), jobs[j].ranks);
			check_lives(&plans[r]);
		}
		check_agreement(plans, jobs[j].ranks);
		for (uint32_t r = 0; r < jobs[j].ranks; r++)
			strategy_free(&plans[r]);
	}
	workload_free(&work);
}

/* By hand: strategy, numbers, rank; the most that is live at once, and what is sent in a step. */
static const struct {
	enum strategy_kind kind;
	const char *sets;
	uint32_t rank;
	uint64_t peak, sent;
} figures[] = {
	/* 95,232 bytes of gradients, twice; all-reduce of two sends each once */
	{ STRATEGY_DATA_PARALLEL, "", 0, 2 * 95232, 95232 },
	{ STRATEGY_DATA_PARALLEL, "in_place=1", 0, 95232, 95232 },
	/* an activation is 10 x 64 x 2 = 1280: the first stage has one to send, one gradient */
	{ STRATEGY_PIPELINE, "stages=3 tokens=10", 0, 2 * 1280, 8 * 1280 },
	/* two kept, one sent, gradients in and out */
	{ STRATEGY_PIPELINE, "stages=3 tokens=10", 1, 4 * 1280, 16 * 1280 },
	/* one kept, one gradient that is sent */
	{ STRATEGY_PIPELINE, "stages=3 tokens=10", 2, 2 * 1280, 8 * 1280 },
	/* two sums of 1280; 16 all-reduces of 3 / 2 of it */
	{ STRATEGY_TENSOR_PARALLEL, "ranks=4 tokens=10", 0, 2 * 1280, 16 * 1920 },
	/* 10 x 2 x 1.25 / 2 = 13 rows of 128 for each rank; 16 all-to-alls of one of two parts */
	{ STRATEGY_EXPERT_PARALLEL, "ranks=2 tokens=10", 0, 2 * 2 * 1664, 16 * 1664 },
	/* 2 x 32 x 10 x 2 = 1280 for each layer and prompt */
	{ STRATEGY_KV_TRANSFER, "requests=3 tokens=10", 0, 2 * 1280, 12 * 1280 },
	{ STRATEGY_KV_TRANSFER, "requests=3 tokens=10", 1, 12 * 1280, 0 },
	/*
	 * Of two ranks: shards of 6400 for the embedding, of 10304 for each of four layers. Most is
	 * live at the first layer's backward pass, with its parameters and gradients whole.
	 */
	{ STRATEGY_FSDP, "ranks=2 prefetch=0", 0, 47616 + 4 * 10304 + 2 * 20608, 3 * 47616 },
};

static uint64_t peak_of(const struct strategy_plan *plan)
{
	uint64_t *bytes = calloc(plan->buffers + 1u, sizeof(*bytes)), live = 0, peak = 0;

	assert_non_null(bytes);
	for (uint64_t i = 0; i < plan->count; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind == STRATEGY_ALLOC)
			live += bytes[event->buffer] = event->bytes;
		else if (event->kind == STRATEGY_FREE)
			live -= bytes[event->buffer];
		peak = live > peak ? live : peak;
	}
	free(bytes);
	return peak;
}

static void by_hand(void **state)
{
	struct workload work;

	(void)state;
	small_model(&work);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		struct strategy_plan plan =
			plan_of(&work, figures[i].kind, figures[i].sets, figures[i].rank);
		uint64_t peak = peak_of(&plan), sent = strategy_step_bytes(&plan);

		if (peak != figures[i].peak || sent != figures[i].sent)
			fail_msg("row %zu, %s: %llu live, %llu sent", i,
				 strategy_name(figures[i].kind), (unsigned long long)peak,
				 (unsigned long long)sent);
		strategy_free(&plan);
	}
	workload_free(&work);
}

/* Numbers that are none, or not together, and words of the message. */
static const struct {
	enum strategy_kind kind;
	const char *set, *words;
} bad[] = {
	{ STRATEGY_PIPELINE, "stage=9", "stage 9 of 4 stages" },
	{ STRATEGY_PIPELINE, "stages", "NAME=NUMBER" },
	{ STRATEGY_PIPELINE, "stages=0x", "NAME=NUMBER" },
	{ STRATEGY_PIPELINE, "=3", "NAME=NUMBER" },
	{ STRATEGY_PIPELINE, "stages=99999999999999999999", "NAME=NUMBER" },
	{ STRATEGY_PIPELINE, "stages=0", "stages=1..65536" },
	{ STRATEGY_PIPELINE, "stages=3KiB", "NAME=NUMBER" },
	{ STRATEGY_DATA_PARALLEL, "bucket_bytes=25Mib", "NAME=NUMBER" },
	{ STRATEGY_DATA_PARALLEL, "bucket_bytes=99999999999GiB", "NAME=NUMBER" },
	{ STRATEGY_DATA_PARALLEL, "bucket_bytes=1MiB", NULL },
	{ STRATEGY_PIPELINE, "ranks=3", "pipeline takes stages=" },
	{ STRATEGY_KV_TRANSFER, "side=2", "side=0..1" },
	{ STRATEGY_TENSOR_PARALLEL, "tokens=1000000", NULL },
	{ STRATEGY_TENSOR_PARALLEL, "width=0", "width=1.." },
};

static void refuses(void **state)
{
	struct workload work;

	(void)state;
	small_model(&work);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct strategy_plan plan;
		char error[512] = "";
		int rc;

		strategy_assume(bad[i].kind, &work, &plan);
		rc = strategy_set_text(&plan, bad[i].set, error, sizeof(error));
		if (rc == 0)
			rc = strategy_check(&plan, error, sizeof(error));
		if (rc != (bad[i].words != NULL ? -1 : 0) ||
		    (bad[i].words != NULL && strstr(error, bad[i].words) == NULL))
			fail_msg("--set %s: %d, \"%s\"", bad[i].set, rc, error);
	}
	workload_free(&work);
}

static void takes_units(void **state)
{
	struct strategy_plan plan;
	struct workload work;

	(void)state;
	small_model(&work);
	plan = plan_of(&work, STRATEGY_DATA_PARALLEL, "bucket_bytes=3MiB", 0);
	assert_int_equal(strategy_value(&plan, "bucket_bytes"), 3 << 20);
	strategy_free(&plan);
	workload_free(&work);
}

/* A published model, and what it shows. */
static void load_model(const char *name, struct workload *out)
{
	char path[4096], error[1024];

	if (workload_find(name, path, sizeof(path), error, sizeof(error)) != 0 ||
	    workload_load(path, 0, out, error, sizeof(error)) != 0)
		fail_msg("%s", error);
}

static const struct {
	const char *name;
	uint64_t parameters, layers, key_width, expert_layers;
} models[] = {
	{ "gpt2", 124439808, 12, 768, 0 },
	{ "resnet50", 25557032, 16, 0, 0 },
	{ "llama3-8b", 8030261248, 32, 1024, 0 },
	{ "mixtral", 46702792704, 32, 1024, 32 },
	{ "gemma2-2b", 590118912 + 2024517888ull, 26, 1024, 0 },
};

static void published(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		struct strategy_plan kv, experts;
		struct workload work;
		uint64_t parameters = 0;
		char error[512];

		load_model(models[i].name, &work);
		for (uint64_t t = 0; t < work.count; t++)
			parameters += work.tensors[t].bytes / work.tensors[t].element_bytes;
		assert_int_equal(parameters, models[i].parameters);
		strategy_assume(STRATEGY_KV_TRANSFER, &work, &kv);
		strategy_assume(STRATEGY_EXPERT_PARALLEL, &work, &experts);
		assert_int_equal(strategy_value(&kv, "layers"), models[i].layers);
		assert_int_equal(strategy_value(&kv, "kv_heads") * strategy_value(&kv, "head_dim"),
				 models[i].key_width);
		assert_int_equal(strategy_value(&experts, "layers"), models[i].expert_layers);
		/* Images have no width; who has no experts has no layers of them. */
		assert_int_equal(strategy_check(&experts, error, sizeof(error)),
				 models[i].expert_layers > 0 ? 0 : -1);
		assert_int_equal(strategy_check(&kv, error, sizeof(error)),
				 models[i].key_width > 0 ? 0 : -1);
		workload_free(&work);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_hold), cmocka_unit_test(by_hand),
		cmocka_unit_test(refuses),    cmocka_unit_test(takes_units),
		cmocka_unit_test(published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
