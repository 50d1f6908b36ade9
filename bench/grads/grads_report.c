/*
 * grads_report.c - prints the run in a few lines, and what the library itself says about it.
 *
 * The library's part is read from the JSON that its stats socket serves, so a live job can show all
 * of it as well. Names are searched anywhere in a document. A missing name is left out: a report
 * must not fail for a renamed field.
 */
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bench/grads/grads.h"

#define MIB            1048576.0
#define OVERLAP_LITTLE 0.25 /* share of the shorter half; below it the report says why */

/* A line of the report: its label, and the names that the number may have. */
struct figure {
	const char *label;
	const char *names[4];
	bool bytes;
};

static const struct figure pool_figures[] = {
	{ "size", { "mapped_bytes" }, true },
	{ "in use", { "allocated_bytes" }, true },
	{ "most in use", { "allocated_peak_bytes" }, true },
	{ "allocations it had no room for", { "exhausted" }, false },
	{ "recommended premap_memory_bytes", { "recommended_premap_memory_bytes" }, true },
};

static const struct figure counter_figures[] = {
	{ "times the pool has grown", { "pool_grown" }, false },
	{ "allocations outside the full pool", { "pool_overflow_allocs" }, false },
	{ "zero-copy sends", { "zerocopy_sends" }, false },
	{ "of these copied by the kernel", { "zerocopy_kernel_copies" }, false },
};

static json_t *fetch_document(const struct grads_rank *rank, const char *path)
{
	json_error_t error;
	char *text = NULL;
	json_t *json;
	int rc = tow_stats_get(rank->runtime, path, &text);

	if (rc < 0) {
		grads_failed(rank->rank, path, rc);
		return NULL;
	}
	json = json_loads(text, 0, &error);
	if (json == NULL)
		fprintf(stderr, "tow-grads: %s: line %d: %s\n", path, error.line, error.text);
	tow_stats_release(text);
	return json;
}

/* Searches depth-first; a document is a few levels deep. */
static json_t *find_member(json_t *json, const char *name)
{
	json_t *hit = json_object_get(json, name), *child;
	const char *key;
	size_t index;

	if (hit != NULL)
		return hit;
	json_object_foreach(json, key, child)
	{
		hit = find_member(child, name);
		if (hit != NULL)
			return hit;
	}
	json_array_foreach(json, index, child)
	{
		hit = find_member(child, name);
		if (hit != NULL)
			return hit;
	}
	return NULL;
}

static bool find_number(json_t *json, const char *name, double *out)
{
	json_t *hit = find_member(json, name);

	if (json_is_object(hit)) /* {"exhausted": {"count": 3, ...}} */
		hit = find_member(hit, "count");
	if (!json_is_number(hit))
		return false;
	*out = json_number_value(hit);
	return true;
}

static double number_or(json_t *json, const char *name, double fallback)
{
	double value = fallback;

	find_number(json, name, &value);
	return value;
}

/* "8 B", "9.0 KiB", "768.0 MiB": a size that is not 0 is never shown as 0. */
static const char *bytes_text(double bytes, char *room, size_t room_size)
{
	if (bytes >= MIB)
		snprintf(room, room_size, "%.1f MiB", bytes / MIB);
	else if (bytes >= 1024)
		snprintf(room, room_size, "%.1f KiB", bytes / 1024);
	else
		snprintf(room, room_size, "%.0f B", bytes);
	return room;
}

static void print_figures(json_t *json, const struct figure *figures, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct figure *figure = &figures[i];
		double value = 0;

		for (size_t n = 0; n < 4 && figure->names[n] != NULL; n++) {
			if (!find_number(json, figure->names[n], &value))
				continue;
			if (figure->bytes)
				printf("  %-34s %.1f MiB\n", figure->label, value / MIB);
			else
				printf("  %-34s %.0f\n", figure->label, value);
			break;
		}
	}
}

/*
 * Writes "64", "4K" or "2M". The last class has no end, which a document may express in its own
 * way.
 */
static const char *size_text(json_t *rpc, const char *name, char *room, size_t room_size)
{
	double bytes = number_or(rpc, name, 1e18);

	if (bytes > 1e15)
		snprintf(room, room_size, "any");
	else if (bytes >= MIB)
		snprintf(room, room_size, "%.4gM", bytes / MIB);
	else if (bytes >= 1024)
		snprintf(room, room_size, "%.4gK", bytes / 1024);
	else
		snprintf(room, room_size, "%.0f", bytes);
	return room;
}

static const char *text_of(json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));

	return text != NULL ? text : "?";
}

