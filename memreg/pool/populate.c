/*
 * populate.c - faults an extent in with all cores, and reports the progress.
 *
 * The kernel clears each page at its first use, which takes one core about half a second a GiB. So
 * threads take chunks from one shared index until none is left. The caller is one of the threads.
 * Where no other thread can be made, the caller does all the work, and that is no failure. Only the
 * caller reports progress, between two of its chunks.
 */
#include "memreg/pool/extent.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/os/procfs.h"
#include "memreg/pool/page_step.h"
#include <internal/base.h>

#define CHUNK_BYTES ((uint64_t)16 << 20) /* some ms of work; a larger page is one chunk */
#define THREADS_MAX 64
#define TELL_NS     100000000u  /* callback: ten times a second */
#define LOG_NS      1000000000u /* log: after one second, two, four, ... */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct populate {
	struct twi_extent *extent;
	uint64_t chunk_bytes, chunks;
	uint64_t start_ns, told_ns, log_ns; /* log_ns: age at which the next log line is due */
	_Atomic uint64_t next;
	_Atomic uint64_t done_bytes;
	_Atomic int err;
	_Atomic bool touched;
};

/* For kernels before 5.14. The extent is new, so writing zeroes changes nothing. */
static void touch_pages(char *at, uint64_t bytes, uint64_t page_bytes)
{
	for (uint64_t i = 0; i < bytes; i += page_bytes)
		((volatile char *)at)[i] = 0;
}

