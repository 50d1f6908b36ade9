/*
 * strategy.c - strategies by name, the numbers that they assume, and the check that these go
 * together. The plans are in strategy_replica.c and strategy_stage.c; strategy.h draws them.
 */
#include "bench/workloads/strategy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workloads/maker.h"

#define EVENTS_MAX (UINT64_C(1) << 24)
#define MILLION    UINT64_C(1000000)
#define RANKS_MOST UINT64_C(65536)
#define MOST_BYTES (UINT64_C(1) << 40)
#define BUCKET     (UINT64_C(25) << 20)

static const char *const names[STRATEGY_COUNT] = {
#define X(name, text, ranks) text,
	STRATEGY_MAP(X)
#undef X
};

/* The number that says how many ranks there are; NULL: there are two. */
static const char *const rank_numbers[STRATEGY_COUNT] = {
#define X(name, text, ranks) ranks,
	STRATEGY_MAP(X)
#undef X
};

static const char *const uses[STRATEGY_USES][2] = { { "?", "" },
#define X(name, line, why) { line, why },
						    STRATEGY_USE_MAP(X)
#undef X
};

bool strategy_parse(const char *text, enum strategy_kind *out)
{
	for (int kind = 0; kind < STRATEGY_COUNT; kind++) {
		const char *a = text, *b = names[kind];

		for (;;) {
			a += *a == '-' || *a == '_';
			b += *b == '-';
			if (tolower((unsigned char)*a) != *b || *b == '\0')
				break;
			a++;
			b++;
		}
		if (*a == '\0' && *b == '\0') {
			*out = (enum strategy_kind)kind;
			return true;
		}
	}
	return false;
}

void strategy_names(char out[STRATEGY_NAMES_BYTES])
{
	size_t fill = 0;

	for (int kind = 0; kind < STRATEGY_COUNT && fill < STRATEGY_NAMES_BYTES; kind++)
		fill += (size_t)snprintf(out + fill, STRATEGY_NAMES_BYTES - fill, "%s%s",
					 kind > 0 ? ", " : "", names[kind]);
}

const char *strategy_name(enum strategy_kind kind)
{
	return names[kind];
}

const char *strategy_use_name(enum strategy_use use)
{
	return uses[use < STRATEGY_USES ? use : STRATEGY_USE_NONE][0];
}

const char *strategy_use_why(enum strategy_use use)
{
	return uses[use < STRATEGY_USES ? use : STRATEGY_USE_NONE][1];
}

/* --- numbers --- */

/* One number: its default, or the fact of the workload that is its default, and its range. */
struct number {
	enum strategy_kind kind;
	const char *name;
	uint64_t (*fact)(const struct workload *work);
	uint64_t usual, least, most;
	const char *meaning;
};

