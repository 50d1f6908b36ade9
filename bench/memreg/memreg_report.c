/*
 * memreg_report.c - prints a sizing as text, with the answer first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/memreg/memreg_size.h"

#define NAME_WIDTH 44

/* Prints the frees that the replay has left out, as their blocks are not live. */
static void print_frees(const struct twi_replay *replay)
{
	if (replay->double_frees > 0)
		printf("  warning: %" PRIu64
		       " frees are of what was freed already: they are left out\n",
		       replay->double_frees);
	if (replay->unmatched_frees > replay->double_frees)
		printf("  warning: %" PRIu64 " frees are of ids that the log has not allocated, or "
		       "freed long before: they "
		       "are left out\n",
		       replay->unmatched_frees - replay->double_frees);
}

static bool is_known(const struct memreg_sizing *s, const struct twi_replay_group *group)
{
	return group->bytes > 0 &&
	       (group->tag != 0 || group->caller != 0 || s->job.strategy[0] != '\0');
}

/* Blocks that are never freed are no fault by themselves; a growth with each step is. */
static void print_leaks(const struct memreg_sizing *s)
{
	const struct twi_replay *replay = s->job.replay;
	const struct twi_replay_group *left = &s->leaks.left, *grown = &s->leaks.grown;
	char who[3 * MEMREG_NAME_ROOM];

	if (replay->never_freed == 0)
		return;
	printf("  never freed: %" PRIu64 " block%s, %s; of that %s were allocated in the second "
	       "half of the log\n",
	       replay->never_freed, replay->never_freed == 1 ? "" : "s",
	       memreg_as_text(replay->never_freed_bytes).text,
	       memreg_as_text(replay->late_bytes).text);
	memreg_culprit_text(&s->job, left, who, sizeof(who));
	if (is_known(s, left))
		printf("    most of it, %s in %" PRIu64 " block%s: %s\n",
		       memreg_as_text(left->bytes).text, left->allocations,
		       left->allocations == 1 ? "" : "s", who);
	if (replay->step_growth_bytes == 0)
		return;
	printf("  warning: a leak? what is live grows by %s a step; a longer job needs more than "
	       "this size\n",
	       memreg_as_text(replay->step_growth_bytes).text);
	memreg_culprit_text(&s->job, grown, who, sizeof(who));
	if (is_known(s, grown))
		printf("    most of it, %s in %" PRIu64
		       " block%s over the second half of the steps: %s\n",
		       memreg_as_text(grown->bytes).text, grown->allocations,
		       grown->allocations == 1 ? "" : "s", who);
}

static void print_head(const struct memreg_sizing *s)
{
	const struct twi_replay *replay = s->job.replay;

	printf("\n%s%s%s: %" PRIu64 " allocations, %" PRIu64 " steps, %" PRIu32
	       " thread%s; at most %s live, %s the largest\n",
	       s->job.source, s->job.strategy[0] ? ", " : "", s->job.strategy, replay->allocs,
	       replay->steps, replay->threads, replay->threads == 1 ? "" : "s",
	       memreg_as_text(replay->peak_bytes).text, memreg_as_text(replay->largest_bytes).text);
	printf("  pool: arena %s%s, %s of it the runtime's, pages of %s\n", s->own.arena,
	       s->options->arena != NULL ? " (as asked for)"
	       : s->job.arena[0] != '\0' ? " (as the log says)"
	       : s->job.strategy[0] != '\0'
		       ? " (as in programs that do not link jemalloc)"
		       : " (the log does not say: of those that there are here "
			 "the one that needs more)",
	       memreg_as_text(s->own.bytes).text, memreg_as_text(s->own.page_bytes).text);
	for (uint32_t i = 0; i < s->job.plan.assumption_count; i++) {
		const struct strategy_assumption *row = &s->job.plan.assumptions[i];

		printf("  assumed: %s = %" PRIu64 ", %s\n", row->name, row->value, row->meaning);
	}
	if (s->job.lane[0] != '\0')
		printf("  assumed: lane = %s, of collectives; and the knobs of this environment\n",
		       s->job.lane);
	print_frees(replay);
	print_leaks(s);
	if (s->job.gaps.count > 0)
		printf("  the log has gaps: %" PRIu64 " of %" PRIu64
		       " steps are in it, the first, the "
		       "latest and those with the highest peaks; %" PRIu64
		       " events of blocks that came and went between them are left out\n",
		       replay->steps, replay->steps + s->job.gaps.steps, s->job.gaps.events);
	if (s->job.sampled > 1 || s->job.lost > 0)
		printf("  the log is not whole: 1 of %.4g allocations, %" PRIu64 " events lost\n",
		       s->job.sampled, s->job.lost);
}

