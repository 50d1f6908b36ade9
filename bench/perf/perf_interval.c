/*
 * perf_interval.c - prints rates while a measurement runs: a line for each interval (--interval).
 *
 * Only rank 0 counts, in the timed phase. An interval ends with the first message, or window of
 * messages, that completes after its time is over. So it is a little longer, and rates use the time
 * that it really took. The last interval is shorter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/perf/perf.h"

void perf_interval_open(struct perf_side *side, enum perf_op op, uint64_t bytes)
{
	struct perf_intervals *all = &side->intervals;

	perf_interval_close(side);
	*all = (struct perf_intervals){ .op = op, .bytes = bytes };
	all->on = side->rank == 0 && side->options->interval > 0;
}

void perf_interval_close(struct perf_side *side)
{
	free(side->intervals.rows);
	side->intervals = (struct perf_intervals){ .rows = NULL };
}

void perf_interval_start(struct perf_side *side)
{
	struct perf_intervals *all = &side->intervals;

	if (all->on)
		all->start_s = all->from_s = perf_now();
}

/* Ends an interval: prints it at once, and keeps it for documents. */
static void end_interval(struct perf_side *side, double now)
{
	struct perf_intervals *all = &side->intervals;
	struct perf_interval row = { .from_s = all->from_s - all->start_s,
				     .to_s = now - all->start_s,
				     .messages = all->messages,
				     .max_us = all->wait_max_s * 1e6 };
	double took = now - all->from_s;
	struct perf_interval *rows;

	if (took > 0) {
		row.mbps = (double)all->messages * (double)all->bytes / took / 1e6;
		row.msgps = (double)all->messages / took;
	}
	if (all->waits > 0)
		row.mean_us = all->wait_sum_s / (double)all->waits * 1e6;
	perf_report_interval(side->options, all, &row);
	if (all->count % 64 == 0) {
		rows = realloc(all->rows, (all->count + 64) * sizeof(*rows));
		if (rows == NULL) {
			fprintf(stderr, "tow-perf: no memory for intervals; they end here\n");
			all->on = false;
			return;
		}
		all->rows = rows;
	}
	all->rows[all->count++] = row;
	all->from_s = now;
	all->messages = all->waits = 0;
	all->wait_sum_s = all->wait_max_s = 0;
}

void perf_interval_add(struct perf_side *side, uint64_t messages, double wait_s, double now)
{
	struct perf_intervals *all = &side->intervals;

	if (!all->on)
		return;
	all->messages += messages;
	if (wait_s >= 0) {
		all->waits++;
		all->wait_sum_s += wait_s;
		if (wait_s > all->wait_max_s)
			all->wait_max_s = wait_s;
	}
	if (now - all->from_s >= side->options->interval)
		end_interval(side, now);
}

void perf_interval_end(struct perf_side *side)
{
	struct perf_intervals *all = &side->intervals;

	if (all->on && all->messages > 0)
		end_interval(side, perf_now());
	all->on = false;
}
