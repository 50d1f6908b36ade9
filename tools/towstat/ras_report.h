/*
 * ras_report.h - the groups of a job in the form in which NCCL's RAS reports communicators.
 *
 *	/v1/coll, /v1/info of each rank here --\
 *	/v1/verdict of one of them, for others --+--> report --> text or JSON (ras_print.c)
 *
 * Pure. A group is identified by its number and its members, which all of its ranks know. A rank is
 * *there* when its own document has the group, or its answer for the verdict has the group.
 * Otherwise it is *missing*: it did not answer, has died, or has left the group.
 *
 * The number of collectives that a rank has begun is reported by kind. A rank on another host is
 * known by a verdict alone, which has only their sum. Then all ranks of its group are reported by
 * sum.
 */
#ifndef TOWSTAT_RAS_REPORT_H
#define TOWSTAT_RAS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RAS_COMMS_MAX 1024
#define RAS_RANKS_MAX 65536 /* bound of the ranks of all groups together */

/* What is known of one rank of the job. */
struct ras_source {
	long long rank; /* number in the job */
	long pid;       /* 0: not known */
	bool answered, dead;
	const json_t *coll, *info; /* NULL: it has not answered */
};

/* In the order of the report. */
#define RAS_COUNT_MAP(X)                                                                           \
	X(BROADCAST, "Broadcast")                                                                  \
	X(REDUCE, "Reduce")                                                                        \
	X(ALL_GATHER, "AllGather")                                                                 \
	X(REDUCE_SCATTER, "ReduceScatter")                                                         \
	X(ALL_REDUCE, "AllReduce")                                                                 \
	X(ALL_TO_ALL, "AlltoAll")                                                                  \
	X(GATHER, "Gather")                                                                        \
	X(SCATTER, "Scatter")                                                                      \
	X(SEND_RECV, "SendRecv")                                                                   \
	X(BARRIER, "Barrier")

enum ras_count {
#define RAS_COUNT_ENUM(id, name) RAS_COUNT_##id,
	RAS_COUNT_MAP(RAS_COUNT_ENUM)
#undef RAS_COUNT_ENUM
		RAS_COUNTS
};

struct ras_rank {
	long long rank, job_rank;
	char host[64];
	long pid; /* -1: not known */
	bool there;
	bool unresponsive, dead; /* why a rank is not there */
	bool by_kind;            /* counts are known; otherwise `begun` alone */
	bool aborted;
	int error; /* as ncclResult_t numbers them; 0: none */
	unsigned long long counts[RAS_COUNTS], begun;
};

struct ras_comm {
	unsigned long long hash;
	char name[64]; /* the group's label, or "" */
	long long group;
	size_t size, there;
	bool by_kind; /* all ranks that are there have counts by kind */
	struct ras_rank *ranks;
};

struct ras_report {
	char job[128], version[32];
	double took_s;
	size_t processes, missed; /* missed: ranks that did not answer in time */
	size_t count, left_out;   /* the groups that are shown, and those without room */
	struct ras_comm *comms;
};

struct ras_question {
	const char *job, *host; /* host: this one, by the name that others know */
	const struct ras_source *sources;
	size_t count;
	const json_t *verdict; /* NULL: there is no verdict */
};

/* Returns 0, or -1 without memory; *out is then empty. */
int ras_report_make(struct ras_report *out, const struct ras_question *question);
void ras_report_fini(struct ras_report *report);

/* Whether groups have ranks that no rank here knows. A verdict may know them. */
bool ras_report_lacks(const struct ras_report *report);

/* ras_print.c: text that the caller frees; NULL without memory. */
char *ras_print_json(const struct ras_report *report);
char *ras_print_text(const struct ras_report *report, bool verbose);

#endif
