/*
 * arena_bench.c - measures what an allocation costs with each provider of arena.h, side by side.
 *
 * Rounds alternate between the providers, so that both see the same state of the machine. Each
 * figure is the median of the rounds. An arena first gets many live blocks, so that its lists are
 * not trivial. The patterns:
 *
 *   pair    one block taken and freed repeatedly: the case for the front cache
 *   batch   64 blocks, but at most 64 MiB, taken, then all freed: more than the cache keeps
 *   sizes   pairs of sizes from 1 to 2 times the given one: the cache seldom has the right one
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "diag/base/clock.h"
#include "memreg/arena/arena.h"
#include "memreg/region/lease.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB          ((uint64_t)1 << 20)
#define EXTENT_BYTES (512 * MIB)
#define LITTER       512
#define BATCH        64
#define BATCH_BYTES  (64 * MIB)
#define ROUNDS_MAX   31
#define THREADS_MAX  2
#define PROVIDERS    2

enum pattern { PAIR, BATCHES, SIZES, PATTERNS };

static const char *const pattern_name[PATTERNS] = { "pair", "batch", "sizes" };

struct job {
	const struct twi_arena_ops *ops;
	void *arena;
	enum pattern pattern;
	uint64_t bytes;
	int count; /* of pairs */
	int status;
	double ns;
	uint64_t random;
	pthread_barrier_t *start;
};

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *value, int count)
{
	qsort(value, (size_t)count, sizeof(*value), compare_values);
	return value[count / 2];
}

static void free_block(const struct twi_arena_ops *ops, void *arena, void *p)
{
	struct twi_block block;

	if (ops->find(arena, p, &block) == TOW_OK && twi_hold_free(block.hold) == TWI_HOLD_ENDED)
		ops->give(arena, p);
}

static void run_pairs(struct job *job)
{
	void *p;

	for (int i = 0; i < job->count; i++) {
		uint64_t bytes = job->bytes;

		if (job->pattern == SIZES) {
			job->random = job->random * 6364136223846793005u + 1442695040888963407u;
			bytes += (job->random >> 33) % job->bytes;
		}
		job->status = job->ops->alloc(job->arena, bytes, 64, &p);
		if (job->status < 0)
			return;
		free_block(job->ops, job->arena, p);
	}
}

static void run_batches(struct job *job)
{
	int batch = (int)twi_max(twi_min(BATCH, BATCH_BYTES / job->bytes), 1u);
	void *p[BATCH];

	for (int done = 0; done < job->count; done += batch) {
		for (int i = 0; i < batch; i++) {
			job->status = job->ops->alloc(job->arena, job->bytes, 64, &p[i]);
			if (job->status < 0)
				return;
		}
		for (int i = 0; i < batch; i++)
			free_block(job->ops, job->arena, p[i]);
	}
}

static void *run_pattern(void *arg)
{
	struct job *job = arg;
	uint64_t start;

	pthread_barrier_wait(job->start);
	start = twi_now_ns();
	if (job->pattern == BATCHES)
		run_batches(job);
	else
		run_pairs(job);
	job->ns = (double)(twi_now_ns() - start) / job->count;
	return NULL;
}

/* ns of one alloc and free, the mean over the threads; negative when one failed. */
static double round_of(const struct job *model, int threads)
{
	struct job job[THREADS_MAX];
	pthread_barrier_t start;
	pthread_t thread[THREADS_MAX];
	double ns = 0;

	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		job[i] = *model;
		job[i].start = &start;
		job[i].random = (uint64_t)i + 1;
		if (pthread_create(&thread[i], NULL, run_pattern, &job[i])) {
			fprintf(stderr, "arena-bench: no thread\n");
			exit(1);
		}
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		ns += job[i].status == TOW_OK ? job[i].ns / threads : -1e9;
	}
	pthread_barrier_destroy(&start);
	return ns;
}

static bool litter_arena(const struct twi_arena_ops *ops, void *arena)
{
	void *p[LITTER];

	for (int i = 0; i < LITTER; i++)
		if (ops->alloc(arena, (size_t)64 << i % 14, 64, &p[i]) < 0)
			return false;
	for (int i = 0; i < LITTER; i += 2)
		free_block(ops, arena, p[i]);
	return true;
}

static void print_row(struct job *model, const struct twi_arena_ops *const *ops, void *const *arena,
		      int providers, int rounds)
{
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		double ns[PROVIDERS][ROUNDS_MAX];

		for (int k = 0; k < rounds; k++)
			for (int i = 0; i < providers; i++) {
				model->ops = ops[i];
				model->arena = arena[i];
				ns[i][k] = round_of(model, threads);
			}
		printf("%-6s %10llu B  %d thr", pattern_name[model->pattern],
		       (unsigned long long)model->bytes, threads);
		for (int i = 0; i < providers; i++)
			printf("  %s %8.1f ns", ops[i]->name, median_of(ns[i], rounds));
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	const struct twi_arena_ops *ops[PROVIDERS] = { &twi_arena_pagerun, &twi_arena_jemalloc };
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	struct job model = { .count = quick ? 640 : 100032 };
	int rounds = quick ? 1 : 7, providers = PROVIDERS;
	char *memory[PROVIDERS];
	void *arena[PROVIDERS];

	if (argc > 1 && !quick) {
		fprintf(stderr, "usage: arena_bench [--quick]\n");
		return 2;
	}
	if (twi_arena_jemalloc_refusal() != NULL) {
		printf("jemalloc is not measured: %s\n", twi_arena_jemalloc_refusal());
		providers = 1;
	}
	for (int i = 0; i < providers; i++) {
		memory[i] = mmap(NULL, EXTENT_BYTES + TWI_ALIGN_MAX, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory[i] == MAP_FAILED ||
		    ops[i]->create((char *)twi_align_up((uintptr_t)memory[i], TWI_ALIGN_MAX),
				   EXTENT_BYTES, &arena[i]) < 0 ||
		    !litter_arena(ops[i], arena[i])) {
			fprintf(stderr, "arena_bench: no arena\n");
			return 1;
		}
	}
	for (int pattern = 0; pattern < PATTERNS; pattern++)
		for (uint64_t bytes = 64; bytes <= 16 * MIB; bytes *= 4) {
			model.pattern = (enum pattern)pattern;
			model.bytes = bytes;
			print_row(&model, ops, arena, providers, rounds);
		}
	for (int i = 0; i < providers; i++) {
		ops[i]->destroy(arena[i]);
		munmap(memory[i], EXTENT_BYTES + TWI_ALIGN_MAX);
	}
	return 0;
}
