/*
 * memreg_intensity.c - --intensity: the work and the traffic of a rank in a step, and the bandwidth
 * at which the traffic hides behind the work.
 *
 *   forward   2 N D    N: parameters that a token uses, D: tokens
 *   backward  4 N D    (Kaplan et al., "Scaling Laws for Neural Language Models", 2020, 2.1: 6 N D
 *                      in all; attention over the context is left out, embeddings are counted in)
 *   sent               strategy_cost.c
 *
 * A token uses top_k experts. Parameters are moved at least three times: read forward and backward,
 * and their gradients written. FLOPs by bytes are the roofline's intensity (Williams, Waterman,
 * Patterson, 2009). It is an upper bound, as activations are left out.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/tow_size.h"

#define TOP_K 2 /* for a strategy without this number */

struct intensity {
	const struct memreg_job *job;
	double flops_per_s;
	uint64_t parameters, used_parameters, expert_parameters, tokens, sent_bytes, received_bytes;
	double rank_flops;     /* of one step */
	double hidden_flops;   /* behind which the traffic can hide */
	double moved_bytes;    /* of memory, at least */
	const char *hidden_by; /* the name of hidden_flops */
};

/* The experts of a layer: the largest number behind "experts.", plus one. */
static uint64_t expert_count(const struct workload *work)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < work->count; i++) {
		const char *at = strstr(work->tensors[i].name, "experts.");
		uint64_t number = at != NULL ? strtoull(at + 8, NULL, 10) + 1 : 0;

		count = number > count ? number : count;
	}
	return count;
}

static void count_parameters(struct intensity *out)
{
	const struct workload *work = &out->job->work;
	uint64_t experts = expert_count(work);
	uint64_t top_k = strategy_value(&out->job->plan, "top_k");

	for (uint64_t i = 0; i < work->count; i++) {
		const struct workload_tensor *tensor = &work->tensors[i];
		uint64_t elements = tensor->bytes / tensor->element_bytes;

		out->parameters += elements;
		if (strstr(tensor->name, "experts.") != NULL)
			out->expert_parameters += elements;
	}
	top_k = top_k > 0 ? top_k : TOP_K;
	out->used_parameters = out->parameters;
	if (experts > top_k)
		out->used_parameters -= out->expert_parameters / experts * (experts - top_k);
}

/* The share of the model that one rank computes. */
static double share_of_rank(const struct strategy_plan *plan)
{
	bool cut = plan->kind == STRATEGY_PIPELINE || plan->kind == STRATEGY_TENSOR_PARALLEL;

	return cut ? 1.0 / strategy_ranks(plan) : 1;
}

static uint64_t tokens_of_step(const struct strategy_plan *plan)
{
	uint64_t times = plan->kind == STRATEGY_PIPELINE ? strategy_value(plan, "micro_batches")
			 : plan->kind == STRATEGY_KV_TRANSFER ? strategy_value(plan, "requests")
							      : 1;

	return times * strategy_value(plan, "tokens");
}

static void count_work(struct intensity *out)
{
	const struct strategy_plan *plan = &out->job->plan;
	bool forward_only = plan->kind == STRATEGY_KV_TRANSFER;
	double product, bytes = (double)out->job->work.bytes;

	count_parameters(out);
	out->tokens = tokens_of_step(plan);
	product = (double)out->used_parameters * (double)out->tokens * share_of_rank(plan);
	out->rank_flops = forward_only ? 2 * product : 6 * product;
	out->hidden_flops = out->rank_flops;
	out->hidden_by = "the whole step";
	/* Gradients exist from the backward pass on. */
	if (plan->kind == STRATEGY_DATA_PARALLEL) {
		out->hidden_flops = 4 * product;
		out->hidden_by = "the backward pass";
	}
	bytes *= plan->kind == STRATEGY_EXPERT_PARALLEL
			 ? 1 - (double)out->expert_parameters / (double)out->parameters *
					   (1 - 1.0 / strategy_ranks(plan))
			 : share_of_rank(plan);
	out->moved_bytes = forward_only ? bytes : 3 * bytes;
	out->sent_bytes = strategy_step_bytes(plan);
	for (uint64_t i = plan->step_begin; i < plan->step_end; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind != STRATEGY_SEND || event->transfer == STRATEGY_MESSAGE)
			continue;
		out->received_bytes += event->transfer == STRATEGY_RECEIVE
					       ? event->bytes
					       : strategy_sent_bytes(event, strategy_ranks(plan));
	}
}

