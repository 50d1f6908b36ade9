/*
 * tow_coll.h - what the parts of tow-coll share.
 *
 *   tow_coll.c      the ranks: started by itself, or by a launcher
 *   coll_options.c  the command line and the BENCH_ environment
 *   coll_kind.c     the table of collectives: buffers, calls, bytes that they must move
 *   coll_check.c    payload that can be checked, of every type and operator
 *   coll_run.c      the measured loops
 *   coll_overlap.c  communication beside a compute loop
 *   coll_report.c   tables and plain lines
 *   coll_nccl.c     the columns of nccl-tests
 *   coll_profile.c  the profile of the results, for schedulers
 *
 * All ranks run the same code; rank 0 prints. Functions return 0, or an exit code of the program
 * (COLL_*) after printing the error on stderr. Callers return that code unchanged.
 */
#ifndef BENCH_TOW_COLL_H
#define BENCH_TOW_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/coll.h>
#include <towline/towline.h>

#include "bench/common/sizes.h"
#include "tools/profile/profile.h"

#define COLL_WRONG  1 /* an element of a result was wrong */
#define COLL_FAILED 2 /* usage, or a call failed */

#define COLL_RANKS_MAX 64
#define COLL_ROOT      0u /* of collectives with a root */

/* X(name, text): the texts are the names of the baselines. */
#define COLL_KIND_MAP(X)                                                                           \
	X(ALL_REDUCE, "allreduce")                                                                 \
	X(ALL_GATHER, "allgather")                                                                 \
	X(REDUCE_SCATTER, "reduce_scatter")                                                        \
	X(ALL_TO_ALL, "alltoall")                                                                  \
	X(BROADCAST, "bcast")                                                                      \
	X(REDUCE, "reduce")                                                                        \
	X(GATHER, "gather")                                                                        \
	X(SCATTER, "scatter")                                                                      \
	X(ALL_GATHER_V, "allgather_v")                                                             \
	X(ALL_TO_ALL_V, "alltoall_v")                                                              \
	X(PERMUTE, "permute")                                                                      \
	X(SEND_RECEIVE, "sendrecv")                                                                \
	X(BARRIER, "barrier")

enum coll_kind {
#define COLL_KIND_ENUM(name, text) COLL_##name,
	COLL_KIND_MAP(COLL_KIND_ENUM)
#undef COLL_KIND_ENUM
		COLL_KINDS
};

struct coll_options {
	uint32_t ranks; /* to start; 0: not given */
	char lane[64];  /* a name of lanes.h, or auto */
	bool ops[COLL_KINDS];
	struct bench_sizes sizes[COLL_KINDS];
	enum tow_type type;
	enum tow_reduce reduce;
	bool in_place, outside, overlap, apart, pin, plain;
	bool tests;       /* calls tow_op_test until it has ended, in place of a wait */
	bool nccl;        /* both forms of each operation, in the columns of nccl-tests */
	const char *plan; /* NULL: the library's choice */
	uint32_t depth;   /* collectives in flight */
	double seconds;   /* of each measurement */
	uint64_t timeout_ns;
	const char *path, *peer; /* names in the output */
	const char *profile;     /* a file; NULL: none */
};

/* One measurement. */
struct coll_case {
	enum coll_kind kind;
	uint64_t bytes; /* in the meaning of the baselines */
	uint64_t count; /* elements of one part */
	uint64_t width; /* bytes of an element */
	uint64_t in_bytes, out_bytes;
	bool in_place;
	uint64_t seed;
};

struct coll_slot {
	uint8_t *in, *out;
	struct tow_op *op;
};

struct coll_rank {
	const struct coll_options *options;
	struct tow_runtime *runtime;
	struct tow_group *group;
	uint32_t rank, ranks;
	uint8_t *area;               /* the buffers of one measurement */
	double *control;             /* in the pool: one value to agree on, and the result */
	double bytes_per_s;          /* copied by all CPUs at once, read and written */
	uint64_t wrong;              /* elements, so far */
	uint64_t counted;            /* number of sums over all ranks so far */
	uint32_t hosts;              /* number of hosts of the ranks; 0: not known */
	struct tool_profile profile; /* rank 0's, with --profile */
	double nccl_bus_sum;         /* for nccl-tests: sum over the rows of one operation */
	uint32_t nccl_rows;
	uint64_t nccl_wrong;
	double *samples; /* with --profile: times of a loop's collectives, us */
};

struct coll_result {
	double time_s, cpu_s_per_gib, bound_ratio;
	double median_us, p90_us; /* of the slowest rank, with --profile */
	uint64_t count;
};

/* One form of a measurement, out of place or in place. */
struct coll_half {
	bool ran;
	uint64_t wrong; /* elements, at all ranks */
	struct coll_result result;
};

