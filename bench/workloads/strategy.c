/*
 * strategy.c - the plans: pure functions of a workload and a few numbers; strategy.h draws them.
 */
#include "bench/workloads/strategy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EVENTS_MAX (UINT64_C(1) << 24)
#define NO_BUFFER  UINT32_MAX

static const char *const names[STRATEGY_COUNT] = { "data-parallel", "fsdp", "pipeline" };

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

/* Row order of the assumptions, by strategy. */
enum { FSDP_RANKS, FSDP_PREFETCH };
enum { PIPE_STAGES, PIPE_STAGE, PIPE_MICRO_BATCHES, PIPE_TOKENS, PIPE_WIDTH, PIPE_ELEMENT };

static void add_assumption(struct strategy_plan *plan, const char *name, uint64_t value,
			   const char *meaning)
{
	struct strategy_assumption *row = &plan->assumptions[plan->assumption_count++];

	snprintf(row->name, sizeof(row->name), "%s", name);
	snprintf(row->meaning, sizeof(row->meaning), "%s", meaning);
	row->value = value;
}

/* The extent that most one-dimensional tensors (norms, biases) have: the model's width. */
static uint64_t common_width(const struct workload *work)
{
	uint64_t best = 1, best_count = 0;

	for (uint64_t i = 0; i < work->count; i++) {
		uint64_t seen = 0, width = work->tensors[i].extent[0];

		if (work->tensors[i].dims != 1 || width == best)
			continue;
		for (uint64_t k = i; k < work->count; k++)
			seen += work->tensors[k].dims == 1 && work->tensors[k].extent[0] == width;
		if (seen > best_count) {
			best = width;
			best_count = seen;
		}
	}
	return best;
}

void strategy_assume(enum strategy_kind kind, const struct workload *work,
		     struct strategy_plan *out)
{
	*out = (struct strategy_plan){ .kind = kind };
	if (kind == STRATEGY_FSDP) {
		add_assumption(out, "ranks", 8, "each holds that part of every layer");
		add_assumption(out, "prefetch", 1, "layers that are gathered ahead of their use");
	}
	if (kind == STRATEGY_PIPELINE) {
		add_assumption(out, "stages", 4, "of the pipeline");
		add_assumption(out, "stage", 1, "which of them this rank is, from 0");
		add_assumption(out, "micro_batches", 8, "of a step");
		add_assumption(out, "tokens", 4096,
			       "rows of an activation: sequence times micro-batch");
		add_assumption(out, "width", common_width(work),
			       "columns of an activation: the commonest one-dimensional extent");
		add_assumption(out, "element_bytes",
			       work->count ? work->tensors[0].element_bytes : 4,
			       "of an activation: the first tensor's dtype");
	}
}

int strategy_set(struct strategy_plan *plan, const char *name, uint64_t value)
{
	for (uint32_t i = 0; i < plan->assumption_count; i++) {
		if (strcmp(plan->assumptions[i].name, name) != 0)
			continue;
		/* The first stage is 0, and nothing may be fetched ahead. */
		if (value > 1000000 ||
		    (value == 0 && strcmp(name, "stage") != 0 && strcmp(name, "prefetch") != 0))
			return -1;
		plan->assumptions[i].value = value;
		return 0;
	}
	return -1;
}

static uint64_t given_value(const struct strategy_plan *plan, int row)
{
	return plan->assumptions[row].value;
}

/* A plan while it is made; `failed` sticks. */
struct maker {
	struct strategy_plan *plan;
	const struct workload *work;
	uint64_t room;
	bool failed;
};

static void put_event(struct maker *maker, struct strategy_event event)
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

static uint32_t take_buffer(struct maker *maker, enum strategy_use use, uint64_t tensor,
			    uint64_t bytes)
{
	uint32_t buffer = maker->plan->buffers++;

	put_event(maker, (struct strategy_event){ STRATEGY_ALLOC, use, buffer, NO_BUFFER,
						  (uint32_t)tensor, bytes });
	return buffer;
}

