/*
 * timeline.h - computes what a trace shows over time: transfers, links, steps, late ranks, copies,
 * and the spans that the recording itself lost. A pure function of a trace; docs/analysis.md has
 * the definitions.
 *
 *	axis (trace_view.h)  0 |--bin--|--bin--| ... TWI_TIMELINE_BINS ... | end_ns
 *
 * A transfer is a SEND, or a RECV whose sender is not in the trace, so each counts once. Its
 * latency comes from one clock: of a SEND from start to end, of a RECV from its match to its end.
 * Its bytes are spread evenly over the time between its first and last byte on the wire.
 *
 * A quantile is the value at rank ceil(share * count) of those seen. A difference between two ranks
 * counts only if it is larger than the possible error of their clocks.
 */
#ifndef TWI_TIMELINE_H
#define TWI_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/record/hist.h"
#include "diag/record/lane_id.h"
#include "diag/record/site.h"
#include "diag/trace/trace.h"
#include "diag/trace/trace_view.h"

struct twi_emit;

#define TWI_TIMELINE_BINS    120u
#define TWI_TIMELINE_PAIRS   32u  /* shown: the dearest */
#define TWI_TIMELINE_REGIONS 32u  /* shown: the longest */
#define TWI_TIMELINE_STEPS   64u  /* shown: the last */
#define TWI_TIMELINE_RANKS   128u /* shown: the first */
#define TWI_TIMELINE_SIZES   48u  /* powers of two */

/* From these shares on, a link is full, and the threads wait throughout a bin. */
#define TWI_TIMELINE_FULL_PERCENT   80u
#define TWI_TIMELINE_WAITED_PERCENT 50u
/* From this percentage of the usual time on, a pair is slow; it needs this many transfers. */
#define TWI_TIMELINE_SLOW_PERCENT 150u
#define TWI_TIMELINE_SLOW_COUNT   8u
/*
 * A rank holds a step up if it computes longer than the median of the others, by at least this
 * share of its own step.
 */
#define TWI_TIMELINE_STRAGGLE_PERCENT 5u

struct twi_timeline_quantiles {
	uint64_t count, bytes; /* bytes: the sum, where spans have bytes */
	uint64_t sum_ns, p50_ns, p99_ns, max_ns;
};

struct twi_timeline_bin {
	struct twi_timeline_quantiles latency[TWI_SIZE_CLASSES];
	uint64_t flight_max, flight_bytes_max;
	double flight_mean, flight_bytes_mean;
	uint64_t copies, copy_bytes, copy_ns;
	uint64_t late, late_bytes, late_ns;
};

/* The path of bytes, by the reach of their lane (lane.def): over a network, or within a host. */
enum twi_timeline_path { TWI_PATH_NETWORK, TWI_PATH_HOST, TWI_PATHS };

struct twi_timeline_flow {
	uint64_t tx_bytes, rx_bytes;
	bool bound; /* only for a bin of a rank: it lies in a region */
};

struct twi_timeline_link {
	bool used;
	bool limit_given;
	uint64_t limit_bps; /* bits per second, of one rank in one direction */
	struct twi_timeline_flow total;
	struct twi_timeline_flow *bins; /* [rank * TWI_TIMELINE_BINS + bin] */
};

struct twi_timeline_pair {
	int64_t from, to;                /* ranks; -1: unknown */
	const char *from_name, *to_name; /* the peer's name where the rank is unknown, else "" */
	bool received;                   /* only its receiver is in the trace */
	struct twi_timeline_quantiles latency;
	uint64_t waited_ns; /* part of the latencies: for credit, and for the receiver's request */
	/*
	 * Sums over the transfers. Each adds the median time on the way of its size class: of this
	 * pair, and the usual one.
	 */
	uint64_t typical_ns, usual_ns;
	uint64_t best_bps; /* the best of one transfer; 0: none was long enough to tell */
	bool slow;
};

/* A time of one rank in which the link was full and the rank's threads waited. */
struct twi_timeline_region {
	size_t rank;
	enum twi_timeline_path path;
	int64_t start_ns, end_ns;
	uint64_t bytes; /* in the busier direction */
	uint64_t waited_ns;
};

