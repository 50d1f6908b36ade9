/*
 * timeline.h - what a trace shows over time: transfers, links, steps, who came last, what was
 * copied, and what the recording itself has lost. A pure function of a trace; docs/analysis.md has
 * the definitions.
 *
 *	axis (trace_view.h)  0 |--bin--|--bin--| ... TWI_TIMELINE_BINS ... | end_ns
 *
 * A transfer is a SEND, or a RECV whose sender is not in the trace: so each is counted once. Its
 * latency is taken from one clock: of a SEND from start to end, of a RECV from its match to its
 * end. Bytes are spread evenly over the time between their first and last on the wire.
 *
 * Quantiles are of what was seen, the value at rank ceil(share * count). Nothing is claimed of two
 * ranks that is smaller than what their clocks may be wrong by.
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
#define TWI_TIMELINE_PAIRS   32u  /* shown, the dearest */
#define TWI_TIMELINE_REGIONS 32u  /* shown, the longest */
#define TWI_TIMELINE_STEPS   64u  /* shown, the last */
#define TWI_TIMELINE_RANKS   128u /* shown, the first */
#define TWI_TIMELINE_SIZES   48u  /* powers of two */

/* A link is full from this share of its limit on, a bin is waited through from that share on. */
#define TWI_TIMELINE_FULL_PERCENT   80u
#define TWI_TIMELINE_WAITED_PERCENT 50u
/* A pair is slow from this multiple of what is usual, by so many transfers at least. */
#define TWI_TIMELINE_SLOW_PERCENT 150u
#define TWI_TIMELINE_SLOW_COUNT   8u
/* A rank holds a step up when it computes so much longer than the median of the others. */
#define TWI_TIMELINE_STRAGGLE_PERCENT 5u

struct twi_timeline_quantiles {
	uint64_t count, bytes; /* bytes: of all, where it has any */
	uint64_t sum_ns, p50_ns, p99_ns, max_ns;
};

struct twi_timeline_bin {
	struct twi_timeline_quantiles latency[TWI_SIZE_CLASSES];
	uint64_t flight_max, flight_bytes_max;
	double flight_mean, flight_bytes_mean;
	uint64_t copies, copy_bytes, copy_ns;
	uint64_t late, late_bytes, late_ns;
};

/* Where bytes go, by the reach of their lane (lane.def): over a network, or within a host. */
enum twi_timeline_path { TWI_PATH_NETWORK, TWI_PATH_HOST, TWI_PATHS };

struct twi_timeline_flow {
	uint64_t tx_bytes, rx_bytes;
	bool bound; /* of a rank's bin: it lies in a region */
};

struct twi_timeline_link {
	bool used;
	bool limit_given;
	uint64_t limit_bps; /* of one rank in one direction, bits in a second */
	struct twi_timeline_flow total;
	struct twi_timeline_flow *bins; /* [rank * TWI_TIMELINE_BINS + bin] */
};

struct twi_timeline_pair {
	int64_t from, to;                /* ranks; -1: not known */
	const char *from_name, *to_name; /* then: of the peer, "" else */
	bool received;                   /* seen by its receiver alone */
	struct twi_timeline_quantiles latency;
	uint64_t waited_ns; /* of all latencies: for credit, and for the receiver to ask */
	/*
	 * Sums over its transfers of the median time on the way of their size class: its own, and
	 * what is usual.
	 */
	uint64_t typical_ns, usual_ns;
	uint64_t best_bps; /* of one transfer; 0: none was long enough to tell */
	bool slow;
};

/* One rank's time in which the link was full and its threads waited. */
struct twi_timeline_region {
	size_t rank;
	enum twi_timeline_path path;
	int64_t start_ns, end_ns;
	uint64_t bytes; /* in the busier direction */
	uint64_t waited_ns;
};

/* Where the time of steps went. step = compute + hidden + exposed. */
struct twi_timeline_split {
	uint64_t step_ns;
	uint64_t compute_ns; /* neither of the two */
	uint64_t hidden_ns;  /* something was under way and the step's thread did not wait */
	uint64_t exposed_ns; /* the step's thread waited for the network */
};

struct twi_timeline_step {
	uint64_t number;
	size_t ranks;                   /* that have it */
	struct twi_timeline_split mean; /* over them */
	uint64_t max_ns;
	int64_t start_ns; /* the earliest */
	size_t slowest;   /* index of the rank that computed longest */
	uint64_t late_ns; /* by so much longer than the median of the others; 0 below the share */
};

struct twi_timeline_rank {
	uint64_t steps;
	struct twi_timeline_split sum;
	uint64_t slowest_steps, slowest_ns; /* steps that it held up, and by how much together */
	uint64_t last_count, last_ns, last_max_ns; /* collectives that it came last to: certain */
	uint64_t
		others_ns; /* that its threads waited while a collective's last rank had not come */
	uint64_t copies, copy_bytes, copy_ns, late, late_ns;
	uint64_t spans, lost, sampled_out;
	struct twi_timeline_flow flow;
	uint64_t bound_ns[TWI_PATHS], bound_waited_ns[TWI_PATHS]; /* its regions together */
};

struct twi_timeline_entries {  /* of collectives that all of their ranks are in the trace of */
	uint64_t judged, told; /* told: the last one was later than the clocks' errors */
	uint64_t partial;      /* not judged: ranks are missing */
	uint64_t unknown;      /* not judged: clocks' errors are not known */
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
	uint64_t sizes[TWI_TIMELINE_SIZES]; /* [i]: of 2^(i-1) + 1 .. 2^i bytes; [0]: 0 and 1 */
	struct twi_timeline_link links[TWI_PATHS];
	struct twi_timeline_reason reasons[TWI_R_COUNT];
	struct twi_timeline_entries entries;
	size_t pair_count, region_count, step_count, rank_count;
	struct twi_timeline_pair *pairs;     /* by what they cost above the usual, then by time */
	struct twi_timeline_region *regions; /* by duration */
	struct twi_timeline_step *steps;     /* by number */
	struct twi_timeline_rank *ranks;     /* as the trace has them */
};

/* limit_bps: of each rank's link to the network, each way; 0: the best rate seen is taken for it.
 * TOW_OK or TOW_ENOMEM; out is then empty. The trace must outlive it. */
int twi_timeline_make(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out);
void twi_timeline_fini(struct twi_timeline *timeline);

/* Members of the present object; after a failure the emitter's status says so. */
void twi_timeline_emit(const struct twi_timeline *timeline, const struct twi_trace *trace,
		       struct twi_emit *e);
void twi_timeline_json(const struct twi_trace *trace, struct twi_emit *e);

const char *twi_timeline_path_name(enum twi_timeline_path path);

/* --- parts of twi_timeline_make, a file each --- */

/* `values` are sorted. */
void twi_timeline_quantiles(uint64_t *values, size_t count, struct twi_timeline_quantiles *out);
uint64_t twi_timeline_bin_of(const struct twi_timeline *timeline, int64_t at);
int twi_timeline_transfers(const struct twi_trace *trace, struct twi_timeline *out);
int twi_timeline_links(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out);
int twi_timeline_steps(const struct twi_trace *trace, struct twi_timeline *out);
int twi_timeline_entries(const struct twi_trace *trace, struct twi_timeline *out);

#endif
