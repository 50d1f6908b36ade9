/*
 * ras_report.c - see ras_report.h.
 */
#include "tools/towstat/ras_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"

/* Values of ncclResult_t, for the error of a broken group. */
enum { SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_USAGE = 5, REMOTE_ERROR = 6, TIMEOUT = 8 };

static int error_number(const char *status)
{
	static const struct {
		const char *status;
		int number;
	} table[] = {
		{ "TOW_EPEER", REMOTE_ERROR },      { "TOW_EREMOTE", REMOTE_ERROR },
		{ "TOW_ESYSTEM", SYSTEM_ERROR },    { "TOW_ENOMEM", SYSTEM_ERROR },
		{ "TOW_EMISMATCH", INVALID_USAGE }, { "TOW_EINVAL", INVALID_USAGE },
		{ "TOW_EDEADLINE", TIMEOUT },       { "TOW_ETIMEDOUT", TIMEOUT },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].status, status) == 0)
			return table[i].number;
	}
	return INTERNAL_ERROR;
}

/* The counts in which kinds of collectives (diag/record/coll_kind.h) are reported. */
static const struct {
	const char *kind;
	enum ras_count count;
} kinds[] = {
	{ "broadcast", RAS_COUNT_BROADCAST },
	{ "reduce", RAS_COUNT_REDUCE },
	{ "all-gather", RAS_COUNT_ALL_GATHER },
	{ "all-gather-v", RAS_COUNT_ALL_GATHER },
	{ "reduce-scatter", RAS_COUNT_REDUCE_SCATTER },
	{ "all-reduce", RAS_COUNT_ALL_REDUCE },
	{ "all-to-all", RAS_COUNT_ALL_TO_ALL },
	{ "all-to-all-v", RAS_COUNT_ALL_TO_ALL },
	{ "gather", RAS_COUNT_GATHER },
	{ "scatter", RAS_COUNT_SCATTER },
	{ "permute", RAS_COUNT_SEND_RECV },
	{ "send-receive", RAS_COUNT_SEND_RECV },
	{ "barrier", RAS_COUNT_BARRIER },
};