static void print_quantiles(json_t *latency, double unit_ns, int digits)
{
	static const char *const names[] = { "p50", "p90", "p99", "max" };

	printf(" %8.0f", number_or(latency, "count", 0));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf(" %9.*f", digits, number_or(latency, names[i], 0) / unit_ns);
	printf("\n");
}

/*
 * Prints the parts of the step's time: each collective from its start to its end, on any lane. The
 * barriers are left out, as they are the benchmark's own and move nothing.
 */
static void print_collectives(json_t *json)
{
	json_t *totals = find_member(json, "totals"), *total;
	size_t index;

	if (json_array_size(totals) == 0)
		return;
	printf("\ncollectives of rank 0, from start to completion (/v1/coll), in ms\n");
	printf("  %-16s %-5s %8s %9s %9s %9s %9s\n", "kind", "lane", "count", "p50", "p90", "p99",
	       "max");
	json_array_foreach(totals, index, total)
	{
		if (strcmp(text_of(total, "kind"), "barrier") == 0)
			continue;
		printf("  %-16s %-5s", text_of(total, "kind"), text_of(total, "lane"));
		print_quantiles(json_object_get(total, "latency_ns"), 1e6, 3);
	}
}

/* The bytes that a collective has read or written in the memory of other ranks. */
static double shared_bytes(json_t *coll)
{
	json_t *group, *entry;
	double bytes = 0, once;
	size_t i, j;

	json_array_foreach(find_member(coll, "groups"), i, group)
	{
		json_array_foreach(json_object_get(group, "entries"), j, entry)
		{
			once = number_or(entry, "in_place_read_bytes", 0) +
			       number_or(entry, "in_place_written_bytes", 0);
			bytes += once * number_or(entry, "calls", 0);
		}
	}
	return bytes;
}

static void print_latency(json_t *json, json_t *coll)
{
	json_t *rpcs = find_member(json, "rpcs"), *rpc;
	char from[32], to[32], size[32];
	double shared = shared_bytes(coll);
	size_t index;

	if (json_array_size(rpcs) == 0) /* all messages belonged to collectives */
		rpcs = find_member(json, "colls");
	if (shared > 0)
		printf("  %s were read and written in the memory of other ranks of this host, "
		       "without a message\n",
		       bytes_text(shared, size, sizeof(size)));
	if (json_array_size(rpcs) == 0)
		return;
	printf("\nmessages to rank 0 by size, from start to completion (/v1/latency), in us\n");
	printf("  %-5s %16s %8s %9s %9s %9s %9s\n", "lane", "bytes", "count", "p50", "p90", "p99",
	       "max");
	json_array_foreach(rpcs, index, rpc)
	{
		if (number_or(rpc, "count", 0) == 0)
			continue;
		printf("  %-5s %6s .. %6s", text_of(rpc, "lane"),
		       size_text(rpc, "bytes_min", from, sizeof(from)),
		       size_text(rpc, "bytes_max", to, sizeof(to)));
		print_quantiles(rpc, 1e3, 1);
	}
}

/* Sums one kind of reasons, and prints each that occurred with its cure. */
static void print_reasons(json_t *json, const char *kind, const char *label)
{
	json_t *reasons = find_member(json, "reasons"), *reason;
	double count = 0, bytes = 0;
	char size[32];
	size_t index;

	json_array_foreach(reasons, index, reason)
	{
		if (strcasecmp(text_of(reason, "kind"), kind) == 0) {
			count += number_or(reason, "count", 0);
			bytes += number_or(reason, "bytes", 0);
		}
	}
	printf("  %-34s %.0f (%s)\n", label, count, bytes_text(bytes, size, sizeof(size)));
	json_array_foreach(reasons, index, reason)
	{
		if (strcasecmp(text_of(reason, "kind"), kind) != 0 ||
		    number_or(reason, "count", 0) == 0)
			continue;
		printf("    %s: %.0f, %s: %s\n      cure: %s\n", text_of(reason, "name"),
		       number_or(reason, "count", 0),
		       bytes_text(number_or(reason, "bytes", 0), size, sizeof(size)),
		       text_of(reason, "help"), text_of(reason, "cure"));
	}
}

uint64_t grads_report_counter(const struct grads_rank *rank, const char *name)
{
	json_t *counters = fetch_document(rank, "/v1/counters");
	double value = number_or(counters, name, 0);

	json_decref(counters);
	return (uint64_t)value;
}