static void give_buffer(struct maker *maker, uint32_t buffer)
{
	put_event(maker, (struct strategy_event){ STRATEGY_FREE, STRATEGY_USE_NONE, buffer,
						  NO_BUFFER, 0, 0 });
}

static void add_transfer(struct maker *maker, uint32_t from, uint32_t to, uint64_t tensor,
			 uint64_t bytes)
{
	put_event(maker, (struct strategy_event){ STRATEGY_SEND, STRATEGY_USE_NONE, from, to,
						  (uint32_t)tensor, bytes });
}

static void step_begins(struct maker *maker)
{
	maker->plan->step_begin = maker->plan->count;
}

static void step_ends(struct maker *maker)
{
	put_event(maker, (struct strategy_event){ STRATEGY_STEP, STRATEGY_USE_NONE, NO_BUFFER,
						  NO_BUFFER, 0, 0 });
	maker->plan->step_end = maker->plan->count;
}

static void make_data_parallel(struct maker *maker)
{
	const struct workload *work = maker->work;

	/* Buffer 2i sends tensor i, buffer 2i + 1 receives it. */
	for (uint64_t i = 0; i < work->count; i++) {
		take_buffer(maker, STRATEGY_GRADIENT_SEND, i, work->tensors[i].bytes);
		take_buffer(maker, STRATEGY_GRADIENT_RECV, i, work->tensors[i].bytes);
	}
	step_begins(maker);
	for (uint64_t i = 0; i < work->count; i++)
		add_transfer(maker, (uint32_t)(2 * i), (uint32_t)(2 * i + 1), i,
			     work->tensors[i].bytes);
	step_ends(maker);
	for (uint32_t i = 0; i < 2 * work->count; i++)
		give_buffer(maker, i);
}

/* Neighbouring tensors of one layer, and what this rank has of them. */
struct layer {
	uint64_t tensor, bytes, shard_bytes;
	uint32_t shard, full, gradient, gradient_shard;
};

/* The part of a name that a layer shares: up to its first number, else without its last part. */
static size_t layer_prefix(const char *name)
{
	const char *last = strrchr(name, '.');

	for (const char *at = name; *at != '\0';) {
		size_t digits = strspn(at, "0123456789"), length = strcspn(at, ".");

		if (digits > 0 && digits == length)
			return (size_t)(at - name) + digits;
		at += length + (at[length] == '.');
	}
	return last != NULL ? (size_t)(last - name) : strlen(name);
}

static struct layer *find_layers(const struct workload *work, uint64_t ranks, uint64_t *count_out)
{
	struct layer *layers = calloc(work->count, sizeof(*layers));
	uint64_t count = 0;
	size_t length = 0;

	for (uint64_t i = 0; layers != NULL && i < work->count; i++) {
		const char *name = work->tensors[i].name;
		size_t prefix = layer_prefix(name);

		if (i == 0 || prefix != length ||
		    strncmp(name, work->tensors[i - 1].name, prefix) != 0)
			layers[count++].tensor = i;
		length = prefix;
		layers[count - 1].bytes += work->tensors[i].bytes;
	}
	for (uint64_t l = 0; l < count; l++)
		layers[l].shard_bytes = (layers[l].bytes + ranks - 1) / ranks;
	*count_out = count;
	return layers;
}

static void gather_layer(struct maker *maker, struct layer *layer)
{
	layer->full = take_buffer(maker, STRATEGY_GATHERED, layer->tensor, layer->bytes);
	add_transfer(maker, layer->shard, layer->full, layer->tensor, layer->shard_bytes);
}

