/*
 * coll_check.c - payload that can be checked, of every type and operator.
 *
 * Payload that is only moved is a hash of (seed, rank, index), cut to the type's width. So a part
 * that is shifted, torn, in another's place or missing differs. Payload that is reduced has whole
 * numbers from that hash. They are so small that every partial result is exact in the type, in any
 * order of the ranks. The expected result is computed with integers, and every bit must match.
 */
#include <stdio.h>
#include <string.h>

#include "bench/coll/tow_coll.h"
#include "bench/common/pattern.h"

#define SPOILED 0xa5

/* The largest whole number up to which the type has all, and whether it has negative ones. */
static const struct {
	int64_t exact;
	bool negative;
} ranges[TOW_TYPE_COUNT] = {
	[TOW_F32] = { 1 << 24, true },  [TOW_F64] = { INT64_C(1) << 40, true },
	[TOW_F16] = { 2048, true },     [TOW_BF16] = { 256, true },
	[TOW_F8E4M3] = { 16, true },    [TOW_F8E5M2] = { 8, true },
	[TOW_S8] = { 127, true },       [TOW_S16] = { 32767, true },
	[TOW_S32] = { 1 << 30, true },  [TOW_S64] = { INT64_C(1) << 60, true },
	[TOW_U8] = { 255, false },      [TOW_U16] = { 65535, false },
	[TOW_U32] = { 1 << 30, false }, [TOW_U64] = { INT64_C(1) << 60, false },
	[TOW_BOOL] = { 1, false },
};

struct numbers {
	enum tow_type type;
	enum tow_reduce reduce;
	uint32_t ranks;
	uint64_t seed;
	uint64_t most; /* values are 0 to most, times unit */
	int64_t unit;
	bool negative;
};

static struct numbers numbers_of(const struct coll_rank *rank, const struct coll_case *what)
{
	struct numbers n = { .type = rank->options->type,
			     .reduce = rank->options->reduce,
			     .ranks = rank->ranks,
			     .seed = what->seed,
			     .unit = 1,
			     .negative = ranges[rank->options->type].negative };
	int64_t exact = ranges[n.type].exact;
	bool sums = n.reduce == TOW_SUM || n.reduce == TOW_AVG;

	if (n.type == TOW_BOOL)
		sums = false;
	if (n.reduce == TOW_AVG && n.type <= TOW_F8E5M2)
		n.unit = rank->ranks; /* so that the mean is a whole number too */
	n.most = (uint64_t)(exact / n.unit / (sums ? rank->ranks : 1));
	if (n.reduce == TOW_PROD)
		n.negative = false;
	return n;
}

static uint64_t hash_index(uint64_t seed, uint32_t rank, uint64_t index)
{
	struct pattern p = pattern_bytes(seed * COLL_RANKS_MAX + rank);

	return pattern_word(&p, index);
}

static int64_t number_at(const struct numbers *n, uint32_t rank, uint64_t index)
{
	uint64_t h = hash_index(n->seed, rank, index);
	int64_t value;

	if (n->type == TOW_BOOL)
		return (int64_t)(h >> 40 & 1);
	/* Products of ones and a few twos are powers of two, which every type has. */
	if (n->reduce == TOW_PROD)
		return rank < 6 && (h >> 40 & 1) != 0 ? 2 : 1;
	value = (int64_t)((h >> 20 & 0xffffffff) % (n->most + 1)) * n->unit;
	return n->negative && (h >> 60 & 1) != 0 ? -value : value;
}

/* Of a bool, SUM and MAX are OR; PROD and MIN are AND. Both follow from the numbers 0 and 1. */
static int64_t combine_two(enum tow_reduce reduce, int64_t a, int64_t b)
{
	switch (reduce) {
	case TOW_PROD:
		return a * b;
	case TOW_MIN:
		return a < b ? a : b;
	case TOW_MAX:
		return a > b ? a : b;
	case TOW_AND:
		return a & b;
	case TOW_OR:
		return a | b;
	case TOW_XOR:
		return a ^ b;
	default:
		return a + b;
	}
}

/*
 * Encodes a whole number in the float type with these exponent and mantissa bits, which can hold
 * it.
 */
static uint64_t small_float(int64_t value, int exponent_bits, int mantissa_bits)
{
	uint64_t sign = value < 0, magnitude = (uint64_t)(value < 0 ? -value : value);
	int top;

	if (magnitude == 0)
		return 0;
	top = 63 - __builtin_clzll(magnitude);
	magnitude ^= UINT64_C(1) << top;
	magnitude = top <= mantissa_bits ? magnitude << (mantissa_bits - top)
					 : magnitude >> (top - mantissa_bits);
	return (sign << (exponent_bits + mantissa_bits)) |
	       ((uint64_t)(top + (1 << (exponent_bits - 1)) - 1) << mantissa_bits) | magnitude;
}

