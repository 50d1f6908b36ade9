/*
 * documents.h - two snapshots of ranks compared: counters, reasons, latencies.
 *
 * A snapshot is an object that has "counters" and "reasons" as /v1/counters, "rpcs", "calls" and
 * "colls" as /v1/latency, and may have "uptime_ns" as /v1/info; each may be missing. Pure, and a
 * snapshot is a stranger's: what is no number is not compared.
 */
#ifndef TOWSTAT_DOCUMENTS_H
#define TOWSTAT_DOCUMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define COMPARED_MAX  4096
#define COMPARED_NAME 128

enum compared_unit { UNIT_COUNT, UNIT_BYTES, UNIT_NS };

struct compared {
	char name[COMPARED_NAME];
	enum compared_unit unit;
	double a, b;
	double change; /* (b - a) / a; INFINITY where a is 0 and b is not */
	bool judged;   /* more of it is worse */
	bool worse;    /* it is judged, and has grown by more than the tolerance */
};

struct comparison {
	size_t count, worse, missed; /* missed: there was no room */
	const char *per;             /* what all but latencies was divided by; NULL: nothing */
	struct compared rows[COMPARED_MAX];
};

struct compare_options {
	const char *per;  /* NULL, "second", or a counter: the others are divided by it */
	double tolerance; /* 0.1: a tenth */
	bool exact;       /* small differences count, too */
};

/* 0, or -1 with why in error_out: there is nothing to divide by. Worse first, then by change. */
int documents_compare(const json_t *a, const json_t *b, const struct compare_options *options,
		      struct comparison *out, char *error_out, size_t error_size);

/* Below these a reason has cost nothing that anybody would notice. */
#define REASON_COUNT_FLOOR 100
#define REASON_BYTES_FLOOR 1048576.0
#define REASON_NS_FLOOR    1e6

/* A counter of which more is worse. */
struct judged_counter {
	const char *name;
	double floor;     /* up to so much says nothing */
	const char *cure; /* NULL: why and pool say it (towstat why) */
	const char
		*less[2]; /* counters that it holds, and that say nothing or speak for themselves */
};

/* NULL: more of it is not worse. */
const struct judged_counter *documents_judge(const char *counter);

/* Number `index` of them, NULL behind the last. */
const struct judged_counter *documents_judged(size_t index);

#endif
