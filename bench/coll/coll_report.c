/*
 * coll_report.c - prints results as a table, or as the baselines' plain lines. Rank 0 prints.
 *
 * Each result is printed as soon as it is there, so that a stopped run still shows its first part.
 * The number of wrong elements goes through the job's store, not through a collective, as the
 * collectives are under test.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench/coll/tow_coll.h"

static void plain_line(const struct coll_rank *rank, const struct coll_case *what,
		       const char *prefix, const char *metric, double value)
{
	printf("%s %s %s%s-n%u %" PRIu64 " %s %.6g\n", rank->options->peer, rank->options->path,
	       prefix, coll_kind_names[what->kind], rank->ranks, what->bytes, metric, value);
}

void coll_report_head(const struct coll_rank *rank)
{
	const struct coll_options *o = rank->options;

	if (rank->rank != 0 || o->nccl)
		return;
	if (o->plain) {
		if (rank->bytes_per_s > 0)
			printf("#copy_rate_MBps %.0f\n", rank->bytes_per_s / 1e6);
	} else {
		printf("%s %s, %s, %u ranks, %s %s%s%s%s%s; MB is 10^6 bytes\n", o->peer,
		       tow_version(), o->path, rank->ranks, tow_type_name(o->type),
		       tow_reduce_name(o->reduce), o->in_place ? ", in place" : "",
		       o->outside ? ", memory outside the pool" : "",
		       o->tests ? ", driven by tests" : "", o->pin ? ", rank r on CPU r" : "");
		if (rank->bytes_per_s > 0)
			printf("this machine copies %.0f MB/s, read and written, all CPUs at once; "
			       "bound: "
			       "what must\nbe moved at that rate, divided by the time\n",
			       rank->bytes_per_s / 1e6);
	}
	fflush(stdout);
}

static const char *const library_names[COLL_KINDS] = {
	[COLL_ALL_REDUCE] = "all-reduce",
	[COLL_ALL_GATHER] = "all-gather",
	[COLL_REDUCE_SCATTER] = "reduce-scatter",
	[COLL_ALL_TO_ALL] = "all-to-all",
	[COLL_BROADCAST] = "broadcast",
	[COLL_REDUCE] = "reduce",
	[COLL_GATHER] = "gather",
	[COLL_SCATTER] = "scatter",
	[COLL_ALL_GATHER_V] = "all-gather-v",
	[COLL_ALL_TO_ALL_V] = "all-to-all-v",
	[COLL_PERMUTE] = "permute",
	[COLL_SEND_RECEIVE] = "send-receive",
	[COLL_BARRIER] = "barrier",
};

const char *coll_library_name(enum coll_kind kind)
{
	return library_names[kind];
}

/* Whether an entry of /v1/coll is of this case. */
static bool is_of(const json_t *entry, const struct coll_case *what)
{
	const char *kind = json_string_value(json_object_get(entry, "kind"));
	const json_t *count = json_object_get(entry, "count");

	return kind != NULL && strcmp(kind, library_names[what->kind]) == 0 &&
	       (what->kind == COLL_ALL_TO_ALL_V ||
		(uint64_t)json_integer_value(count) == what->count);
}

/* Finds this case's entry and its group; NULL: there is none. The entry used last comes first. */
static json_t *find_entry(const json_t *json, const struct coll_case *what, json_t **group_out)
{
	json_t *group, *entry;
	size_t i, k;

	json_array_foreach(json_object_get(json, "groups"), i, group)
	{
		*group_out = group;
		json_array_foreach(json_object_get(group, "entries"), k, entry)
		{
			if (is_of(entry, what))
				return entry;
		}
	}
	return NULL;
}

static json_t *ask_library(const struct coll_rank *rank)
{
	char *text = NULL;
	json_t *json = NULL;

	if (tow_stats_get(rank->runtime, "/v1/coll", &text) == TOW_OK)
		json = json_loads(text, 0, NULL);
	tow_stats_release(text);
	return json;
}

/* The plan that ran; "" when the library does not report it. */
static void plan_used(const struct coll_rank *rank, const struct coll_case *what, char *out,
		      size_t room)
{
	json_t *json, *group;
	const char *plan;

	out[0] = '\0';
	if (rank->options->plan != NULL) {
		snprintf(out, room, "%s", rank->options->plan);
		return;
	}
	json = ask_library(rank);
	plan = json_string_value(json_object_get(find_entry(json, what, &group), "plan"));
	if (plan != NULL)
		snprintf(out, room, "%s", plan);
	json_decref(json);
}

void coll_report_lane(const struct coll_rank *rank, const struct coll_case *what, char *out,
		      size_t room)
{
	json_t *json = ask_library(rank), *group = NULL, *entry, *lanes;
	const char *lane = "";

	entry = find_entry(json, what, &group);
	lanes = json_object_get(entry, "lanes");
	if (json_array_size(lanes) > 1)
		lane = "mixed";
	else if (json_array_size(lanes) == 1)
		lane = json_string_value(json_object_get(json_array_get(lanes, 0), "lane"));
	else if (entry != NULL && json_is_true(json_object_get(group, "shares_memory")))
		lane = "shm";
	/* A barrier moves no bytes, and parts of several lengths have no entry with one count. */
	if ((lane == NULL || lane[0] == '\0') && strcmp(rank->options->lane, "auto") != 0)
		lane = rank->options->lane;
	snprintf(out, room, "%.*s", lane != NULL ? (int)strcspn(lane, ":") : 0, lane);
	json_decref(json);
}

