/*
 * coll_case.h - a random collective: what every rank calls, by seed alone, so that processes which
 * share nothing but the seed make the same calls and know what each other's buffers hold.
 */
#ifndef TWT_COLL_CASE_H
#define TWT_COLL_CASE_H

#include "plan_memory.h"
#include "reduce_model.h"

/* Among whom: what the cases are drawn for. */
struct twt_coll_world {
	uint32_t n;
	bool one_host; /* plans in shared memory may be asked for */
	bool reproducible;
	uint64_t segment_bytes, bytes_max; /* bytes_max: of what all ranks hold together */
	uint32_t depth;
};

struct twt_coll_case {
	uint64_t seed, random;
	uint32_t n, pair_count;
	struct twi_plan_case *ranks; /* the call of each */
	uint64_t *counts;            /* of v kinds: n * n each of counts, offsets, and both sent */
	struct tow_coll_pair *pairs;
	uint32_t *locals, *hosts;
	const struct twi_plan_row *forced; /* NULL: the library chooses */
	int32_t priority;
	double *scales; /* of each rank, as in the options; NULL: none has one */
	bool wild;      /* floats whose sum depends on the order */
};

#define TWT_COLL_FEW 64u /* beyond so many ranks nothing connects all of them to all */

uint64_t twt_coll_hash(uint64_t a, uint64_t b);

void *twt_coll_array(uint64_t n, size_t bytes);

void twt_coll_case_init(struct twt_coll_case *c, uint64_t seed, const struct twt_coll_world *world);

void twt_coll_case_fini(struct twt_coll_case *c);

#endif
