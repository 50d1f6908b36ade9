/*
 * reduce_model.h - what a reduction is, by definition: element by element, slowly, with arithmetic
 * that shares nothing with coll/reduce. Without cmocka, as it runs on other machines, too.
 *
 * Of floats each operation is done with more than twice the bits and rounded once, which is what
 * IEEE 754 means by it; narrow formats are made from their exponent and mantissa by ldexp, and
 * rounded as multiples of their last bit. Integers are summed in 128 bits and cut at the end.
 */
#ifndef TWT_REDUCE_MODEL_H
#define TWT_REDUCE_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "transport/coll/reduce/reduce.h"

__extension__ typedef __int128 twt_wide;
__extension__ typedef unsigned __int128 twt_wide_u;
#if defined(__x86_64__)
__extension__ typedef __float128 twt_quad;
#else
typedef long double twt_quad;
#endif

struct twt_format {
	int exponent, mantissa;
	bool infinities; /* the largest exponent is for them and NaNs; else one pattern is NaN */
};

extern const struct twt_format twt_formats[TOW_TYPE_COUNT];

extern const unsigned twt_type_bytes[TOW_TYPE_COUNT];

extern const char *const twt_type_names[TOW_TYPE_COUNT];

extern const char *const twt_reduce_names[TOW_REDUCE_COUNT];

double twt_widen(uint32_t bits, struct twt_format f);

uint32_t twt_narrow(double value, struct twt_format f);

bool twt_is_float(enum tow_type type);

bool twt_is_complex(enum tow_type type);

/* The type of a complex number's parts; of any other the type itself. */
enum tow_type twt_part_type(enum tow_type type);

/* An element as a double. */
double twt_load_float(enum tow_type type, const uint8_t *from);

void twt_store_float(enum tow_type type, double value, uint8_t *to);

/* One element multiplied by a factor. */
void twt_model_scale(enum tow_type type, const uint8_t *from, double factor, uint8_t *to);

/* Element i of the reduction. */
void twt_model(const struct twi_reduction *r, uint64_t i, uint8_t *to);

/* The same bits, or both a NaN. */
bool twt_same_element(enum tow_type type, const uint8_t *a, const uint8_t *b);

#endif
