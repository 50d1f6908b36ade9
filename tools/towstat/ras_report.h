/*
 * ras_report.h - the groups of a job as NCCL's RAS tells communicators, from what ranks say.
 *
 *	/v1/coll, /v1/info of each rank here --\
 *	/v1/verdict of one of them, for others --+--> report --> text or JSON (ras_print.c)
 *
 * Pure. A group is told by its number and its members, which all of its ranks know. A rank is
 * *there* when it says so itself, or has told the rank that asked for the verdict; else it is
 * *missing*: it did not answer, has died, or has left the group.
 *
 * How many collectives a rank has begun is told by kind. A rank on another host is known by a
 * verdict alone, which has their sum; then all ranks of its group are told by that.
 */
#ifndef TOWSTAT_RAS_REPORT_H
#define TOWSTAT_RAS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RAS_COMMS_MAX 1024
#define RAS_RANKS_MAX 65536 /* of all groups together */

/* What is known of one rank of the job. */
struct ras_source {
	long long rank; /* in the job */
	long pid;       /* 0: not known */
	bool answered, dead;
	const json_t *coll, *info; /* NULL unless it has answered */
};

/* In the order in which they are told. */
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
	bool unresponsive, dead; /* of one that is not there */
	bool by_kind;            /* counts are known; else the sum alone */
	bool aborted;
	int error; /* as ncclResult_t numbers them; 0: none */
	unsigned long long counts[RAS_COUNTS], begun;
};

struct ras_comm {
	unsigned long long hash;
	char name[64]; /* the group's label; "" */
	long long group;
	size_t size, there;
	bool by_kind; /* of all ranks that are there */
	struct ras_rank *ranks;
};

struct ras_report {
	char job[128], version[32];
	double took_s;
	size_t processes, missed; /* missed: ranks that did not answer in time */
	size_t count, left_out;   /* groups */
	struct ras_comm *comms;
};

struct ras_question {
	const char *job, *host; /* this host, as others know it */
	const struct ras_source *sources;
	size_t count;
	const json_t *verdict; /* NULL: nobody was asked */
};

/* 0; -1 without memory, and *out is empty. */
int ras_report_make(struct ras_report *out, const struct ras_question *question);
void ras_report_fini(struct ras_report *report);

/* Whether a group has ranks of which nobody here knows: a verdict may. */
bool ras_report_lacks(const struct ras_report *report);

/* ras_print.c: the caller's to free; NULL without memory. */
char *ras_print_json(const struct ras_report *report);
char *ras_print_text(const struct ras_report *report, bool verbose);

#endif
