/* coll_fill.c - what the ranks of a case bring. */
#include "coll_fill.h"

/*
 * An element of a float that is summed, divided or multiplied. Where the order must not matter, at
 * most four ranks have one that is not neutral, and these are small powers of two: any sum of them
 * is exact in every type.
 */
static double twt_coll_number(const struct twt_coll_case *c, enum tow_reduce reduce, uint32_t rank,
			      uint64_t index)
{
	uint64_t random = twt_coll_hash(c->seed ^ (uint64_t)rank << 40, index);
	uint64_t turn = twt_coll_hash(c->seed, index) % c->n;
	bool neutral = (rank + c->n - turn) % c->n >= 4;
	double most = c->n > 50 ? 100.0 / c->n : 2;

	if (c->wild)
		return most * ((double)(int64_t)random * 0x1p-63);
	if (reduce == TOW_PROD)
		return (random & 1 ? -1 : 1) * (neutral || random & 2 ? 1.0 : 2.0);
	if (reduce == TOW_MIN || reduce == TOW_MAX)
		return (double)(int)(random % 15) - 7;
	return neutral ? 0 : (random & 1 ? -1 : 1) * (double)(1 + (random >> 1 & 1));
}

/*
 * Parts of sums are numbers like any others. Factors are a power of two and a power of i, which any
 * order multiplies exactly, but for the signs of zeros.
 */
static void twt_coll_complex(const struct twt_coll_case *c, uint32_t rank, uint64_t index,
			     uint8_t *to)
{
	const struct twi_plan_case *what = &c->ranks[rank];
	enum tow_type part = twt_part_type(what->type);
	double parts[2] = { twt_coll_number(c, what->reduce, rank, 2 * index), 0 };
	uint64_t turn = twt_coll_hash(c->seed ^ rank, index) & 1;

	if (what->reduce == TOW_PROD) {
		parts[turn] = parts[0];
		parts[1 - turn] = 0;
	} else {
		parts[1] = twt_coll_number(c, what->reduce, rank, 2 * index + 1);
	}
	twt_store_float(part, parts[0], to);
	twt_store_float(part, parts[1], to + twt_type_bytes[part]);
}

void twt_coll_fill(const struct twt_coll_case *c, uint32_t rank, unsigned char *in, uint64_t bytes)
{
	const struct twi_plan_case *what = &c->ranks[rank];
	uint64_t unit = twt_plan_unit(what->type), word;
	bool numbers = twi_coll_kind_reduces(what->kind) && twt_is_float(what->type);
	bool complex = twi_coll_kind_reduces(what->kind) && twt_is_complex(what->type);

	for (uint64_t i = 0; i < bytes / unit; i++) {
		if (complex) {
			twt_coll_complex(c, rank, i, in + i * unit);
			continue;
		}
		if (numbers) {
			twt_store_float(what->type, twt_coll_number(c, what->reduce, rank, i),
					in + i * unit);
			continue;
		}
		word = twt_coll_hash(c->seed ^ (uint64_t)rank << 40, i);
		if (what->type == TOW_BOOL)
			word &= 1;
		for (uint64_t at = 0; at < unit; at += sizeof(word))
			memcpy(in + i * unit + at, &word,
			       unit < sizeof(word) ? unit : sizeof(word));
	}
}
