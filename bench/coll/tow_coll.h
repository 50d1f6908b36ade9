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
 *   coll_profile.c  what was measured, for schedulers
 *
 * All ranks run the same; rank 0 prints. Functions return 0, or an exit code of the program
 * (COLL_*) after having said on stderr what went wrong; callers hand it on unchanged.
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
#define COLL_ROOT      0u /* of those that have one */

/* X(name, text): as the baselines call them */
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
	uint32_t ranks; /* to start; 0: not said */
	char lane[64];  /* of lanes.h, or auto */
	bool ops[COLL_KINDS];
	struct bench_sizes sizes[COLL_KINDS];
	enum tow_type type;
	enum tow_reduce reduce;
	bool in_place, outside, overlap, apart, pin, plain;
	bool nccl;        /* both forms of each, in the columns of nccl-tests */
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
	uint64_t bytes; /* what the baselines mean by it */
	uint64_t count; /* elements of a part */
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
	uint8_t *area;      /* the buffers of one measurement */
	double *control;    /* of the pool: what the ranks tell each other between measurements */
	double bytes_per_s; /* of all CPUs at once, read and written, as they copy */
	uint64_t wrong;     /* elements */
	uint64_t counted;   /* how often all ranks' were summed */
	uint32_t hosts;     /* that the ranks are on; 0: not known */
	struct tool_profile profile; /* rank 0's, with --profile */
	double nccl_bus_sum;         /* with --format nccl-tests: of the rows of one operation */
	uint32_t nccl_rows;
	uint64_t nccl_wrong;
	double *samples; /* with --profile: the time of each of a loop, in us */
};

struct coll_result {
	double time_s, cpu_s_per_gib, bound_ratio;
	double median_us, p90_us; /* of the slowest rank, with --profile */
	uint64_t count;
};

/* One form of a measurement, out of place or in place. */
struct coll_half {
	bool ran;
	uint64_t wrong; /* elements, of all ranks */
	struct coll_result result;
};

struct coll_overlap_result {
	double comm_s, compute_s, both_s;
	double hidden;       /* share of the communication */
	double background_s; /* CPU time that it took from each rank */
};

/* A piece of a result: `count` elements from `offset` are those of `source` from `first` on. */
struct coll_piece {
	uint64_t offset, count, first;
	uint32_t source;
};

extern const char *const coll_kind_names[COLL_KINDS];

/* Returns 0, COLL_FAILED, or -1 when --help was printed. */
int coll_options_parse(struct coll_options *options, int argc, char **argv);

/* Sizes and buffers of a case, for one rank of `ranks`. */
struct coll_case coll_case_make(const struct coll_options *options, enum coll_kind kind,
				uint64_t bytes, uint32_t ranks);
/* What one slot takes of the area. */
uint64_t coll_case_need(const struct coll_case *what);
bool coll_kind_in_place(enum coll_kind kind);
bool coll_kind_reduces(enum coll_kind kind);
/* Where slot number i of the area has its buffers. */
struct coll_slot coll_slot_make(const struct coll_rank *rank, const struct coll_case *what,
				uint32_t i);
int coll_start(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot);
/* The pieces of this rank's result; returns how many, at most COLL_RANKS_MAX. */
uint32_t coll_pieces(const struct coll_rank *rank, const struct coll_case *what,
		     struct coll_piece pieces[COLL_RANKS_MAX]);
/* Elements of rank p that all-gather-v has, or that all-to-all-v sends between two ranks. */
uint64_t coll_part(const struct coll_case *what, uint32_t parity, uint32_t ranks);
/* Bytes that all ranks together must read and write, and those that a bus would see of a rank. */
double coll_must_move(const struct coll_case *what, uint32_t ranks);
double coll_bus_bytes(const struct coll_case *what, uint32_t ranks);
/* Bytes whose time the algorithm bandwidth is. */
double coll_payload_bytes(const struct coll_case *what, uint32_t ranks);

/* Fills the input of a slot by the case's seed, and spoils its output. */
void coll_fill(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot);
/* Counts what is wrong, and says where the first wrong element is. */
void coll_verify(struct coll_rank *rank, const struct coll_case *what,
		 const struct coll_slot *slot);

double coll_now(void);
double coll_cpu(void);
int coll_failed(const struct coll_rank *rank, const char *what, int status);
int coll_finish(struct coll_rank *rank, struct coll_slot *slot, const char *what);
int coll_barrier(struct coll_rank *rank);
/* The largest of all ranks' values, or their sum, at every rank. */
int coll_agree(struct coll_rank *rank, double value, enum tow_reduce reduce, double *out);
int coll_run(struct coll_rank *rank);
int coll_run_overlap(struct coll_rank *rank, enum coll_kind kind, uint64_t bytes);
/* How fast all CPUs together copy: bytes read and written in a second. */
int coll_copy_rate(struct coll_rank *rank);

void coll_report_head(const struct coll_rank *rank);
void coll_report_result(const struct coll_rank *rank, const struct coll_case *what,
			const struct coll_result *result);
void coll_report_overlap(const struct coll_rank *rank, const struct coll_case *what,
			 const struct coll_overlap_result *result);
void coll_report_skipped(const struct coll_rank *rank, const struct coll_case *what);
/* The sum of what each rank gives, at rank 0, by the job's store; all ranks call it. */
int coll_wrong_of_all(struct coll_rank *rank, uint64_t own, uint64_t *all_out);

/* The head of one operation's rows, a row, and what stands below them. */
void coll_nccl_head(const struct coll_rank *rank, enum coll_kind kind);
void coll_nccl_row(struct coll_rank *rank, const struct coll_case *what,
		   const struct coll_half *out_of_place, const struct coll_half *in_place);
void coll_nccl_end(struct coll_rank *rank);

/* A rank's memory for --profile. */
int coll_profile_open(struct coll_rank *rank, uint64_t samples);
/* The quantiles of a loop's samples, of the slowest rank; all ranks call it. */
int coll_profile_agree(struct coll_rank *rank, struct coll_result *result);
int coll_profile_add(struct coll_rank *rank, const struct coll_case *what,
		     const struct coll_result *result);
int coll_profile_write(const struct coll_rank *rank);
void coll_profile_close(struct coll_rank *rank);
/* The operation by the library's name: "allreduce" here is "all-reduce" there. */
const char *coll_library_name(enum coll_kind kind);
/* The lane that served it, as the library says; "" where it does not. */
void coll_report_lane(const struct coll_rank *rank, const struct coll_case *what, char *out,
		      size_t room);
/* Says how many elements were wrong, which every rank has left in the job's store. */
int coll_report_wrong(struct coll_rank *rank);

#endif
