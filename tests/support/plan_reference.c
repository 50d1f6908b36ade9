/* plan_reference.c - what a collective gives, by a serial loop. */
#include "plan_reference.h"

void twt_plan_image_init(struct twt_plan_image *image, const struct twt_plan_memory *memory)
{
	image->in_bytes = memory->bytes[TWI_PLAN_IN];
	image->out_bytes = memory->bytes[TWI_PLAN_OUT];
	image->in = malloc(image->in_bytes + 1);
	image->out = malloc(image->out_bytes + 1);
	assert_non_null(image->in);
	assert_non_null(image->out);
	memcpy(image->in, memory->at[TWI_PLAN_IN], image->in_bytes);
	memcpy(image->out, memory->at[TWI_PLAN_OUT], image->out_bytes);
}

void twt_plan_image_fini(struct twt_plan_image *image)
{
	free(image->in);
	free(image->out);
}

/* Elements [first, first + count) of the reduction of all IN. */
static void twt_plan_expect_sum(const struct twi_plan_case *what,
				const struct twt_plan_image *images, uint64_t first, uint64_t count,
				unsigned char *to)
{
	uint64_t unit = twt_plan_unit(what->type);
	const unsigned char **from = calloc(what->ranks, sizeof(*from));

	assert_non_null(from);
	for (uint64_t i = 0; i < count; i++) {
		for (uint32_t r = 0; r < what->ranks; r++)
			from[r] = images[r].in + (first + i) * unit;
		twt_plan_fold(what->type, what->reduce, to + i * unit, from, what->ranks,
			      what->reduce == TOW_AVG ? what->ranks : 0);
	}
	free(from);
}

static void twt_plan_expect_pass(const struct twi_plan_case *what,
				 const struct twt_plan_image *images, unsigned char *out)
{
	uint64_t bytes = what->count * twt_plan_unit(what->type);

	if (what->kind == TWI_COLL_SEND_RECEIVE) {
		if (what->source >= 0)
			memcpy(out, images[what->source].in, bytes);
		return;
	}
	memset(out, 0, bytes);
	for (uint32_t i = 0; i < what->pair_count; i++)
		if (what->pairs[i].target == what->rank)
			memcpy(out, images[what->pairs[i].source].in, bytes);
}

/* Part of rank `from`, `count` elements from `first` of its IN, to `place` of OUT. */
static void twt_plan_expect_part(const struct twi_plan_case *what,
				 const struct twt_plan_image *images, uint32_t from, uint64_t first,
				 uint64_t count, unsigned char *out, uint64_t place)
{
	uint64_t unit = twt_plan_unit(what->type);

	if (count > 0)
		memcpy(out + place * unit, images[from].in + first * unit, count * unit);
}

static void twt_plan_expect_parts(const struct twi_plan_case *cases, uint32_t self,
				  const struct twt_plan_image *images, unsigned char *out)
{
	const struct twi_plan_case *what = &cases[self];
	uint64_t n = what->count;

	for (uint32_t r = 0; r < what->ranks; r++) {
		uint64_t first = 0, count = n, place = r * n;

		if (what->kind == TWI_COLL_ALL_TO_ALL)
			first = self * n;
		if (what->kind == TWI_COLL_ALL_TO_ALL_V)
			first = twt_plan_offset(cases[r].send_counts, cases[r].send_offsets, self);
		if (what->recv_counts != NULL) {
			count = what->recv_counts[r];
			place = twt_plan_offset(what->recv_counts, what->recv_offsets, r);
		}
		twt_plan_expect_part(what, images, r, first, count, out, place);
	}
}

void twt_plan_expect(const struct twi_plan_case *cases, uint32_t self,
		     const struct twt_plan_image *images, unsigned char *out)
{
	const struct twi_plan_case *what = &cases[self];
	uint64_t n = what->count;

	switch (what->kind) {
	case TWI_COLL_REDUCE:
		if (self == what->root)
			twt_plan_expect_sum(what, images, 0, n, out);
		break;
	case TWI_COLL_ALL_REDUCE:
		twt_plan_expect_sum(what, images, 0, n, out);
		break;
	case TWI_COLL_REDUCE_SCATTER:
		twt_plan_expect_sum(what, images, self * n, n, out);
		break;
	case TWI_COLL_BROADCAST:
		twt_plan_expect_part(what, images, what->root, 0, n, out, 0);
		break;
	case TWI_COLL_SCATTER:
		twt_plan_expect_part(what, images, what->root, self * n, n, out, 0);
		break;
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		twt_plan_expect_pass(what, images, out);
		break;
	case TWI_COLL_BARRIER:
		break;
	case TWI_COLL_GATHER:
		if (self != what->root)
			break;
		/* fallthrough */
	default:
		twt_plan_expect_parts(cases, self, images, out);
	}
}

bool twt_plan_in_kept(const struct twi_plan_case *what, const struct twt_plan_memory *memory,
		      const struct twt_plan_image *image)
{
	const unsigned char *out = memory->at[TWI_PLAN_OUT];

	for (uint64_t i = 0; i < image->in_bytes; i++) {
		const unsigned char *at = memory->at[TWI_PLAN_IN] + i;
		bool shared = twt_plan_joined(what) && at >= out &&
			      at < out + memory->bytes[TWI_PLAN_OUT];

		if (!shared && *at != image->in[i])
			return false;
	}
	return true;
}