static unsigned long long number_of(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (unsigned long long)value : 0;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* FNV-1a. All ranks compute the same hash. */
static unsigned long long hash_bytes(unsigned long long hash, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211ull;
	return hash;
}

/* The hash of a group: equal at all of its ranks, and different for another group or job. */
static unsigned long long hash_group(const char *job, const json_t *group)
{
	const json_t *members = json_object_get(group, "members");
	unsigned long long hash = hash_bytes(14695981039346656037ull, job, strlen(job)), number;

	number = number_of(group, "group");
	hash = hash_bytes(hash, &number, sizeof(number));
	for (size_t i = 0; i < json_array_size(members); i++) {
		number = (unsigned long long)json_integer_value(json_array_get(members, i));
		hash = hash_bytes(hash, &number, sizeof(number));
	}
	return hash;
}

static struct ras_comm *find_comm(const struct ras_report *report, unsigned long long hash)
{
	for (size_t i = 0; i < report->count; i++) {
		if (report->comms[i].hash == hash)
			return &report->comms[i];
	}
	return NULL;
}

/*
 * Adds a communicator with all of its ranks; none of them is there yet. NULL: no memory, or too
 * many.
 */
static struct ras_comm *add_comm(struct ras_report *report, const json_t *group,
				 unsigned long long hash, size_t *ranks_left)
{
	const json_t *members = json_object_get(group, "members");
	size_t size = json_array_size(members);
	struct ras_comm *comm;

	if (report->count == RAS_COMMS_MAX || size == 0 || size > *ranks_left) {
		report->left_out++;
		return NULL;
	}
	comm = &report->comms[report->count];
	*comm = (struct ras_comm){ .hash = hash,
				   .group = (long long)number_of(group, "group"),
				   .size = size,
				   .by_kind = true,
				   .ranks = calloc(size, sizeof(comm->ranks[0])) };
	if (comm->ranks == NULL)
		return NULL;
	words_clean(comm->name, sizeof(comm->name), text_of(group, "label"));
	for (size_t i = 0; i < size; i++) {
		comm->ranks[i] = (struct ras_rank){ .rank = (long long)i, .pid = -1 };
		comm->ranks[i].job_rank = json_integer_value(json_array_get(members, i));
		snprintf(comm->ranks[i].host, sizeof(comm->ranks[i].host), "unknown");
	}
	*ranks_left -= size;
	report->count++;
	return comm;
}

static void count_begun(struct ras_rank *rank, const json_t *group)
{
	const json_t *begun = json_object_get(group, "begun");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		rank->counts[kinds[i].count] += number_of(begun, kinds[i].kind);
	rank->begun = number_of(group, "started");
	rank->by_kind = true;
}

static void fill_rank(struct ras_rank *rank, const struct ras_question *question,
		      const struct ras_source *source, const json_t *group)
{
	const char *broken = text_of(group, "broken");

	rank->there = true;
	rank->pid = source->pid > 0 ? source->pid : (long)number_of(source->info, "pid");
	snprintf(rank->host, sizeof(rank->host), "%s", question->host);
	if (broken[0] != '\0')
		rank->error = error_number(broken);
	rank->aborted = strcmp(broken, "TOW_EABORTED") == 0;
	count_begun(rank, group);
}

/* Takes the groups of one rank's document. */
static void take_groups(struct ras_report *report, const struct ras_question *question,
			const struct ras_source *source, size_t *ranks_left)
{
	const json_t *groups = json_object_get(source->coll, "groups"), *group;
	size_t i;

	json_array_foreach(groups, i, group)
	{
		unsigned long long hash = hash_group(question->job, group), at;
		struct ras_comm *comm = find_comm(report, hash);

		if (comm == NULL)
			comm = add_comm(report, group, hash, ranks_left);
		at = number_of(group, "rank");
		if (comm != NULL && at < comm->size && !comm->ranks[at].there) {
			fill_rank(&comm->ranks[at], question, source, group);
			comm->there++;
		}
	}
}

/* --- ranks without a document here --- */

/* The verdict's rows by rank. A verdict may have many thousand rows, and each is looked up. */
static const json_t **index_rows(const json_t *verdict)
{
	const json_t *list = json_object_get(verdict, "ranks"), *row;
	const json_t **rows = calloc(RAS_RANKS_MAX, sizeof(*rows));
	size_t i;

	if (rows == NULL)
		return NULL;
	json_array_foreach(list, i, row)
	{
		const json_t *number = json_object_get(row, "rank");
		json_int_t rank = json_integer_value(number);

		if (json_is_integer(number) && rank >= 0 && rank < RAS_RANKS_MAX)
			rows[rank] = row;
	}
	return rows;
}

static bool verdict_names(const json_t *verdict, const char *cause, long long job_rank)
{
	const json_t *findings = json_object_get(verdict, "findings"), *finding, *rank;
	size_t i, j;

	json_array_foreach(findings, i, finding)
	{
		if (strcmp(text_of(finding, "cause"), cause) != 0)
			continue;
		json_array_foreach(json_object_get(finding, "ranks"), j, rank)
		{
			if (json_integer_value(rank) == job_rank)
				return true;
		}
	}
	return false;
}

static void name_process(struct ras_rank *rank, const json_t *row)
{
	const char *host = text_of(row, "host");

	if (host[0] != '\0')
		words_clean(rank->host, sizeof(rank->host), host);
	if (json_is_integer(json_object_get(row, "pid")))
		rank->pid = (long)number_of(row, "pid");
}

/* A rank is there when it has answered the verdict's rank and its state there has the group. */
static bool take_state(struct ras_comm *comm, struct ras_rank *rank, const json_t *row)
{
	const json_t *groups = json_object_get(row, "groups"), *group;
	size_t i;

	if (!json_is_true(json_object_get(row, "answered")))
		return false;
	json_array_foreach(groups, i, group)
	{
		if ((long long)number_of(group, "group") != comm->group ||
		    strcmp(text_of(group, "of"), "collectives") != 0)
			continue;
		rank->there = true;
		rank->begun = number_of(group, "last_entered");
		comm->there++;
		comm->by_kind = false;
		return true;
	}
	return false;
}

static const struct ras_source *source_of(const struct ras_question *question, long long job_rank)
{
	for (size_t i = 0; i < question->count; i++) {
		if (question->sources[i].rank == job_rank)
			return &question->sources[i];
	}
	return NULL;
}

static void judge_absent(const struct ras_question *question, const json_t **rows,
			 struct ras_comm *comm, struct ras_rank *rank)
{
	const struct ras_source *source = source_of(question, rank->job_rank);
	bool listed = rank->job_rank >= 0 && rank->job_rank < RAS_RANKS_MAX;
	const json_t *row = listed ? rows[rank->job_rank] : NULL;
	bool answered = source != NULL && source->answered;

	name_process(rank, row);
	if (source != NULL) {
		snprintf(rank->host, sizeof(rank->host), "%s", question->host);
		rank->pid = source->pid > 0 ? source->pid : rank->pid;
	}
	/* A rank that answers here without the group has left it. */
	if (answered || take_state(comm, rank, row))
		return;
	rank->unresponsive = !json_is_true(json_object_get(row, "answered"));
	rank->dead = (source != NULL && source->dead) ||
		     verdict_names(question->verdict, "dead", rank->job_rank);
}

static void judge_all(struct ras_report *report, const struct ras_question *question,
		      const json_t **rows)
{
	for (size_t i = 0; i < report->count; i++) {
		struct ras_comm *comm = &report->comms[i];

		for (size_t j = 0; j < comm->size; j++) {
			if (!comm->ranks[j].there)
				judge_absent(question, rows, comm, &comm->ranks[j]);
		}
	}
}

int ras_report_make(struct ras_report *out, const struct ras_question *question)
{
	const json_t **rows = index_rows(question->verdict);
	size_t ranks_left = RAS_RANKS_MAX;

	*out = (struct ras_report){ 0 };
	out->comms = calloc(RAS_COMMS_MAX, sizeof(out->comms[0]));
	if (out->comms == NULL || rows == NULL) {
		free(rows);
		ras_report_fini(out);
		return -1;
	}
	words_clean(out->job, sizeof(out->job), question->job);
	for (size_t i = 0; i < question->count; i++) {
		const struct ras_source *source = &question->sources[i];

		if (!source->answered) {
			out->missed += !source->dead;
			continue;
		}
		out->processes++;
		words_clean(out->version, sizeof(out->version), text_of(source->info, "version"));
		take_groups(out, question, source, &ranks_left);
	}
	judge_all(out, question, rows);
	free(rows);
	return 0;
}

bool ras_report_lacks(const struct ras_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		for (size_t j = 0; j < report->comms[i].size; j++) {
			const struct ras_rank *rank = &report->comms[i].ranks[j];

			if (!rank->there && (rank->unresponsive || rank->pid < 0))
				return true;
		}
	}
	return false;
}

void ras_report_fini(struct ras_report *report)
{
	for (size_t i = 0; i < report->count; i++)
		free(report->comms[i].ranks);
	free(report->comms);
	*report = (struct ras_report){ 0 };
}