static const struct number numbers[] = {
	{ STRATEGY_DATA_PARALLEL, "ranks", NULL, 2, 1, RANKS_MOST, "that average their gradients" },
	{ STRATEGY_DATA_PARALLEL, "in_place", NULL, 0, 0, 1,
	  "1: a bucket is one buffer, reduced where it is; 0: two buffers for each tensor" },
	{ STRATEGY_DATA_PARALLEL, "bucket_bytes", NULL, BUCKET, 1, MOST_BYTES,
	  "gradients that are exchanged together, about; 25 MiB is PyTorch's" },
	{ STRATEGY_DATA_PARALLEL, "tokens", NULL, 4096, 1, MILLION,
	  "of each rank in a step; " STRATEGY_INTENSITY },
	{ STRATEGY_FSDP, "ranks", NULL, 8, 1, RANKS_MOST, "each holds that part of every layer" },
	{ STRATEGY_FSDP, "prefetch", NULL, 1, 0, MILLION,
	  "layers that are gathered ahead of their use" },
	{ STRATEGY_FSDP, "tokens", NULL, 4096, 1, MILLION,
	  "of each rank in a step; " STRATEGY_INTENSITY },
	{ STRATEGY_PIPELINE, "stages", NULL, 4, 1, RANKS_MOST, "of the pipeline" },
	{ STRATEGY_PIPELINE, "stage", NULL, 1, 0, RANKS_MOST,
	  "which of them this rank is, from 0" },
	{ STRATEGY_PIPELINE, "micro_batches", NULL, 8, 1, MILLION, "of a step" },
	{ STRATEGY_PIPELINE, "tokens", NULL, 4096, 1, MILLION,
	  "rows of an activation: sequence times micro-batch" },
	{ STRATEGY_PIPELINE, "width", fact_width, 0, 1, MILLION,
	  "columns of an activation: the commonest one-dimensional extent" },
	{ STRATEGY_PIPELINE, "element_bytes", fact_element_bytes, 0, 1, 16,
	  "of an activation: the first tensor's dtype" },
	{ STRATEGY_TENSOR_PARALLEL, "ranks", NULL, 8, 1, RANKS_MOST,
	  "each holds that part of every matrix" },
	{ STRATEGY_TENSOR_PARALLEL, "layers", fact_layer_count, 0, 1, MILLION,
	  "with two sums forward and two backward: those with a number in their name" },
	{ STRATEGY_TENSOR_PARALLEL, "tokens", NULL, 4096, 1, MILLION,
	  "rows of an activation: sequence times micro-batch" },
	{ STRATEGY_TENSOR_PARALLEL, "width", fact_width, 0, 1, MILLION,
	  "columns of an activation: the commonest one-dimensional extent" },
	{ STRATEGY_TENSOR_PARALLEL, "element_bytes", fact_element_bytes, 0, 1, 16,
	  "of an activation: the first tensor's dtype" },
	{ STRATEGY_EXPERT_PARALLEL, "ranks", NULL, 8, 1, RANKS_MOST,
	  "each holds that part of the experts" },
	{ STRATEGY_EXPERT_PARALLEL, "layers", fact_expert_layers, 0, 1, MILLION,
	  "with experts: those with a tensor 'experts.'" },
	{ STRATEGY_EXPERT_PARALLEL, "tokens", NULL, 4096, 1, MILLION,
	  "of each rank: sequence times micro-batch" },
	{ STRATEGY_EXPERT_PARALLEL, "top_k", NULL, 2, 1, 1024, "experts of a token" },
	{ STRATEGY_EXPERT_PARALLEL, "capacity_percent", NULL, 125, 1, 100000,
	  "rows for each rank's experts, of what equal shares would be (capacity factor)" },
	{ STRATEGY_EXPERT_PARALLEL, "width", fact_width, 0, 1, MILLION,
	  "of a token: the commonest one-dimensional extent" },
	{ STRATEGY_EXPERT_PARALLEL, "element_bytes", fact_element_bytes, 0, 1, 16,
	  "of a token: the first tensor's dtype" },
	{ STRATEGY_KV_TRANSFER, "side", NULL, 1, 0, 1,
	  "0: this rank reads prompts and sends; 1: it receives and keeps" },
	{ STRATEGY_KV_TRANSFER, "requests", NULL, 4, 1, MILLION, "prompts of a step, all kept" },
	{ STRATEGY_KV_TRANSFER, "layers", fact_layer_count, 0, 1, MILLION,
	  "with keys and values: those with a number in their name" },
	{ STRATEGY_KV_TRANSFER, "kv_heads", fact_kv_heads, 0, 1, MILLION,
	  "heads of keys: rows of the projection to keys, by head_dim" },
	{ STRATEGY_KV_TRANSFER, "head_dim", fact_head_dim, 0, 1, MILLION,
	  "of a head: a guess, of which only the product with kv_heads counts" },
	{ STRATEGY_KV_TRANSFER, "tokens", NULL, 4096, 1, MILLION, "of a prompt" },
	{ STRATEGY_KV_TRANSFER, "element_bytes", fact_element_bytes, 0, 1, 16,
	  "of keys and values: the first tensor's dtype" },
};

void strategy_assume(enum strategy_kind kind, const struct workload *work,
		     struct strategy_plan *out)
{
	*out = (struct strategy_plan){ .kind = kind };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const struct number *number = &numbers[i];
		struct strategy_assumption *row = &out->assumptions[out->assumption_count];

