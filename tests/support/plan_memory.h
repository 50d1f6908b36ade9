/*
 * plan_memory.h - what a rank of a collective has: how long its buffers are, where they are one
 * when it is in place, guards around them, and plain arithmetic on elements. plan_play.h plays on
 * it.
 */
#ifndef TWT_PLAN_MEMORY_H
#define TWT_PLAN_MEMORY_H

#include "twt.h"

#include <stdbool.h>
#include <string.h>

#include "transport/coll/plan/plan.h"

#define TWT_PLAN_GUARD 64u

struct twt_plan_memory {
	unsigned char *at[4]; /* by enum twi_plan_space */
	uint64_t bytes[4];
	unsigned char *owned[4]; /* with guards; NULL: part of another */
};

uint64_t twt_plan_unit(enum tow_type type);

/* Offset of a part of a v kind, in elements. */
uint64_t twt_plan_offset(const uint64_t *counts, const uint64_t *offsets, uint32_t index);

/* Elements of IN or OUT. */
uint64_t twt_plan_length(const struct twi_plan_case *what, bool in);

/* Where in the larger of IN and OUT the smaller lies when they are one, in elements. */
uint64_t twt_plan_part(const struct twi_plan_case *what);

/* Whether IN and OUT of this rank are one. */
bool twt_plan_joined(const struct twi_plan_case *what);

void twt_plan_memory_init(struct twt_plan_memory *memory, const struct twi_plan_case *what,
			  uint64_t scratch_bytes);

bool twt_plan_guards_hold(const struct twt_plan_memory *memory);

void twt_plan_memory_fini(struct twt_plan_memory *memory);

/* One element. */
void twt_plan_fold(enum tow_type type, enum tow_reduce reduce, unsigned char *to,
		   const unsigned char **from, uint32_t n, uint32_t divide);

#endif
