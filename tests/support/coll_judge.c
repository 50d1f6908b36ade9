/* coll_judge.c - what the ranks of a case must have in the end. */
#include "coll_judge.h"

static void twt_coll_fold(struct twt_coll_truth *truth)
{
	const struct twi_plan_case *what = &truth->of->ranks[0];
	uint64_t unit = twt_plan_unit(what->type), count = twt_plan_length(what, true);
	const void **from = twt_coll_array(what->ranks, sizeof(*from));
	struct twi_reduction all = { .type = what->type,
				     .reduce = what->reduce,
				     .ranks = what->ranks,
				     .sources_n = what->ranks,
				     .sources = from,
				     .count = count };

	truth->scaled = twt_coll_array(what->ranks, sizeof(*truth->scaled));
	for (uint32_t r = 0; r < what->ranks; r++) {
		double scale = truth->of->scales != NULL ? truth->of->scales[r] : 0;
		unsigned char *to = truth->scaled[r] = twt_coll_array(count, unit);

		from[r] = to;
		memcpy(to, truth->images[r].in, count * unit);
		for (uint64_t i = 0; scale != 0 && i < count; i++)
			twt_model_scale(what->type, to + i * unit, scale, to + i * unit);
	}
	truth->sum = twt_coll_array(count, unit);
	for (uint64_t i = 0; i < count; i++)
		twt_model(&all, i, truth->sum + i * unit);
	free(from);
}

void twt_coll_truth_init(struct twt_coll_truth *truth, const struct twt_coll_case *c)
{
	*truth = (struct twt_coll_truth){ .of = c };
	truth->images = twt_coll_array(c->n, sizeof(*truth->images));
	for (uint32_t r = 0; r < c->n; r++) {
		struct twt_plan_image *image = &truth->images[r];

		image->in_bytes =
			twt_plan_length(&c->ranks[r], true) * twt_plan_unit(c->ranks[r].type);
		image->in = twt_coll_array(image->in_bytes, 1);
		twt_coll_fill(c, r, image->in, image->in_bytes);
	}
	if (twi_coll_kind_reduces(c->ranks[0].kind))
		twt_coll_fold(truth);
}

void twt_coll_truth_fini(struct twt_coll_truth *truth)
{
	for (uint32_t r = 0; r < truth->of->n; r++) {
		free(truth->images[r].in);
		if (truth->scaled != NULL)
			free(truth->scaled[r]);
	}
	free(truth->scaled);
	free(truth->images);
	free(truth->sum);
}

void twt_coll_expect(const struct twt_coll_truth *truth, uint32_t rank, unsigned char *must)
{
	const struct twi_plan_case *what = &truth->of->ranks[rank];
	uint64_t bytes = what->count * twt_plan_unit(what->type);

	if (truth->sum == NULL)
		twt_plan_expect(truth->of->ranks, rank, truth->images, must);
	else if (what->kind == TWI_COLL_REDUCE_SCATTER)
		memcpy(must, truth->sum + rank * bytes, bytes);
	else if (what->kind == TWI_COLL_ALL_REDUCE || rank == what->root)
		memcpy(must, truth->sum, bytes);
}

/* How far element `index` of IN may be off: every operand rounded once, relative to all of them. */
static double twt_coll_margin(const struct twt_coll_truth *truth, uint64_t index)
{
	static const double eps[] = {
		[TOW_F32] = 0x1p-23, [TOW_F64] = 0x1p-52,   [TOW_F16] = 0x1p-10,
		[TOW_BF16] = 0x1p-7, [TOW_F8E4M3] = 0x1p-3, [TOW_F8E5M2] = 0x1p-2,
	};
	static const double least[] = {
		[TOW_F16] = 0x1p-24, [TOW_F8E4M3] = 0x1p-9, [TOW_F8E5M2] = 0x1p-16
	};
	const struct twi_plan_case *what = &truth->of->ranks[0];
	uint64_t unit = twt_plan_unit(what->type);
	double sum = 0, margin, tiny = what->type == TOW_BF16 ? 0x1p-133 : least[what->type];

	for (uint32_t r = 0; r < what->ranks; r++)
		sum += fabs(twt_load_float(what->type, truth->scaled[r] + index * unit));
	margin = what->ranks * (eps[what->type] * sum + tiny);
	if (what->reduce == TOW_AVG)
		margin = margin / what->ranks + eps[what->type] * sum / what->ranks + tiny;
	return margin;
}

