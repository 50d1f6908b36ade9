/*
 * ras_print.c - prints a report as NCCL's RAS does: JSON for watchers, text for people. See
 * ras_report.h.
 *
 * Members and columns are those of NCCL 2.30. A communicator also has "name", the group's label.
 * "nccl_version" says that Towline answers. Devices are not known, so they are -1.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/towstat/ras_report.h"

#define TEXT_RANKS     10 /* listed one by one, unless the output is verbose */
#define TEXT_RANKS_ALL 256
#define TEXT_COMMS     64

enum comm_error { COMM_MISMATCH = 1, COMM_ERROR = 2, COMM_INCOMPLETE = 4 };

static const char *const count_names[RAS_COUNTS] = {
#define RAS_COUNT_NAME(id, name) [RAS_COUNT_##id] = (name),
	RAS_COUNT_MAP(RAS_COUNT_NAME)
#undef RAS_COUNT_NAME
};

/* --- JSON --- */

static json_t *print_counts(const struct ras_comm *comm, const struct ras_rank *rank)
{
	json_t *counts = json_object();

	if (!comm->by_kind) {
		json_object_set_new(counts, "Collectives", json_integer((json_int_t)rank->begun));
		return counts;
	}
	for (size_t i = 0; i < RAS_COUNTS; i++)
		json_object_set_new(counts, count_names[i],
				    json_integer((json_int_t)rank->counts[i]));
	return counts;
}

static json_t *print_rank(const struct ras_comm *comm, const struct ras_rank *rank)
{
	json_t *row = json_object(), *status = json_object();

	json_object_set_new(row, "rank", json_integer(rank->rank));
	json_object_set_new(row, "host", json_string(rank->host));
	json_object_set_new(row, "pid", json_integer(rank->pid));
	json_object_set_new(row, "cuda_dev", json_integer(-1));
	json_object_set_new(row, "nvml_dev", json_integer(-1));
	json_object_set_new(row, "status", status);
	if (!rank->there) {
		json_object_set_new(status, "unresponsive", json_boolean(rank->unresponsive));
		json_object_set_new(status, "considered_dead", json_boolean(rank->dead));
		return row;
	}
	json_object_set_new(status, "init_state", json_integer(0));
	json_object_set_new(status, "async_error", json_integer(rank->error));
	json_object_set_new(status, "finalize_called", json_false());
	json_object_set_new(status, "destroy_flag", json_false());
	json_object_set_new(status, "abort_flag", json_boolean(rank->aborted));
	json_object_set_new(row, "collective_counts", print_counts(comm, rank));
	return row;
}

static json_t *print_comm(const struct ras_comm *comm)
{
	json_t *row = json_object(), *there = json_array(), *missing = json_array();
	char text[64];

	snprintf(text, sizeof(text), "0x%llx", comm->hash);
	json_object_set_new(row, "hash", json_string(text));
	snprintf(text, sizeof(text), "0x%llx:0x%llx", (unsigned long long)comm->group,
		 (unsigned long long)comm->size);
	json_object_set_new(row, "secondary_hash", json_string(text));
	json_object_set_new(row, "name", json_string(comm->name));
	json_object_set_new(row, "size", json_integer((json_int_t)comm->size));
	json_object_set_new(row, "ranks_count", json_integer((json_int_t)comm->there));
	json_object_set_new(row, "missing_ranks_count",
			    json_integer((json_int_t)(comm->size - comm->there)));
	for (size_t i = 0; i < comm->size; i++)
		json_array_append_new(comm->ranks[i].there ? there : missing,
				      print_rank(comm, &comm->ranks[i]));
	json_object_set_new(row, "ranks", there);
	json_object_set_new(row, "missing_ranks", missing);
	return row;
}

static void time_text(char *out, size_t room)
{
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local) == NULL || strftime(out, room, "%F %T", &local) == 0)
		out[0] = '\0';
}

char *ras_print_json(const struct ras_report *report)
{
	json_t *root = json_object(), *comms = json_array(), *ras = json_object();
	char text[64], *dumped, *out = NULL;

	snprintf(text, sizeof(text), "Towline %s", report->version);
	json_object_set_new(root, "nccl_version", json_string(text));
	json_object_set_new(root, "cuda_runtime_version", json_integer(-1));
	json_object_set_new(root, "cuda_driver_version", json_integer(-1));
	time_text(text, sizeof(text));
	json_object_set_new(root, "timestamp", json_string(text));
	json_object_set_new(root, "communicators_count", json_integer((json_int_t)report->count));
	for (size_t i = 0; i < report->count; i++)
		json_array_append_new(comms, print_comm(&report->comms[i]));
	json_object_set_new(root, "communicators", comms);
	json_object_set_new(ras, "collection_time_sec", json_real(report->took_s));
	json_object_set_new(ras, "timeouts_count", json_integer((json_int_t)report->missed));
	json_object_set_new(root, "ras", ras);
	dumped = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(4));
	json_decref(root);
	if (dumped == NULL || asprintf(&out, "%s\n", dumped) < 0)
		out = NULL;
	free(dumped);
	return out;
}

