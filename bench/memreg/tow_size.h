/*
 * tow_size.h - what the parts of tow-size share.
 *
 *   tow_size.c         options, which of the two programs this is
 *   memreg_machine.c   --machine: the tables of what memory costs here
 *   memreg_measure.c   the measurements behind them: premapping, registering late
 *   memreg_alloc.c     likewise: allocating, leasing
 *
 *   memreg_input.c     a job: the events of a log, or of a workload and strategy
 *   memreg_log.c       reads logs: recordings, and text (memreg_log_text.c)
 *   memreg_names.c     names of tags and calling places; sizes as people write and read them
 *   memreg_intensity.c what a workload's rank computes and sends
 *   memreg_workload.c  what the library takes while a workload's collectives run
 *   memreg_arena.c     which arena and staging the pool has that is sized
 *   memreg_size.c      sizing: bounds, search, budget, verification, cost curve
 *   memreg_others.c    headroom, for other runs of the program
 *   memreg_budget.c    the sum, and who has what of it
 *   memreg_several.c   one size for several logs;  memreg_several_report.c as text and JSON
 *   memreg_run.c       one real run of a job with a pool of some size, counted by the library
 *   memreg_report.c    sizing as text;  memreg_json.c as JSON;  memreg_svg.c as a picture,
 *                      with memreg_svg_time.c and memreg_canvas.c
 *
 * Functions that return int return 0, or an exit code of the program after having said why.
 */
#ifndef BENCH_TOW_SIZE_H
#define BENCH_TOW_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/memreg/memreg_names.h"
#include "bench/workloads/strategy.h"
#include "bench/workloads/workload.h"
#include "memreg/sizing/budget.h"
#include "memreg/sizing/replay_groups.h"

#define MEMREG_FAULT      1 /* it was tried, and did not work or did not hold */
#define MEMREG_USAGE      2 /* options and files that make no sense */
#define MEMREG_UNVERIFIED 3 /* a size is named, and not shown to be right */

#define MEMREG_MIB   1048576.0
#define MEMREG_SIZES 16
#define MEMREG_SETS  16
#define MEMREG_LOGS  64

struct memreg_options {
	bool json, quick, machine, long_runs, intensity;
	double flops_per_s; /* of a rank */
	int rounds;
	uint64_t sizes[MEMREG_SIZES];
	int size_count;
	const char *replay, *workload, *svg, *arena, *lane;
	const char *replays[MEMREG_LOGS]; /* all logs; replay is the first */
	int replay_count;
	uint64_t limit;                /* only the first tensors; 0: all */
	uint64_t premap;               /* only this size: does it do? */
	const char *sets[MEMREG_SETS]; /* NAME=NUMBER */
	int set_count;
};

/* One figure. `why` not empty: there is none, and why. */
struct memreg_row {
	char table[16], what[64], why[256];
	uint64_t bytes;
	int threads;
	double ns;
};

struct memreg_rows {
	struct memreg_row *row;
	uint32_t count;
	bool print; /* each at once, as text */
	bool quick;
	int rounds;
};

void memreg_rows_add(struct memreg_rows *rows, const char *table, const char *what, uint64_t bytes,
		     int threads, double ns, const char *why);
void memreg_rows_free(struct memreg_rows *rows);
double memreg_median(double *value, int count);
/* 4096 -> "4KiB" */
const char *memreg_bytes_text(uint64_t bytes, char *text, size_t room);

#define MEMREG_ROUNDS_MAX 31

/* The page kinds that can be had, as a pool is mapped, and with one thread where that differs. */
void memreg_measure_premap(struct memreg_rows *rows, uint64_t bytes, bool one_thread);
void memreg_measure_register(struct memreg_rows *rows, uint64_t bytes);
void memreg_measure_late(struct memreg_rows *rows);
int memreg_measure_alloc(struct memreg_rows *rows);
int memreg_machine(const struct memreg_options *options);

