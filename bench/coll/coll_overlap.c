/*
 * coll_overlap.c - measures how much of a collective is hidden behind a compute loop.
 *
 * There are three phases in turn, each begun by all ranks together: the collective alone, the loop
 * alone, and both. In the last one the collective is started before the loop and awaited after it.
 * The loop is arithmetic in registers of about the collective's time, and never calls the library.
 * Figures are medians of the slowest rank. The hidden share is (alone + loop - both) / the shorter
 * of the two.
 *
 * The CPU time of the communication bounds the hidden share. Where it needs CPUs (loopback,
 * reductions) and the loops use all CPUs as well, the two times add up. So the CPU time that a rank
 * used beside the loop is printed too. With --apart the library's threads have a CPU on which no
 * loop runs. Then only they move the collective, in all three phases.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench/coll/tow_coll.h"

#define TURNS_MIN    5
#define TURNS_MAX    101
#define CALIBRATIONS 5
#define NAP_NS       20000

enum phase { COMM, COMPUTE, BOTH, PHASES };

struct overlap {
	const struct coll_case *what;
	struct coll_slot slot;
	uint64_t turns;
	double loops; /* length of the compute loop */
	double *times[PHASES];
	double background_s; /* CPU time beside the loop, over all turns of BOTH */
};

static volatile double kept; /* keeps the loop from being optimised away */

/* A chain of dependent multiplications, so that its time is proportional to its length. */
static void compute_loops(double loops)
{
	double x = 1.0;

	for (uint64_t i = 0; i < (uint64_t)loops; i++)
		x = x * 0.999999 + 1e-9;
	kept = x;
}

/* Waits without moving anything; the library's thread does that. */
static int await_apart(struct coll_rank *rank, struct coll_slot *slot, const char *what)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	struct tow_result result = { .size = sizeof(result) };

	while (tow_op_result(slot->op, &result) == TOW_AGAIN)
		nanosleep(&nap, NULL);
	return coll_finish(rank, slot, what);
}

static void pin_to_cpu(pid_t thread, long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	if (sched_setaffinity(thread, sizeof(set), &set) != 0)
		perror("tow-coll: --apart: sched_setaffinity");
}

/* Puts this thread on the first CPU, and all others of the process on the last. */
static void pin_threads_apart(void)
{
	long last = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;

	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread > 0)
			pin_to_cpu(thread, thread == getpid() ? 0 : last);
	}
	if (tasks != NULL)
		closedir(tasks);
}

/* Runs one phase of one turn. *time_out is the slowest rank's time. */
static int phase_run(struct coll_rank *rank, struct overlap *o, enum phase phase, double *time_out)
{
	double begin, cpu;
	int rc = coll_barrier(rank);

	cpu = coll_cpu();
	begin = coll_now();
	if (rc == 0 && phase != COMPUTE) {
		rc = coll_start(rank, o->what, &o->slot);
		rc = rc < 0 ? coll_failed(rank, coll_kind_names[o->what->kind], rc) : rc;
	}
	if (rc == 0 && phase != COMM)
		compute_loops(o->loops);
	if (rc == 0 && phase != COMPUTE)
		rc = (rank->options->apart ? await_apart : coll_finish)(
			rank, &o->slot, coll_kind_names[o->what->kind]);
	begin = coll_now() - begin;
	if (phase == BOTH)
		o->background_s += coll_cpu() - cpu;
	if (phase == COMPUTE)
		o->background_s -= coll_cpu() - cpu;
	return rc == 0 ? coll_agree(rank, begin, TOW_MAX, time_out) : rc;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *values, uint64_t count)
{
	qsort(values, count, sizeof(values[0]), by_value);
	return values[count / 2];
}

/* Sets the loop to the length of the collective: the shortest of a few of each, after a warm-up. */
static int calibrate_loops(struct coll_rank *rank, struct overlap *o)
{
	double comm = 1e9, loop = 1e9, took = 0;
	int rc = phase_run(rank, o, COMM, &took);

	o->loops = 1e6;
	for (int i = 0; i < CALIBRATIONS && rc == 0; i++) {
		rc = phase_run(rank, o, COMM, &took);
		comm = took < comm ? took : comm;
		if (rc == 0)
			rc = phase_run(rank, o, COMPUTE, &took);
		loop = took < loop ? took : loop;
	}
	o->loops *= comm / loop;
	o->turns = (uint64_t)(rank->options->seconds / (comm * 4));
	o->turns = o->turns < TURNS_MIN ? TURNS_MIN : o->turns > TURNS_MAX ? TURNS_MAX : o->turns;
	o->background_s = 0;
	return rc;
}

static int measure_overlap(struct coll_rank *rank, struct overlap *o,
			   struct coll_overlap_result *result)
{
	double shorter;
	int rc = 0;

	for (uint64_t turn = 0; turn < o->turns && rc == 0; turn++)
		for (int phase = COMM; phase < PHASES && rc == 0; phase++)
			rc = phase_run(rank, o, (enum phase)phase, &o->times[phase][turn]);
	if (rc != 0)
		return rc;
	result->comm_s = median_of(o->times[COMM], o->turns);
	result->compute_s = median_of(o->times[COMPUTE], o->turns);
	result->both_s = median_of(o->times[BOTH], o->turns);
	shorter = result->comm_s < result->compute_s ? result->comm_s : result->compute_s;
	result->hidden = (result->comm_s + result->compute_s - result->both_s) / shorter;
	rc = coll_agree(rank, o->background_s / (double)o->turns, TOW_SUM, &result->background_s);
	result->background_s /= rank->ranks;
	return rc;
}

int coll_run_overlap(struct coll_rank *rank, enum coll_kind kind, uint64_t bytes)
{
	struct coll_case what = coll_case_make(rank->options, kind, bytes, rank->ranks);
	struct coll_overlap_result result = { 0, 0, 0, 0, 0 };
	struct overlap o = { .what = &what, .slot = coll_slot_make(rank, &what, 0) };
	int rc;

	what.seed = bytes;
	coll_fill(rank, &what, &o.slot);
	if (rank->options->apart)
		pin_threads_apart();
	rc = calibrate_loops(rank, &o);
	for (int phase = COMM; phase < PHASES && rc == 0; phase++) {
		o.times[phase] = calloc(o.turns, sizeof(double));
		if (o.times[phase] == NULL)
			rc = coll_failed(rank, "memory for the times", TOW_ENOMEM);
	}
	if (rc == 0)
		rc = measure_overlap(rank, &o, &result);
	/* Runs once more in the same way, as the last result in place is one of many. */
	what.seed++;
	coll_fill(rank, &what, &o.slot);
	if (rc == 0)
		rc = phase_run(rank, &o, BOTH, &(double){ 0 });
	if (rc == 0) {
		coll_verify(rank, &what, &o.slot);
		coll_report_overlap(rank, &what, &result);
	}
	for (int phase = COMM; phase < PHASES; phase++)
		free(o.times[phase]);
	return rc;
}