		if (number->kind != kind)
			continue;
		snprintf(row->name, sizeof(row->name), "%s", number->name);
		snprintf(row->meaning, sizeof(row->meaning), "%s", number->meaning);
		row->value = number->fact != NULL ? number->fact(work) : number->usual;
		row->least = number->least;
		row->most = number->most;
		out->assumption_count++;
	}
}

static struct strategy_assumption *find_number(const struct strategy_plan *plan, const char *name)
{
	for (uint32_t i = 0; i < plan->assumption_count; i++)
		if (strcmp(plan->assumptions[i].name, name) == 0)
			return (struct strategy_assumption *)&plan->assumptions[i];
	return NULL;
}

uint64_t strategy_value(const struct strategy_plan *plan, const char *name)
{
	const struct strategy_assumption *row = find_number(plan, name);

	return row != NULL ? row->value : 0;
}

int strategy_set(struct strategy_plan *plan, const char *name, uint64_t value)
{
	struct strategy_assumption *row = find_number(plan, name);

	if (row == NULL || value < row->least || value > row->most)
		return -1;
	row->value = value;
	return 0;
}

static int refuse_set(const struct strategy_plan *plan, const char *text, char *error,
		      size_t error_size)
{
	size_t fill = (size_t)snprintf(error, error_size, "--set %.80s: %s takes", text,
				       strategy_name(plan->kind));

	for (uint32_t i = 0; i < plan->assumption_count && fill < error_size; i++)
		fill += (size_t)snprintf(error + fill, error_size - fill,
					 "%s %s=%" PRIu64 "..%" PRIu64, i > 0 ? "," : "",
					 plan->assumptions[i].name, plan->assumptions[i].least,
					 plan->assumptions[i].most);
	return -1;
}

/* The unit behind a number of bytes; 0: it is no unit, or the number does not count bytes. */
static uint64_t unit_bytes(const char *name, const char *unit)
{
	static const char *const units[] = { "", "KiB", "MiB", "GiB" };
	size_t bytes = strlen(name);

	if (*unit != '\0' && (bytes < 6 || strcmp(name + bytes - 6, "_bytes") != 0))
		return 0;
	for (unsigned i = 0; i < 4; i++)
		if (strcmp(unit, units[i]) == 0)
			return UINT64_C(1) << 10 * i;
	return 0;
}

int strategy_set_text(struct strategy_plan *plan, const char *text, char *error, size_t error_size)
{
	const char *equals = strchr(text, '=');
	char name[32], *end;
	uint64_t value, unit;

	if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof(name) ||
	    !isdigit((unsigned char)equals[1])) {
		snprintf(error, error_size, "--set takes NAME=NUMBER, not '%.80s'", text);
		return -1;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	errno = 0;
	value = strtoull(equals + 1, &end, 10);
	unit = unit_bytes(name, end);
	if (unit == 0 || errno != 0 || value > UINT64_MAX / unit) {
		snprintf(error, error_size, "--set takes NAME=NUMBER, not '%.80s'", text);
		return -1;
	}
	return strategy_set(plan, name, value * unit) == 0
		       ? 0
		       : refuse_set(plan, text, error, error_size);
}

/* The largest buffer that the numbers make. Floating point, as the product may exceed 64 bits. */
static double largest_buffer(const struct strategy_plan *plan)
{
	static const char *const factors[] = { "tokens",   "width",    "element_bytes",   "top_k",
					       "kv_heads", "head_dim", "capacity_percent" };
	double bytes = 2;

	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		const struct strategy_assumption *row = find_number(plan, factors[i]);

		bytes *= row != NULL ? (double)row->value : 1;
	}
	return strategy_value(plan, "capacity_percent") > 0 ? bytes / 100 : bytes;
}