/* How the time of steps divides: step = compute + hidden + exposed. */
struct twi_timeline_split {
	uint64_t step_ns;
	uint64_t compute_ns; /* neither hidden nor exposed */
	uint64_t hidden_ns;  /* a transfer was under way and the step's thread did not wait */
	uint64_t exposed_ns; /* the step's thread waited for the network */
};

struct twi_timeline_step {
	uint64_t number;
	size_t ranks;                   /* ranks that have this step */
	struct twi_timeline_split mean; /* over these ranks */
	uint64_t max_ns;
	int64_t start_ns; /* the earliest */
	size_t slowest;   /* index of the rank that computed longest */
	uint64_t late_ns; /* beyond the median of the others; 0 below the share */
};

struct twi_timeline_rank {
	uint64_t steps;
	struct twi_timeline_split sum;
	uint64_t slowest_steps, slowest_ns; /* steps that it held up, and the sum of late_ns */
	uint64_t last_count, last_ns, last_max_ns; /* collectives where it was certainly last */
	uint64_t
		others_ns; /* its threads' waits while the last rank of a collective had not come */
	uint64_t copies, copy_bytes, copy_ns, late, late_ns;
	uint64_t spans, lost, sampled_out;
	struct twi_timeline_flow flow;
	uint64_t bound_ns[TWI_PATHS], bound_waited_ns[TWI_PATHS]; /* sums over its regions */
};

struct twi_timeline_entries {  /* collectives, and of how many the last rank is known */
	uint64_t judged, told; /* told: the last rank was late by more than the clocks' errors */
	uint64_t partial;      /* not judged: ranks are missing */
	uint64_t unknown;      /* not judged: the clocks' errors are unknown */
};

struct twi_timeline_reason {
	uint64_t count, bytes, ns, max_ns;
};

struct twi_timeline {
	struct twi_view view;
	uint64_t bin_ns;
	size_t transfer_count;
	uint64_t transfer_bytes;
	struct twi_timeline_bin bins[TWI_TIMELINE_BINS];
	struct twi_timeline_quantiles classes[TWI_SIZE_CLASSES];
	struct twi_timeline_quantiles kinds[TWI_SPAN_KINDS];
	uint64_t failed[TWI_SPAN_KINDS];
	uint64_t sizes[TWI_TIMELINE_SIZES]; /* [i]: of 2^(i-1) + 1 .. 2^i bytes; [0]: of 0 and 1 */
	struct twi_timeline_link links[TWI_PATHS];
	struct twi_timeline_reason reasons[TWI_R_COUNT];
	struct twi_timeline_entries entries;
	size_t pair_count, region_count, step_count, rank_count;
	struct twi_timeline_pair *pairs;     /* by cost above the usual, then by total time */
	struct twi_timeline_region *regions; /* the longest first */
	struct twi_timeline_step *steps;     /* by number */
	struct twi_timeline_rank *ranks;     /* in the trace's order */
};

/*
 * limit_bps: of each rank's link to the network, in each direction; 0: the best rate seen. TOW_OK,
 * or TOW_ENOMEM with `out` empty. The trace must outlive `out`.
 */
int twi_timeline_make(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out);
void twi_timeline_fini(struct twi_timeline *timeline);

/* Write members of the open object. After a failure, the emitter's status has it. */
void twi_timeline_emit(const struct twi_timeline *timeline, const struct twi_trace *trace,
		       struct twi_emit *e);
void twi_timeline_json(const struct twi_trace *trace, struct twi_emit *e);

const char *twi_timeline_path_name(enum twi_timeline_path path);

/* --- parts of twi_timeline_make, a file each --- */

/* `values` must be sorted. */
void twi_timeline_quantiles(uint64_t *values, size_t count, struct twi_timeline_quantiles *out);
uint64_t twi_timeline_bin_of(const struct twi_timeline *timeline, int64_t at);
int twi_timeline_transfers(const struct twi_trace *trace, struct twi_timeline *out);
int twi_timeline_links(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out);
int twi_timeline_steps(const struct twi_trace *trace, struct twi_timeline *out);
int twi_timeline_entries(const struct twi_trace *trace, struct twi_timeline *out);

#endif
