/*
 * memreg_size.c - finds the premap_memory_bytes that a job needs, and proves it.
 *
 *   probe     the runtime's own memory, and its arena (memreg_arena.c)
 *   search    the smallest pool in which the replay fits
 *   others    the needs of other runs of the program, on other CPUs and in other orders of its
 *             threads (memreg_others.c)
 *   verify    real runs at that size and a step below; they win over the replay
 *   curve     real runs of pools that are too small, and their cost
 *
 * The named size is the smallest clean one plus the needs of the other runs, at most a third. When
 * they need more, the size is named but not verified.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/memreg/memreg_size.h"
#include "memreg/arena/arena.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB         ((uint64_t)1 << 20)
#define GIB         ((uint64_t)1 << 30)
#define CORRECTIONS 8
#define PROBES      12
#define CURVE_SHORT 2  /* points of the curve for a quick answer */
#define GAPS_PART   6  /* divisor of the size: what gaps may hide, with several threads */
#define BOTH_STEPS  64 /* above the larger of two sizes, for one that fits in both */

static const unsigned percents[] = { 90, 50, 75, 25 };

void memreg_progress(const char *label, uint64_t done, uint64_t total)
{
	static const char bar[] = "##############################";
	int filled = total > 0 ? (int)(30 * twi_min(done, total) / total) : 0;

	if (!isatty(STDERR_FILENO))
		return;
	if (label == NULL)
		fprintf(stderr, "\r\033[K");
	else
		fprintf(stderr, "\r\033[K[%-30.*s] %s", filled, bar, label);
	fflush(stderr);
}

int memreg_sizing_failed(const struct memreg_sizing *sizing)
{
	memreg_progress(NULL, 0, 0);
	fprintf(stderr, "tow-size: %s: %s\n", sizing->job.source, tow_error_message());
	return MEMREG_FAULT;
}

static void on_try(void *arg, uint64_t bytes, bool fits)
{
	const struct memreg_sizing *sizing = arg;
	char label[96];

	snprintf(label, sizeof(label), "searching: %s %s", memreg_as_text(bytes).text,
		 fits ? "fits" : "is too small");
	memreg_progress(label, 5 + twi_min(sizing->found.tried, (uint64_t)20), 100);
}

struct twi_replay_search memreg_search_of(struct memreg_sizing *sizing, uint64_t least)
{
	return (struct twi_replay_search){ .ops = memreg_arena_ops(sizing),
					   .reserve_bytes = sizing->own.bytes,
					   .least_bytes = least,
					   .page_bytes = sizing->own.page_bytes,
					   .progress = on_try,
					   .arg = sizing };
}

static int search_size(struct memreg_sizing *sizing, uint64_t least)
{
	const struct twi_replay *replay = sizing->job.replay;
	struct twi_replay_search wanted = memreg_search_of(sizing, least);

	/* The pool has a whole number of huge pages, whatever the request. */
	wanted.step_bytes = twi_max(twi_replay_step(replay->peak_rounded + sizing->own.bytes),
				    sizing->own.page_bytes);
	if (twi_replay_find(replay, &wanted, &sizing->found) == TOW_OK)
		return 0;
	return memreg_sizing_failed(sizing);
}

/*
 * Searches from `least` upwards. The runtime's own memory depends on the pool's size, as staging
 * gets at most a quarter of it. So the runtime is probed again with the size found, which falls by
 * less each time.
 */
static int search_all(struct memreg_sizing *sizing, uint64_t least)
{
	int rc = search_size(sizing, least);

	for (int i = 0; i < PROBES && rc == 0; i++) {
		struct memreg_own before = sizing->own;

		if (sizing->found.bytes >= MEMREG_PROBE_BYTES &&
		    before.bytes <= sizing->found.bytes / 4)
			break;

		rc = memreg_arena_probe(sizing, sizing->found.bytes);
		if (rc != 0 || (sizing->own.bytes == before.bytes &&
				sizing->own.page_bytes == before.page_bytes))
			break;
		rc = search_size(sizing, least);
	}
	sizing->smallest = sizing->found.bytes;
	return rc;
}

/*
 * When the arena is not known, finds a size that is enough in both: that of the arena that needs
 * more. The size of the first is enough in the second too, or the search continues from there.
 */
