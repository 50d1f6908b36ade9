/*
 * fake_registrar.h - a registrar with a translation table of its own, and faults by program.
 *
 * What is not in its table it does not translate, and a region that comes twice, goes without
 * having come, or shares a slot with another ends the test: so a test that passes has announced and
 * forgotten each region exactly once.
 *
 *   struct twt_fake fake = { .fail_at = 2, .fail_status = TOW_ENOMEM };
 *   twi_pool_registrar_add(pool, &twt_fake_registrar, &fake);
 *   twt_fake_translate(&fake, p, bytes)    the region that holds it, or NULL
 *
 * add and remove come under the pool's control lock; translate may be called by any thread.
 */
#ifndef TWT_FAKE_REGISTRAR_H
#define TWT_FAKE_REGISTRAR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "diag/base/error.h"
#include "memreg/region/registrar.h"

struct twt_fake {
	int fail_at; /* this add fails (1 is the next), and each after it while fail_all */
	bool fail_all;
	int fail_status;     /* 0: TOW_ESYSTEM */
	uint64_t fail_kind;  /* only adds of this kind count, as a bit mask; 0: all */
	uint64_t latency_ns; /* of each add */
	/* What happened. */
	int adds, removes, calls, known;
	uint64_t known_bytes;
	struct twi_region table[TWI_REGION_SLOTS]; /* by slot; generation 0: none */
};

extern const struct twi_registrar twt_fake_registrar;

/* Is it in the table as this region, all of it? */
bool twt_fake_knows(struct twt_fake *fake, const struct twi_region *region, const void *p,
		    uint64_t bytes);

/* The region that holds [p, p + bytes), as a device would find it; false: it refuses. */
bool twt_fake_translate(struct twt_fake *fake, const void *p, uint64_t bytes);

#endif