/*
 * What a run of a workload does: [0, step_begin) once, [step_begin, step_end) each step, then the
 * rest. A run of a log does what its replay does.
 */
struct memreg_op {
	enum strategy_event_kind kind;
	uint32_t block, to; /* SEND from block to block; the same: its first half to its second */
	uint64_t bytes;
	uint8_t align_log2;
};

/* What a log has left out between the windows that it keeps. */
struct memreg_gaps {
	uint64_t count, events, steps;
};

struct memreg_job {
	char source[256];      /* file */
	char strategy[32];     /* "" for a log */
	char lane[64];         /* that a workload's ranks have; "" for a log */
	char arena[32];        /* which the log's pool has; "": not known */
	int64_t staging_bytes; /* the knob, there; below 0: not known */
	uint64_t page_bytes;   /* of the log's pool; 0: not known */
	double sampled;        /* 1 of so many allocations is in the log */
	uint64_t lost;         /* events that the log had no room for */
	uint64_t before_bytes; /* live when the log began */
	uint64_t spread_bytes; /* of a log from the middle: enough for its pool, without staging */
	struct memreg_gaps gaps;
	struct strategy_plan plan;
	struct workload work;
	struct twi_replay *replay;
	struct memreg_names names;
	bool timed;           /* its events have times; else their number is one */
	struct memreg_op *op; /* NULL: a log */
	uint64_t count, step_begin, step_end;
	uint32_t blocks;
	bool long_runs; /* real runs of any size */
};

int memreg_job_open(const struct memreg_options *options, struct memreg_job *out);
void memreg_job_close(struct memreg_job *job);
/* Puts what the library's collectives take of the pool into the job's plan, before it is used. */
int memreg_workload_library(const struct memreg_options *options, struct memreg_job *job);

/* A log as it was read. */
struct memreg_log {
	struct twi_replay *replay; /* whoever reads the log has to destroy it */
	struct memreg_names names; /* and to free these; after a failure there are none */
	bool timed;                /* events have times */
	uint64_t lost;
	uint64_t before_bytes;  /* live when the log began */
	uint64_t spread_bytes;  /* as in struct memreg_job */
	uint64_t earlier_bytes; /* of it: what the log frees, and has as allocations at its begin */
	double sampled;
	struct memreg_gaps gaps;
	char arena[32]; /* of its pool; "": not known */
	int64_t staging_bytes;
	uint64_t page_bytes;
};

/* path: "-" is the standard input. */
int memreg_log_read(const char *path, struct memreg_log *out);

/* One real run, as the library counted it. */
struct memreg_run {
	uint64_t bytes; /* premap_memory_bytes */
	bool ran;
	char why[384]; /* not ran */
	uint64_t late, late_bytes, fallback, fallback_bytes;
	uint64_t refused, grown, overflowed, waited; /* counts */
	uint64_t steps, sent_bytes;
	bool cut; /* fewer sends or steps than wanted, for the time that they take */
	double open_ms, first_step_us, step_us;
};

static inline bool memreg_run_clean(const struct memreg_run *run)
{
	return run->ran && run->late + run->fallback + run->refused + run->grown + run->overflowed +
					   run->waited ==
				   0;
}

/* What the runtime itself takes of a pool of this size when it has opened and has a peer. */
struct memreg_own {
	uint64_t bytes;
	uint64_t page_bytes; /* that its pool is mapped in */
	char arena[32];
};

/* staging_bytes: the knob; below 0: as it is by default. */
int memreg_probe(uint64_t pool_bytes, int64_t staging_bytes, struct memreg_own *out);
/* Always comes back with *out filled: with counters, or with why there are none. */
void memreg_run_job(const struct memreg_job *job, uint64_t bytes, uint64_t steps, double seconds,
		    struct memreg_run *out);
uint64_t memreg_ram_total(void);
uint64_t memreg_ram_available(void);

#define MEMREG_RUNS   12
#define MEMREG_SHADOW 40
#define MEMREG_GROUPS 16
#define MEMREG_SITES  11 /* the last one is what is left */

