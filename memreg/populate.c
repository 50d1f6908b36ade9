/*
 * populate.c - faults an extent in, with all cores.
 *
 * The kernel clears each page when it is first used, which costs about half a second a GiB on one
 * core, so threads take chunks from one shared index until none is left. The caller is one of the
 * threads: where no other can be made it does everything itself, and that is no failure.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/clock.h"
#include "diag/error.h"
#include "memreg/extent.h"
#include <internal/base.h>

#define CHUNK_BYTES ((uint64_t)16 << 20) /* a multiple of a huge page; some ms of work */
#define THREADS_MAX 64

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct populate {
	struct twi_extent *extent;
	uint64_t chunks;
	_Atomic uint64_t next;
	_Atomic int err;
	_Atomic bool touched;
};

/* For kernels before 5.14. The extent is new, so writing zeroes changes nothing. */
static void touch(char *at, uint64_t bytes, uint64_t page_bytes)
{
	for (uint64_t i = 0; i < bytes; i += page_bytes)
		((volatile char *)at)[i] = 0;
}

static int populate_chunk(struct populate *p, char *at, uint64_t bytes)
{
	while (madvise(at, bytes, MADV_POPULATE_WRITE)) {
		if (errno == EINVAL) {
			touch(at, bytes, p->extent->page_bytes);
			atomic_store_explicit(&p->touched, true, memory_order_relaxed);
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return errno;
	}
	return 0;
}

static void *populate_run(void *arg)
{
	struct populate *p = arg;

	for (;;) {
		uint64_t chunk = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
		uint64_t at = chunk * CHUNK_BYTES;
		int err;

		if (chunk >= p->chunks)
			return NULL;
		err = populate_chunk(p, (char *)p->extent->base + at,
				     twi_min(CHUNK_BYTES, p->extent->bytes - at));
		if (err) {
			atomic_store_explicit(&p->err, err, memory_order_relaxed);
			/* Nobody needs the rest. */
			atomic_store_explicit(&p->next, p->chunks, memory_order_relaxed);
			return NULL;
		}
	}
}

static unsigned cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)CPU_COUNT(&set);
	return (unsigned)twi_max(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* Runs `p` on up to `threads` threads, the caller's among them; returns how many it were. */
static unsigned run_all(struct populate *p, unsigned threads)
{
	pthread_t thread[THREADS_MAX];
	sigset_t all, before;
	unsigned made = 0;

	/* The program's signals are not for our threads to handle. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (made + 1 < threads && pthread_create(&thread[made], NULL, populate_run, p) == 0)
		made++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	populate_run(p);
	for (unsigned i = 0; i < made; i++)
		pthread_join(thread[i], NULL);
	return made + 1;
}

/* How much of the mapping lies on transparent huge pages, from /proc/self/smaps; 0 if unknown. */
static uint64_t thp_bytes(const struct twi_extent *extent)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long begin, end, kib;
	bool ours = false;
	char line[512];
	uint64_t bytes = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &begin, &end) == 2)
			ours = begin >= (uintptr_t)extent->base &&
			       end <= (uintptr_t)extent->base + extent->bytes;
		else if (ours && sscanf(line, "ShmemPmdMapped: %llu kB", &kib) == 1)
			bytes += kib * 1024;
	}
	if (file)
		fclose(file);
	return bytes;
}

/* Which pages came of it is known only now. */
static void look_for_thp(struct twi_extent *extent)
{
	size_t n = strlen(extent->reason);

	extent->huge_bytes = thp_bytes(extent);
	if (extent->huge_bytes && extent->huge_bytes >= extent->bytes / 2)
		extent->kind = TWI_PAGES_THP;
	else if (extent->thp_advised)
		snprintf(extent->reason + n, sizeof(extent->reason) - n,
			 "; THP: the kernel had %llu bytes of them",
			 (unsigned long long)extent->huge_bytes);
}

int twi_extent_populate(struct twi_extent *extent, unsigned threads)
{
	struct populate p = { .extent = extent };
	uint64_t start = twi_now_ns();
	int err;

	p.chunks = (extent->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	threads = threads ? threads : cpus();
	threads = (unsigned)twi_min((uint64_t)twi_min(threads, THREADS_MAX), p.chunks);
	extent->populate_threads = run_all(&p, threads);
	extent->populate_ns = twi_now_ns() - start;
	extent->touched = atomic_load_explicit(&p.touched, memory_order_relaxed);
	err = atomic_load_explicit(&p.err, memory_order_relaxed);
	if (err)
		return twi_error_errno(TOW_ENOMEM, err,
				       "pool: faulting in %llu bytes of premap_memory_bytes",
				       (unsigned long long)extent->bytes);
	if (extent->kind != TWI_PAGES_HUGETLB)
		look_for_thp(extent);
	return TOW_OK;
}
