/*
 * latency.h - how long RPCs took, by peer, lane, size and part, and which were the worst.
 *
 *	struct twi_latencies --- rows[TWI_LATENCY_PEERS]   one (lane, peer), as long as it is used
 *	                     \-- others[lane]              all peers that have no row of their own
 *	                     \-- exemplars[kind][lane][size class]
 *
 *	row --- histograms[kind][size class][part]         made at their first reading
 *
 * A reading stands in one row only, so the sum over the rows is the total: there is no second
 * account that could differ. When all rows are taken, those of peers that have gone are added to
 * `others` and given to new ones; while nobody has gone, a new peer is one of the others. Memory so
 * has a bound that does not grow with the number of peers that have ever been.
 *
 * One thread at a time writes: whoever holds the engine. It never waits for a reader: what would
 * need a lock that a reader has (a row for a new peer, an exemplar) is put off. Readers see
 * histograms that grow while they read, as everywhere in diag.
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
#define TWI_LATENCY_EDGES      14 /* the buckets of /metrics, +Inf too; each has an exemplar */
#define TWI_LATENCY_RECENT_NS  (60ull * 1000000000) /* which gives way to any after so long */

/*
 * X(name in capitals, name, what it is of a message; of a call)
 *
 * TOTAL	from start to the end that its sender hears of; of a call to its answer
 * QUEUE	from start until it left the library's queue: credit, room
 * SERVER_QUEUE	of calls: the request was there, and the server's thread was busy or away
 * WIRE		from there, or from the receiver's asking, until the receiver has it
 * MATCH	from its being offered until the receiver asked for it: nobody had posted a receive
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

/* Of what: the user's messages, whole calls, messages of collectives. */
enum twi_latency_kind {
	TWI_LATENCY_MESSAGES,
	TWI_LATENCY_CALLS,
	TWI_LATENCY_COLLS,
	TWI_LATENCY_KINDS,
	TWI_LATENCY_NONE = TWI_LATENCY_KINDS, /* it is a part of something that is timed itself */
	TWI_LATENCY_OWN,                      /* what the library says to itself */
};

#define TWI_LATENCY_UNKNOWN UINT64_MAX

/* One RPC that has ended well. */
struct twi_latency_reading {
	enum twi_latency_kind kind;
	enum twi_lane_id lane;
	bool received; /* timed where it arrived */
	uint64_t id;   /* on the wire */
	uint64_t bytes;
	uint64_t end_ns;                      /* when, by twi_now_ns or a clock near it */
	uint64_t parts_ns[TWI_LATENCY_PARTS]; /* TOTAL is always known */
};

struct twi_exemplar {
	uint64_t id, bytes, end_ns;
	uint64_t unix_ns;
	uint64_t parts_ns[TWI_LATENCY_PARTS];
	char peer[TWI_LATENCY_NAME_BYTES];
};

/* Of one kind, lane and size class; all zero: none. */
struct twi_exemplars {
	unsigned worst_count;
	struct twi_exemplar worst[TWI_LATENCY_WORST]; /* the largest first */
	/* In each bucket of /metrics the worst of about the last minute; unix_ns 0: none. */
	struct twi_exemplar recent[TWI_LATENCY_EDGES];
};

/* NULL without memory: all then counts as of others. */
struct twi_latencies *twi_latencies_create(void);
void twi_latencies_destroy(struct twi_latencies *latencies); /* NULL is legal */

/*
 * Counts a reading for peer `name`, unless it is of no kind. *row is the peer's memory of
 * its row: NULL at first, and from then on this function's until twi_latency_leave.
 */
void twi_latency_note(struct twi_diag *diag, struct twi_latency_row **row, const char *name,
		      const struct twi_latency_reading *reading);

/* The peer goes; its readings stay. */
void twi_latency_leave(struct twi_diag *diag, struct twi_latency_row **row);

/* --- reading; between begin and end no row changes hands --- */

void twi_latencies_begin(struct twi_latencies *latencies);
void twi_latencies_end(struct twi_latencies *latencies);

/*
 * The readings of row `index` (below TWI_LATENCY_ROWS) of a kind, lane and class,
 * TWI_LATENCY_PARTS of them; of one whose count is 0 nothing else is set. False: there are none.
 */
bool twi_latencies_read(const struct twi_latencies *latencies, unsigned index,
			enum twi_latency_kind kind, enum twi_lane_id lane, unsigned size_class,
			struct twi_latency_sum *parts_out);
#define TWI_LATENCY_ROWS (TWI_LATENCY_PEERS + TWI_LANE_COUNT)

/* The same, of part TOTAL of messages. */
bool twi_latencies_total(const struct twi_latencies *latencies, unsigned index,
			 enum twi_lane_id lane, unsigned size_class, struct twi_latency_sum *out);

/* The lane of a row; false: the row is not used. */
bool twi_latencies_lane(const struct twi_latencies *latencies, unsigned index,
			enum twi_lane_id *lane_out);

/* Whether any row has readings of a kind, lane and class. */
bool twi_latencies_any(const struct twi_latencies *latencies, enum twi_latency_kind kind,
		       enum twi_lane_id lane, unsigned size_class);

/* The peer of a row; NULL: of others. *there_out: it has not gone. */
const char *twi_latencies_name(const struct twi_latencies *latencies, unsigned index,
			       bool *there_out);

/* Adds what all rows have of part TOTAL of messages. Takes the lock itself. */
void twi_latencies_add(struct twi_latencies *latencies, enum twi_lane_id lane, unsigned size_class,
		       struct twi_latency_sum *sum);

/* A copy; false: there are none. */
bool twi_latencies_exemplars(struct twi_latencies *latencies, enum twi_latency_kind kind,
			     enum twi_lane_id lane, unsigned size_class, struct twi_exemplars *out);

const char *twi_latency_part_name(enum twi_latency_part part);

/* The upper edges of the buckets of /metrics; the last, +Inf, is UINT64_MAX. */
uint64_t twi_latency_edge_ns(unsigned index);
unsigned twi_latency_edge_of(uint64_t ns);

#endif
