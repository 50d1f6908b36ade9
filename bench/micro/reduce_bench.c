/*
 * reduce_bench.c - measures how fast each variant reduces, compared with the machine's memcpy.
 *
 *	reduce_bench [--plain] [--quick] [--only WORD] [--variant NAME] [--bytes N]
 *
 * A rate is the bytes read and written, divided by the time. The bytes are those of sources and
 * results; a line that a store fetches first is not counted. Each figure is the median of several
 * rounds. In a round all variants and memcpy, over as many bytes, take turns. Every result is
 * compared with that of the plain variant.
 *
 *	--plain         lines: reduce avx512 f32-sum-2x1 1048576 GBps 21.3
 *	--quick         small and few, for the test suite
 *	--only WORD     the subjects whose name contains it
 *	--variant NAME  this one alone
 *	--bytes N       this size alone, up to 64 MiB, instead of 16 KiB, 1 MiB and 64 MiB
 *
 * A subject's name has the type, the operator, and sources x results. `stream`: around the caches.
 * `in`: the first result is the first source. The size is that of one source.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "diag/base/clock.h"
#include "transport/coll/reduce/reduce.h"

#define SOURCES_MAX  16
#define RESULTS_MAX  4
#define VARIANTS_MAX 8
#define ROUNDS       9

struct subject {
	const char *name;
	enum tow_type type;
	enum tow_reduce reduce;
	unsigned bytes, sources, results;
	bool stream, in_place;
};

static const struct subject subjects[] = {
	{ "f32-sum-2x1", TOW_F32, TOW_SUM, 4, 2, 1, false, false },
	{ "f32-sum-2x1-in", TOW_F32, TOW_SUM, 4, 2, 1, false, true },
	{ "f32-sum-2x2", TOW_F32, TOW_SUM, 4, 2, 2, false, false },
	{ "f32-sum-4x1", TOW_F32, TOW_SUM, 4, 4, 1, false, false },
	{ "f32-sum-4x2", TOW_F32, TOW_SUM, 4, 4, 2, false, false },
	{ "f32-sum-4x4", TOW_F32, TOW_SUM, 4, 4, 4, false, false },
	{ "bf16-sum-2x1", TOW_BF16, TOW_SUM, 2, 2, 1, false, false },
	{ "bf16-sum-2x2", TOW_BF16, TOW_SUM, 2, 2, 2, false, false },
	{ "bf16-sum-4x1", TOW_BF16, TOW_SUM, 2, 4, 1, false, false },
	{ "bf16-sum-4x2", TOW_BF16, TOW_SUM, 2, 4, 2, false, false },
	{ "f32-sum-2x1-stream", TOW_F32, TOW_SUM, 4, 2, 1, true, false },
	{ "f32-sum-2x1-in-stream", TOW_F32, TOW_SUM, 4, 2, 1, true, true },
	{ "f32-sum-2x2-stream", TOW_F32, TOW_SUM, 4, 2, 2, true, false },
	{ "f32-sum-4x1-stream", TOW_F32, TOW_SUM, 4, 4, 1, true, false },
	{ "f32-sum-4x2-stream", TOW_F32, TOW_SUM, 4, 4, 2, true, false },
	{ "f32-sum-4x4-stream", TOW_F32, TOW_SUM, 4, 4, 4, true, false },
	{ "bf16-sum-2x1-stream", TOW_BF16, TOW_SUM, 2, 2, 1, true, false },
	{ "bf16-sum-4x2-stream", TOW_BF16, TOW_SUM, 2, 4, 2, true, false },
	{ "f32-sum-8x1", TOW_F32, TOW_SUM, 4, 8, 1, false, false },
	{ "f32-sum-16x1", TOW_F32, TOW_SUM, 4, 16, 1, false, false },
	{ "f32-max-2x1", TOW_F32, TOW_MAX, 4, 2, 1, false, false },
	{ "f64-sum-2x1", TOW_F64, TOW_SUM, 8, 2, 1, false, false },
	{ "f16-sum-2x1", TOW_F16, TOW_SUM, 2, 2, 1, false, false },
	{ "f8e4m3-sum-2x1", TOW_F8E4M3, TOW_SUM, 1, 2, 1, false, false },
	{ "f8e5m2-sum-2x1", TOW_F8E5M2, TOW_SUM, 1, 2, 1, false, false },
	{ "s32-sum-2x1", TOW_S32, TOW_SUM, 4, 2, 1, false, false },
	{ "s32-avg-2x1", TOW_S32, TOW_AVG, 4, 2, 1, false, false },
	{ "u8-max-2x1", TOW_U8, TOW_MAX, 1, 2, 1, false, false },
};

struct options {
	bool plain, quick;
	const char *only, *variant;
	uint64_t bytes;
};

/* memcpy is the last variant. */
struct rig {
	uint8_t *sources[SOURCES_MAX], *results[RESULTS_MAX], *want;
	uint64_t bytes;
	double seconds[VARIANTS_MAX][ROUNDS];
};

