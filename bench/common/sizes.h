/*
 * sizes.h - lists of sizes on a command line or in the environment, as tow-perf and tow-coll take
 * them.
 */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_SIZES_MAX  32
#define BENCH_SIZES_HELP "sizes are a list like 8,4K,1M of at most 32 up to 1024M"

struct bench_sizes {
	uint64_t bytes[BENCH_SIZES_MAX];
	unsigned count;
};

/* "8,1K,4M": sizes from `least` to 1 GiB. False: it is none; say BENCH_SIZES_HELP. */
bool bench_parse_sizes(const char *text, uint64_t least, struct bench_sizes *out);

/* The variable, if it is set and not empty. */
const char *bench_env(const char *name, const char *fallback);

#endif
