/*
 * memreg_several.c - finds one premap_memory_bytes for several logs: ranks of a job, or runs of a
 * program.
 *
 *   each       what each log needs by itself, as memreg_size.c finds it
 *   fit        the largest need, raised until the replay of each log fits. A log may, rarely, not
 *              fit in a pool that is larger than the one that it needs.
 *   verify     a real run of each log at that size, and one log a step below the smallest size
 *   share      how many of the logs fit in the needs of the others
 *
 * All of them are for one pool, so they have one arena. Each log keeps its own staging and pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/memreg_several.h"
#include <internal/base.h>

#define FIT_STEPS   64 /* above the largest need, for a size in which all logs fit */
#define CORRECTIONS 8

static int open_logs(struct memreg_several *all)
{
	bool is_read = false;
	int rc = 0;

	for (uint32_t i = 0; i < all->count && rc == 0; i++) {
		const char *file = all->options->replays[i];

		if (strcmp(file, "-") == 0 && is_read) {
			fprintf(stderr, "tow-size: --replay -: the standard input can be read "
					"only once\n");
			return MEMREG_USAGE;
		}
		is_read = is_read || strcmp(file, "-") == 0;
		all->option[i] = *all->options;
		all->option[i].replay = file;
		all->log[i].options = &all->option[i];
		rc = memreg_job_open(&all->option[i], &all->log[i].job);
	}
	return rc;
}

/* Logs that name no arena get the arena of those that do. */
static int agree_arena(struct memreg_several *all)
{
	const struct memreg_job *named = NULL;

	for (uint32_t i = 0; i < all->count && all->options->arena == NULL; i++) {
		const struct memreg_job *job = &all->log[i].job;

		if (named == NULL && job->arena[0] != '\0')
			named = job;
		if (job->arena[0] == '\0' || strcmp(named->arena, job->arena) == 0)
			continue;
		fprintf(stderr,
			"tow-size: the pool of %s has the arena %s, and that of %s has %s: "
			"--arena says which one to size for\n",
			named->source, named->arena, job->source, job->arena);
		return MEMREG_USAGE;
	}
	for (uint32_t i = 0; i < all->count && named != NULL; i++)
		if (all->log[i].job.arena[0] == '\0')
			snprintf(all->log[i].job.arena, sizeof(named->arena), "%s", named->arena);
	return 0;
}

/*
 * Probes the runtime of a log with a pool of `bytes`. Logs of one job have the same, so the last
 * result is used again.
 */
static int take_size(struct memreg_several *all, uint32_t i, uint64_t bytes)
{
	struct memreg_sizing *log = &all->log[i], *last = &all->log[i > 0 ? i - 1 : 0];
	int rc = 0;

	if (i > 0 && all->probed_bytes[i - 1] == bytes &&
	    strcmp(last->own.arena, log->own.arena) == 0 &&
	    last->job.staging_bytes == log->job.staging_bytes &&
	    last->job.page_bytes == log->job.page_bytes)
		log->own = last->own;
	else
		rc = memreg_arena_at(log, bytes);
	all->probed_bytes[i] = bytes;
	return rc;
}

static bool is_estimate(const struct memreg_sizing *log)
{
	return log->job.sampled > 1 || log->job.lost > 0;
}

/* Whether the log fits as it was recorded. */
static int replay_log(struct memreg_several *all, uint32_t i, uint64_t bytes, bool *fits_out)
{
	int rc = take_size(all, i, bytes);

	*fits_out = rc == 0 && memreg_arena_fits(&all->log[i], bytes);
	return rc;
}

static int run_log(struct memreg_several *all, uint32_t i, uint64_t bytes, struct memreg_run *out)
{
	int rc = take_size(all, i, bytes);

	if (rc == 0) {
		memreg_arena_force(&all->log[i]);
		*out = *memreg_real_run(&all->log[i], bytes);
	}
	return rc;
}

static int not_shown(struct memreg_several *all, uint32_t i, const char *why)
{
	if (all->verified_why[0] == '\0')
		snprintf(all->verified_why, sizeof(all->verified_why), "%.250s: %s",
			 all->log[i].job.source, why);
	return 0;
}

/* Raises a size until the replay of each log fits in it. */
static int raise_size(struct memreg_several *all, uint64_t *bytes)
{
	uint32_t fitting = 0;
	int rc = 0;

	for (uint32_t steps = 0; fitting < all->count && rc == 0;) {
		bool fits;

		rc = replay_log(all, fitting, *bytes, &fits);
		if (rc == 0 && fits) {
			fitting++;
		} else if (steps++ == FIT_STEPS) {
			return not_shown(all, fitting,
					 "it does not fit in the 64 sizes above the largest need");
		} else {
			fitting = 0;
			*bytes += all->step_bytes;
		}
	}
	return rc;
}

static int size_each(struct memreg_several *all)
{
	int rc = 0;

	for (uint32_t i = 0; i < all->count && rc == 0; i++) {
		struct memreg_sizing *log = &all->log[i];

		rc = memreg_arena_choose(log);
		if (rc == 0)
			rc = memreg_find_need(log);
		if (rc == 0 && log->smallest > all->log[all->worst].smallest)
			all->worst = i;
		all->named = twi_max(all->named, log->named);
	}
	all->smallest = all->log[all->worst].smallest;
	all->step_bytes = all->log[all->worst].found.step_bytes;
	return rc;
}