struct coll_overlap_result {
	double comm_s, compute_s, both_s;
	double hidden;       /* share of the communication that is hidden */
	double background_s; /* CPU time of each rank beside the loop */
};

/*
 * A piece of a result: `count` elements at `offset` come from rank `source`, where they begin at
 * `first`.
 */
struct coll_piece {
	uint64_t offset, count, first;
	uint32_t source;
};

extern const char *const coll_kind_names[COLL_KINDS];

/* Returns 0, COLL_FAILED, or -1 when --help was printed. */
int coll_options_parse(struct coll_options *options, int argc, char **argv);

/* The sizes and buffers of a case, for a job of `ranks` ranks. */
struct coll_case coll_case_make(const struct coll_options *options, enum coll_kind kind,
				uint64_t bytes, uint32_t ranks);
/* The bytes of the area that one slot takes. */
uint64_t coll_case_need(const struct coll_case *what);
bool coll_kind_in_place(enum coll_kind kind);
bool coll_kind_reduces(enum coll_kind kind);
/* The buffers of slot i in the area. */
struct coll_slot coll_slot_make(const struct coll_rank *rank, const struct coll_case *what,
				uint32_t i);
int coll_start(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot);
/* The pieces of this rank's result. Returns how many, at most COLL_RANKS_MAX. */
uint32_t coll_pieces(const struct coll_rank *rank, const struct coll_case *what,
		     struct coll_piece pieces[COLL_RANKS_MAX]);
/*
 * The elements of part number `parity`. The number is the rank in all-gather-v, and the sum of both
 * ranks in all-to-all-v.
 */
uint64_t coll_part(const struct coll_case *what, uint32_t parity, uint32_t ranks);
/*
 * The bytes that all ranks together must read and write, and those that a bus would see of a rank.
 */
double coll_must_move(const struct coll_case *what, uint32_t ranks);
double coll_bus_bytes(const struct coll_case *what, uint32_t ranks);
/* The bytes that the algorithm bandwidth counts. */
double coll_payload_bytes(const struct coll_case *what, uint32_t ranks);

/* Fills the input of a slot from the case's seed, and overwrites its output. */
void coll_fill(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot);
/* Counts wrong elements, and prints where the first one is. */
void coll_verify(struct coll_rank *rank, const struct coll_case *what,
		 const struct coll_slot *slot);

double coll_now(void);
double coll_cpu(void);
int coll_failed(const struct coll_rank *rank, const char *what, int status);
int coll_finish(struct coll_rank *rank, struct coll_slot *slot, const char *what);
int coll_barrier(struct coll_rank *rank);
/* Reduces a value of each rank to the maximum or the sum, at every rank. */
int coll_agree(struct coll_rank *rank, double value, enum tow_reduce reduce, double *out);
int coll_run(struct coll_rank *rank);
int coll_run_overlap(struct coll_rank *rank, enum coll_kind kind, uint64_t bytes);
/* Measures how fast all CPUs together copy: bytes read and written in a second. */
int coll_copy_rate(struct coll_rank *rank);

void coll_report_head(const struct coll_rank *rank);
void coll_report_result(const struct coll_rank *rank, const struct coll_case *what,
			const struct coll_result *result);
void coll_report_overlap(const struct coll_rank *rank, const struct coll_case *what,
			 const struct coll_overlap_result *result);
void coll_report_skipped(const struct coll_rank *rank, const struct coll_case *what);
/* Sums a value of each rank at rank 0, through the job's store. All ranks must call it. */
int coll_wrong_of_all(struct coll_rank *rank, uint64_t own, uint64_t *all_out);

/* Print the head of one operation's rows, a row, and the lines below. */
void coll_nccl_head(const struct coll_rank *rank, enum coll_kind kind);
void coll_nccl_row(struct coll_rank *rank, const struct coll_case *what,
		   const struct coll_half *out_of_place, const struct coll_half *in_place);
void coll_nccl_end(struct coll_rank *rank);

/* Allocates a rank's memory for --profile. */
int coll_profile_open(struct coll_rank *rank, uint64_t samples);
/* Takes the quantiles of a loop's samples, of the slowest rank. All ranks must call it. */
int coll_profile_agree(struct coll_rank *rank, struct coll_result *result);
int coll_profile_add(struct coll_rank *rank, const struct coll_case *what,
		     const struct coll_result *result);
int coll_profile_write(const struct coll_rank *rank);
void coll_profile_close(struct coll_rank *rank);
/* The library's name of an operation: "allreduce" here is "all-reduce" there. */
const char *coll_library_name(enum coll_kind kind);
/* The lane of a case, as the library reports it; "" when it does not. */
void coll_report_lane(const struct coll_rank *rank, const struct coll_case *what, char *out,
		      size_t room);
/* Prints how many elements were wrong; every rank leaves its number in the job's store. */
int coll_report_wrong(struct coll_rank *rank);

#endif
