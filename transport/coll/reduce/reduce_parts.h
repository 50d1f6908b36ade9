/*
 * reduce_parts.h - declarations that only the files of transport/coll/reduce share.
 */
#ifndef TWI_REDUCE_PARTS_H
#define TWI_REDUCE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/coll/reduce/reduce.h"

/* Reduces the elements [first, first + count) of a reduction in plain C. */
void twi_reduce_plain_part(const struct twi_reduction *reduction, uint64_t first, uint64_t count);

/* Does twi_reduce_scale's work; the floating-point mode is set already. */
void twi_reduce_scale_part(enum tow_type type, void *to, const void *from, uint64_t count,
			   double factor);

/* Divides `count` accumulators (f32 for narrow floats) by `ranks`; integers round toward zero. */
void twi_reduce_divide(enum tow_type type, void *numbers, unsigned count, uint32_t ranks);

extern const struct twi_reduce_variant twi_reduce_plain;
extern const struct twi_reduce_variant twi_reduce_avx2;
extern const struct twi_reduce_variant twi_reduce_avx512;
extern const struct twi_reduce_variant twi_reduce_neon;

#endif