int strategy_check(const struct strategy_plan *plan, char *error, size_t error_size)
{
	for (uint32_t i = 0; i < plan->assumption_count; i++) {
		const struct strategy_assumption *row = &plan->assumptions[i];

		if (row->value >= row->least)
			continue;
		snprintf(error, error_size,
			 "%s: the workload does not show '%s' (%s): --set %s=N says it",
			 strategy_name(plan->kind), row->name, row->meaning, row->name);
		return -1;
	}
	if (plan->kind == STRATEGY_PIPELINE &&
	    strategy_value(plan, "stage") >= strategy_value(plan, "stages")) {
		snprintf(error, error_size,
			 "pipeline: stage %" PRIu64 " of %" PRIu64
			 " stages: they are counted from 0",
			 strategy_value(plan, "stage"), strategy_value(plan, "stages"));
		return -1;
	}
	if (largest_buffer(plan) > (double)MOST_BYTES) {
		snprintf(error, error_size, "%s: a buffer would have %.3g bytes, more than 2^40",
			 strategy_name(plan->kind), largest_buffer(plan));
		return -1;
	}
	return 0;
}

/* --- ranks --- */

uint32_t strategy_ranks(const struct strategy_plan *plan)
{
	const char *number = rank_numbers[plan->kind];

	return number != NULL ? (uint32_t)strategy_value(plan, number) : 2;
}

static struct strategy_assumption *own_number(const struct strategy_plan *plan)
{
	return find_number(plan, plan->kind == STRATEGY_PIPELINE ? "stage" : "side");
}

void strategy_become(struct strategy_plan *plan, uint32_t rank)
{
	struct strategy_assumption *row = own_number(plan);

	if (row != NULL)
		row->value = rank;
}

uint32_t strategy_rank(const struct strategy_plan *plan)
{
	const struct strategy_assumption *row = own_number(plan);

	return row != NULL ? (uint32_t)row->value : 0;
}

/* --- events --- */

void maker_put(struct maker *maker, struct strategy_event event)
{
	struct strategy_plan *plan = maker->plan;

	if (plan->count == maker->room && !maker->failed) {
		uint64_t room = maker->room == 0 ? 256 : maker->room * 2;
		void *grown = room > EVENTS_MAX
				      ? NULL
				      : realloc(plan->events, room * sizeof(plan->events[0]));

		maker->failed = grown == NULL;
		if (grown != NULL) {
			plan->events = grown;
			maker->room = room;
		}
	}
	if (!maker->failed)
		plan->events[plan->count++] = event;
}

uint32_t maker_take(struct maker *maker, enum strategy_use use, uint64_t tensor, uint64_t bytes)
{
	uint32_t buffer = maker->plan->buffers++;

	maker_put(maker, (struct strategy_event){ .kind = STRATEGY_ALLOC,
						  .use = use,
						  .buffer = buffer,
						  .to = STRATEGY_NO_BUFFER,
						  .tensor = (uint32_t)tensor,
						  .bytes = bytes });
	return buffer;
}

void maker_give(struct maker *maker, uint32_t buffer)
{
	if (buffer != STRATEGY_NO_BUFFER)
		maker_put(maker, (struct strategy_event){ .kind = STRATEGY_FREE,
							  .buffer = buffer,
							  .to = STRATEGY_NO_BUFFER });
}

void maker_send(struct maker *maker, enum strategy_transfer transfer, uint32_t from, uint32_t to,
		uint64_t bytes, uint32_t element_bytes)
{
	maker_put(maker, (struct strategy_event){ .kind = STRATEGY_SEND,
						  .buffer = from,
						  .to = to,
						  .bytes = bytes,
						  .transfer = transfer,
						  .element_bytes = element_bytes,
						  .issue = true });
}

void maker_begin_step(struct maker *maker)
{
	maker->plan->step_begin = maker->plan->count;
}

void maker_end_step(struct maker *maker)
{
	maker_put(maker, (struct strategy_event){ .kind = STRATEGY_STEP,
						  .buffer = STRATEGY_NO_BUFFER,
						  .to = STRATEGY_NO_BUFFER });
	maker->plan->step_end = maker->plan->count;
}

int strategy_make(struct strategy_plan *plan, const struct workload *work)
{
	static void (*const make[STRATEGY_COUNT])(struct maker *) = {
		make_data_parallel,   make_fsdp,       make_pipeline, make_tensor_parallel,
		make_expert_parallel, make_kv_transfer
	};
	struct maker maker = { .plan = plan, .work = work };

	make[plan->kind](&maker);
	return maker.failed ? -1 : 0;
}

void strategy_free(struct strategy_plan *plan)
{
	free(plan->events);
	plan->events = NULL;
	plan->count = 0;
}
