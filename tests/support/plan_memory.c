/* plan_memory.c - the memory of ranks for which a plan is played. */
#include "plan_memory.h"

uint64_t twt_plan_unit(enum tow_type type)
{
	static const unsigned char units[TOW_TYPE_COUNT] = {
#define TWT_UNIT(name, value, bytes, text) bytes,
		TOW_TYPE_MAP(TWT_UNIT)
#undef TWT_UNIT
	};

	return units[type];
}

uint64_t twt_plan_offset(const uint64_t *counts, const uint64_t *offsets, uint32_t index)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; offsets == NULL && i < index; i++)
		sum += counts[i];
	return offsets != NULL ? offsets[index] : sum;
}

static uint64_t twt_plan_v_end(const uint64_t *counts, const uint64_t *offsets, uint32_t ranks)
{
	uint64_t end = 0, sum = 0;

	for (uint32_t i = 0; i < ranks; i++) {
		uint64_t one = (offsets != NULL ? offsets[i] : sum) + counts[i];

		end = end > one ? end : one;
		sum += counts[i];
	}
	return end;
}

uint64_t twt_plan_length(const struct twi_plan_case *what, bool in)
{
	uint64_t one = what->count, all = one * what->ranks;
	bool root = what->rank == what->root;

	switch (what->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_PERMUTE:
	case TWI_COLL_BROADCAST:
		return one;
	case TWI_COLL_SEND_RECEIVE:
		return (in ? what->target : what->source) >= 0 ? one : 0;
	case TWI_COLL_REDUCE:
		return in || root ? one : 0;
	case TWI_COLL_REDUCE_SCATTER:
		return in ? all : one;
	case TWI_COLL_ALL_GATHER:
		return in ? one : all;
	case TWI_COLL_GATHER:
		return in ? one : root ? all : 0;
	case TWI_COLL_SCATTER:
		return !in ? one : root ? all : 0;
	case TWI_COLL_ALL_TO_ALL:
		return all;
	case TWI_COLL_ALL_GATHER_V:
		return in ? what->recv_counts[what->rank]
			  : twt_plan_v_end(what->recv_counts, what->recv_offsets, what->ranks);
	case TWI_COLL_ALL_TO_ALL_V:
		return in ? twt_plan_v_end(what->send_counts, what->send_offsets, what->ranks)
			  : twt_plan_v_end(what->recv_counts, what->recv_offsets, what->ranks);
	default:
		return 0;
	}
}

uint64_t twt_plan_part(const struct twi_plan_case *what)
{
	switch (what->kind) {
	case TWI_COLL_ALL_GATHER_V:
		return twt_plan_offset(what->recv_counts, what->recv_offsets, what->rank);
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_GATHER:
	case TWI_COLL_SCATTER:
		return what->rank * what->count;
	default:
		return 0;
	}
}

bool twt_plan_joined(const struct twi_plan_case *what)
{
	bool rooted = what->kind == TWI_COLL_REDUCE || what->kind == TWI_COLL_GATHER ||
		      what->kind == TWI_COLL_SCATTER;

	return what->kind == TWI_COLL_BROADCAST ||
	       (what->in_place && (!rooted || what->rank == what->root));
}

static void twt_plan_guarded(struct twt_plan_memory *memory, int space, uint64_t bytes)
{
	memory->bytes[space] = bytes;
	memory->owned[space] = malloc(bytes + 2 * TWT_PLAN_GUARD);
	assert_non_null(memory->owned[space]);
	memset(memory->owned[space], 0xa5, bytes + 2 * TWT_PLAN_GUARD);
	memory->at[space] = memory->owned[space] + TWT_PLAN_GUARD;
}