/* --- text --- */

/* Whether two ranks have begun the same collectives. */
static bool same_counts(const struct ras_comm *comm, const struct ras_rank *a,
			const struct ras_rank *b)
{
	return comm->by_kind ? memcmp(a->counts, b->counts, sizeof(a->counts)) == 0
			     : a->begun == b->begun;
}

static const struct ras_rank *first_there(const struct ras_comm *comm)
{
	for (size_t i = 0; i < comm->size; i++) {
		if (comm->ranks[i].there)
			return &comm->ranks[i];
	}
	return NULL;
}

static unsigned errors_of(const struct ras_comm *comm)
{
	const struct ras_rank *first = first_there(comm);
	unsigned errors = 0;

	for (size_t i = 0; i < comm->size; i++) {
		const struct ras_rank *rank = &comm->ranks[i];

		if (!rank->there)
			errors |=
				rank->unresponsive || rank->dead ? COMM_INCOMPLETE : COMM_MISMATCH;
		else if (rank->error != 0)
			errors |= COMM_ERROR;
		else if (!same_counts(comm, first, rank))
			errors |= COMM_MISMATCH;
	}
	return errors;
}

static const char *error_words(unsigned errors)
{
	static const char *const words[] = {
		"OK",
		"MISMATCH",
		"ERROR",
		"ERROR,MISMATCH",
		"INCOMPLETE",
		"INCOMPLETE,MISMATCH",
		"INCOMPLETE,ERROR",
		"INCOMPLETE,ERROR,MISMATCH",
	};

	return words[errors];
}

static const char *status_words(const struct ras_comm *comm)
{
	for (size_t i = 0; i < comm->size; i++) {
		if (comm->ranks[i].there && comm->ranks[i].aborted)
			return "ABORT";
	}
	return "RUNNING";
}

static int compare_hosts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Counts the hosts of the ranks that are there, and the ranks of the fullest host. 0: no memory. */
static size_t count_hosts(const struct ras_comm *comm, size_t *most_out)
{
	const char **hosts = calloc(comm->size + 1, sizeof(*hosts));
	size_t count = 0, different = 0, same = 0;

	*most_out = 0;
	for (size_t i = 0; hosts != NULL && i < comm->size; i++) {
		if (comm->ranks[i].there)
			hosts[count++] = comm->ranks[i].host;
	}
	if (count > 0)
		qsort(hosts, count, sizeof(*hosts), compare_hosts);
	for (size_t i = 0; i < count; i++) {
		same = i > 0 && strcmp(hosts[i], hosts[i - 1]) == 0 ? same + 1 : 1;
		different += same == 1;
		*most_out = same > *most_out ? same : *most_out;
	}
	free(hosts);
	return different;
}

static void print_process(FILE *file, const struct ras_rank *rank)
{
	fprintf(file, "  Rank %lld: process %ld on %s", rank->rank, rank->pid, rank->host);
}

/* Prints ranks that are not there: those that have left the group, or the others. */
static void print_absent(FILE *file, const struct ras_comm *comm, bool left, size_t most)
{
	size_t told = 0;

	for (size_t i = 0; i < comm->size; i++) {
		const struct ras_rank *rank = &comm->ranks[i];

		if (rank->there || left == (rank->unresponsive || rank->dead) || told++ >= most)
			continue;
		print_process(file, rank);
		fprintf(file, "%s\n",
			rank->dead           ? ", has died"
			: rank->unresponsive ? ", does not answer"
					     : ", has left the group");
	}
	if (told > most)
		fprintf(file, "  and %zu more\n", told - most);
}

static void print_broken(FILE *file, const struct ras_comm *comm, size_t most)
{
	size_t told = 0;

	for (size_t i = 0; i < comm->size; i++) {
		if (!comm->ranks[i].there || comm->ranks[i].error == 0 || told++ >= most)
			continue;
		print_process(file, &comm->ranks[i]);
		fprintf(file, ", error %d\n", comm->ranks[i].error);
	}
	if (told > most)
		fprintf(file, "  and %zu more\n", told - most);
}

