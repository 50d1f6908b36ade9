/*
 * grads.h - what the parts of tow-grads share.
 *
 *   grad_exchange.c   options, the two processes, the exit code
 *   grads_workload.c  the list of tensors, from a workload file
 *   grads_rank.c      one rank: runtime, buffers, the steps
 *   grads_report.c    what the library says about the run, and what to do about it
 *
 * Functions return 0, or an exit code of the program after having said why on stderr.
 */
#ifndef BENCH_GRADS_H
#define BENCH_GRADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/towline.h>

#define GRADS_MISMATCH 1
#define GRADS_FAILED   2

#define GRADS_NAME_MAX   96
#define GRADS_WINDOW_MAX 256

struct grads_tensor {
	char name[GRADS_NAME_MAX];
	uint64_t bytes;
};

struct grads_workload {
	struct grads_tensor *tensors;
	uint64_t count, bytes;
};

struct grads_options {
	const char *file, *label;
	uint64_t steps, window;
	uint64_t limit;  /* only the first tensors; 0: all */
	uint64_t premap; /* 0: by the environment, else as much as the buffers need */
	double linger_s; /* stay after the last step, to be looked at */
	uint64_t timeout_ns;
};

/* What one rank has to tell when its steps are over; goes through a pipe as it is. */
struct grads_outcome {
	int code;
	uint64_t steps, verified_bytes;
	double generate_s, exchange_s, verify_s; /* sums over the steps */
	double slowest_s, fastest_s;             /* exchange of one step */
	uint64_t heap_buffers, heap_bytes;       /* that the pool had no room for */
	uint64_t copied;                         /* operations that ended with TOW_COPIED */
	char pool_message[512];                  /* what tow_alloc said the first time */
};

struct grads_rank {
	const struct grads_options *options;
	const struct grads_workload *work;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	int rank;
	void **send, **recv; /* a buffer for each tensor */
	bool *send_heap, *recv_heap;
	uint64_t barrier_out, barrier_in; /* here, not on a stack that may end before a message */
	struct grads_outcome outcome;
};

int grads_workload_load(const char *path, uint64_t limit, struct grads_workload *work_out);
void grads_workload_free(struct grads_workload *work);
/* The pool that holds a send and a receive buffer for each tensor. */
uint64_t grads_workload_premap(const struct grads_workload *work);

int grads_failed(int rank, const char *what, int status);
/* Opens the runtime and an endpoint of any free port, whose address is written out. */
int grads_rank_open(struct grads_rank *rank, char *address_out, size_t address_size);
/* Rank 1 (address NULL) accepts, rank 0 connects. */
int grads_rank_join(struct grads_rank *rank, const char *address);
int grads_rank_run(struct grads_rank *rank);
void grads_rank_close(struct grads_rank *rank);

void grads_report_head(const struct grads_rank *rank);
void grads_report_run(const struct grads_rank *rank, const struct grads_outcome *other);
void grads_report_library(const struct grads_rank *rank);

#endif
