/*
 * reading.h - what a rank's documents said at one moment, and what the difference of two says.
 *
 * Pure: documents go in, numbers come out. Rates and quantiles are those of the time between two
 * readings, not since the start. Whatever a document holds, nothing here fails: what is not there,
 * or is no number, is 0 or not known.
 */
#ifndef TOWSTAT_READING_H
#define TOWSTAT_READING_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The counters that are shown, as they are called in /v1/counters. */
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

#define READING_BUCKETS 2048 /* more than a runtime has; what a document has beyond is not read */
#define READING_COLLS   1024

struct reading_bucket {
	uint64_t upper_ns, count;
};

struct reading_coll {
	uint64_t group, seq;
	uint64_t wait_ns, done_ns; /* done_ns 0: in flight; wait_ns 0: nobody waited for it */
	int64_t slack_ns;          /* -1: not known, or nobody waits to have it late (a barrier) */
};

struct reading {
	double at_s; /* of the counters, by the reader's clock */
	struct reading_counters counters;
	size_t bucket_count, coll_count;
	uint64_t pool_used_bytes, pool_bytes; /* pool_bytes 0: no pool */
	uint64_t colls_at_ns;                 /* 0: no collectives are told */
	uint64_t read_bytes, written_bytes;   /* by collectives, of other ranks' memory in place */
	struct reading_bucket buckets[READING_BUCKETS]; /* by upper_ns */
	struct reading_coll colls[READING_COLLS];
};

/* Each takes its document into the reading, and forgets what it had of another one. */
void reading_counters(struct reading *out, const json_t *document);
void reading_latency(struct reading *out, const json_t *document);
void reading_pool(struct reading *out, const json_t *document);
void reading_colls(struct reading *out, const json_t *document);

#define UNKNOWN (-1.0)

/*
 * Times in ns, rates per second. UNKNOWN where nothing has ended between the readings. Bandwidth is
 * that of messages, calls and collectives; what collectives read and write in place is part of it:
 * over shared memory there is no other. `sends` and `recvs` are messages of the user's own; the
 * quantiles are of messages, calls and collectives' messages together.
 */
struct figures {
	double in_bytes, out_bytes, sends, recvs, copied_bytes, late_bytes;
	double p50_ns, p99_ns;
	double slack_p50_ns;  /* of the collectives that ended */
	double exposed_share; /* of the time: somebody waited for a collective; 0 to 1 */
	uint64_t late_count;  /* late registrations in between */
	double pool_share;    /* now */
};

#define VERDICT_BYTES 160
#define VERDICT_RANKS 64

struct verdict {
	char text[VERDICT_BYTES]; /* one line of printable ASCII */
	char state[16];           /* "healthy", "partial", "slow", "stuck"; "": not known */
	char cause[24];           /* of the first finding; "": there is none */
	size_t rank_count;        /* whom the first finding names */
	int64_t ranks[VERDICT_RANKS];
};

/* Of /v1/verdict; NULL, or anything else: nothing is known. */
void reading_verdict(const json_t *document, struct verdict *out);

/* Adds what `from` counted, to be looked at as one; of collectives and the pool nothing. */
void reading_add(struct reading *into, const struct reading *from);

void figures_between(const struct reading *from, const struct reading *to, struct figures *out);

#endif
