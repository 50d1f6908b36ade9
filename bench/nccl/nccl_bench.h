/*
 * nccl_bench.h - one side of a measurement of tow-nccl.
 */
#ifndef NCCL_BENCH_H
#define NCCL_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/nccl/net_table.h"

#define NCCL_BENCH_COMMS 1024

enum nccl_bench_kind { NCCL_BENCH_RTT, NCCL_BENCH_RING, NCCL_BENCH_THREADS, NCCL_BENCH_MANY };

struct nccl_bench {
	enum nccl_bench_kind kind;
	const char *plugin;
	int version; /* of the table; 0: the newest */
	int comms;   /* in each direction */
	size_t bytes;
	int steps;
	bool pin;      /* each process to a CPU of its own */
	double *value; /* result of side 0, in memory that both sides share */
};

/* Allocates that shared memory. NULL: no memory. */
double *nccl_bench_shared(void);

/*
 * Runs one side, and returns the exit status of its process. `fd` is connected to the other side.
 */
int nccl_bench_side(const struct nccl_bench *bench, int side, int fd);

#endif