/* Prints ranks that are behind the one that has begun most collectives of a kind. */
static void print_behind(FILE *file, const struct ras_comm *comm, const char *what, size_t kind,
			 size_t most)
{
	unsigned long long highest = 0;
	size_t told = 0;

	for (size_t i = 0; i < comm->size; i++) {
		const struct ras_rank *rank = &comm->ranks[i];
		unsigned long long begun = kind < RAS_COUNTS ? rank->counts[kind] : rank->begun;

		if (rank->there && begun > highest)
			highest = begun;
	}
	for (size_t i = 0; i < comm->size; i++) {
		const struct ras_rank *rank = &comm->ranks[i];
		unsigned long long begun = kind < RAS_COUNTS ? rank->counts[kind] : rank->begun;

		if (!rank->there || begun == highest || told++ >= most)
			continue;
		print_process(file, rank);
		fprintf(file, ", has begun %llu of %llu %s\n", begun, highest, what);
	}
	if (told > most)
		fprintf(file, "  and %zu more behind in %s\n", told - most, what);
}

static void print_mismatch(FILE *file, const struct ras_comm *comm, size_t most)
{
	if (!comm->by_kind)
		print_behind(file, comm, "collectives", RAS_COUNTS, most);
	for (size_t i = 0; i < RAS_COUNTS && comm->by_kind; i++)
		print_behind(file, comm, count_names[i], i, most);
}

static void print_details(FILE *file, const struct ras_report *report, unsigned which, size_t most)
{
	for (size_t i = 0; i < report->count && i < TEXT_COMMS; i++) {
		const struct ras_comm *comm = &report->comms[i];
		unsigned errors = errors_of(comm) & which;

		if (errors == 0)
			continue;
		fprintf(file, "#%zu-0 (%016llx) %s%s%s\n", i, comm->hash, error_words(errors),
			comm->name[0] != '\0' ? " " : "", comm->name);
		print_absent(file, comm, (which & COMM_MISMATCH) != 0, most);
		if ((errors & COMM_ERROR) != 0)
			print_broken(file, comm, most);
		if ((errors & COMM_MISMATCH) != 0)
			print_mismatch(file, comm, most);
		fprintf(file, "\n");
	}
}

static void print_table(FILE *file, const struct ras_report *report)
{
	if (report->count == 0) {
		fprintf(file, "There is no group with collectives.\n");
		return;
	}
	fprintf(file, "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
		      "    #  in group  per comm  per node  per comm  in group\n");
	for (size_t i = 0; i < report->count && i < TEXT_COMMS; i++) {
		const struct ras_comm *comm = &report->comms[i];
		size_t most, hosts = count_hosts(comm, &most);

		fprintf(file, "%5zu  %8d  %8zu  %8zu  %8zu  %8zu  %8s  %6s\n", i, 1, hosts, most,
			comm->size, comm->there, status_words(comm), error_words(errors_of(comm)));
	}
	if (report->count > TEXT_COMMS)
		fprintf(file, "and %zu more\n", report->count - TEXT_COMMS);
	if (report->left_out > 0)
		fprintf(file, "and %zu more, which do not fit here\n", report->left_out);
}

char *ras_print_text(const struct ras_report *report, bool verbose)
{
	size_t most = verbose ? TEXT_RANKS_ALL : TEXT_RANKS, bytes;
	char *text = NULL;
	FILE *file = open_memstream(&text, &bytes);
	int failed;

	if (file == NULL)
		return NULL;
	fprintf(file, "Towline %s, job %s\n\nJob summary\n===========\n\n", report->version,
		report->job);
	fprintf(file,
		"  Nodes  Processes         GPUs  Processes     GPUs\n"
		"(total)   per node  per process    (total)  (total)\n"
		"%7d  %9zu  %11d  %9zu  %7d\n",
		1, report->processes, 0, report->processes, 0);
	fprintf(file, "\nCommunicators... (%.2fs)\n=============\n\n", report->took_s);
	print_table(file, report);
	fprintf(file, "\nErrors\n======\n\n");
	print_details(file, report, COMM_INCOMPLETE | COMM_ERROR, most);
	fprintf(file, "Warnings\n========\n\n");
	if (report->missed > 0)
		fprintf(file, "TIMEOUT\n  %zu ranks of this host did not answer in time\n\n",
			report->missed);
	print_details(file, report, COMM_MISMATCH, most);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}