static int search_arenas(struct memreg_sizing *sizing)
{
	struct twi_replay_found found;
	struct memreg_own own;
	bool fits;
	int rc = search_all(sizing, 0);

	if (rc != 0 || !memreg_arena_any(sizing))
		return rc;
	found = sizing->found;
	own = sizing->own;
	rc = memreg_arena_use(sizing, &twi_arena_jemalloc);
	if (rc == 0 && found.bytes < MEMREG_PROBE_BYTES)
		rc = memreg_arena_probe(sizing, found.bytes);
	fits = rc == 0 && memreg_arena_fits(sizing, found.bytes);
	if (rc == 0 && !fits)
		rc = search_all(sizing, found.bytes + found.step_bytes);
	if (rc != 0)
		return rc;
	if (sizing->found.bytes <= found.bytes) {
		twi_arena_force(&twi_arena_pagerun);
		sizing->found = found;
		sizing->own = own;
		sizing->smallest = found.bytes;
	}
	for (int i = 0; !fits && i < BOTH_STEPS && !memreg_arena_fits(sizing, sizing->smallest);
	     i++)
		sizing->smallest += sizing->found.step_bytes;
	return 0;
}

/* The factor between all events and those in the log; 1: the log is whole. */
static double missing_factor(const struct memreg_job *job)
{
	double events = (double)job->replay->count;

	return job->sampled * (1 + (double)job->lost / events);
}

struct memreg_run *memreg_real_run(struct memreg_sizing *sizing, uint64_t bytes)
{
	const struct memreg_options *options = sizing->options;
	struct memreg_run *run = &sizing->run[twi_min(sizing->runs, (uint32_t)MEMREG_RUNS - 1)];
	char label[96];

	snprintf(label, sizeof(label), "running with %s", memreg_as_text(bytes).text);
	memreg_progress(label, 50 + 5 * twi_min(sizing->runs, 9u), 100);
	memreg_arena_run(sizing, bytes, options->quick ? 1 : 3, options->quick ? 0.5 : 3, run);
	return run;
}

static void keep_run(struct memreg_sizing *sizing)
{
	if (sizing->runs < MEMREG_RUNS)
		sizing->runs++;
}

static void not_verified(struct memreg_sizing *sizing, const char *fmt, const char *detail)
{
	snprintf(sizing->verified_why, sizeof(sizing->verified_why), fmt, detail);
}

/*
 * Verifies the smallest size with real runs. The replay does not know, for example, allocations
 * that the runtime makes while it runs. They show here and raise the size. Returns whether it is
 * verified.
 */
static bool verify_smallest(struct memreg_sizing *sizing)
{
	uint64_t step = sizing->found.step_bytes;
	const struct memreg_run *run = memreg_real_run(sizing, sizing->smallest);

	for (int i = 0; run->ran && !memreg_run_clean(run) && i < CORRECTIONS; i++) {
		sizing->below_run = *run;
		sizing->below_step = sizing->smallest;
		sizing->smallest += step;
		run = memreg_real_run(sizing, sizing->smallest);
	}
	keep_run(sizing);
	if (!run->ran)
		not_verified(sizing, "%s", run->why);
	else if (!memreg_run_clean(run))
		not_verified(sizing, "a real run is not clean even %s above what the replay found",
			     "8 steps");
	return memreg_run_clean(run);
}

static bool verify_below(struct memreg_sizing *sizing)
{
	uint64_t step = sizing->found.step_bytes;

	if (sizing->below_step > 0) {
		sizing->run[sizing->runs++] = sizing->below_run; /* it was tried before */
		return true;
	}
	for (int i = 0; i < CORRECTIONS; i++) {
		const struct memreg_run *run;

		if (sizing->smallest < TWI_REPLAY_POOL_MIN + step)
			return true; /* no pool is smaller */
		sizing->below_step = sizing->smallest - step;
		run = memreg_real_run(sizing, sizing->below_step);
		if (!run->ran) {
			not_verified(sizing, "a step below: %s", run->why);
			return false;
		}
		if (!memreg_run_clean(run)) {
			keep_run(sizing);
			return true;
		}
		sizing->run[0] = *run;
		sizing->smallest -= step;
	}
	not_verified(sizing, "real runs are clean %s below what the replay found, too", "8 steps");
	return false;
}

/* A real run may have changed the size since the replay, and arenas differ. */
static bool named_fits(const struct memreg_sizing *sizing)
{
	bool is_found = sizing->smallest == sizing->found.bytes && sizing->headroom == 0;

	return (is_found && !memreg_arena_any(sizing)) ||
	       memreg_arena_fits(sizing, sizing->smallest + sizing->headroom);
}

/*
 * Verifies the size with its headroom. Threads meet in another order in each run, so this run may
 * miss what the one with less memory did not: what it misses raises the headroom.
 */
static bool verify_named(struct memreg_sizing *sizing)
{
	const struct memreg_run *run = memreg_real_run(sizing, sizing->named);

	for (int i = 0; run->ran && !memreg_run_clean(run) && i < CORRECTIONS; i++) {
		sizing->headroom += sizing->found.step_bytes;
		sizing->named = sizing->smallest + sizing->headroom;
		run = memreg_real_run(sizing, sizing->named);
	}
	keep_run(sizing);
	if (!memreg_run_clean(run))
		not_verified(sizing, "the size that is named: %s",
			     run->ran ? "its run is not clean even 8 steps above" : run->why);
	return memreg_run_clean(run);
}