static struct rig rig;

static uint8_t *map_bytes(uint64_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("reduce_bench: mmap");
		exit(1);
	}
	madvise(at, bytes, MADV_HUGEPAGE); /* as in the pool, where the system has huge pages */
	memset(at, 0, bytes);
	return at;
}

/* Fills the sources with small numbers of the type, different in each source. */
static void fill_sources(const struct subject *subject)
{
	const uint8_t ones[TOW_TYPE_COUNT] = {
		[TOW_F32] = 0x3f,    [TOW_F64] = 0x3f,    [TOW_F16] = 0x3c, [TOW_BF16] = 0x3f,
		[TOW_F8E4M3] = 0x38, [TOW_F8E5M2] = 0x3c, [TOW_C64] = 0x3f, [TOW_C128] = 0x3f,
	};
	unsigned part = subject->type >= TOW_C64 ? subject->bytes / 2 : subject->bytes;

	for (unsigned s = 0; s < subject->sources; s++) {
		for (uint64_t i = 0; i < rig.bytes; i++)
			rig.sources[s][i] = (i + 1) % part == 0
						    ? (uint8_t)(ones[subject->type] + (s & 1))
						    : (uint8_t)(i * 37 + s);
	}
}

static struct twi_reduction reduction_of(const struct subject *subject)
{
	return (struct twi_reduction){
		.type = subject->type,
		.reduce = subject->reduce,
		.ranks = subject->sources,
		.sources_n = subject->sources,
		.results_n = subject->results,
		.sources = (const void *const *)rig.sources,
		.results = (void *const *)rig.results,
		.count = rig.bytes / subject->bytes,
		.stream = subject->stream,
	};
}

/* Copies as many bytes as the subject reads and writes, with the same buffers. */
static void copy_subject(const struct subject *subject)
{
	uint64_t left = (subject->sources + subject->results) * rig.bytes / 2;

	for (unsigned s = 0; left != 0; s++) {
		uint64_t n = left < rig.bytes ? left : rig.bytes;

		memcpy(rig.results[s % subject->results], rig.sources[(s + 1) % subject->sources],
		       n);
		left -= n;
	}
}

