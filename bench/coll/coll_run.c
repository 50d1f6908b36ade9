/*
 * coll_run.c - the measured loops, which are the same at all ranks.
 *
 * The method is that of the baselines. One collective warms up, and three show how many fit the
 * time. Then so many (3 to 20,000) run without a barrier between them. The time is the slowest
 * rank's mean. With a depth above one, that many are in flight, each with its own buffers.
 *
 * The first result and the last one are checked in full, outside of the timed region. The timed
 * loop has other input than the first call. In place, a repetition works on the result of the one
 * before. So there one more with fresh input is checked instead of the last.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/coll/tow_coll.h"
#include "bench/common/drive.h"
#include "bench/common/lanes.h"

#define REPETITIONS_MIN 3
#define REPETITIONS_MAX 20000
#define COPY_BYTES      (UINT64_C(32) << 20) /* larger than one CPU's share of the caches */
#define COPY_SECONDS    0.05
/* From these sizes on, CPU time and the bound of memory are reported. */
#define CPU_BYTES   (UINT64_C(1) << 20)
#define BOUND_BYTES (UINT64_C(64) << 10)

double coll_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* CPU seconds of all threads of this process. */
double coll_cpu(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec * 1e-6 +
	       (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec * 1e-6;
}

int coll_failed(const struct coll_rank *rank, const char *what, int status)
{
	fprintf(stderr, "tow-coll: rank %u: %s: %s (%s)%s%s\n", rank->rank, what,
		tow_status_name(status), tow_status_text(status),
		status < 0 && tow_error_message()[0] != '\0' ? ": " : "",
		status < 0 ? tow_error_message() : "");
	return COLL_FAILED;
}

int coll_finish(struct coll_rank *rank, struct coll_slot *slot, const char *what)
{
	const struct coll_options *options = rank->options;
	/* The operation's own deadline comes first. This one is for a library that has lost it. */
	int rc = bench_drive(slot->op, options->tests, 2 * options->timeout_ns);

	if (rc != TOW_OK && rc != TOW_COPIED)
		rc = coll_failed(rank, what, rc);
	tow_op_release(slot->op);
	slot->op = NULL;
	return rc == COLL_FAILED ? rc : 0;
}

int coll_barrier(struct coll_rank *rank)
{
	struct coll_slot slot = { NULL, NULL, NULL };
	int rc = tow_coll_barrier_start(rank->group, NULL, &slot.op);

	return rc < 0 ? coll_failed(rank, "barrier", rc) : coll_finish(rank, &slot, "barrier");
}

int coll_agree(struct coll_rank *rank, double value, enum tow_reduce reduce, double *out)
{
	struct coll_slot slot = { NULL, NULL, NULL };
	int rc;

	rank->control[0] = value;
	rc = tow_coll_all_reduce_start(rank->group, rank->control, rank->control + 1, 1, TOW_F64,
				       reduce, NULL, &slot.op);
	rc = rc < 0 ? coll_failed(rank, "agreeing", rc) : coll_finish(rank, &slot, "agreeing");
	*out = rank->control[1];
	return rc;
}

static int run_once(struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot)
{
	int rc = coll_start(rank, what, slot);

	return rc < 0 ? coll_failed(rank, coll_kind_names[what->kind], rc)
		      : coll_finish(rank, slot, coll_kind_names[what->kind]);
}

/* Runs `count` collectives and takes the time of each, which costs one clock reading each. */
static int run_sampled(struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot,
		       uint64_t count)
{
	double last = coll_now(), now;
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		rc = run_once(rank, what, slot);
		now = coll_now();
		rank->samples[i] = (now - last) * 1e6;
		last = now;
	}
	return rc;
}

/* Runs `count` collectives, in turn over the slots. */
static int run_loop(struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slots,
		    uint64_t count)
{
	uint32_t depth = rank->options->depth;
	const char *name = coll_kind_names[what->kind];
	int rc = 0;

	if (depth == 1) {
		for (uint64_t i = 0; i < count && rc == 0; i++)
			rc = run_once(rank, what, slots);
		return rc;
	}
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		struct coll_slot *slot = &slots[i % depth];

		if (slot->op != NULL)
			rc = coll_finish(rank, slot, name);
		if (rc == 0)
			rc = coll_start(rank, what, slot);
		rc = rc < 0 ? coll_failed(rank, name, rc) : rc;
	}
	for (uint64_t i = count; i < count + depth; i++) {
		struct coll_slot *slot = &slots[i % depth];
		int ended = slot->op != NULL ? coll_finish(rank, slot, name) : 0;

		rc = rc != 0 ? rc : ended;
	}
	return rc;
}