static bool twt_coll_near(const struct twt_coll_truth *truth, uint32_t rank,
			  const unsigned char *is, const unsigned char *must, uint64_t bytes)
{
	const struct twi_plan_case *what = &truth->of->ranks[rank];
	uint64_t unit = twt_plan_unit(what->type);
	uint64_t first = what->kind == TWI_COLL_REDUCE_SCATTER ? rank * what->count : 0;
	enum tow_type part = twt_part_type(what->type);

	if (twt_is_complex(what->type)) { /* they are exact, but for the signs of zeros */
		for (uint64_t at = 0; at < bytes; at += twt_type_bytes[part])
			if (!(twt_load_float(part, is + at) == twt_load_float(part, must + at)))
				return false;
		return true;
	}
	for (uint64_t i = 0; i < bytes / unit; i++) {
		double gap = fabs(twt_load_float(what->type, is + i * unit) -
				  twt_load_float(what->type, must + i * unit));

		if (!(gap <= twt_coll_margin(truth, first + i)))
			return false;
	}
	return true;
}

/* The first element that differs, for people. */
static void twt_coll_differ(const struct twi_plan_case *what, const unsigned char *is,
			    const unsigned char *must, uint64_t bytes)
{
	uint64_t unit = twt_plan_unit(what->type), wrong = 0, first = 0, last = 0;

	for (uint64_t i = 0; i < bytes / unit; i++) {
		if (memcmp(is + i * unit, must + i * unit, unit) == 0)
			continue;
		first = wrong++ ? first : i;
		last = i;
	}
	fprintf(stderr,
		"%llu of %llu elements differ, from %llu to %llu: ", (unsigned long long)wrong,
		(unsigned long long)(bytes / unit), (unsigned long long)first,
		(unsigned long long)last);
	for (uint64_t i = 0; i < unit && wrong; i++)
		fprintf(stderr, "%02x", is[first * unit + i]);
	fprintf(stderr, " in place of ");
	for (uint64_t i = 0; i < unit && wrong; i++)
		fprintf(stderr, "%02x", must[first * unit + i]);
	fprintf(stderr, "\n");
}

const char *twt_coll_judge(const struct twt_coll_truth *truth, uint32_t rank, bool canonical,
			   const unsigned char *is, const unsigned char *must, uint64_t bytes)
{
	bool inexact = truth->of->wild || twt_is_complex(truth->of->ranks[rank].type);
	bool near = inexact && !canonical && truth->sum != NULL;

	if (bytes == 0 || memcmp(is, must, bytes) == 0)
		return NULL;
	if (near && twt_coll_near(truth, rank, is, must, bytes))
		return NULL;
	twt_coll_differ(&truth->of->ranks[rank], is, must, bytes);
	return near ? "OUT is not near what it must be" : "OUT is wrong";
}

uint64_t twt_coll_digest(const unsigned char *at, uint64_t bytes)
{
	uint64_t hash = bytes;

	for (uint64_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

void twt_coll_say(const struct twt_coll_case *c, uint32_t rank, const char *plan)
{
	const struct twi_plan_case *what = &c->ranks[rank];

	fprintf(stderr,
		"case %llu, rank %u of %u: %s %s of %llu %s, root %u, %s%s, plan %s%s, priority "
		"%d\n",
		(unsigned long long)c->seed, rank, c->n, twi_coll_kind_name(what->kind),
		twt_reduce_names[what->reduce], (unsigned long long)what->count,
		twt_type_names[what->type], what->root,
		twt_plan_joined(what) ? "in place" : "not in place", c->wild ? ", wild" : "", plan,
		c->forced != NULL ? " as asked for" : "", c->priority);
}
