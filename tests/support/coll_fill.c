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

void twt_coll_fill(const struct twt_coll_case *c, uint32_t rank, unsigned char *in, uint64_t bytes)
{
	const struct twi_plan_case *what = &c->ranks[rank];
	uint64_t unit = twt_plan_unit(what->type), word;
	bool numbers = twi_coll_kind_reduces(what->kind) && twt_is_float(what->type);

	for (uint64_t i = 0; i < bytes / unit; i++) {
		if (numbers) {
			twt_store_float(what->type, twt_coll_number(c, what->reduce, rank, i),
					in + i * unit);
			continue;
		}
		word = twt_coll_hash(c->seed ^ (uint64_t)rank << 40, i);
		if (what->type == TOW_BOOL)
			word &= 1;
		memcpy(in + i * unit, &word, unit);
	}
}
