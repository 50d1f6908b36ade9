/*
 * reduce_case.h - a random reduction: made from a seed, done by each variant that this machine can
 * run, and compared: the plain one with the model, the others with the plain one, bit for bit.
 *
 * Each buffer lies in a box of its own, between guards, at any alignment. Sources that are no
 * result must stay as they were; so must the guards.
 */
#ifndef TWT_REDUCE_CASE_H
#define TWT_REDUCE_CASE_H

#include <stdio.h>
#include <stdlib.h>

#include "reduce_model.h"
#include "twt_random.h"

#define TWT_REDUCE_SOURCES 100
#define TWT_REDUCE_RESULTS 4
#define TWT_REDUCE_BOXES   (TWT_REDUCE_SOURCES + TWT_REDUCE_RESULTS)
#define TWT_REDUCE_GUARD   64

struct twt_reduce_case {
	uint64_t seed, random;
	struct twi_reduction r;
	const void *sources[TWT_REDUCE_SOURCES];
	void *results[TWT_REDUCE_RESULTS];
	uint64_t bytes, box_bytes, boxes;
	uint8_t *memory, *before, *want; /* all boxes; as they were; one result */
};

void twt_reduce_make(struct twt_reduce_case *c, uint64_t seed);

void twt_reduce_free(struct twt_reduce_case *c);

/* In up to three calls, each of a part of the elements. */
void twt_reduce_do(struct twt_reduce_case *c, const struct twi_reduce_variant *v);

/* 0, or 1 with the fault printed. The variant has reduced; the first makes its result `want`. */
int twt_reduce_judge(struct twt_reduce_case *c, const char *variant);

/* All variants on the case of a seed. Returns how many were wrong. */
int twt_reduce_run(uint64_t seed);

#endif