/* A size and how many requests the replay found no room for in it. */
struct memreg_point {
	uint64_t bytes, missed, missed_bytes;
};

struct memreg_sizing {
	const struct memreg_options *options;
	struct memreg_job job;
	struct memreg_own own;
	uint64_t own_most_bytes; /* the same in a pool that is large */
	struct twi_replay_found found;
	struct twi_replay_result peak; /* in a pool of the found size */
	uint64_t smallest;             /* premap_memory_bytes that is clean */
	uint64_t headroom;             /* for other runs of the program */
	uint64_t named;                /* both */
	uint32_t orders;               /* that were tried */
	uint64_t spread;               /* of it: as much as the log's pool once needed */
	bool capped;                   /* they need more than headroom may be */
	uint64_t below_step;
	struct memreg_run below_run; /* of it, when it was thought to be the smallest */
	bool clean_at_90;      /* a real run at 90 % of the named size had nothing to complain of */
	char other_arena[384]; /* why the arena is another than the log's; "": it is that */
	bool verified;
	char verified_why[512];
	struct twi_budget budget;
	struct twi_replay_group group[MEMREG_GROUPS]; /* at the peak, as the sum has them */
	uint32_t groups;
	struct twi_replay_group site[MEMREG_SITES]; /* at the peak, by caller */
	uint32_t sites;
	struct twi_replay_leaks leaks;
	struct memreg_run
		run[MEMREG_RUNS]; /* the named size, a step below the smallest, the curve */
	uint32_t runs;
	struct memreg_point shadow[MEMREG_SHADOW];
	uint32_t shadows;
	struct memreg_rows rows; /* premap, late */
};

/* To fault in and pin a GiB takes more than a second: no more than it needs (memreg_arena_use). */
#define MEMREG_PROBE_BYTES ((uint64_t)32 << 20)

struct twi_arena_ops;

/*
 * The arena that the job's pool has, for replays and real runs from here on: as asked for, as the
 * log says, else page runs.
 */
int memreg_arena_choose(struct memreg_sizing *sizing);
int memreg_arena_use(struct memreg_sizing *sizing, const struct twi_arena_ops *ops);
/* Asks a runtime with so large a pool what it takes of it. */
int memreg_arena_probe(struct memreg_sizing *sizing, uint64_t bytes);
/* The job's arena again, for real runs: those of another job may have had another. */
void memreg_arena_force(const struct memreg_sizing *sizing);
/* The same, with what a runtime takes of a pool of any size: it opens no larger one
 * than that needs. */
int memreg_arena_at(struct memreg_sizing *sizing, uint64_t bytes);
const struct twi_arena_ops *memreg_arena_ops(const struct memreg_sizing *sizing);
/* A pool as it is mapped when `bytes` are asked for. */
struct twi_replay_pool memreg_arena_pool(const struct memreg_sizing *sizing, uint64_t bytes);
/* Nobody says which arena it is: the size has to do in each. */
bool memreg_arena_any(const struct memreg_sizing *sizing);
/* As memreg_run_job; in each arena, where that is not known: the one that goes worse. */
void memreg_arena_run(const struct memreg_sizing *sizing, uint64_t bytes, uint64_t steps,
		      double seconds, struct memreg_run *out);
/* Whether the log, as it was recorded, fits; in each arena, where that is not known. */
bool memreg_arena_fits(const struct memreg_sizing *sizing, uint64_t bytes);

int memreg_size(const struct memreg_options *options);
int memreg_intensity(const struct memreg_options *options);
int memreg_several(const struct memreg_options *options);
void memreg_report(const struct memreg_sizing *sizing);
int memreg_json(const struct memreg_sizing *sizing);
int memreg_svg(const struct memreg_sizing *sizing, const char *path);

/* A bar on stderr when that is a terminal; label NULL wipes it. */
void memreg_progress(const char *label, uint64_t done, uint64_t total);

#endif
