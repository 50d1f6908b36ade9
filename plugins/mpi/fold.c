/*
 * fold.c - MPI's operators over arrays, in_out[i] = in[i] op in_out[i]. They serve where the
 * library has no collective: scans, logical operators of integers, pairs, long double. Integers
 * wrap around.
 */
#include "plugins/mpi/twmpi.h"

#define FOLD(name, c, suffix, expression)                                                          \
	static void name##_##suffix(const void *in, void *in_out, uint64_t count)                  \
	{                                                                                          \
		const c *x = in;                                                                   \
		c *y = in_out;                                                                     \
                                                                                                   \
		for (uint64_t i = 0; i < count; i++) {                                             \
			c a = x[i], b = y[i];                                                      \
                                                                                                   \
			y[i] = expression;                                                         \
		}                                                                                  \
	}

#define LOGICAL(c, suffix)                                                                         \
	FOLD(land, c, suffix, a != 0 && b != 0)                                                    \
	FOLD(lor, c, suffix, a != 0 || b != 0)                                                     \
	FOLD(lxor, c, suffix, (a != 0) != (b != 0))
#define BYTES(c, suffix)                                                                           \
	FOLD(band, c, suffix, a &b)                                                                \
	FOLD(bor, c, suffix, a | b)                                                                \
	FOLD(bxor, c, suffix, a ^ b)
#define INTEGER(c, suffix)                                                                         \
	FOLD(sum, c, suffix, (uint64_t)a + (uint64_t)b)                                            \
	FOLD(prod, c, suffix, (uint64_t)a *(uint64_t)b)                                            \
	FOLD(min, c, suffix, a < b ? a : b)                                                        \
	FOLD(max, c, suffix, a > b ? a : b)                                                        \
	LOGICAL(c, suffix)                                                                         \
	BYTES(c, suffix)
/* A NaN in either input is the result, as in the library. */
#define REAL(c, suffix)                                                                            \
	FOLD(sum, c, suffix, a + b)                                                                \
	FOLD(prod, c, suffix, a *b)                                                                \
	FOLD(min, c, suffix, a != a || a < b ? a : b)                                              \
	FOLD(max, c, suffix, a != a || a > b ? a : b)
#define COMPLEX(c, suffix)                                                                         \
	FOLD(sum, c, suffix, a + b)                                                                \
	FOLD(prod, c, suffix, a *b)
/* Of equal values, the one with the lower index wins. */
#define PAIR(c, suffix)                                                                            \
	FOLD(minloc, c, suffix,                                                                    \
	     a.value < b.value || (a.value == b.value && a.place < b.place) ? a : b)               \
	FOLD(maxloc, c, suffix,                                                                    \
	     a.value > b.value || (a.value == b.value && a.place < b.place) ? a : b)
#define OPAQUE(c, suffix)

#define TWMPI_BASE(name, c, family, type) family(c, name)
#include "plugins/mpi/base.def"
#undef TWMPI_BASE

#define AT(op)         [MPI_##op & 0xff]
#define LOGICAL_ROW(x) AT(LAND) = land_##x, AT(LOR) = lor_##x, AT(LXOR) = lxor_##x
#define BYTES_ROW(x)   AT(BAND) = band_##x, AT(BOR) = bor_##x, AT(BXOR) = bxor_##x
#define COMPLEX_ROW(x) AT(SUM) = sum_##x, AT(PROD) = prod_##x
#define REAL_ROW(x)    COMPLEX_ROW(x), AT(MIN) = min_##x, AT(MAX) = max_##x
#define INTEGER_ROW(x) REAL_ROW(x), LOGICAL_ROW(x), BYTES_ROW(x)
#define PAIR_ROW(x)    AT(MINLOC) = minloc_##x, AT(MAXLOC) = maxloc_##x
#define OPAQUE_ROW(x)  NULL

static const twmpi_fold_function folds[TWMPI_BASES][MPI_MAXLOC - MPI_OP_NULL + 1] = {
#define TWMPI_BASE(name, c, family, type) [TWMPI_BASE_##name] = { family##_ROW(name) },
#include "plugins/mpi/base.def"
#undef TWMPI_BASE
};

twmpi_fold_function twmpi_fold_find(MPIABI_Op op, enum twmpi_base base)
{
	return folds[base][op & 0xff];
}