static double time_once(const struct subject *subject, const struct twi_reduction *r,
			const struct twi_reduce_variant *variant, uint64_t loops)
{
	uint64_t start = twi_clock_gettime_ns();

	for (uint64_t i = 0; i < loops; i++) {
		if (variant != NULL)
			variant->reduce(r);
		else
			copy_subject(subject);
		__asm__ volatile("" : : : "memory");
	}
	return (double)(twi_clock_gettime_ns() - start) / 1e9 / (double)loops;
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Whether all results equal those of the plain variant. */
static bool is_right(const struct subject *subject, const struct twi_reduce_variant *variant)
{
	struct twi_reduction r = reduction_of(subject);
	void *want = rig.want;
	bool same = true;

	fill_sources(subject);
	r.results = &want;
	r.results_n = 1;
	twi_reduce_variants[0]->reduce(&r);
	r = reduction_of(subject);
	variant->reduce(&r);
	for (unsigned m = 0; m < subject->results; m++)
		same = same && memcmp(rig.results[m], rig.want, rig.bytes) == 0;
	return same;
}

static const struct twi_reduce_variant *variant_of(unsigned v, const struct options *options)
{
	const struct twi_reduce_variant *variant = twi_reduce_variants[v];

	if (!variant->usable())
		return NULL;
	if (options->variant != NULL && strcmp(options->variant, variant->name) != 0)
		return NULL;
	return variant;
}

static void report_variant(const struct subject *subject, const struct options *options, unsigned v,
			   double copied)
{
	const char *name = v < twi_reduce_variant_count ? twi_reduce_variants[v]->name : "memcpy";
	double *seconds = rig.seconds[v], rate;

	qsort(seconds, ROUNDS, sizeof(seconds[0]), compare_values);
	rate = (double)((subject->sources + subject->results) * rig.bytes) / seconds[ROUNDS / 2] /
	       1e9;
	if (options->plain)
		printf("reduce %s %s %llu GBps %.1f\n", name, subject->name,
		       (unsigned long long)rig.bytes, rate);
	else
		printf("%-8s %-24s %9llu B %8.1f GB/s %6.2f of memcpy\n", name, subject->name,
		       (unsigned long long)rig.bytes, rate, copied / seconds[ROUNDS / 2]);
}

/* Returns how many variants were wrong. */
static int measure_subject(const struct subject *subject, const struct options *options)
{
	unsigned copy_index = twi_reduce_variant_count;
	uint64_t loops = ((options->quick ? 1u << 18 : 96u << 20) / rig.bytes) + 1;
	struct twi_reduction r;
	int wrong = 0;

	for (unsigned m = 0; m < RESULTS_MAX; m++)
		rig.results[m] = rig.sources[SOURCES_MAX - 1] + (m + 1) * (rig.bytes + 4096);
	if (subject->in_place)
		rig.results[0] = rig.sources[0];
	for (unsigned v = 0; v < twi_reduce_variant_count; v++) {
		if (variant_of(v, options) != NULL && !is_right(subject, variant_of(v, options))) {
			printf("#wrong reduce %s %s\n", twi_reduce_variants[v]->name,
			       subject->name);
			wrong++;
		}
	}
	r = reduction_of(subject);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned v = 0; v <= copy_index; v++) {
			if (v == copy_index)
				rig.seconds[v][round] = time_once(subject, &r, NULL, loops);
			else if (variant_of(v, options) != NULL)
				rig.seconds[v][round] =
					time_once(subject, &r, variant_of(v, options), loops);
		}
	}
	qsort(rig.seconds[copy_index], ROUNDS, sizeof(double), compare_values);
	for (unsigned v = 0; v <= copy_index; v++) {
		if (v == copy_index || variant_of(v, options) != NULL)
			report_variant(subject, options, v, rig.seconds[copy_index][ROUNDS / 2]);
	}
	return wrong;
}

static bool parse_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--plain") == 0)
			options->plain = true;
		else if (strcmp(argv[i], "--quick") == 0)
			options->quick = true;
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			options->only = argv[++i];
		else if (strcmp(argv[i], "--variant") == 0 && i + 1 < argc)
			options->variant = argv[++i];
		else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
			options->bytes = strtoull(argv[++i], NULL, 0) / 64 * 64;
		else
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 16 << 10, 1 << 20, 64 << 20 };
	struct options options = { 0 };
	uint64_t largest, apart;
	uint8_t *memory;
	int wrong = 0;

	if (!parse_options(argc, argv, &options) || twi_reduce_variant_count >= VARIANTS_MAX ||
	    options.bytes > sizes[2]) {
		fprintf(stderr, "usage: reduce_bench [--plain] [--quick] [--only WORD] "
				"[--variant NAME] [--bytes N]\n");
		return 2;
	}
	largest = options.bytes ? options.bytes : options.quick ? sizes[0] : sizes[2];
	apart = largest + 4096; /* so that not all buffers begin in the same set of the cache */
	memory = map_bytes((SOURCES_MAX + RESULTS_MAX + 1) * apart);
	for (unsigned z = 0; z < (options.quick || options.bytes ? 1 : 3); z++) {
		rig.bytes = options.bytes ? options.bytes : sizes[z];
		apart = rig.bytes + 4096;
		for (unsigned s = 0; s < SOURCES_MAX; s++)
			rig.sources[s] = memory + s * apart;
		rig.want = memory + (SOURCES_MAX + RESULTS_MAX) * apart;
		for (unsigned i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
			if (options.only == NULL || strstr(subjects[i].name, options.only) != NULL)
				wrong += measure_subject(&subjects[i], &options);
		}
	}
	if (!options.plain)
		printf("twi_reduce uses %s\n", twi_reduce_variant()->name);
	return wrong != 0;
}