/* Runs all logs at the named size, which is raised while a run is not clean. */
static int verify_named(struct memreg_several *all)
{
	uint32_t clean = 0;
	int rc = 0;

	for (int steps = 0; clean < all->count && rc == 0;) {
		struct memreg_run *run = &all->run[clean];

		rc = run_log(all, clean, all->named, run);
		if (rc == 0 && !run->ran)
			return not_shown(all, clean, run->why);
		if (rc != 0 || memreg_run_clean(run)) {
			clean++;
		} else if (steps++ == CORRECTIONS) {
			return not_shown(all, clean, "a real run at the size named is not clean");
		} else {
			if (all->smallest == all->named)
				all->smallest += all->step_bytes;
			all->named += all->step_bytes;
			clean = 0;
		}
	}
	return rc;
}

/* Finds a log that is not clean a step below the smallest size: usually the one that needs most. */
static int verify_below(struct memreg_several *all)
{
	uint64_t bytes = all->smallest - all->step_bytes;
	int rc = 0;

	if (all->smallest < TWI_REPLAY_POOL_MIN + all->step_bytes)
		return 0; /* no pool is smaller */
	for (uint32_t k = 0; k < all->count && rc == 0; k++) {
		uint32_t i = (all->worst + k) % all->count;
		struct memreg_run run;

		rc = run_log(all, i, bytes, &run);
		if (rc == 0 && !run.ran)
			return not_shown(all, i, run.why);
		if (rc == 0 && !memreg_run_clean(&run)) {
			all->below_bytes = bytes;
			all->below_log = i;
			return 0;
		}
	}
	return rc != 0 ? rc
		       : not_shown(all, all->worst,
				   "its real run and those of all others are clean a step below, "
				   "too");
}

static int compare_candidates(const void *a, const void *b)
{
	const struct memreg_candidate *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int share_sizes(struct memreg_several *all)
{
	int rc = 0;

	for (uint32_t i = 0; i < all->count; i++) {
		uint64_t bytes = all->log[i].named;
		bool is_new = bytes < all->named;

		for (uint32_t k = 0; k < all->candidates; k++)
			is_new = is_new && all->candidate[k].bytes != bytes;
		if (is_new)
			all->candidate[all->candidates++].bytes = bytes;
	}
	qsort(all->candidate, all->candidates, sizeof(all->candidate[0]), compare_candidates);
	for (uint32_t k = 0; k < all->candidates; k++)
		for (uint32_t i = 0; i < all->count && rc == 0; i++) {
			bool fits;

			rc = replay_log(all, i, all->candidate[k].bytes, &fits);
			/* An incomplete log says nothing below its scaled need. */
			if (is_estimate(&all->log[i]))
				fits = fits && all->log[i].named <= all->candidate[k].bytes;
			all->candidate[k].fits += fits;
		}
	return rc;
}

/* Notes why a size for these logs is an estimate, and the bound for other orders of all of them. */
static void weigh_logs(struct memreg_several *all)
{
	bool known = true;

	for (uint32_t i = 0; i < all->count; i++) {
		const struct memreg_sizing *log = &all->log[i];
		uint64_t bytes = memreg_any_order(log);

		if (is_estimate(log) || memreg_gaps_hide(&log->job) || log->other_arena[0] != '\0')
			not_shown(all, i, log->verified_why);
		known = known && bytes > 0;
		if (bytes > all->any_order) {
			all->any_order = bytes;
			all->any_order_log = i;
		}
	}
	all->any_order = known ? all->any_order : 0;
}

static int find_all(struct memreg_several *all)
{
	int rc = size_each(all);

	if (rc != 0)
		return rc;
	weigh_logs(all);
	rc = raise_size(all, &all->smallest);
	all->named = twi_max(all->named, all->smallest);
	if (rc == 0)
		rc = raise_size(all, &all->named);
	if (rc == 0)
		rc = verify_named(all);
	if (rc == 0)
		rc = verify_below(all);
	if (rc == 0)
		rc = share_sizes(all);
	all->verified = all->verified_why[0] == '\0';
	return rc;
}

/* --premap: counts the logs for which the size is enough. */
static int check_all(struct memreg_several *all)
{
	int rc = 0;

	all->named = all->options->premap;
	for (uint32_t i = 0; i < all->count && rc == 0; i++) {
		rc = memreg_arena_choose(&all->log[i]);
		if (rc == 0)
			rc = memreg_check_size(&all->log[i]);
		all->fits += rc == 0 && all->log[i].verified;
	}
	all->verified = all->fits == all->count;
	return rc;
}

int memreg_several(const struct memreg_options *options)
{
	struct memreg_several *all = calloc(1, sizeof(*all));
	int rc = MEMREG_FAULT;

	if (all == NULL)
		return rc;
	all->options = options;
	all->count = (uint32_t)options->replay_count;
	all->log = calloc(all->count, sizeof(all->log[0]));
	if (all->log != NULL)
		rc = open_logs(all);
	if (rc == 0)
		rc = agree_arena(all);
	if (rc == 0)
		rc = options->premap > 0 ? check_all(all) : find_all(all);
	memreg_progress(NULL, 0, 0);
	if (rc == 0 && options->json)
		rc = memreg_several_json(all);
	else if (rc == 0)
		memreg_several_report(all);
	if (rc == 0 && !all->verified)
		rc = options->premap > 0 ? MEMREG_FAULT : MEMREG_UNVERIFIED;
	for (uint32_t i = 0; all->log != NULL && i < all->count; i++)
		memreg_job_close(&all->log[i].job);
	free(all->log);
	free(all);
	return rc;
}