static uint64_t encode_number(enum tow_type type, int64_t value)
{
	switch (type) {
	case TOW_F32:
		return small_float(value, 8, 23);
	case TOW_F64:
		return small_float(value, 11, 52);
	case TOW_F16:
		return small_float(value, 5, 10);
	case TOW_BF16:
		return small_float(value, 8, 7);
	case TOW_F8E4M3:
		return small_float(value, 4, 3);
	case TOW_F8E5M2:
		return small_float(value, 5, 2);
	case TOW_BOOL:
		return value != 0;
	default:
		return (uint64_t)value;
	}
}

/* The bits of an element of a rank's input. */
static uint64_t given_bits(const struct numbers *n, bool reduces, uint32_t rank, uint64_t index)
{
	if (reduces)
		return encode_number(n->type, number_at(n, rank, index));
	return hash_index(n->seed, rank, index) & (n->type == TOW_BOOL ? 1 : UINT64_MAX);
}

/* The bits of an element of the result. */
static uint64_t expected_bits(const struct numbers *n, bool reduces, uint32_t source,
			      uint64_t index)
{
	int64_t value;

	if (!reduces)
		return given_bits(n, false, source, index);
	value = number_at(n, 0, index);
	for (uint32_t r = 1; r < n->ranks; r++)
		value = combine_two(n->reduce, value, number_at(n, r, index));
	return encode_number(n->type, n->reduce == TOW_AVG ? value / n->ranks : value);
}

static void put_element(uint8_t *at, uint64_t width, uint64_t bits)
{
	switch (width) {
	case 1:
		*at = (uint8_t)bits;
		break;
	case 2:
		*(uint16_t *)(void *)at = (uint16_t)bits;
		break;
	case 4:
		*(uint32_t *)(void *)at = (uint32_t)bits;
		break;
	default:
		*(uint64_t *)(void *)at = bits;
	}
}

static uint64_t get_element(const uint8_t *at, uint64_t width)
{
	switch (width) {
	case 1:
		return *at;
	case 2:
		return *(const uint16_t *)(const void *)at;
	case 4:
		return *(const uint32_t *)(const void *)at;
	default:
		return *(const uint64_t *)(const void *)at;
	}
}

/* Whether the rank has an input. In a broadcast or a scatter only the root has one. */
static bool gives_input(const struct coll_rank *rank, const struct coll_case *what)
{
	return rank->rank == COLL_ROOT ||
	       (what->kind != COLL_BROADCAST && what->kind != COLL_SCATTER);
}

void coll_fill(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *slot)
{
	struct numbers n = numbers_of(rank, what);
	bool reduces = coll_kind_reduces(what->kind);
	uint64_t bytes = what->kind == COLL_BROADCAST ? what->out_bytes : what->in_bytes;

	/* The output comes first, as one is a part of the other in place. */
	memset(slot->out, SPOILED, what->out_bytes);
	for (uint64_t i = 0; gives_input(rank, what) && i < bytes / what->width; i++)
		put_element(slot->in + i * what->width, what->width,
			    given_bits(&n, reduces, rank->rank, i));
}

static void complain_of(const struct coll_rank *rank, const struct coll_case *what,
			const struct coll_piece *piece, uint64_t i, const uint64_t bits[2])
{
	fprintf(stderr,
		"tow-coll: WRONG RESULT at rank %u: %s of %llu bytes, element %llu: "
		"%#llx, not %#llx\n",
		rank->rank, coll_kind_names[what->kind], (unsigned long long)what->bytes,
		(unsigned long long)(piece->offset + i), (unsigned long long)bits[0],
		(unsigned long long)bits[1]);
}

void coll_verify(struct coll_rank *rank, const struct coll_case *what, const struct coll_slot *slot)
{
	struct coll_piece pieces[COLL_RANKS_MAX];
	struct numbers n = numbers_of(rank, what);
	bool reduces = coll_kind_reduces(what->kind);
	uint64_t mask = what->width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * what->width)) - 1;
	uint64_t before = rank->wrong;
	uint32_t count = coll_pieces(rank, what, pieces);

	for (uint32_t p = 0; p < count; p++) {
		const uint8_t *at = slot->out + pieces[p].offset * what->width;

		for (uint64_t i = 0; i < pieces[p].count; i++) {
			uint64_t bits[2] = { get_element(at + i * what->width, what->width),
					     expected_bits(&n, reduces, pieces[p].source,
							   pieces[p].first + i) &
						     mask };

			if (bits[0] != bits[1] && rank->wrong++ == before)
				complain_of(rank, what, &pieces[p], i, bits);
		}
	}
}
