/*
 * memreg_measure.c - measures premapping a pool by page kind, and registering memory, all at once
 * or one buffer late.
 *
 * Each figure is the median of several rounds. A measurement that is not possible here (no huge
 * pages, no right to pin) is a row with the reason.
 */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/memreg/tow_size.h"
#include "diag/base/clock.h"
#include "memreg/pool/extent.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB           ((uint64_t)1 << 20)
#define IOV_MAX_BYTES ((uint64_t)1 << 30) /* the most that one registered buffer may span */

/* Maps and faults in once. *extent keeps the results and is unmapped again. */
static int premap_round(bool huge, uint64_t bytes, unsigned threads, struct twi_extent *extent,
			double *ns_out)
{
	uint64_t start = twi_now_ns();
	struct twi_extent_options options = {
		.bytes = bytes,
		.best = huge ? TWI_PAGES_HUGETLB_1G : TWI_PAGES_BASE,
	};
	int status = twi_extent_map(&options, extent);

	if (status == TOW_OK)
		status = twi_extent_populate(extent, threads);
	*ns_out = (double)(twi_now_ns() - start);
	twi_extent_unmap(extent);
	return status;
}

/* Returns the number of threads that it used. */
static unsigned premap_one(struct memreg_rows *rows, bool huge, uint64_t bytes, unsigned threads)
{
	struct twi_extent extent = { .fd = -1 };
	double ns[MEMREG_ROUNDS_MAX] = { 0 };
	int status = TOW_OK;
	char what[64];

	for (int i = 0; status == TOW_OK && i < rows->rounds; i++) {
		status = premap_round(huge, bytes, threads, &extent, &ns[i]);
		if (huge && extent.kind == TWI_PAGES_BASE)
			break; /* no huge pages are available */
	}
	threads = twi_max(extent.populate_threads, 1u);
	if (status == TOW_OK && huge && extent.kind == TWI_PAGES_BASE) {
		memreg_rows_add(rows, "premap", "huge pages", bytes, (int)threads, 0,
				extent.reason);
		return 1;
	}
	snprintf(what, sizeof(what), "map+populate %s", twi_page_kind_name(extent.kind));
	memreg_rows_add(rows, "premap", what, bytes, (int)threads, memreg_median(ns, rows->rounds),
			status == TOW_OK ? NULL : tow_error_message());
	return threads;
}

/*
 * Measures a pool's mapping. With `one_thread`, one thread is measured too where several were used.
 */
void memreg_measure_premap(struct memreg_rows *rows, uint64_t bytes, bool one_thread)
{
	for (int huge = 0; huge < 2; huge++)
		if (premap_one(rows, huge, bytes, 0) > 1 && one_thread)
			premap_one(rows, huge, bytes, 1);
}

/* Registers [base, base + bytes) in slots of at most 1 GiB. Returns 0 or the errno. */
static int ring_register(struct io_uring *ring, char *base, uint64_t bytes)
{
	struct iovec iov[64];
	unsigned count = 0;
	int err;

	for (uint64_t at = 0; at < bytes; at += IOV_MAX_BYTES) {
		if (count == twi_array_count(iov))
			return E2BIG;
		iov[count++] = (struct iovec){ base + at, twi_min(IOV_MAX_BYTES, bytes - at) };
	}
	err = io_uring_register_buffers(ring, iov, count);
	return err < 0 ? -err : 0;
}

void memreg_measure_register(struct memreg_rows *rows, uint64_t bytes)
{
	struct twi_extent_options options = { .bytes = bytes, .best = TWI_PAGES_HUGETLB_1G };
	double ns[MEMREG_ROUNDS_MAX];
	struct twi_extent extent;
	struct io_uring ring;
	int err;

	if (twi_extent_map(&options, &extent) < 0) {
		memreg_rows_add(rows, "register", "whole pool", bytes, 1, 0, tow_error_message());
		return;
	}
	err = -io_uring_queue_init(4, &ring, 0);
	if (err == 0) {
		if (twi_extent_populate(&extent, 0) < 0)
			err = ENOMEM;
		for (int k = 0; !err && k < rows->rounds; k++) {
			uint64_t start = twi_now_ns();

			err = ring_register(&ring, extent.base, extent.bytes);
			ns[k] = (double)(twi_now_ns() - start);
			if (!err)
				io_uring_unregister_buffers(&ring);
		}
		io_uring_queue_exit(&ring);
	}
	memreg_rows_add(rows, "register", twi_page_kind_name(extent.kind), bytes, 1,
			err ? 0 : memreg_median(ns, rows->rounds), err ? strerror(err) : NULL);
	twi_extent_unmap(&extent);
}

/* Puts one buffer into slot 0 of the ring's sparse table, as a late registration does. */
static int ring_update(struct io_uring *ring, void *base, uint64_t bytes)
{
	struct iovec iov = { base, bytes };
	__u64 tag = 0;
	int err = io_uring_register_buffers_update_tag(ring, 0, &iov, &tag, 1);

	return err < 0 ? -err : 0;
}

static int late_round(struct io_uring *ring, uint64_t bytes, bool cold, double *ns_out)
{
	char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start;
	int err;

	if (base == MAP_FAILED)
		return errno;
	if (!cold)
		memset(base, 1, bytes);
	start = twi_now_ns();
	err = ring_update(ring, base, bytes);
	*ns_out = (double)(twi_now_ns() - start);
	if (!err)
		err = ring_update(ring, NULL, 0);
	munmap(base, bytes);
	return err;
}

void memreg_measure_late(struct memreg_rows *rows)
{
	const uint64_t most = rows->quick ? 4 * MIB : 64 * MIB;
	struct io_uring ring;
	int err = -io_uring_queue_init(4, &ring, 0);

	if (err == 0) {
		err = -io_uring_register_buffers_sparse(&ring, 1);
		if (err)
			io_uring_queue_exit(&ring);
	}
	if (err) {
		memreg_rows_add(rows, "late", "warm pages", 4096, 1, 0, strerror(err));
		return;
	}
	for (uint64_t bytes = 4096; bytes <= most; bytes *= 4)
		for (int cold = 0; cold < 2; cold++) {
			double ns[MEMREG_ROUNDS_MAX];

			for (int k = 0; !err && k < rows->rounds; k++)
				err = late_round(&ring, bytes, cold, &ns[k]);
			memreg_rows_add(rows, "late", cold ? "cold pages" : "warm pages", bytes, 1,
					err ? 0 : memreg_median(ns, rows->rounds),
					err ? strerror(err) : NULL);
			err = 0;
		}
	io_uring_queue_exit(&ring);
}
