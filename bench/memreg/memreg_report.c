/*
 * memreg_report.c - a sizing as text, the answer first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/memreg/memreg_size.h"

static double to_mib(uint64_t bytes)
{
	return (double)bytes / MEMREG_MIB;
}

/* What the replay has left out, since nothing of it is live. */
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

/* What stays is no fault by itself; what is more after each step is. */
static void print_leaks(const struct twi_replay *replay)
{
	if (replay->never_freed == 0)
		return;
	printf("  never freed: %" PRIu64 " blocks, %.2f MiB; of that %.2f MiB were allocated in "
	       "the second half of the log\n",
	       replay->never_freed, to_mib(replay->never_freed_bytes), to_mib(replay->late_bytes));
	if (replay->step_growth_bytes > 0)
		printf("  warning: a leak? what is live grows by %.3f MiB a step; a longer job "
		       "needs "
		       "more than this size\n",
		       to_mib(replay->step_growth_bytes));
}

static void print_head(const struct memreg_sizing *s)
{
	const struct twi_replay *replay = s->job.replay;

	printf("\n%s%s%s: %" PRIu64 " allocations, %" PRIu64 " steps, %" PRIu32
	       " threads; at most %.1f MiB live, %.1f MiB the largest\n",
	       s->job.source, s->job.strategy[0] ? ", " : "", s->job.strategy, replay->allocs,
	       replay->steps, replay->threads, to_mib(replay->peak_bytes),
	       to_mib(replay->largest_bytes));
	printf("  pool: arena %s%s, %.2f MiB of it the runtime's, pages of %" PRIu64 " bytes\n",
	       s->own.arena,
	       s->options->arena != NULL ? " (as asked for)"
	       : s->job.arena[0] != '\0' ? " (as the log says)"
	       : s->job.strategy[0] != '\0'
		       ? " (as in programs that do not link jemalloc)"
		       : " (the log does not say: of those that there are here "
			 "the one that needs more)",
	       to_mib(s->own.bytes), s->own.page_bytes);
	for (uint32_t i = 0; i < s->job.plan.assumption_count; i++) {
		const struct strategy_assumption *row = &s->job.plan.assumptions[i];

		printf("  assumed: %s = %" PRIu64 ", %s\n", row->name, row->value, row->meaning);
	}
	if (s->job.lane[0] != '\0')
		printf("  assumed: lane = %s, of collectives; and the knobs of this environment\n",
		       s->job.lane);
	print_frees(replay);
	print_leaks(replay);
	if (s->job.sampled > 1 || s->job.lost > 0)
		printf("  the log is not whole: 1 of %.4g allocations, %" PRIu64 " events lost\n",
		       s->job.sampled, s->job.lost);
}

static void print_run(const struct memreg_run *run)
{
	printf("  %10.2f", to_mib(run->bytes));
	if (!run->ran) {
		printf("  not run: %s\n", run->why);
		return;
	}
	printf("  %6" PRIu64 "  %9" PRIu64 "  %9.2f  %7" PRIu64 "  %11.0f  %11.0f  %s%s\n",
	       run->late, run->fallback,
	       to_mib(run->fallback_bytes / (run->steps ? run->steps : 1)),
	       run->refused + run->overflowed + run->waited, run->first_step_us, run->step_us,
	       memreg_run_clean(run) ? "clean" : "NOT clean", run->cut ? " (cut short)" : "");
}

static void print_runs(const struct memreg_sizing *s)
{
	printf("\nreal runs\n  %10s  %6s  %9s  %9s  %7s  %11s  %11s\n", "pool MiB", "late",
	       "copies", "MiB/step", "refused", "1st step us", "step us");
	for (uint32_t i = 0; i < s->runs; i++)
		print_run(&s->run[i]);
}

static void print_budget(const struct memreg_sizing *s)
{
	printf("\nthe sum\n");
	for (uint32_t i = 0; i < s->budget.count; i++) {
		const struct twi_budget_line *line = &s->budget.line[i];

		printf("  %-38s %12.2f MiB  %s\n", line->name, to_mib(line->bytes), line->why);
	}
	printf("  %-38s %12.2f MiB\n", "premap_memory_bytes", to_mib(twi_budget_sum(&s->budget)));
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
	printf("premap_memory_bytes=%" PRIu64 "  (%.2f MiB), %s%s\n", s->named, to_mib(s->named),
	       s->verified ? "verified" : "named, not verified: ",
	       s->verified ? "" : s->verified_why);
	if (s->verified && s->below_step > 0)
		printf("  a run at this size has 0 late registrations and 0 fallback copies; one "
		       "of %.2f MiB has not\n",
		       to_mib(s->below_step));
	else if (s->verified)
		printf("  a run at this size has 0 late registrations and 0 fallback copies; no "
		       "pool is smaller\n");
	printf("  headroom: %.2f MiB%s%s; at the peak %.2f MiB of the pool are free\n",
	       to_mib(s->headroom), s->orders > 0 ? " for other runs of the program" : "",
	       s->capped ? " (cap reached: some of them need more)" : "",
	       to_mib(s->peak.free_bytes));
	if (memreg_any_order(s) > 0)
		printf("  any order of the threads: at most %.2f MiB are live at once, staging "
		       "included; free pieces between blocks are not\n",
		       to_mib(memreg_any_order(s)));
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
	print_runs(s);
	if (s->options->premap == 0) {
		print_rows(&s->rows, "premap", "time to premap, by page kind");
		print_rows(&s->rows, "late", "cost of one late registration, by size");
	}
	fflush(stdout);
}