static void fill_all(struct coll_rank *rank, struct coll_case *what, struct coll_slot *slots)
{
	what->seed++;
	for (uint32_t i = 0; i < rank->options->depth; i++)
		coll_fill(rank, what, &slots[i]);
}

/* Finds how many collectives fit the time; the number is the same at all ranks. */
static int calibrate_count(struct coll_rank *rank, struct coll_case *what, struct coll_slot *slots,
			   uint64_t *count_out)
{
	double begin, slowest = 0, fit;
	int rc = coll_barrier(rank);

	begin = coll_now();
	if (rc == 0)
		rc = run_loop(rank, what, slots, 3);
	if (rc == 0)
		rc = coll_agree(rank, (coll_now() - begin) / 3, TOW_MAX, &slowest);
	fit = slowest > 0 ? rank->options->seconds / slowest : REPETITIONS_MAX;
	*count_out = fit < REPETITIONS_MIN   ? REPETITIONS_MIN
		     : fit > REPETITIONS_MAX ? REPETITIONS_MAX
					     : (uint64_t)fit;
	return rc;
}

static int run_timed(struct coll_rank *rank, struct coll_case *what, struct coll_slot *slots,
		     uint64_t count, struct coll_result *result)
{
	double begin = 0, cpu = 0, took = 0, all = 0;
	int rc = coll_barrier(rank);

	cpu = coll_cpu();
	begin = coll_now();
	if (rc == 0)
		rc = rank->samples != NULL ? run_sampled(rank, what, slots, count)
					   : run_loop(rank, what, slots, count);
	took = (coll_now() - begin) / (double)count;
	cpu = coll_cpu() - cpu;
	result->count = count;
	if (rc == 0)
		rc = coll_agree(rank, took, TOW_MAX, &result->time_s);
	if (rc == 0)
		rc = coll_agree(rank, cpu, TOW_SUM, &all);
	if (rc == 0)
		rc = coll_profile_agree(rank, result);
	if (rc == 0 && what->bytes >= CPU_BYTES)
		result->cpu_s_per_gib = all / ((double)what->bytes * (double)count / (1 << 30));
	if (what->bytes >= BOUND_BYTES && rank->bytes_per_s > 0 && result->time_s > 0)
		result->bound_ratio =
			coll_must_move(what, rank->ranks) / rank->bytes_per_s / result->time_s;
	return rc;
}

/* Whether the --plan can serve the case. All ranks get the same result. */
static bool plan_fits(struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot,
		      int *rc)
{
	*rc = coll_start(rank, what, slot);
	if (rank->options->plan != NULL && (*rc == TOW_EINVAL || *rc == TOW_ENOTSUP)) {
		coll_report_skipped(rank, what);
		*rc = 0;
		return false;
	}
	*rc = *rc < 0 ? coll_failed(rank, coll_kind_names[what->kind], *rc)
		      : coll_finish(rank, slot, coll_kind_names[what->kind]);
	return *rc == 0;
}

/* Measures one form of a case. *ran_out: the --plan can serve it. */
static int measure_form(struct coll_rank *rank, struct coll_case *what, struct coll_result *result,
			bool *ran_out)
{
	struct coll_slot slots[TOW_COLL_IN_FLIGHT];
	uint64_t count = 0;
	int rc = 0;

	what->seed = (uint64_t)what->kind * 1000003 + what->bytes;
	for (uint32_t i = 0; i < rank->options->depth; i++)
		slots[i] = coll_slot_make(rank, what, i);
	fill_all(rank, what, slots);
	if (!plan_fits(rank, what, slots, &rc))
		return rc;
	coll_verify(rank, what, slots);
	rc = calibrate_count(rank, what, slots, &count);
	fill_all(rank, what, slots);
	if (rc == 0)
		rc = run_timed(rank, what, slots, count, result);
	if (rc == 0 && what->in_place) {
		fill_all(rank, what, slots);
		rc = run_loop(rank, what, slots, rank->options->depth);
	}
	if (rc == 0)
		for (uint32_t i = 0; i < rank->options->depth && i < count; i++)
			coll_verify(rank, what, &slots[i]);
	*ran_out = rc == 0;
	return rc;
}

