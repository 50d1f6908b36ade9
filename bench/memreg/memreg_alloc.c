/*
 * memreg_alloc.c - measures the cost of an allocation from the pool, with one thread and with two,
 * and of a lease.
 */
#include <pthread.h>
#include <stdio.h>

#include "bench/memreg/tow_size.h"
#include "diag/base/clock.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB ((uint64_t)1 << 20)

struct loop {
	struct twi_pool *pool;
	uint64_t bytes;
	int pairs;
	double ns; /* of one pair */
	int status;
};

static void *alloc_loop(void *arg)
{
	struct loop *loop = arg;
	uint64_t start = twi_now_ns();

	for (int i = 0; i < loop->pairs && loop->status == TOW_OK; i++) {
		void *p;

		loop->status = twi_pool_alloc(loop->pool, loop->bytes, 0, &p);
		if (loop->status == TOW_OK)
			loop->status = twi_pool_free(loop->pool, p);
	}
	loop->ns = (double)(twi_now_ns() - start) / loop->pairs;
	return NULL;
}

/* The cost that a transport pays for each buffer in use: one lease and its release. */
static void lease_rows(struct memreg_rows *rows, struct twi_pool *pool, uint64_t bytes)
{
	int pairs = rows->quick ? 1000 : 100000;
	double ns[MEMREG_ROUNDS_MAX];
	void *p;

	if (twi_pool_alloc(pool, bytes, 0, &p) < 0) {
		memreg_rows_add(rows, "lease", "lease+release", bytes, 1, 0, tow_error_message());
		return;
	}
	for (int k = 0; k < rows->rounds; k++) {
		uint64_t start = twi_now_ns();

		for (int i = 0; i < pairs; i++)
			if (twi_pool_lease(pool, (char *)p + bytes - 1) == TOW_OK)
				twi_pool_release(pool, (char *)p + bytes - 1);
		ns[k] = (double)(twi_now_ns() - start) / pairs;
	}
	twi_pool_free(pool, p);
	memreg_rows_add(rows, "lease", "lease+release", bytes, 1, memreg_median(ns, rows->rounds),
			NULL);
}

static double alloc_round(const struct loop *model, int threads, int *status_out)
{
	struct loop loop[2] = { *model, *model };
	pthread_t other;

	if (threads == 2 && pthread_create(&other, NULL, alloc_loop, &loop[1])) {
		*status_out = TOW_ESYSTEM;
		return 0;
	}
	alloc_loop(&loop[0]);
	if (threads == 2)
		pthread_join(other, NULL);
	*status_out = loop[0].status ? loop[0].status : loop[1].status;
	return threads == 2 ? (loop[0].ns + loop[1].ns) / 2 : loop[0].ns;
}

/*
 * Brings the pool into use: blocks of many sizes with holes between them, so that lists are not
 * trivial.
 */
static void litter_pool(struct twi_pool *pool)
{
	void *kept[256];

	for (int i = 0; i < 256; i++)
		if (twi_pool_alloc(pool, (size_t)64 << i % 10, 0, &kept[i]) < 0)
			kept[i] = NULL;
	for (int i = 0; i < 256; i += 2)
		twi_pool_free(pool, kept[i]);
}

static void alloc_rows(struct memreg_rows *rows, struct twi_diag *diag)
{
	struct twi_pool_options options = { .bytes = 64 * MIB, .diag = diag };
	struct twi_pool *pool;

	if (twi_pool_create(&options, &pool) < 0) {
		memreg_rows_add(rows, "alloc", "pool", options.bytes, 1, 0, tow_error_message());
		return;
	}
	litter_pool(pool);
	for (uint64_t bytes = 64; bytes <= 16 * MIB; bytes *= 4)
		for (int threads = 1; threads <= 2; threads++) {
			struct loop model = { pool, bytes, rows->quick ? 1000 : 100000, 0, TOW_OK };
			double ns[MEMREG_ROUNDS_MAX];
			int status = TOW_OK;

			for (int k = 0; status == TOW_OK && k < rows->rounds; k++)
				ns[k] = alloc_round(&model, threads, &status);
			memreg_rows_add(rows, "alloc", "alloc+free", bytes, threads,
					status ? 0 : memreg_median(ns, rows->rounds),
					status ? tow_status_name(status) : NULL);
		}
	lease_rows(rows, pool, 64);
	lease_rows(rows, pool, MIB);
	lease_rows(rows, pool, 16 * MIB);
	twi_pool_destroy(pool);
}

int memreg_measure_alloc(struct memreg_rows *rows)
{
	struct twi_diag *diag;

	if (twi_diag_create(&diag) < 0) {
		fprintf(stderr, "tow-size: %s\n", tow_error_message());
		return MEMREG_FAULT;
	}
	alloc_rows(rows, diag);
	twi_diag_destroy(diag);
	return 0;
}