static int populate_chunk(struct populate *p, char *at, uint64_t bytes)
{
	while (madvise(at, bytes, MADV_POPULATE_WRITE)) {
		if (errno == EINVAL) {
			touch_pages(at, bytes, p->extent->page_bytes);
			atomic_store_explicit(&p->touched, true, memory_order_relaxed);
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return errno;
	}
	return 0;
}

/* Populates the next chunk. False: there is none left, or it failed. */
static bool populate_next(struct populate *p)
{
	uint64_t chunk = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
	uint64_t at = chunk * p->chunk_bytes, bytes;
	int err;

	if (chunk >= p->chunks)
		return false;
	bytes = twi_min(p->chunk_bytes, p->extent->bytes - at);
	err = populate_chunk(p, (char *)p->extent->base + at, bytes);
	if (err) {
		atomic_store_explicit(&p->err, err, memory_order_relaxed);
		/* The remaining chunks are not needed after a failure. */
		atomic_store_explicit(&p->next, p->chunks, memory_order_relaxed);
		return false;
	}
	atomic_fetch_add_explicit(&p->done_bytes, bytes, memory_order_relaxed);
	return true;
}

static void *populate_run(void *arg)
{
	while (populate_next(arg))
		;
	return NULL;
}

static void log_progress(struct populate *p, uint64_t done, uint64_t age_ns)
{
	twi_log(p->extent->diag, 3,
		"pool: %llu of %llu MiB faulted in after %.1f s, %.2f GiB/s, %u threads",
		(unsigned long long)done >> 20, (unsigned long long)p->extent->bytes >> 20,
		(double)age_ns / 1e9, (double)done / (1 << 30) / ((double)age_ns / 1e9),
		p->extent->populate_threads);
}

/* Reports the progress to callback and log when it is due. Runs in the caller's thread. */
static void tell_progress(struct populate *p)
{
	struct twi_extent *extent = p->extent;
	uint64_t done = atomic_load_explicit(&p->done_bytes, memory_order_relaxed);
	uint64_t now = twi_now_ns();

	/* The last callback, with all bytes done, comes after the threads have ended. */
	if (extent->progress != NULL && now - p->told_ns >= TELL_NS && done < extent->bytes) {
		p->told_ns = now;
		extent->progress(extent->progress_user, done, extent->bytes);
	}
	if (extent->diag != NULL && now - p->start_ns >= p->log_ns) {
		p->log_ns *= 2;
		log_progress(p, done, now - p->start_ns);
	}
}

static unsigned cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)CPU_COUNT(&set);
	return (unsigned)twi_max(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* Runs `p` on up to `threads` threads, the caller included. Returns the number of threads. */
static unsigned run_all(struct populate *p, unsigned threads)
{
	pthread_t thread[THREADS_MAX];
	sigset_t all, before;
	unsigned made = 0;

	p->extent->populate_threads = threads; /* the wanted number, for the log */
	/* The library's threads must not handle the program's signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (made + 1 < threads && pthread_create(&thread[made], NULL, populate_run, p) == 0)
		made++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (populate_next(p))
		tell_progress(p);
	for (unsigned i = 0; i < made; i++)
		pthread_join(thread[i], NULL);
	return made + 1;
}

/* Finds out how many transparent huge pages the kernel gave; only now is it known. */
static void look_for_thp(struct twi_extent *extent)
{
	struct twi_address_range span = { (uintptr_t)extent->base,
					  (uintptr_t)extent->base + extent->bytes };
	struct twi_range_view view = { 0 };

	twi_ranges_read_smaps(&span, &view, 1);
	extent->huge_bytes = view.thp;
	if (extent->huge_bytes && extent->huge_bytes >= extent->bytes / 2)
		extent->kind = TWI_PAGES_THP;
	else if (extent->thp_advised)
		twi_page_step_few_thp(extent);
	twi_page_step_join(extent);
}

int twi_extent_populate(struct twi_extent *extent, unsigned threads)
{
	uint64_t start = twi_now_ns();
	struct populate p = { .extent = extent,
			      .chunk_bytes = twi_max(CHUNK_BYTES, extent->page_bytes),
			      .start_ns = start,
			      .told_ns = start,
			      .log_ns = LOG_NS };
	int err;

	p.chunks = (extent->bytes + p.chunk_bytes - 1) / p.chunk_bytes;
	threads = threads ? threads : cpu_count();
	threads = (unsigned)twi_min((uint64_t)twi_min(threads, THREADS_MAX), p.chunks);
	extent->populate_threads = run_all(&p, threads);
	extent->populate_ns = twi_now_ns() - start;
	extent->touched = atomic_load_explicit(&p.touched, memory_order_relaxed);
	err = atomic_load_explicit(&p.err, memory_order_relaxed);
	extent->populate_errno = err;
	if (err)
		return twi_error_errno(TOW_ENOMEM, err,
				       "pool: faulting in %llu bytes of premap_memory_bytes",
				       (unsigned long long)extent->bytes);
	if (extent->progress != NULL)
		extent->progress(extent->progress_user, extent->bytes, extent->bytes);
	if (extent->diag != NULL && extent->populate_ns >= LOG_NS)
		log_progress(&p, extent->bytes, extent->populate_ns);
	if (!twi_hugetlb_bytes(extent->kind) && extent->thp_advised)
		look_for_thp(extent);
	return TOW_OK;
}

static void keep_steps(struct twi_page_step *into, const struct twi_page_step *from)
{
	for (int kind = 0; kind < TWI_PAGES_KINDS; kind++)
		if (from[kind].reason[0])
			into[kind] = from[kind];
}

/* Maps an extent whose pages are locked as they are faulted in, where that is permitted. */
static int map_locked(const struct twi_extent_options *options, struct twi_extent *extent)
{
	int status = twi_extent_map(options, extent);

	if (status == TOW_OK)
		(void)twi_extent_pin(extent);
	return status;
}

int twi_extent_open(const struct twi_extent_options *options, struct twi_extent *extent_out)
{
	struct twi_extent_options now = *options;
	struct twi_page_step lost[TWI_PAGES_KINDS] = { 0 };
	struct twi_extent *extent = extent_out;
	int status = map_locked(&now, extent);

	while (status == TOW_OK && (status = twi_extent_populate(extent, 0)) < 0) {
		enum twi_page_kind kind = extent->kind;

		twi_extent_unmap(extent);
		if (!twi_hugetlb_bytes(kind))
			break;
		/* The pages are not on the bound node, or the control group denies them. */
		twi_page_step_refused(extent, now.bytes, kind, "MADV_POPULATE_WRITE",
				      extent->populate_errno);
		keep_steps(lost, extent->step);
		now.best = (enum twi_page_kind)(kind - 1);
		status = map_locked(&now, extent);
	}
	if (status < 0)
		return status;
	keep_steps(extent->step, lost);
	twi_page_step_join(extent);
	return TOW_OK;
}