static void table_result(const struct coll_rank *rank, const struct coll_case *what,
			 const struct coll_result *r, const char *plan)
{
	static int last = COLL_KINDS;
	double payload = coll_payload_bytes(what, rank->ranks);
	double bus = coll_bus_bytes(what, rank->ranks);

	if (last == COLL_KINDS)
		printf("\n%-15s %10s %12s %12s %12s %10s %6s  %s\n", "op", "bytes", "us",
		       "payload MB/s", "bus MB/s", "CPU s/GiB", "bound", "plan");
	last = (int)what->kind;
	printf("%-15s %10" PRIu64 " %12.2f %12.1f %12.1f ", coll_kind_names[what->kind],
	       what->bytes, r->time_s * 1e6, payload / r->time_s / 1e6, bus / r->time_s / 1e6);
	if (r->cpu_s_per_gib > 0)
		printf("%10.3f ", r->cpu_s_per_gib);
	else
		printf("%10s ", "-");
	if (r->bound_ratio > 0)
		printf("%6.2f  %s\n", r->bound_ratio, plan);
	else
		printf("%6s  %s\n", "-", plan);
}

void coll_report_result(const struct coll_rank *rank, const struct coll_case *what,
			const struct coll_result *r)
{
	char plan[64];

	if (rank->rank != 0)
		return;
	plan_used(rank, what, plan, sizeof(plan));
	if (!rank->options->plain) {
		table_result(rank, what, r, plan);
	} else {
		plain_line(rank, what, "", "time_us", r->time_s * 1e6);
		if (r->cpu_s_per_gib > 0)
			plain_line(rank, what, "", "cpu_s_per_GiB", r->cpu_s_per_gib);
		if (r->bound_ratio > 0)
			plain_line(rank, what, "", "bound_ratio", r->bound_ratio);
		if (plan[0] != '\0')
			printf("#plan %s-n%u %" PRIu64 " %s\n", coll_kind_names[what->kind],
			       rank->ranks, what->bytes, plan);
	}
	fflush(stdout);
}

void coll_report_skipped(const struct coll_rank *rank, const struct coll_case *what)
{
	if (rank->rank != 0)
		return;
	printf("#skipped %s-n%u %" PRIu64 " %s: %s\n", coll_kind_names[what->kind], rank->ranks,
	       what->bytes, rank->options->plan, tow_error_message());
	fflush(stdout);
}

void coll_report_overlap(const struct coll_rank *rank, const struct coll_case *what,
			 const struct coll_overlap_result *r)
{
	if (rank->rank != 0)
		return;
	if (rank->options->plain) {
		plain_line(rank, what, "overlap-", "comm_us", r->comm_s * 1e6);
		plain_line(rank, what, "overlap-", "compute_us", r->compute_s * 1e6);
		plain_line(rank, what, "overlap-", "both_us", r->both_s * 1e6);
		plain_line(rank, what, "overlap-", "hidden_share", r->hidden);
		plain_line(rank, what, "overlap-", "background_cpu_us", r->background_s * 1e6);
	} else {
		printf("\n%s of %" PRIu64 " bytes beside a compute loop\n",
		       coll_kind_names[what->kind], what->bytes);
		printf("  %-34s %12.1f us\n", "communication alone", r->comm_s * 1e6);
		printf("  %-34s %12.1f us\n", "compute loop alone", r->compute_s * 1e6);
		printf("  %-34s %12.1f us\n", "together", r->both_s * 1e6);
		printf("  %-34s %12.1f %%\n", "hidden", r->hidden * 100);
		printf("  %-34s %12.1f us\n", "CPU time of it, each rank, together",
		       r->background_s * 1e6);
	}
	fflush(stdout);
}

int coll_wrong_of_all(struct coll_rank *rank, uint64_t own, uint64_t *all_out)
{
	uint64_t theirs = 0, turn = rank->counted++;
	char key[48];
	size_t bytes;
	int rc = TOW_OK;

	*all_out = own;
	snprintf(key, sizeof(key), "tow-coll-wrong-%" PRIu64 "-%u", turn, rank->rank);
	if (rank->rank != 0) {
		rc = tow_group_set(rank->group, key, &own, sizeof(own), rank->options->timeout_ns);
		return rc < 0 ? coll_failed(rank, "sending the error count", rc) : 0;
	}
	for (uint32_t r = 1; r < rank->ranks && rc >= 0; r++) {
		snprintf(key, sizeof(key), "tow-coll-wrong-%" PRIu64 "-%u", turn, r);
		rc = tow_group_get(rank->group, key, &theirs, sizeof(theirs), &bytes,
				   rank->options->timeout_ns);
		*all_out += theirs;
	}
	return rc < 0 ? coll_failed(rank, "receiving the error count", rc) : 0;
}

int coll_report_wrong(struct coll_rank *rank)
{
	uint64_t all = 0;
	int rc = coll_wrong_of_all(rank, rank->wrong, &all);

	if (rc != 0 || rank->rank != 0)
		return rc;
	if (!rank->options->nccl)
		printf(rank->options->plain ? "#wrong %" PRIu64 "\n"
					    : "\nwrong elements: %" PRIu64 "\n",
		       all);
	fflush(stdout);
	return all != 0 ? COLL_WRONG : 0;
}
