/*
 * memreg_several.h - one size for several logs, as it is found (memreg_several.c) and told
 * (memreg_several_report.c).
 */
#ifndef BENCH_MEMREG_SEVERAL_H
#define BENCH_MEMREG_SEVERAL_H

#include "bench/memreg/memreg_size.h"

/* A size that single logs need, and how many of all logs fit in it as they were recorded. */
struct memreg_candidate {
	uint64_t bytes;
	uint32_t fits;
};

struct memreg_several {
	const struct memreg_options *options;
	struct memreg_options option[MEMREG_LOGS]; /* the same, with one log each */
	struct memreg_sizing *log;                 /* by log; `named` is what it needs alone */
	uint64_t probed_bytes[MEMREG_LOGS];        /* the size that log[i].own is for */
	struct memreg_run run[MEMREG_LOGS];        /* of each log, at the size named */
	uint32_t count;
	uint32_t worst;    /* the log that needs most without headroom */
	uint64_t smallest; /* without headroom */
	uint64_t named, step_bytes;
	uint64_t below_bytes; /* there the run of below_log was not clean; 0: no smaller pool */
	uint32_t below_log;
	struct memreg_candidate candidate[MEMREG_LOGS];
	uint32_t candidates;
	uint32_t fits;          /* --premap: logs for which it is enough */
	uint64_t any_order;     /* the largest of all logs; 0: not known */
	uint32_t any_order_log; /* which has it */
	bool verified;
	char verified_why[768];
};

void memreg_several_report(const struct memreg_several *all);
int memreg_several_json(const struct memreg_several *all);

#endif
