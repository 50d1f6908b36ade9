/*
 * workload.h - reads a list of tensors (bench/workloads/README.md).
 *
 * The file is not trusted: a line that breaks the format is an error with its line number. A list
 * that is silently shorter would give a figure that is silently better.
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
 * Reads the first `limit` tensors (0: all); the lines behind them are checked too. Returns 0, or -1
 * with the reason in `error`, which begins with the path. The caller gives *out to workload_free.
 */
int workload_load(const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size);
/* Reads from a stream; `path` is for messages. */
int workload_read(FILE *file, const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size);
void workload_free(struct workload *work);

/*
 * Finds the file for `name`. It is a path that exists, or a model ("gpt2", "llama3-8b.tsv") in
 * $TOW_WORKLOADS, the installed data directory or the source tree. Returns 0, or -1 with the
 * searched folders in `error`.
 */
int workload_find(const char *name, char *path_out, size_t path_size, char *error,
		  size_t error_size);

/*
 * Splits "FILE[:strategy]" at the last colon, unless the rest is part of a path. `name` gets the
 * first part. Returns the second part; NULL: there is none.
 */
const char *workload_split(const char *argument, char *name, size_t name_size);

#endif