static void verify_size(struct memreg_sizing *sizing)
{
	bool good = verify_smallest(sizing) && verify_below(sizing);

	for (int i = 0; i < BOTH_STEPS && !named_fits(sizing); i++)
		sizing->headroom += sizing->found.step_bytes;
	sizing->named = sizing->smallest + sizing->headroom;
	sizing->verified = good && (sizing->headroom == 0 || verify_named(sizing));
}

static void scale_by_missing(struct memreg_sizing *sizing)
{
	const struct memreg_job *job = &sizing->job;
	double factor = missing_factor(job), rest;
	/* The memory from before the log is known exactly. */
	uint64_t known = twi_max(sizing->own.bytes, job->before_bytes);

	sizing->named = sizing->smallest + sizing->headroom;
	if (factor <= 1)
		return;
	rest = (double)(sizing->named - twi_min(sizing->named, known)) * factor;
	sizing->named = twi_align_up(known + (uint64_t)rest, sizing->found.step_bytes);
	sizing->headroom = 0;
	sizing->verified = false;
	snprintf(sizing->verified_why, sizeof(sizing->verified_why),
		 "the log holds 1 of %.4g allocations, so the size is scaled by %.4g and an "
		 "estimate: record again with a larger alloclog_events",
		 factor, factor);
}

/* A long log takes a second for each run and replay. */
static bool is_short(const struct memreg_sizing *sizing)
{
	return sizing->options->quick || sizing->job.replay->count > MEMREG_LARGE_LOG;
}

static void replay_curve(struct memreg_sizing *sizing)
{
	uint64_t grain = 64u << 10;

	for (size_t i = 0; i < twi_array_count(percents); i++) {
		uint64_t bytes = sizing->named / 100 * percents[i] / grain * grain;
		struct memreg_run *run;

		/* Exact, as other programs check this size. */
		if (percents[i] == 90)
			bytes = sizing->named / 10 * 9;
		if (bytes < TWI_REPLAY_POOL_MIN || (i >= CURVE_SHORT && is_short(sizing)))
			continue;
		run = memreg_real_run(sizing, bytes);
		sizing->clean_at_90 =
			sizing->clean_at_90 || (percents[i] == 90 && memreg_run_clean(run));
		keep_run(sizing);
	}
}

/* Replays the same sizes and some between them. */
static int replay_shadow(struct memreg_sizing *sizing)
{
	uint32_t points = is_short(sizing) ? 6 : 33;
	struct twi_replay_result result[MEMREG_SHADOW];
	struct twi_replay_pool pool[MEMREG_SHADOW];
	uint64_t grain = 64u << 10;

	memreg_progress("replaying smaller pools", 90, 100);
	for (uint32_t i = 0; i < points; i++) {
		uint64_t bytes =
			sizing->smallest / 100 * (20 + i * 85 / (points - 1)) / grain * grain;

		if (bytes < TWI_REPLAY_POOL_MIN)
			continue;
		sizing->shadow[sizing->shadows].bytes = bytes;
		pool[sizing->shadows++] = memreg_arena_pool(sizing, bytes);
	}
	if (twi_replay_run_each(sizing->job.replay, pool, sizing->shadows, TWI_REPLAY_WHOLE,
				result) < 0)
		return memreg_sizing_failed(sizing);
	for (uint32_t i = 0; i < sizing->shadows; i++) {
		sizing->shadow[i].missed = result[i].missed;
		sizing->shadow[i].missed_bytes = result[i].missed_bytes;
	}
	return 0;
}

static void measure_runs(struct memreg_sizing *sizing)
{
	uint64_t bytes = twi_min(twi_min(sizing->named, GIB), memreg_ram_available() / 3);

	memreg_progress("timing premap and late registrations", 96, 100);
	sizing->rows = (struct memreg_rows){ .quick = sizing->options->quick,
					     .rounds = sizing->options->quick ? 1 : 3 };
	/* An unverified size had no runs, so its answer comes soon. */
	if (!sizing->verified)
		bytes = twi_min(bytes, 256 * MIB);
	if (sizing->options->quick)
		bytes = twi_min(bytes, 64 * MIB);
	memreg_measure_premap(&sizing->rows, bytes & ~(uint64_t)4095, !sizing->options->quick);
	memreg_measure_late(&sizing->rows);
}

