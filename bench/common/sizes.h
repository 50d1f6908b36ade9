/*
 * sizes.h - reads lists of sizes from a command line or the environment, for tow-perf and tow-coll.
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

/*
 * Reads a list such as "8,1K,4M" of sizes from `least` to 1 GiB. Returns false when it is none; the
 * caller then prints BENCH_SIZES_HELP.
 */
bool bench_parse_sizes(const char *text, uint64_t least, struct bench_sizes *out);

/* The variable, or `fallback` when it is not set or empty. */
const char *bench_env(const char *name, const char *fallback);

#endif
