/*
 * latency.h - how long RPCs took, by peer, lane, size and part, and the slowest of them.
 *
 *	struct twi_latencies --- rows[TWI_LATENCY_PEERS]   one (lane, peer), as long as it is used
 *	                     \-- others[lane]              all peers that have no row of their own
 *	                     \-- exemplars[kind][lane][size class]
 *
 *	row --- histograms[kind][size class][part]         made at their first reading
 *
 * A reading is in one row only, so the sum over the rows is the total, and no second account can
 * differ from it. When all rows are taken, a new peer gets the row of a peer that has gone, whose
 * readings are added to `others`. While no peer has gone, a new peer is one of the others. So
 * memory has a bound that does not grow with the number of peers that have ever been.
 *
 * One thread at a time writes: the thread that holds the engine. It never waits for a reader. If a
 * reader has the lock, the writer skips what needs it, a row for a new peer or an exemplar, until
 * another reading. Readers see histograms that grow while they read, as everywhere in diag.
 *
 * Budget: twi_latency_note 15 ns with all parts known. Only a row's first readings allocate.
 */
#ifndef TWI_LATENCY_H
#define TWI_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#include "diag/record/hist.h"
#include "diag/record/lane_id.h"

struct twi_diag;
struct twi_emit;
struct twi_latency_sum;
struct twi_latencies;
struct twi_latency_row;

#define TWI_LATENCY_PEERS      64
#define TWI_LATENCY_NAME_BYTES 128
#define TWI_LATENCY_WORST      8  /* exemplars of each lane and size class, since the start */
#define TWI_LATENCY_EDGES      14 /* buckets of /metrics, with +Inf; each has an exemplar */
#define TWI_LATENCY_RECENT_NS  (60ull * 1000000000) /* most age of a recent exemplar */

/*
 * X(name in capitals, name). The parts of a message, and of a call:
 *
 * TOTAL	from start to the end as its sender sees it; of a call, to its answer
 * QUEUE	from start until it left the library's queue: credit, room
 * SERVER_QUEUE	of calls: the request was there, and the server's thread was busy or away
 * WIRE		from the queue, or from the receiver's request, until the receiver has it
 * MATCH	from its offer until the receiver asked for it: no receive had been posted
 * SERVE	of calls: in the handler
 */
#define TWI_LATENCY_PART_MAP(X)                                                                    \
	X(TOTAL, "total")                                                                          \
	X(QUEUE, "queue")                                                                          \
	X(SERVER_QUEUE, "server_queue")                                                            \
	X(WIRE, "wire")                                                                            \
	X(MATCH, "match")                                                                          \
	X(SERVE, "serve")

enum twi_latency_part {
#define TWI_LATENCY_PART_ENUM(id, name) TWI_LATENCY_##id,
	TWI_LATENCY_PART_MAP(TWI_LATENCY_PART_ENUM)
#undef TWI_LATENCY_PART_ENUM
		TWI_LATENCY_PARTS
};

/* What is timed: the user's messages, whole calls, messages of collectives. */
enum twi_latency_kind {
	TWI_LATENCY_MESSAGES,
	TWI_LATENCY_CALLS,
	TWI_LATENCY_COLLS,
	TWI_LATENCY_KINDS,
	TWI_LATENCY_NONE = TWI_LATENCY_KINDS, /* a part of something that is timed as a whole */
	TWI_LATENCY_OWN,                      /* messages of the library itself */
};

#define TWI_LATENCY_UNKNOWN UINT64_MAX

/* One RPC that has ended well. */
struct twi_latency_reading {
	enum twi_latency_kind kind;
	enum twi_lane_id lane;
	bool received; /* timed where it arrived */
	uint64_t id;   /* on the wire */
	uint64_t bytes;
	uint64_t end_ns;                      /* by twi_now_ns or a clock close to it */
	uint64_t parts_ns[TWI_LATENCY_PARTS]; /* TOTAL is always known */
};

struct twi_exemplar {
	uint64_t id, bytes, end_ns;
	uint64_t unix_ns;
	uint64_t parts_ns[TWI_LATENCY_PARTS];
	char peer[TWI_LATENCY_NAME_BYTES];
};

/* Exemplars of one kind, lane and size class; all zero: none. */
struct twi_exemplars {
	unsigned worst_count;
	struct twi_exemplar worst[TWI_LATENCY_WORST]; /* the largest first */
	/* The worst of about the last minute in each bucket of /metrics; unix_ns 0: none. */
	struct twi_exemplar recent[TWI_LATENCY_EDGES];
};

/* NULL: no memory. */
struct twi_latencies *twi_latencies_create(void);
void twi_latencies_destroy(struct twi_latencies *latencies); /* NULL is legal */

/*
 * Counts a reading for peer `name`, unless its kind is NONE or OWN. The peer keeps *row for this
 * function: it is NULL at first, and the peer must not change it before twi_latency_leave.
 */
void twi_latency_note(struct twi_diag *diag, struct twi_latency_row **row, const char *name,
		      const struct twi_latency_reading *reading);

/* The peer has gone; its readings stay. */
void twi_latency_leave(struct twi_diag *diag, struct twi_latency_row **row);

/* --- reading; between begin and end no row gets another peer --- */

void twi_latencies_begin(struct twi_latencies *latencies);
void twi_latencies_end(struct twi_latencies *latencies);

/*
 * Reads row `index` (below TWI_LATENCY_ROWS) for a kind, lane and class: TWI_LATENCY_PARTS sums. If
 * the count of a sum is 0, nothing else of it is set. False: there are no readings.
 */
bool twi_latencies_read(const struct twi_latencies *latencies, unsigned index,
			enum twi_latency_kind kind, enum twi_lane_id lane, unsigned size_class,
			struct twi_latency_sum *parts_out);
#define TWI_LATENCY_ROWS (TWI_LATENCY_PEERS + TWI_LANE_COUNT)

/* The same for part TOTAL of messages. */
bool twi_latencies_total(const struct twi_latencies *latencies, unsigned index,
			 enum twi_lane_id lane, unsigned size_class, struct twi_latency_sum *out);

/* The lane of a row; false: the row is not used. */
bool twi_latencies_lane(const struct twi_latencies *latencies, unsigned index,
			enum twi_lane_id *lane_out);

/* Whether any row has readings of a kind, lane and class. */
bool twi_latencies_any(const struct twi_latencies *latencies, enum twi_latency_kind kind,
		       enum twi_lane_id lane, unsigned size_class);

/* The peer of a row; NULL: it is a row of others. *there_out: the peer has not gone. */
const char *twi_latencies_name(const struct twi_latencies *latencies, unsigned index,
			       bool *there_out);

/* Adds part TOTAL of messages of all rows. Takes the lock itself. */
void twi_latencies_add(struct twi_latencies *latencies, enum twi_lane_id lane, unsigned size_class,
		       struct twi_latency_sum *sum);

/* Copies the exemplars; false: there are none. */
bool twi_latencies_exemplars(struct twi_latencies *latencies, enum twi_latency_kind kind,
			     enum twi_lane_id lane, unsigned size_class, struct twi_exemplars *out);

const char *twi_latency_part_name(enum twi_latency_part part);

/* The upper edges of the buckets of /metrics; the last, +Inf, is UINT64_MAX. */
uint64_t twi_latency_edge_ns(unsigned index);
unsigned twi_latency_edge_of(uint64_t ns);

#endif
