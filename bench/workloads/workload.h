/*
 * workload.h - a list of tensors (bench/workloads/README.md), read as a stranger's file: a line
 * that is not what the format says is an error with its number. A list that is silently shorter
 * would make a figure that is silently better.
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WORKLOAD_NAME_MAX 96
#define WORKLOAD_DIMS_MAX 8

struct workload_tensor {
	char name[WORKLOAD_NAME_MAX];
	uint64_t extent[WORKLOAD_DIMS_MAX]; /* outermost first */
	uint32_t dims, element_bytes;
	uint64_t bytes;
};

struct workload {
	struct workload_tensor *tensors;
	uint64_t count, bytes;
};

/*
 * Reads the first `limit` (0: all) tensors; the lines behind them are checked too. 0, or -1 with
 * the reason in `error`, which begins with the path. *out is to be given to workload_free.
 */
int workload_load(const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size);
/* The same from a stream; `path` is for messages. */
int workload_read(FILE *file, const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size);
void workload_free(struct workload *work);

/*
 * The file that `name` means: a path that exists, or a model ("gpt2", "llama3-8b.tsv") in
 * $TOW_WORKLOADS, the installed data directory or the source tree. 0, or -1 with the places that
 * were looked at in `error`.
 */
int workload_find(const char *name, char *path_out, size_t path_size, char *error,
		  size_t error_size);

/*
 * Splits "FILE[:strategy]" at the last colon, unless what follows it is part of a path. `name` gets
 * the first part; returns the second, NULL when there is none.
 */
const char *workload_split(const char *argument, char *name, size_t name_size);

#endif