uint64_t grads_report_reason(const struct grads_rank *rank, const char *name)
{
	json_t *counters = fetch_document(rank, "/v1/counters"), *reason;
	double count = 0;
	size_t index;

	json_array_foreach(find_member(counters, "reasons"), index, reason)
	{
		if (strcmp(text_of(reason, "name"), name) == 0)
			count = number_or(reason, "count", 0);
	}
	json_decref(counters);
	return (uint64_t)count;
}

/* Prints the head before the first step, so that the user can observe the job while it runs. */
void grads_report_head(const struct grads_rank *rank)
{
	const char *socket = tow_stats_socket(rank->runtime);

	printf("tow-grads: %s, %" PRIu64
	       " tensors, %s, %u ranks, %.1f MB sent by rank 0 in a step\n",
	       rank->options->label, rank->work->count, strategy_name(rank->plan.kind),
	       strategy_ranks(&rank->plan), (double)strategy_step_bytes(&rank->plan) / 1e6);
	for (uint32_t i = 0; i < rank->plan.assumption_count; i++)
		if (strstr(rank->plan.assumptions[i].meaning, STRATEGY_INTENSITY) == NULL)
			printf("  assumed: %s=%" PRIu64 " (%s)\n", rank->plan.assumptions[i].name,
			       rank->plan.assumptions[i].value, rank->plan.assumptions[i].meaning);
	if (socket[0] != '\0') {
		printf("look at it live:\n  towstat list\n");
		printf("  curl -s --unix-socket %s http://towline/v1/latency\n", socket);
	}
	fflush(stdout);
}

/* Prints one figure of each rank: "3 and 4". */
static void print_each(const char *label, const struct grads_outcome *outcome, uint32_t ranks,
		       size_t offset, const char *end)
{
	printf("  %-34s ", label);
	for (uint32_t i = 0; i < ranks; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&outcome[i] + offset, sizeof(value));
		printf("%s%" PRIu64, i > 0 ? " and " : "", value);
	}
	printf("%s\n", end);
}

/*
 * Both halves are work of processors, so where little is hidden the number of processors explains
 * it. A negative share means that the halves take longer together, since each finds less in the
 * caches.
 */
static void print_hidden(const struct grads_rank *rank, double hidden_s, double shorter_s)
{
	uint32_t ranks = strategy_ranks(&rank->plan);
	double share = shorter_s > 0 ? hidden_s / shorter_s : 0;
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 0;

	if (share >= OVERLAP_LITTLE) {
		printf("  %-34s %.0f %% of the shorter one\n", "overlap", 100 * share);
		return;
	}
	if (share > 0)
		printf("  %-34s %.0f %% of the shorter one:", "overlap", 100 * share);
	else
		printf("  %-34s none:", "overlap");
	if (count > 0 && (uint32_t)count <= ranks)
		printf(" making and exchanging are both work of a\n  %-34s processor, and %u ranks "
		       "have %d\n",
		       "", ranks, count);
	else
		printf(" a rank makes and exchanges with the same thread\n");
}

static void print_overlap(const struct grads_rank *rank)
{
	const struct grads_outcome *mine = &rank->outcome;
	double steps = mine->steps != 0 ? (double)mine->steps : 1;
	double took = mine->exchange_s > 0 ? mine->exchange_s : 1e-9;
	double hidden = mine->generate_s + took - mine->both_s;
	double shorter = mine->generate_s < took ? mine->generate_s : took;

	printf("  %-34s %" PRIu64 ", %.3f s each\n", "steps", mine->steps,
	       (mine->both_s + mine->verify_s) / steps);
	printf("  %-34s %.3f s, and %.3f s to check it\n", "of a step: make and exchange",
	       mine->both_s / steps, mine->verify_s / steps);
	printf("  %-34s %.3f s and %.3f s\n", "each alone", mine->generate_s / steps, took / steps);
	print_hidden(rank, hidden, shorter);
	printf("  %-34s %.2f ms mean of %" PRIu64 " a step; least %.2f ms: nothing is made after "
	       "the last\n",
	       "slack of a bucket",
	       mine->buckets != 0 ? mine->slack_s * 1e3 / (double)mine->buckets : 0,
	       mine->steps != 0 ? mine->buckets / mine->steps : 0, mine->slack_least_s * 1e3);
}

static void print_steps(const struct grads_rank *rank)
{
	const struct grads_outcome *mine = &rank->outcome;
	double steps = mine->steps != 0 ? (double)mine->steps : 1;

	printf("  %-34s %" PRIu64 ", %.4f s each, and %.4f s each that is checked\n", "steps",
	       mine->steps, mine->exchange_s / steps, mine->verify_s / steps);
}

