/*
 * premap_bench.c - measures how fast a pool is faulted in, compared with the kernel alone.
 *
 * Each available kind of pages is measured in two ways that alternate; figures are medians. A is
 * twi_extent_open: addresses, memfd, mapping, faulting in. B is only MADV_POPULATE_WRITE, on a
 * memfd of the same kind that is mapped already. As many threads as there are CPUs take a share
 * each. speed is B / A: the cost of the rest. Kinds that are not available are listed with the
 * reason and the cure.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "memreg/pool/extent.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB         ((uint64_t)1 << 20)
#define ROUNDS_MAX  31
#define THREADS_MAX 64

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct share {
	char *at;
	uint64_t bytes;
	int err;
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

static unsigned cpu_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void *populate_share(void *arg)
{
	struct share *share = arg;

	if (share->bytes && madvise(share->at, share->bytes, MADV_POPULATE_WRITE))
		share->err = errno;
	return NULL;
}

/* Faults in from all CPUs at once, a share in whole pages each. Returns 0 or the errno. */
static int populate_all(char *base, uint64_t bytes, uint64_t page_bytes, unsigned threads)
{
	uint64_t each = twi_align_up((bytes + threads - 1) / threads, page_bytes);
	struct share share[THREADS_MAX] = { 0 };
	pthread_t thread[THREADS_MAX];
	int err = 0;

	for (unsigned i = 0; i < threads; i++) {
		uint64_t at = twi_min(i * each, bytes);

		share[i] = (struct share){ base + at, twi_min(each, bytes - at), 0 };
		if (i > 0 && pthread_create(&thread[i], NULL, populate_share, &share[i]))
			return EAGAIN;
	}
	populate_share(&share[0]);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < threads; i++)
		err = err ? err : share[i].err;
	return err;
}

/* Maps the file at `base` and faults it in. Returns ns, or less than 0. */
static double time_file(int fd, char *base, enum twi_page_kind kind, uint64_t bytes,
			uint64_t page_bytes, unsigned threads)
{
	uint64_t start;

	if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -1;
	if (kind == TWI_PAGES_THP)
		madvise(base, bytes, MADV_HUGEPAGE);
	start = twi_now_ns();
	if (populate_all(base, bytes, page_bytes, threads) != 0)
		return -1;
	return (double)(twi_now_ns() - start);
}

/* B: returns ns, or less than 0. The mapping is made before the clock starts. */
static double time_bare(enum twi_page_kind kind, uint64_t bytes, uint64_t page_bytes,
			unsigned threads)
{
	uint64_t align = twi_max(page_bytes, (uint64_t)TWI_HUGE_BYTES);
	unsigned flags = MFD_CLOEXEC;
	char *reserved, *base;
	double ns = -1;
	int fd;

	if (kind >= TWI_PAGES_HUGETLB_2M)
		flags |= MFD_HUGETLB | (unsigned)__builtin_ctzll(page_bytes) << 26;
	fd = memfd_create("premap-bench", flags);
	reserved = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fd >= 0 && reserved != MAP_FAILED && ftruncate(fd, (off_t)bytes) == 0) {
		base = (char *)(uintptr_t)twi_align_up((uintptr_t)reserved, align);
		ns = time_file(fd, base, kind, bytes, page_bytes, threads);
	}
	if (reserved != MAP_FAILED)
		munmap(reserved, bytes + align);
	if (fd >= 0)
		close(fd);
	return ns;
}

/* A: returns ns, or less than 0 with *why. *got has the pages of the first round. */
static double time_ours(enum twi_page_kind kind, uint64_t bytes, struct twi_extent *got,
			const char **why)
{
	struct twi_extent_options options = { .bytes = bytes, .best = kind };
	uint64_t start = twi_now_ns();
	int status = twi_extent_open(&options, got);
	double ns = (double)(twi_now_ns() - start);

	if (status < 0) {
		*why = tow_error_message();
		return -1;
	}
	twi_extent_unmap(got);
	if (got->kind != kind) {
		*why = got->step[kind].reason;
		return -1;
	}
	return ns;
}

static void measure_kind(enum twi_page_kind kind, uint64_t bytes, int rounds)
{
	double a[ROUNDS_MAX], b[ROUNDS_MAX], open_ms, bare_ms;
	unsigned threads = twi_min(cpu_count(), (unsigned)THREADS_MAX);
	struct twi_extent got;
	const char *why = "";
	bool missing = false;

	for (int i = 0; i < rounds; i++) {
		a[i] = time_ours(kind, bytes, &got, &why);
		if (a[i] < 0) {
			missing = true;
			break;
		}
		b[i] = time_bare(kind, bytes, got.page_bytes, threads);
		if (b[i] < 0) {
			why = "the bare mapping cannot be had";
			missing = true;
			break;
		}
	}
	if (missing) {
		printf("%-13s not measured: %s; mend it: %s\n", twi_page_kind_name(kind), why,
		       got.step[kind].mend);
		return;
	}
	open_ms = median_of(a, rounds) / 1e6;
	bare_ms = median_of(b, rounds) / 1e6;
	printf("%-13s %6llu MiB  %2u threads  open %8.2f ms  bare %8.2f ms  speed %.2f\n",
	       twi_page_kind_name(kind), (unsigned long long)bytes >> 20, threads, open_ms, bare_ms,
	       bare_ms / open_ms);
}

static int usage_exit(const char *name, int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [--quick] [--mib N] [--rounds N]\n"
		"  --quick     a small pool and one round: does it still run?\n"
		"  --mib N     size of the pool (1024)\n"
		"  --rounds N  of each kind, 1 to %d (9)\n",
		name, ROUNDS_MAX);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option names[] = { { "quick", no_argument, NULL, 'q' },
					       { "mib", required_argument, NULL, 'm' },
					       { "rounds", required_argument, NULL, 'r' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	uint64_t bytes = 1024 * MIB;
	int rounds = 9, option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'q':
			bytes = 32 * MIB;
			rounds = 1;
			break;
		case 'm':
			bytes = strtoull(optarg, NULL, 10) * MIB;
			break;
		case 'r':
			rounds = atoi(optarg);
			break;
		case 'h':
			return usage_exit(argv[0], 0);
		default:
			return usage_exit(argv[0], 2);
		}
	}
	if (optind != argc || bytes == 0 || bytes > 1024 * 1024 * MIB || rounds < 1 ||
	    rounds > ROUNDS_MAX)
		return usage_exit(argv[0], 2);
	for (int kind = TWI_PAGES_BASE; kind < TWI_PAGES_KINDS; kind++)
		measure_kind((enum twi_page_kind)kind, bytes, rounds);
	return 0;
}
