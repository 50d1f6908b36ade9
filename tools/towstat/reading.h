/*
 * reading.h - the figures in a rank's documents at one moment, and the rates between two moments.
 *
 * Pure: documents go in, numbers come out. Rates and quantiles are those of the time between two
 * readings, not since the start. No document makes a function fail. A member that is missing or is
 * no number counts as 0 or as not known.
 */
#ifndef TOWSTAT_READING_H
#define TOWSTAT_READING_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The counters that are shown, by their names in /v1/counters. */
#define READING_COUNTERS(X)                                                                        \
	X(sends)                                                                                   \
	X(recvs)                                                                                   \
	X(send_bytes)                                                                              \
	X(recv_bytes)                                                                              \
	X(call_send_bytes)                                                                         \
	X(call_recv_bytes)                                                                         \
	X(coll_send_bytes)                                                                         \
	X(coll_recv_bytes)                                                                         \
	X(colls_completed)                                                                         \
	X(fallback_copies)                                                                         \
	X(fallback_copy_bytes)                                                                     \
	X(late_registrations)                                                                      \
	X(late_registration_bytes)                                                                 \
	X(telemetry_lost)

struct reading_counters {
#define X(name) uint64_t name;
	READING_COUNTERS(X)
#undef X
};

#define READING_BUCKETS 2048 /* more than a runtime has; further ones are ignored */
#define READING_COLLS   1024

struct reading_bucket {
	uint64_t upper_ns, count;
};

struct reading_coll {
	uint64_t group, seq;
	uint64_t wait_ns, done_ns; /* done_ns 0: in flight; wait_ns 0: no thread waited for it */
	int64_t slack_ns;          /* -1: not known, or without meaning (a barrier) */
};

struct reading {
	double at_s; /* when the counters were read, by this process's clock */
	struct reading_counters counters;
	size_t bucket_count, coll_count;
	uint64_t pool_used_bytes, pool_bytes; /* pool_bytes 0: no pool */
	uint64_t colls_at_ns;                 /* 0: there is no document of collectives */
	uint64_t read_bytes, written_bytes;   /* by collectives, in other ranks' memory, in place */
	struct reading_bucket buckets[READING_BUCKETS]; /* sorted by upper_ns */
	struct reading_coll colls[READING_COLLS];
};

/* Each takes its document into the reading, in place of an earlier one. */
void reading_counters(struct reading *out, const json_t *document);
void reading_latency(struct reading *out, const json_t *document);
void reading_pool(struct reading *out, const json_t *document);
void reading_colls(struct reading *out, const json_t *document);

#define UNKNOWN (-1.0)

/*
 * Times are in ns, rates per second. UNKNOWN means that nothing has ended between the readings.
 * Bandwidth is that of messages, calls and collectives. It includes what collectives read and write
 * in place, which is their only traffic over shared memory. `sends` and `recvs` are the user's own
 * messages. The quantiles are of messages, calls and collectives' messages together.
 */
struct figures {
	double in_bytes, out_bytes, sends, recvs, copied_bytes, late_bytes;
	double p50_ns, p99_ns;
	double slack_p50_ns;  /* of the collectives that ended between the readings */
	double exposed_share; /* time waiting for collectives / all time */
	uint64_t late_count;  /* late registrations between the readings */
	double pool_share;    /* at the second reading */
};

#define VERDICT_BYTES 160
#define VERDICT_RANKS 64

struct verdict {
	char text[VERDICT_BYTES]; /* one line of printable ASCII */
	char state[16];           /* "healthy", "partial", "slow", "stuck"; "": not known */
	char cause[24];           /* of the first finding; "": there is no finding */
	size_t rank_count;        /* the ranks that the first finding names */
	int64_t ranks[VERDICT_RANKS];
};

/* Reads /v1/verdict. NULL, or another document, means that nothing is known. */
void reading_verdict(const json_t *document, struct verdict *out);

/*
 * Adds the counters and latencies of `from`, so that several ranks look like one. Collectives and
 * the pool are not added.
 */
void reading_add(struct reading *into, const struct reading *from);

void figures_between(const struct reading *from, const struct reading *to, struct figures *out);

#endif