void twt_plan_memory_init(struct twt_plan_memory *memory, const struct twi_plan_case *what,
			  uint64_t scratch_bytes)
{
	uint64_t unit = twt_plan_unit(what->type);
	uint64_t in = twt_plan_length(what, true) * unit;
	uint64_t out = twt_plan_length(what, false) * unit;
	int large = in >= out ? TWI_PLAN_IN : TWI_PLAN_OUT;

	*memory = (struct twt_plan_memory){ 0 };
	twt_plan_guarded(memory, large, in >= out ? in : out);
	if (twt_plan_joined(what)) {
		memory->at[!large] = memory->at[large] + twt_plan_part(what) * unit;
		memory->bytes[!large] = in >= out ? out : in;
	} else {
		twt_plan_guarded(memory, !large, in >= out ? out : in);
	}
	twt_plan_guarded(memory, TWI_PLAN_SCRATCH, scratch_bytes);
	twt_plan_guarded(memory, TWI_PLAN_CELL, what->cell_bytes);
}

bool twt_plan_guards_hold(const struct twt_plan_memory *memory)
{
	for (int space = 0; space < 4; space++)
		for (uint64_t i = 0; memory->owned[space] != NULL && i < TWT_PLAN_GUARD; i++)
			if (memory->owned[space][i] != 0xa5 ||
			    memory->at[space][memory->bytes[space] + i] != 0xa5)
				return false;
	return true;
}

void twt_plan_memory_fini(struct twt_plan_memory *memory)
{
	for (int space = 0; space < 4; space++)
		free(memory->owned[space]);
}

static bool twt_plan_signed(enum tow_type type)
{
	return type >= TOW_S8 && type <= TOW_S64;
}

/* An integer element, its sign extended. */
static uint64_t twt_plan_load(enum tow_type type, const unsigned char *at)
{
	unsigned bits = (unsigned)twt_plan_unit(type) * 8;
	uint64_t value = 0;

	memcpy(&value, at, bits / 8);
	if (twt_plan_signed(type) && bits < 64 && value >> (bits - 1))
		value |= ~0ull << bits;
	return value;
}

static uint64_t twt_plan_combine(enum tow_type type, enum tow_reduce reduce, uint64_t a, uint64_t b)
{
	bool less = twt_plan_signed(type) ? (int64_t)a < (int64_t)b : a < b;

	switch (reduce) {
	case TOW_PROD:
		return a * b;
	case TOW_MIN:
		return less ? a : b;
	case TOW_MAX:
		return less ? b : a;
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

static double twt_plan_combine_float(enum tow_reduce reduce, double a, double b)
{
	switch (reduce) {
	case TOW_PROD:
		return a * b;
	case TOW_MIN:
		return a < b ? a : b;
	case TOW_MAX:
		return a < b ? b : a;
	default:
		return a + b;
	}
}

/* `divide`: by how many; 0: not. `to` may be one of the sources. */
static void twt_plan_fold_float(enum tow_type type, enum tow_reduce reduce, unsigned char *to,
				const unsigned char **from, uint32_t n, uint32_t divide)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		float small;
		double one;

		memcpy(&small, from[i], sizeof(small));
		one = small;
		if (type == TOW_F64)
			memcpy(&one, from[i], sizeof(one));
		sum = i ? twt_plan_combine_float(reduce, sum, one) : one;
		if (type == TOW_F32) /* a double holds the exact sum or product of two floats */
			sum = (float)sum;
	}
	if (divide)
		sum = type == TOW_F32 ? (double)((float)sum / (float)divide) : sum / divide;
	if (type == TOW_F64)
		memcpy(to, &sum, sizeof(sum));
	else
		memcpy(to, &(float){ (float)sum }, sizeof(float));
}

void twt_plan_fold(enum tow_type type, enum tow_reduce reduce, unsigned char *to,
		   const unsigned char **from, uint32_t n, uint32_t divide)
{
	uint64_t value;

	if (type == TOW_F32 || type == TOW_F64) {
		twt_plan_fold_float(type, reduce, to, from, n, divide);
		return;
	}
	value = twt_plan_load(type, from[0]);
	for (uint32_t i = 1; i < n; i++)
		value = twt_plan_combine(type, reduce, value, twt_plan_load(type, from[i]));
	if (divide) {
		unsigned char wrapped[8];

		memcpy(wrapped, &value, sizeof(value));
		value = twt_plan_load(type, wrapped);
		value = twt_plan_signed(type) ? (uint64_t)((int64_t)value / (int64_t)divide)
					      : value / divide;
	}
	memcpy(to, &value, twt_plan_unit(type));
}
