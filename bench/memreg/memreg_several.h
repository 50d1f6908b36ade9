/*
 * memreg_several.h - one pool size for several logs: found by memreg_several.c, and printed by
 * memreg_several_report.c.
 */
#ifndef BENCH_MEMREG_SEVERAL_H
#define BENCH_MEMREG_SEVERAL_H

#include "bench/memreg/memreg_size.h"

/* A size that a single log needs, and the number of all logs that fit in it as recorded. */
struct memreg_candidate {
	uint64_t bytes;
	uint32_t fits;
};

struct memreg_several {
	const struct memreg_options *options;
	struct memreg_options option[MEMREG_LOGS]; /* the same options, with one log each */
	struct memreg_sizing *log;                 /* by log; `named` is what it needs alone */
	uint64_t probed_bytes[MEMREG_LOGS];        /* the size for which log[i].own was probed */
	struct memreg_run run[MEMREG_LOGS];        /* of each log, at the named size */
	uint32_t count;
	uint32_t worst;    /* the log that needs most without headroom */
	uint64_t smallest; /* without headroom */
	uint64_t named, step_bytes;
	uint64_t below_bytes; /* the run of below_log is not clean there; 0: none smaller */
	uint32_t below_log;
	struct memreg_candidate candidate[MEMREG_LOGS];
	uint32_t candidates;
	uint32_t fits;          /* --premap: logs that fit in it */
	uint64_t any_order;     /* the largest of all logs; 0: not known */
	uint32_t any_order_log; /* the log of any_order */
	bool verified;
	char verified_why[768];
};

void memreg_several_report(const struct memreg_several *all);
int memreg_several_json(const struct memreg_several *all);

#endif