/* Measures both forms, where the operation has them, and prints them as one row. */
static int measure_both(struct coll_rank *rank, struct coll_case *what)
{
	struct coll_half halves[2] = { { .ran = false }, { .ran = false } };
	int rc = 0;

	for (int form = 0; form < 2 && rc == 0; form++) {
		uint64_t before = rank->wrong;

		if (form == 1 && !coll_kind_in_place(what->kind))
			break;
		what->in_place = form == 1;
		rc = measure_form(rank, what, &halves[form].result, &halves[form].ran);
		if (rc == 0)
			rc = coll_wrong_of_all(rank, rank->wrong - before, &halves[form].wrong);
	}
	if (rc == 0)
		coll_nccl_row(rank, what, &halves[0], &halves[1]);
	return rc;
}

static int measure_size(struct coll_rank *rank, enum coll_kind kind, uint64_t bytes)
{
	struct coll_case what = coll_case_make(rank->options, kind, bytes, rank->ranks);
	struct coll_result result = { 0 };
	bool ran = false;
	int rc;

	if (rank->options->nccl)
		return measure_both(rank, &what);
	rc = measure_form(rank, &what, &result, &ran);
	if (rc == 0 && ran) {
		coll_report_result(rank, &what, &result);
		rc = coll_profile_add(rank, &what, &result);
	}
	return rc;
}

int coll_run(struct coll_rank *rank)
{
	const struct coll_options *options = rank->options;
	int rc = coll_profile_open(rank, REPETITIONS_MAX);

	for (int kind = 0; kind < COLL_KINDS && rc == 0; kind++) {
		const struct bench_sizes *sizes = &options->sizes[kind];

		if (options->nccl && options->ops[kind])
			coll_nccl_head(rank, kind);
		for (unsigned int i = 0; options->ops[kind] && i < sizes->count && rc == 0; i++) {
			rc = options->overlap ? coll_run_overlap(rank, kind, sizes->bytes[i])
					      : measure_size(rank, kind, sizes->bytes[i]);
			if (kind == COLL_BARRIER)
				break;
		}
		if (rc == 0 && options->nccl && options->ops[kind])
			coll_nccl_end(rank);
	}
	return rc;
}

#ifdef __x86_64__
#include <emmintrin.h>

/* Copies with stores that bypass the caches, so that no line is read before it is overwritten. */
static void copy_around(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 64) {
		const __m128i *in = (const __m128i *)(const void *)(from + i);
		__m128i *out = (__m128i *)(void *)(to + i);
		__m128i a = _mm_load_si128(in), b = _mm_load_si128(in + 1);
		__m128i c = _mm_load_si128(in + 2), d = _mm_load_si128(in + 3);

		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
	_mm_sfence();
}
#else
static void copy_around(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}
#endif

static void copy_plain(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}

/* The ranks of the first CPUs copy at once for a while; the others wait in the next barrier. */
static int copy_all(struct coll_rank *rank, uint8_t *area, bool copies,
		    void (*copy)(uint8_t *, const uint8_t *, uint64_t), double *rate_out)
{
	double begin, took = 0, rate = 0;
	uint64_t rounds = 0;
	int rc = coll_barrier(rank);

	begin = coll_now();
	while (copies && rc == 0 && (took < COPY_SECONDS || rounds < 2)) {
		copy(area, area + COPY_BYTES, COPY_BYTES);
		rounds++;
		took = coll_now() - begin;
	}
	if (took > 0)
		rate = 2.0 * (double)(rounds * COPY_BYTES) / took;
	return rc == 0 ? coll_agree(rank, rate, TOW_SUM, rate_out) : rc;
}

int coll_copy_rate(struct coll_rank *rank)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool copies = cpus < 1 || rank->rank < (uint32_t)cpus;
	double plain = 0, around = 0;
	const char *lane = rank->options->lane;
	void *area = NULL;
	int rc = 0;

	/* The bandwidth of memory says nothing about a network. */
	if (!bench_lane_is_host(lane) && strcmp(lane, "auto") != 0)
		return 0;
	if (copies && posix_memalign(&area, 4096, 2 * COPY_BYTES) != 0)
		return coll_failed(rank, "memory to copy", TOW_ENOMEM);
	if (copies)
		memset(area, 1, 2 * COPY_BYTES);
	for (int turn = 0; turn < 3 && rc == 0; turn++) {
		rc = copy_all(rank, area, copies, copy_plain, &plain);
		if (rc == 0)
			rc = copy_all(rank, area, copies, copy_around, &around);
		rank->bytes_per_s = plain > rank->bytes_per_s ? plain : rank->bytes_per_s;
		rank->bytes_per_s = around > rank->bytes_per_s ? around : rank->bytes_per_s;
	}
	free(area);
	return rc;
}