static int compare_runs(const void *a, const void *b)
{
	const struct memreg_run *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/*
 * Frees all but the recorded order of the log, which is enough from here on. So the largest pool of
 * a real run and the data on a long log are not in memory at once.
 */
static int keep_little(struct memreg_sizing *sizing)
{
	struct twi_replay *replay = sizing->job.replay;

	/* A picture shows the owners over time. */
	if (sizing->options->svg == NULL && twi_replay_slim(replay) < 0)
		return memreg_sizing_failed(sizing);
	return 0;
}

static void add_hidden_need(struct memreg_sizing *sizing)
{
	if (memreg_gaps_hide(&sizing->job))
		sizing->headroom +=
			twi_align_up(sizing->smallest / GAPS_PART, sizing->found.step_bytes);
}

static void tell_gaps(struct memreg_sizing *sizing)
{
	const struct memreg_job *job = &sizing->job;

	if (!sizing->verified || !memreg_gaps_hide(job))
		return;
	sizing->verified = false;
	snprintf(sizing->verified_why, sizeof(sizing->verified_why),
		 "the log has %" PRIu64 " of %" PRIu64 " steps, and in the others several threads "
		 "may have needed more: a sixth is added; alloclog_events = %" PRIu64
		 " would hold all",
		 job->replay->steps, job->replay->steps + job->gaps.steps,
		 job->replay->count + job->gaps.events);
}

int memreg_find_need(struct memreg_sizing *sizing)
{
	int rc = search_arenas(sizing);

	if (rc == 0 && sizing->job.strategy[0] == '\0')
		rc = memreg_try_others(sizing);
	if (rc == 0)
		rc = keep_little(sizing);
	if (rc != 0)
		return rc;
	add_hidden_need(sizing);
	memreg_allow_fused(sizing);
	memreg_keep_spread(sizing);
	verify_size(sizing);
	scale_by_missing(sizing);
	if (sizing->verified && sizing->capped) {
		sizing->verified = false;
		not_verified(sizing, "%s", "its need differs by more than a third from run to run");
	}
	tell_gaps(sizing);
	if (sizing->verified && sizing->other_arena[0] != '\0') {
		sizing->verified = false;
		not_verified(sizing, "%s", sizing->other_arena);
	}
	return 0;
}

static int find_size(struct memreg_sizing *sizing)
{
	int rc = memreg_find_need(sizing);

	if (rc != 0)
		return rc;
	replay_curve(sizing);
	qsort(sizing->run, sizing->runs, sizeof(sizing->run[0]), compare_runs);
	rc = replay_shadow(sizing);
	if (rc == 0)
		rc = memreg_budget_fill(sizing);
	if (rc == 0)
		measure_runs(sizing);
	return rc;
}

int memreg_check_size(struct memreg_sizing *sizing)
{
	struct twi_replay_pool pool;
	int rc = memreg_arena_at(sizing, sizing->options->premap);

	if (rc != 0)
		return rc;
	pool = memreg_arena_pool(sizing, sizing->options->premap);
	sizing->named = sizing->smallest = sizing->options->premap;
	if (twi_replay_slim(sizing->job.replay) < 0 ||
	    twi_replay_run(sizing->job.replay, &pool, TWI_REPLAY_LOOK, &sizing->peak) < 0)
		return memreg_sizing_failed(sizing);
	memreg_real_run(sizing, sizing->named);
	keep_run(sizing);
	sizing->verified =
		memreg_run_clean(&sizing->run[0]) && memreg_arena_fits(sizing, sizing->named);
	if (!sizing->verified)
		not_verified(sizing, "%s",
			     !sizing->run[0].ran ? sizing->run[0].why
			     : !memreg_run_clean(&sizing->run[0])
				     ? "its run is not clean"
				     : "the log does not fit in it in each arena");
	return 0;
}

int memreg_size(const struct memreg_options *options)
{
	struct memreg_sizing *sizing = calloc(1, sizeof(*sizing));
	int rc;

	if (sizing == NULL)
		return MEMREG_FAULT;
	sizing->options = options;
	rc = memreg_job_open(options, &sizing->job);
	if (rc == 0)
		rc = memreg_find_owners(sizing);
	if (rc == 0)
		rc = memreg_arena_choose(sizing);
	if (rc == 0)
		rc = options->premap > 0 ? memreg_check_size(sizing) : find_size(sizing);
	memreg_progress(NULL, 0, 0);
	if (rc == 0 && options->svg != NULL && options->premap == 0)
		rc = memreg_svg(sizing, options->svg);
	if (rc == 0 && options->json)
		rc = memreg_json(sizing);
	else if (rc == 0)
		memreg_report(sizing);
	if (rc == 0 && !sizing->verified)
		rc = options->premap > 0 ? MEMREG_FAULT : MEMREG_UNVERIFIED;
	memreg_rows_free(&sizing->rows);
	memreg_job_close(&sizing->job);
	free(sizing);
	return rc;
}