static void backward_layer(struct maker *maker, struct layer *layer)
{
	layer->gradient = take_buffer(maker, STRATEGY_GRADIENT_FULL, layer->tensor, layer->bytes);
	layer->gradient_shard =
		take_buffer(maker, STRATEGY_GRADIENT_SHARD, layer->tensor, layer->shard_bytes);
	add_transfer(maker, layer->gradient, layer->gradient_shard, layer->tensor,
		     layer->shard_bytes);
	give_buffer(maker, layer->gradient);
	give_buffer(maker, layer->full);
}

static void make_fsdp(struct maker *maker)
{
	uint64_t ahead = given_value(maker->plan, FSDP_PREFETCH), count = 0;
	struct layer *layers =
		find_layers(maker->work, given_value(maker->plan, FSDP_RANKS), &count);

	maker->failed = maker->failed || layers == NULL;
	for (uint64_t l = 0; l < count; l++)
		layers[l].shard =
			take_buffer(maker, STRATEGY_SHARD, layers[l].tensor, layers[l].shard_bytes);
	step_begins(maker);
	for (uint64_t l = 0; l < count + ahead; l++) {
		if (l < count)
			gather_layer(maker, &layers[l]);
		if (l >= ahead)
			give_buffer(maker, layers[l - ahead].full);
	}
	for (uint64_t l = 0; l < count + ahead; l++) {
		if (l < count)
			gather_layer(maker, &layers[count - 1 - l]);
		if (l >= ahead)
			backward_layer(maker, &layers[count - 1 - (l - ahead)]);
	}
	for (uint64_t l = 0; l < count; l++)
		give_buffer(maker, layers[l].gradient_shard);
	step_ends(maker);
	for (uint64_t l = 0; l < count; l++)
		give_buffer(maker, layers[l].shard);
	free(layers);
}

/* Forward of one micro-batch; what it received stays. */
static uint32_t pipe_forward(struct maker *maker, uint64_t bytes)
{
	uint32_t in = take_buffer(maker, STRATEGY_ACTIVATION_RECV, 0, bytes);
	uint32_t out = take_buffer(maker, STRATEGY_ACTIVATION_SEND, 0, bytes);

	add_transfer(maker, out, in, 0, bytes);
	give_buffer(maker, out);
	return in;
}

static void pipe_backward(struct maker *maker, uint32_t kept, uint64_t bytes)
{
	uint32_t in = take_buffer(maker, STRATEGY_ACTIVATION_GRADIENT_RECV, 0, bytes);
	uint32_t out = take_buffer(maker, STRATEGY_ACTIVATION_GRADIENT_SEND, 0, bytes);

	add_transfer(maker, out, in, 0, bytes);
	give_buffer(maker, in);
	give_buffer(maker, kept);
	give_buffer(maker, out);
}

static void make_pipeline(struct maker *maker)
{
	const struct strategy_plan *plan = maker->plan;
	uint64_t bytes = given_value(plan, PIPE_TOKENS) * given_value(plan, PIPE_WIDTH) *
			 given_value(plan, PIPE_ELEMENT);
	uint64_t batches = given_value(plan, PIPE_MICRO_BATCHES),
		 stages = given_value(plan, PIPE_STAGES);
	uint64_t stage = given_value(plan, PIPE_STAGE);
	/* Before the first backward pass arrives, a stage has run as many forward as lie behind. */
	uint64_t ahead = stage + 1 < stages ? stages - stage : 1;
	uint32_t *kept = calloc(batches, sizeof(*kept));

	maker->failed = maker->failed || kept == NULL;
	step_begins(maker);
	for (uint64_t i = 0; i < batches + ahead && !maker->failed; i++) {
		if (i < batches)
			kept[i] = pipe_forward(maker, bytes);
		if (i + 1 >= ahead && i + 1 - ahead < batches)
			pipe_backward(maker, kept[i + 1 - ahead], bytes);
	}
	step_ends(maker);
	free(kept);
}

int strategy_make(struct strategy_plan *plan, const struct workload *work)
{
	static void (*const make[STRATEGY_COUNT])(struct maker *) = { make_data_parallel, make_fsdp,
								      make_pipeline };
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