void grads_report_run(const struct grads_rank *rank, const struct grads_outcome *outcome)
{
	const struct grads_outcome *mine = &rank->outcome;
	uint32_t ranks = strategy_ranks(&rank->plan);
	double took = mine->exchange_s > 0 ? mine->exchange_s : 1e-9, moved;
	uint64_t verified = 0, copied = 0, ahead = 0;
	char of[32];

	for (uint32_t i = 0; i < ranks; i++) {
		verified += outcome[i].verified_bytes;
		copied += outcome[i].copied;
		ahead += outcome[i].ahead_copies;
	}
	printf("\nthe run (tow-grads --help says what the words mean)\n");
	if (grads_rank_fits(rank))
		print_overlap(rank);
	else
		print_steps(rank);
	printf("  %-34s %.4f s to %.4f s\n", "exchange, fastest to slowest", mine->fastest_s,
	       mine->slowest_s);
	moved = (double)strategy_step_bytes(&rank->plan) * (double)mine->steps / 1e6;
	printf("  %-34s %.1f MB in a step, %.1f MB/s\n", "sent by rank 0",
	       (double)strategy_step_bytes(&rank->plan) / 1e6, moved / took);
	printf("  %-34s %.1f MB, every byte\n", "verified, all ranks", (double)verified / 1e6);
	snprintf(of, sizeof(of), " of %u", rank->plan.buffers);
	print_each("buffers outside the pool, by rank", outcome, ranks,
		   offsetof(struct grads_outcome, heap_buffers), of);
	printf("  %-34s %" PRIu64 "\n", "operations that were copied", copied);
	print_each("late registrations, by rank", outcome, ranks,
		   offsetof(struct grads_outcome, late_registrations), "");
	print_each("fallback copies, by rank", outcome, ranks,
		   offsetof(struct grads_outcome, fallback_copies), "");
	if (ahead > 0)
		print_each("of them ahead of a late rank", outcome, ranks,
			   offsetof(struct grads_outcome, ahead_copies), "");
}

/* Prints what a too small pool costs, and the setting that cures it. */
static void print_fault(const struct grads_rank *rank, json_t *pool, json_t *counters)
{
	const struct grads_outcome *outcome = &rank->outcome;
	double named = 0, grown = number_or(counters, "pool_grown", 0);
	uint64_t cure = grads_premap(&rank->plan, rank->options->lane);
	const char *source = "counted from the workload";

	if (outcome->heap_buffers == 0 && grown == 0)
		return;
	if (find_number(pool, "recommended_premap_memory_bytes", &named) && named > 0) {
		cure = (uint64_t)named;
		source = "recommended by /v1/pool";
	}
	if (grown > 0)
		printf("\nFAULT: the pool is too small: it had to grow %.0f times (%.1f MiB), "
		       "after start-up\n",
		       grown, number_or(counters, "pool_grown_bytes", 0) / MIB);
	if (outcome->heap_buffers > 0) {
		printf("\nFAULT: the pool is too small: %" PRIu64 " of %" PRIu64
		       " buffers (%.1f MiB) came from the heap\n",
		       outcome->heap_buffers, (uint64_t)rank->plan.buffers,
		       (double)outcome->heap_bytes / MIB);
		printf("  the library said: %s\n", outcome->pool_message);
	}
	cure = (cure + (1 << 20) - 1) >> 20;
	printf("CURE: a pool of %" PRIu64 " MiB (%s)\n", cure, source);
	printf("  here: leave --premap out; any program: export TOW_PREMAP_MEMORY_BYTES=%" PRIu64
	       "MiB\n",
	       cure);
}

void grads_report_library(const struct grads_rank *rank)
{
	json_t *latency = fetch_document(rank, "/v1/latency");
	json_t *coll = fetch_document(rank, "/v1/coll");
	json_t *pool = fetch_document(rank, "/v1/pool");
	json_t *counters = fetch_document(rank, "/v1/counters");

	print_collectives(coll);
	print_latency(latency, coll);
	printf("\npool of rank 0 (/v1/pool)\n");
	print_figures(pool, pool_figures, sizeof(pool_figures) / sizeof(pool_figures[0]));
	printf("\ncopies and registrations of rank 0 since it was opened (/v1/counters)\n");
	print_figures(counters, counter_figures,
		      sizeof(counter_figures) / sizeof(counter_figures[0]));
	print_reasons(counters, "copy", "fallback copies");
	print_reasons(counters, "late_registration", "late registrations");
	print_fault(rank, pool, counters);
	json_decref(latency);
	json_decref(coll);
	json_decref(pool);
	json_decref(counters);
	fflush(stdout);
}
