/*
 * documents.h - compares two snapshots of ranks: counters, reasons, latencies.
 *
 * A snapshot is an object. It has "counters" and "reasons" as /v1/counters, and "rpcs", "calls" and
 * "colls" as /v1/latency. It may have "uptime_ns" as /v1/info. Each may be missing. The functions
 * are pure, and a snapshot is not trusted: a value that is no number is not compared.
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
	size_t count, worse, missed; /* missed: rows that found no room */
	const char *per;             /* divisor of all but latencies; NULL: none */
	struct compared rows[COMPARED_MAX];
};

struct compare_options {
	const char *per;  /* NULL, "second", or a counter that divides the others */
	double tolerance; /* 0.1 is a tenth */
	bool exact;       /* small differences count too */
};

/*
 * Returns 0, or -1 with the reason in error_out when there is nothing to divide by. Worse rows come
 * first, then the largest change.
 */
int documents_compare(const json_t *a, const json_t *b, const struct compare_options *options,
		      struct comparison *out, char *error_out, size_t error_size);

/* Costs of a reason below these are too small to notice. */
#define REASON_COUNT_FLOOR 100
#define REASON_BYTES_FLOOR 1048576.0
#define REASON_NS_FLOOR    1e6

/* A counter of which more is worse. */
struct judged_counter {
	const char *name;
	double floor;     /* a difference up to this does not count */
	const char *cure; /* NULL: `towstat why` has the cure */
	const char
		*less[2]; /* counters inside it that have rows of their own, or need no attention */
};

/* NULL: more of this counter is not worse. */
const struct judged_counter *documents_judge(const char *counter);

/* The counter with number `index`; NULL behind the last. */
const struct judged_counter *documents_judged(size_t index);

#endif
