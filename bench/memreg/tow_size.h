/*
 * tow_size.h - what the parts of tow-size share.
 *
 *   tow_size.c         options, and which of the two programs runs
 *   memreg_machine.c   --machine: the tables of what memory costs on this machine
 *   memreg_measure.c   the measurements behind them: premapping, registering late
 *   memreg_alloc.c     further ones: allocating, leasing
 *
 *   memreg_input.c     a job: the events of a log, or of a workload and strategy
 *   memreg_log.c       reads logs: recordings, and text (memreg_log_text.c)
 *   memreg_names.c     names of tags and call sites; sizes as people write and read them
 *   memreg_intensity.c what a workload's rank computes and sends
 *   memreg_workload.c  the library's memory while a workload's collectives run
 *   memreg_arena.c     the arena and staging of the sized pool
 *   memreg_size.c      sizing: bounds, search, budget, verification, cost curve
 *   memreg_others.c    headroom, for other runs of the program
 *   memreg_budget.c    the sum, and the owner of each part of it
 *   memreg_several.c   one size for several logs;  memreg_several_report.c as text and JSON
 *   memreg_run.c       one real run of a job with a pool of some size, counted by the library
 *   memreg_report.c    sizing as text;  memreg_json.c as JSON;  memreg_svg.c as a picture,
 *                      with memreg_svg_time.c and memreg_canvas.c
 *
 * Functions that return int return 0, or an exit code of the program after printing why.
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

#define MEMREG_FAULT      1 /* it was tried and did not work, or the size did not do */
#define MEMREG_USAGE      2 /* invalid options or files */
#define MEMREG_UNVERIFIED 3 /* a size is named, but not proved */

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
	uint64_t limit;                /* only the first tensors; 0: all of them */
	uint64_t premap;               /* check only this size */
	const char *sets[MEMREG_SETS]; /* NAME=NUMBER */
	int set_count;
};

/* One figure. `why` is not empty when there is no figure, and says why. */
struct memreg_row {
	char table[16], what[64], why[256];
	uint64_t bytes;
	int threads;
	double ns;
};