/* The bandwidth of the direction with more traffic. */
static double hiding_bandwidth(const struct intensity *it)
{
	uint64_t most = it->sent_bytes > it->received_bytes ? it->sent_bytes : it->received_bytes;

	return (double)most * it->flops_per_s / it->hidden_flops;
}

static double per_sent_byte(const struct intensity *it)
{
	uint64_t most = it->sent_bytes > it->received_bytes ? it->sent_bytes : it->received_bytes;

	return most > 0 ? it->rank_flops / (double)most : 0;
}

static void print_text(const struct intensity *it)
{
	const struct strategy_plan *plan = &it->job->plan;

	printf("%s, %s, %u ranks: what rank %u does in a step\n", it->job->source,
	       strategy_name(plan->kind), strategy_ranks(plan), strategy_rank(plan));
	for (uint32_t i = 0; i < plan->assumption_count; i++)
		printf("  assumed: %s = %" PRIu64 ", %s\n", plan->assumptions[i].name,
		       plan->assumptions[i].value, plan->assumptions[i].meaning);
	printf("  parameters             %" PRIu64 ", of which a token uses %" PRIu64 "\n",
	       it->parameters, it->used_parameters);
	printf("  tokens                 %" PRIu64 "\n", it->tokens);
	printf("  computed               %.4g FLOPs (%s parameters times tokens)\n", it->rank_flops,
	       plan->kind == STRATEGY_KV_TRANSFER ? "2 times" : "6 times");
	printf("  sent, received         %" PRIu64 ", %" PRIu64 " bytes\n", it->sent_bytes,
	       it->received_bytes);
	printf("  arithmetic intensity   %.4g FLOPs for each byte of parameters and gradients\n",
	       it->rank_flops / it->moved_bytes);
	printf("  communication          %.4g FLOPs for each byte on its way\n", per_sent_byte(it));
	printf("  hidden from            %.4g bytes/s each way, at %.4g FLOP/s, behind %s\n",
	       hiding_bandwidth(it), it->flops_per_s, it->hidden_by);
}

static int print_json(const struct intensity *it)
{
	const struct strategy_plan *plan = &it->job->plan;
	json_t *root = json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:s}",
		"source", it->job->source, "strategy", strategy_name(plan->kind), "ranks",
		(json_int_t)strategy_ranks(plan), "rank", (json_int_t)strategy_rank(plan),
		"parameters", (json_int_t)it->parameters, "parameters_of_a_token",
		(json_int_t)it->used_parameters, "tokens", (json_int_t)it->tokens, "flops",
		it->rank_flops, "sent_bytes", (json_int_t)it->sent_bytes, "received_bytes",
		(json_int_t)it->received_bytes, "arithmetic_intensity",
		it->rank_flops / it->moved_bytes, "communication_intensity", per_sent_byte(it),
		"flops_per_s", it->flops_per_s, "hiding_bytes_per_s", hiding_bandwidth(it),
		"hidden_by", it->hidden_by);
	int rc = root != NULL ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;

	putchar('\n');
	json_decref(root);
	return rc == 0 ? 0 : MEMREG_FAULT;
}

/* An image's kernel is used at many places, which no list of tensors shows. */
static bool has_images(const struct workload *work)
{
	for (uint64_t i = 0; i < work->count; i++)
		if (work->tensors[i].dims > 2)
			return true;
	return false;
}

int memreg_intensity(const struct memreg_options *options)
{
	struct intensity it = { .flops_per_s = options->flops_per_s };
	struct memreg_job job;
	int rc = memreg_job_open(options, &job);

	if (rc != 0)
		return rc;
	it.job = &job;
	if (has_images(&job.work)) {
		fprintf(stderr,
			"tow-size: --intensity: %s has tensors of more than two extents; what "
			"convolutions compute depends on the images, which are not in the list\n",
			job.source);
		rc = MEMREG_USAGE;
	} else {
		count_work(&it);
		if (options->json)
			rc = print_json(&it);
		else
			print_text(&it);
	}
	memreg_job_close(&job);
	return rc;
}