static void print_run(const struct memreg_run *run)
{
	printf("  %12s", memreg_as_text(run->bytes).text);
	if (!run->ran) {
		printf("  not run: %s\n", run->why);
		return;
	}
	printf("  %6" PRIu64 "  %9" PRIu64 "  %12s  %7" PRIu64 "  %11.0f  %11.0f  %s%s\n",
	       run->late, run->fallback,
	       memreg_as_text(run->fallback_bytes / (run->steps ? run->steps : 1)).text,
	       run->refused + run->overflowed + run->waited, run->first_step_us, run->step_us,
	       memreg_run_clean(run) ? "clean" : "NOT clean", run->cut ? " (cut short)" : "");
}

static void print_runs(const struct memreg_sizing *s)
{
	printf("\nreal runs\n  %12s  %6s  %9s  %12s  %7s  %11s  %11s\n", "pool", "late", "copies",
	       "copied/step", "refused", "1st step us", "step us");
	for (uint32_t i = 0; i < s->runs; i++)
		print_run(&s->run[i]);
}

/* Names that are symbols can be long. The list of call sites has them whole. */
static void print_line(const char *name, uint64_t bytes, const char *why)
{
	bool cut = strlen(name) > NAME_WIDTH;

	printf("  %-*.*s%s %17" PRIu64 " %14s  %s\n", cut ? NAME_WIDTH - 3 : NAME_WIDTH,
	       cut ? NAME_WIDTH - 3 : NAME_WIDTH, name, cut ? "..." : "", bytes,
	       memreg_as_text(bytes).text, why);
}

static void print_budget(const struct memreg_sizing *s)
{
	printf("\nthe sum, in bytes\n");
	for (uint32_t i = 0; i < s->budget.count; i++)
		print_line(s->budget.line[i].name, s->budget.line[i].bytes, s->budget.line[i].why);
	print_line("premap_memory_bytes", twi_budget_sum(&s->budget), "");
}

static void print_sites(const struct memreg_sizing *s)
{
	char name[MEMREG_NAME_ROOM];

	if (s->sites > 0)
		printf("\ncall sites with the most bytes live at the peak\n");
	for (uint32_t i = 0; i < s->sites; i++) {
		memreg_caller_text(&s->job, s->site[i].caller, name, sizeof(name));
		printf("  %14s  %7" PRIu64 " block%s %s\n", memreg_as_text(s->site[i].bytes).text,
		       s->site[i].allocations, s->site[i].allocations == 1 ? " " : "s", name);
	}
}

static void print_rows(const struct memreg_rows *rows, const char *table, const char *title)
{
	char size[32];

	printf("\n%s\n", title);
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct memreg_row *row = &rows->row[i];

		if (strcmp(row->table, table) != 0)
			continue;
		printf("  %-28s %10s  %d thr  ", row->what,
		       memreg_bytes_text(row->bytes, size, sizeof(size)), row->threads);
		if (row->why[0] != '\0')
			printf("not measured: %s\n", row->why);
		else
			printf("%12.1f us\n", row->ns / 1e3);
	}
}

static void print_answer(const struct memreg_sizing *s)
{
	if (s->options->premap > 0) {
		printf("premap_memory_bytes=%" PRIu64 " is %s\n", s->named,
		       s->verified ? "enough: 0 late registrations, 0 fallback copies"
				   : "not shown to be enough");
		if (!s->verified)
			printf("  %s\n", s->verified_why);
		return;
	}
	printf("premap_memory_bytes=%" PRIu64 "  (%s), %s%s\n", s->named,
	       memreg_as_text(s->named).text, s->verified ? "verified" : "named, not verified: ",
	       s->verified ? "" : s->verified_why);
	if (s->verified && s->below_step > 0)
		printf("  a run at this size has 0 late registrations and 0 fallback copies; one "
		       "of %s has not\n",
		       memreg_as_text(s->below_step).text);
	else if (s->verified)
		printf("  a run at this size has 0 late registrations and 0 fallback copies; no "
		       "pool is smaller\n");
	printf("  headroom: %s%s%s; at the peak %s of the pool are free\n",
	       memreg_as_text(s->headroom).text,
	       s->orders > 0 || s->job.fuses ? " for other runs of the program" : "",
	       s->capped ? " (cap reached: some of them need more)" : "",
	       memreg_as_text(s->peak.free_bytes).text);
	if (memreg_any_order(s) > 0)
		printf("  any order of the threads: at most %s are live at once, staging "
		       "included; free pieces between blocks are not\n",
		       memreg_as_text(memreg_any_order(s)).text);
	if (s->clean_at_90)
		printf("  not monotone: a real run with 90 %% of it was clean too\n");
	if (s->found.above_missed > 0)
		printf("  fragile: %" PRIu64 " of the next 4 larger sizes do not fit\n",
		       s->found.above_missed);
}

void memreg_report(const struct memreg_sizing *s)
{
	print_answer(s);
	print_head(s);
	if (s->options->premap == 0)
		print_budget(s);
	print_sites(s);
	print_runs(s);
	if (s->options->premap == 0) {
		print_rows(&s->rows, "premap", "time to premap, by page kind");
		print_rows(&s->rows, "late", "cost of one late registration, by size");
	}
	fflush(stdout);
}