struct memreg_rows {
	struct memreg_row *row;
	uint32_t count;
	bool print; /* print each row at once, as text */
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

/*
 * Measures the available page kinds in a pool's mapping, also with one thread where that differs.
 */
void memreg_measure_premap(struct memreg_rows *rows, uint64_t bytes, bool one_thread);
void memreg_measure_register(struct memreg_rows *rows, uint64_t bytes);
void memreg_measure_late(struct memreg_rows *rows);
int memreg_measure_alloc(struct memreg_rows *rows);
int memreg_machine(const struct memreg_options *options);

/*
 * The operations of a workload's run: [0, step_begin) once, [step_begin, step_end) in each step,
 * then the rest. A run of a log does the operations of its replay.
 */
struct memreg_op {
	enum strategy_event_kind kind;
	uint32_t block, to; /* SEND: in one block, from its first half to its second */
	uint64_t bytes;
	uint8_t align_log2;
};

/* The events that a log has left out, between the windows that it keeps. */
struct memreg_gaps {
	uint64_t count, events, steps;
};

struct memreg_job {
	char source[256];      /* file */
	char strategy[32];     /* "" for a log */
	char lane[64];         /* of a workload's ranks; "" for a log */
	char arena[32];        /* of the log's pool; "": not known */
	int64_t staging_bytes; /* the knob of the log's run; below 0: not known */
	uint64_t page_bytes;   /* of the log's pool; 0: not known */
	double sampled;        /* one of so many allocations is in the log */
	uint64_t lost;         /* events without room in the log */
	uint64_t before_bytes; /* live when the log began */
	uint64_t spread_bytes; /* of a log from the middle: enough for its pool, without staging */
	struct memreg_gaps gaps;
	struct strategy_plan plan;
	struct workload work;
	struct twi_replay *replay;
	struct memreg_names names;
	bool timed;           /* its events have times; otherwise their number is the time */
	bool fuses;           /* its small collectives, in buffers that depend on when they end */
	struct memreg_op *op; /* NULL: the job is a log */
	uint64_t count, step_begin, step_end;
	uint32_t blocks;
	bool long_runs; /* real runs of any size are allowed */
};

int memreg_job_open(const struct memreg_options *options, struct memreg_job *out);
void memreg_job_close(struct memreg_job *job);
/* Adds the pool memory of the library's collectives to the job's plan, before the plan is used. */
int memreg_workload_library(const struct memreg_options *options, struct memreg_job *job);

/* A log after reading. */
struct memreg_log {
	struct twi_replay *replay; /* the reader of the log destroys it */
	struct memreg_names names; /* and frees these; empty after a failure */
	bool timed;                /* events have times */
	uint64_t lost;
	uint64_t before_bytes;  /* live when the log began */
	uint64_t spread_bytes;  /* as in struct memreg_job */
	uint64_t earlier_bytes; /* part of it: freed by the log, so allocated at its start */
	double sampled;
	struct memreg_gaps gaps;
	char arena[32]; /* of the log's pool; "": not known */
	int64_t staging_bytes;
	uint64_t page_bytes;
};

/* path: "-" is the standard input. */
int memreg_log_read(const char *path, struct memreg_log *out);

/* One real run, as the library counted it. */
struct memreg_run {
	uint64_t bytes; /* premap_memory_bytes */
	bool ran;
	char why[384]; /* the reason when it did not run */
	uint64_t late, late_bytes, fallback, fallback_bytes;
	uint64_t refused, grown, overflowed, waited; /* counts */
	uint64_t steps, sent_bytes;
	bool cut; /* fewer sends or steps than wanted, to save time */
	double open_ms, first_step_us, step_us;
};

static inline bool memreg_run_clean(const struct memreg_run *run)
{
	return run->ran && run->late + run->fallback + run->refused + run->grown + run->overflowed +
					   run->waited ==
				   0;
}

/* The runtime's own memory in a pool of this size, when it is open and has a peer. */
struct memreg_own {
	uint64_t bytes;
	uint64_t page_bytes; /* of the pages of its pool */
	char arena[32];
};

/* staging_bytes is the knob; below 0 is its default. */
int memreg_probe(uint64_t pool_bytes, int64_t staging_bytes, struct memreg_own *out);
/* Fills *out in any case: with counters, or with the reason why there are none. */
void memreg_run_job(const struct memreg_job *job, uint64_t bytes, uint64_t steps, double seconds,
		    struct memreg_run *out);
uint64_t memreg_ram_total(void);
uint64_t memreg_ram_available(void);

#define MEMREG_RUNS   12
#define MEMREG_SHADOW 40
#define MEMREG_GROUPS 16
#define MEMREG_SITES  11 /* the last one has the rest */

/* A size, and the requests of the replay that found no room in it. */
struct memreg_point {
	uint64_t bytes, missed, missed_bytes;
};

struct memreg_sizing {
	const struct memreg_options *options;
	struct memreg_job job;
	struct memreg_own own;
	uint64_t own_most_bytes; /* the same in a large pool */
	struct twi_replay_found found;
	struct twi_replay_result peak; /* in a pool of the found size */
	uint64_t smallest;             /* the smallest premap_memory_bytes that is clean */
	uint64_t headroom;             /* for other runs of the program */
	uint64_t named;                /* the sum of both */
	uint32_t orders;               /* orders that were tried */
	uint64_t spread;               /* part of it: what the log's pool once needed */
	bool capped;                   /* other runs need more than headroom may be */
	uint64_t below_step;
	struct memreg_run below_run; /* the run there, when it was thought to be the smallest */
	bool clean_at_90;            /* a real run at 90 % of the named size was clean */
	char other_arena[384];       /* why the arena is not that of the log; "": it is */
	bool verified;
	char verified_why[512];
	struct twi_budget budget;
	struct twi_replay_group group[MEMREG_GROUPS]; /* at the peak, as in the sum */
	uint32_t groups;
	struct twi_replay_group site[MEMREG_SITES]; /* at the peak, by caller */
	uint32_t sites;
	struct twi_replay_leaks leaks;
	struct memreg_run
		run[MEMREG_RUNS]; /* the named size, a step below the smallest, the curve */
	uint32_t runs;
	struct memreg_point shadow[MEMREG_SHADOW];
	uint32_t shadows;
	struct memreg_rows rows; /* tables premap and late */
};

/*
 * Faulting in and pinning a GiB takes more than a second, so a probe is small (memreg_arena_use).
 */
#define MEMREG_PROBE_BYTES ((uint64_t)32 << 20)

struct twi_arena_ops;

/*
 * Chooses the arena of the job's pool, for replays and real runs from now on. It is the one of
 * --arena, else the log's, else page runs.
 */
int memreg_arena_choose(struct memreg_sizing *sizing);
int memreg_arena_use(struct memreg_sizing *sizing, const struct twi_arena_ops *ops);
/* Probes a runtime with a pool of `bytes` for its own memory. */
int memreg_arena_probe(struct memreg_sizing *sizing, uint64_t bytes);
/* Selects the job's arena again for real runs, as another job may have had another. */
void memreg_arena_force(const struct memreg_sizing *sizing);
/*
 * The same, and probes the runtime's own memory in a pool of `bytes`. The probed pool is no larger
 * than that memory needs.
 */
int memreg_arena_at(struct memreg_sizing *sizing, uint64_t bytes);
const struct twi_arena_ops *memreg_arena_ops(const struct memreg_sizing *sizing);
/* A pool as it is mapped for a request of `bytes`. */
struct twi_replay_pool memreg_arena_pool(const struct memreg_sizing *sizing, uint64_t bytes);
/* Whether the arena is not known, so that the size must be enough in each. */
bool memreg_arena_any(const struct memreg_sizing *sizing);
/* As memreg_run_job. With an unknown arena it runs in each, and keeps the worse run. */
void memreg_arena_run(const struct memreg_sizing *sizing, uint64_t bytes, uint64_t steps,
		      double seconds, struct memreg_run *out);
/* Whether the log fits as recorded; with an unknown arena, in each. */
bool memreg_arena_fits(const struct memreg_sizing *sizing, uint64_t bytes);

int memreg_size(const struct memreg_options *options);
int memreg_intensity(const struct memreg_options *options);
int memreg_several(const struct memreg_options *options);
void memreg_report(const struct memreg_sizing *sizing);
int memreg_json(const struct memreg_sizing *sizing);
int memreg_svg(const struct memreg_sizing *sizing, const char *path);

/* Draws a bar on stderr when that is a terminal. label NULL erases it. */
void memreg_progress(const char *label, uint64_t done, uint64_t total);

#endif
