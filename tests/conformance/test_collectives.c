/*
 * test_collectives.c - collectives in every cell of the conformance suite (conform.h), of two ranks
 * that are threads: all kinds, types and operators, sizes from none to larger than a segment, those
 * that end by a deadline, a cancel or a mismatch, and groups that go on after that.
 */
#include "conform.h"
#include "reduce_model.h"

#define SMALL  1000u  /* elements */
#define LARGE  70000u /* of 8 bytes: more than one segment, and half of an end's memory */
#define STRIDE (2 * SMALL * 16)
#define SHORT  100000000ull /* a deadline that passes */

/* X(name, whether it reduces) */
#define KINDS(X)                                                                                   \
	X(all_reduce, true)                                                                        \
	X(reduce_scatter, true)                                                                    \
	X(reduce, true)                                                                            \
	X(all_gather, false)                                                                       \
	X(all_gather_v, false)                                                                     \
	X(broadcast, false)                                                                        \
	X(gather, false)                                                                           \
	X(scatter, false)                                                                          \
	X(all_to_all, false)                                                                       \
	X(all_to_all_v, false)                                                                     \
	X(permute, false)                                                                          \
	X(send_receive, false)                                                                     \
	X(barrier, false)

enum kind {
#define KIND_ENUM(name, reduces) KIND_##name,
	KINDS(KIND_ENUM)
#undef KIND_ENUM
		KIND_COUNT
};

static const struct {
	const char *name;
	bool reduces;
} kinds[] = {
#define KIND_ROW(name, reduces) { #name, reduces },
	KINDS(KIND_ROW)
#undef KIND_ROW
};

/* One collective of both ranks. Parts are of `count` elements each; the root is rank 1. */
struct what {
	enum kind kind;
	enum tow_type type;
	enum tow_reduce reduce;
	uint64_t count;
};

/* Element i of part p of a rank's `in`. Any sum or product of two of them is exact in all types. */
static void put_element(enum tow_type type, unsigned rank, unsigned part, uint64_t i, uint8_t *to)
{
	unsigned long value = 1ul << (i * 7 + rank * 5 + part * 3) % 11 % 3;

	if (type == TOW_BOOL)
		value = (i + rank + part) % 3 == 0;
	if (twt_is_complex(type)) { /* a whole number and a power of i */
		enum tow_type of = twt_part_type(type);
		unsigned turn = (unsigned)(i + rank) % 2;

		twt_store_float(of, 0, to + (1 - turn) * twt_type_bytes[of]);
		twt_store_float(of, (double)value, to + turn * twt_type_bytes[of]);
		return;
	}
	if (twt_is_float(type))
		twt_store_float(type, (double)value, to);
	else
		memcpy(to, &value, twt_type_bytes[type]);
}

static void fill(const struct what *what, unsigned rank, uint8_t *in)
{
	unsigned unit = twt_type_bytes[what->type];

	for (unsigned part = 0; part < 2; part++)
		for (uint64_t i = 0; i < what->count; i++)
			put_element(what->type, rank, part, i,
				    in + (part * what->count + i) * unit);
}

/* What element i of a part of the result is: of which part of which rank, or of both reduced. */
static void expect_element(const struct what *what, int source, unsigned part, uint64_t i,
			   uint8_t *to)
{
	uint8_t both[2][16];
	const void *sources[] = { both[0], both[1] };
	struct twi_reduction reduction = { .type = what->type,
					   .reduce = what->reduce,
					   .ranks = 2,
					   .sources_n = 2,
					   .sources = sources,
					   .count = 1 };

	if (source >= 0) {
		put_element(what->type, (unsigned)source, part, i, to);
		return;
	}
	put_element(what->type, 0, part, i, both[0]);
	put_element(what->type, 1, part, i, both[1]);
	twt_model(&reduction, 0, to);
}

static bool part_is(const struct what *what, const uint8_t *out, int source, unsigned part)
{
	unsigned unit = twt_type_bytes[what->type];
	uint8_t element[16];

	for (uint64_t i = 0; i < what->count; i++) {
		expect_element(what, source, part, i, element);
		if (memcmp(element, out + i * unit, unit) != 0)
			return false;
	}
	return true;
}

#define BOTH (-1)

static bool is_right(const struct what *what, unsigned rank, const uint8_t *out)
{
	const uint8_t *second = out + what->count * twt_type_bytes[what->type];

	switch (what->kind) {
	case KIND_all_reduce:
		return part_is(what, out, BOTH, 0);
	case KIND_reduce_scatter:
		return part_is(what, out, BOTH, rank);
	case KIND_reduce:
		return rank == 0 || part_is(what, out, BOTH, 0);
	case KIND_all_gather:
	case KIND_all_gather_v:
		return part_is(what, out, 0, 0) && part_is(what, second, 1, 0);
	case KIND_broadcast:
		return part_is(what, out, 1, 0);
	case KIND_gather:
		return rank == 0 || (part_is(what, out, 0, 0) && part_is(what, second, 1, 0));
	case KIND_scatter:
		return part_is(what, out, 1, rank);
	case KIND_all_to_all:
	case KIND_all_to_all_v:
		return part_is(what, out, 0, rank) && part_is(what, second, 1, rank);
	case KIND_permute:
	case KIND_send_receive:
		return part_is(what, out, 1 - (int)rank, 0);
	default:
		return true;
	}
}

static int start_reducing(struct tow_group *group, const struct what *what, const void *in,
			  void *out, const struct tow_coll_options *options, struct tow_op **op)
{
	switch (what->kind) {
	case KIND_all_reduce:
		return tow_coll_all_reduce_start(group, in, out, what->count, what->type,
						 what->reduce, options, op);
	case KIND_reduce_scatter:
		return tow_coll_reduce_scatter_start(group, in, out, what->count, what->type,
						     what->reduce, options, op);
	default:
		return tow_coll_reduce_start(group, in, out, what->count, what->type, what->reduce,
					     1, options, op);
	}
}

static int start_of_parts(struct tow_group *group, const struct what *what, const void *in,
			  void *out, const struct tow_coll_options *options, struct tow_op **op)
{
	const uint64_t counts[] = { what->count, what->count }, offsets[] = { 0, what->count };
	const struct tow_coll_parts parts = { counts, offsets };
	const struct tow_coll_pair pairs[] = { { 0, 1 }, { 1, 0 } };
	const int64_t other = 1 - (int64_t)tow_group_rank(group);

	switch (what->kind) {
	case KIND_all_gather_v:
		return tow_coll_all_gather_v_start(group, in, out, counts, offsets, what->type,
						   options, op);
	case KIND_all_to_all_v:
		return tow_coll_all_to_all_v_start(group, in, &parts, out, &parts, what->type,
						   options, op);
	case KIND_permute:
		return tow_coll_permute_start(group, in, out, what->count, what->type, pairs, 2,
					      options, op);
	default:
		return tow_coll_send_receive_start(group, in, other, out, other, what->count,
						   what->type, options, op);
	}
}

static int start(struct tow_group *group, const struct what *what, const void *in, void *out,
		 const struct tow_coll_options *options, struct tow_op **op)
{
	if (kinds[what->kind].reduces)
		return start_reducing(group, what, in, out, options, op);
	switch (what->kind) {
	case KIND_all_gather:
		return tow_coll_all_gather_start(group, in, out, what->count, what->type, options,
						 op);
	case KIND_broadcast:
		return tow_coll_broadcast_start(group, out, what->count, what->type, 1, options,
						op);
	case KIND_gather:
		return tow_coll_gather_start(group, in, out, what->count, what->type, 1, options,
					     op);
	case KIND_scatter:
		return tow_coll_scatter_start(group, in, out, what->count, what->type, 1, options,
					      op);
	case KIND_all_to_all:
		return tow_coll_all_to_all_start(group, in, out, what->count, what->type, options,
						 op);
	case KIND_barrier:
		return tow_coll_barrier_start(group, options, op);
	default:
		return start_of_parts(group, what, in, out, options, op);
	}
}

static struct tow_coll_options options_of(struct twt_end *end, struct twt_doing *doing,
					  uint64_t timeout_ns)
{
	const struct tow_op_options *like = twt_begin(end, doing, timeout_ns);
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.timeout_ns = like->timeout_ns;
	options.done = like->done;
	options.queue = like->queue;
	options.user = like->user;
	return options;
}

static void begin(struct twt_end *end, struct twt_doing *doing, const struct what *what,
		  uint8_t *in, uint8_t *out)
{
	const struct tow_coll_options options = options_of(end, doing, TOW_FOREVER);
	uint64_t bytes = what->count * twt_type_bytes[what->type];

	fill(what, (unsigned)end->which, in);
	memset(out, 0xee, 2 * bytes);
	if (what->kind == KIND_broadcast && bytes > 0)
		memcpy(out, in, bytes); /* the root's, and of others what is overwritten */
	twt_ok(end, start(end->group, what, in, out, &options, &doing->op));
}

/* All types at once, each in its own piece of memory; says which are wrong. */
static void each_type(struct twt_end *end, enum kind kind, enum tow_reduce reduce)
{
	struct what what[TOW_TYPE_COUNT];
	struct twt_doing doing[TOW_TYPE_COUNT];
	struct tow_result result;
	unsigned right = 0, count = 0;

	for (unsigned i = 0; i < TOW_TYPE_COUNT; i++) {
		what[i] = (struct what){ kind, (enum tow_type)i, reduce, SMALL };
		if (kinds[kind].reduces && !twi_reduce_legal(what[i].type, reduce))
			continue;
		begin(end, &doing[i], &what[i], end->out + i * STRIDE, end->in + i * STRIDE);
		count++;
	}
	for (unsigned i = 0; i < TOW_TYPE_COUNT; i++) {
		bool good;

		if (kinds[kind].reduces && !twi_reduce_legal(what[i].type, reduce))
			continue;
		good = twt_await(end, &doing[i], &result) == TOW_OK &&
		       is_right(&what[i], (unsigned)end->which, end->in + i * STRIDE);
		right += good;
		if (!good)
			twt_say(end, "%s of %s: %s, or WRONG", kinds[kind].name, twt_type_names[i],
				tow_status_name(result.status));
	}
	twt_say(end, "%s %s: %u of %u types", kinds[kind].name,
		kinds[kind].reduces ? twt_reduce_names[reduce] : "", right, count);
}

static void all_kinds(struct twt_end *end)
{
	for (unsigned k = 0; k < KIND_COUNT; k++)
		for (unsigned r = 0; r < (kinds[k].reduces ? TOW_REDUCE_COUNT : 1); r++)
			each_type(end, (enum kind)k, (enum tow_reduce)r);
}

static void all_sizes(struct twt_end *end)
{
	static const uint64_t counts[] = { 0, 1, LARGE };

	for (unsigned k = 0; k < KIND_COUNT; k++) {
		for (unsigned c = 0; c < 3; c++) {
			struct what what = { (enum kind)k, TOW_F64, TOW_SUM, counts[c] };
			struct tow_result result;
			struct twt_doing doing;

			begin(end, &doing, &what, end->out, end->in);
			twt_await(end, &doing, &result);
			twt_say(end, "%s of %llu: %s %s", kinds[k].name,
				(unsigned long long)what.count, tow_status_name(result.status),
				is_right(&what, (unsigned)end->which, end->in) ? "right" : "WRONG");
		}
	}
}

/* Small all-reduces that leave together. */
static void fused(struct twt_end *end)
{
	enum { COUNT = 10 };
	const struct what what = { KIND_all_reduce, TOW_F32, TOW_SUM, SMALL };
	struct twt_doing doing[COUNT];
	struct tow_result result;
	unsigned right = 0;

	twt_say(end, "an end without a start: %s", tow_status_name(tow_coll_batch_end(end->group)));
	twt_ok(end, tow_coll_batch_begin(end->group));
	for (unsigned i = 0; i < COUNT; i++)
		begin(end, &doing[i], &what, end->out + i * STRIDE, end->in + i * STRIDE);
	twt_ok(end, tow_coll_batch_end(end->group));
	for (unsigned i = 0; i < COUNT; i++)
		right += twt_await(end, &doing[i], &result) == TOW_OK &&
			 is_right(&what, (unsigned)end->which, end->in + i * STRIDE);
	twt_say(end, "%u of %d fused", right, COUNT);
}

/* More than may be in flight, of one kind after another, awaited from the last to the first. */
static void many(struct twt_end *end)
{
	enum { COUNT = 3 * TOW_COLL_IN_FLIGHT, ELEMENTS = 60 };
	static const uint32_t stride = 2 * ELEMENTS * 4;
	struct twt_doing doing[COUNT];
	struct tow_result result;
	unsigned right = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		const struct what what = { (enum kind)(i % KIND_COUNT), TOW_S32, TOW_SUM,
					   ELEMENTS };

		begin(end, &doing[i], &what, end->out + i * stride, end->in + i * stride);
	}
	for (unsigned i = COUNT; i-- > 0;) {
		const struct what what = { (enum kind)(i % KIND_COUNT), TOW_S32, TOW_SUM,
					   ELEMENTS };

		right += twt_await(end, &doing[i], &result) == TOW_OK &&
			 is_right(&what, (unsigned)end->which, end->in + i * stride);
	}
	twt_say(end, "%u of %d at once", right, COUNT);
}

/* Each rank's input times its own factor: 1 at rank 0, halves at rank 1, in one buffer or two. */
static void scaled(struct twt_end *end)
{
	static const enum tow_type types[] = { TOW_F32,  TOW_F64, TOW_F16,
					       TOW_BF16, TOW_C64, TOW_C128 };
	const double scale = end->which == 0 ? 1 : 0.5;
	unsigned right = 0;

	for (unsigned i = 0; i < 12; i++) {
		const enum tow_type type = types[i / 2], part = twt_part_type(type);
		const unsigned unit = twt_type_bytes[type], half = twt_type_bytes[part];
		uint8_t *in = end->out, *out = i % 2 == 0 ? end->in : end->out;
		struct tow_coll_options options;
		struct tow_result result;
		struct twt_doing doing;
		bool good;

		for (uint64_t at = 0; at < 4 * LARGE / unit * unit; at += half)
			twt_store_float(part, (double)(at / half % 7), in + at);
		options = options_of(end, &doing, TOW_FOREVER);
		options.scale = scale;
		twt_ok(end, tow_coll_all_reduce_start(end->group, in, out, 4 * LARGE / unit, type,
						      TOW_SUM, &options, &doing.op));
		good = twt_await(end, &doing, &result) == TOW_OK;
		for (uint64_t at = 0; at < 4 * LARGE / unit * unit; at += half)
			good &= twt_load_float(part, out + at) == 1.5 * (double)(at / half % 7);
		right += good;
	}
	twt_say(end, "%u of 12 scaled", right);
}

static void scale_misuse(struct twt_end *end)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	options.scale = 2;
	twt_say(end, "a scaled sum of integers: %s",
		tow_status_name(tow_coll_all_reduce_start(end->group, end->out, end->in, 8, TOW_S32,
							  TOW_SUM, &options, &op)));
	twt_say(end, "a scaled broadcast: %s",
		tow_status_name(tow_coll_broadcast_start(end->group, end->in, 8, TOW_F32, 0,
							 &options, &op)));
	options.scale = (double)NAN;
	twt_say(end, "a factor that is no number: %s",
		tow_status_name(tow_coll_all_reduce_start(end->group, end->out, end->in, 8, TOW_F32,
							  TOW_SUM, &options, &op)));
}

/* --- in vain --- */

static void misuse(struct twt_end *end)
{
	struct tow_group *group = end->group;
	struct tow_op *op;

	twt_say(end, "no type: %s",
		tow_status_name(tow_coll_all_reduce_start(group, end->out, end->in, 8,
							  TOW_TYPE_COUNT, TOW_SUM, NULL, &op)));
	twt_say(end, "an operator that the type has not: %s",
		tow_status_name(tow_coll_all_reduce_start(group, end->out, end->in, 8, TOW_F32,
							  TOW_XOR, NULL, &op)));
	twt_say(end, "no data: %s",
		tow_status_name(
			tow_coll_all_gather_start(group, NULL, end->in, 8, TOW_F32, NULL, &op)));
	twt_say(end, "no root: %s",
		tow_status_name(
			tow_coll_broadcast_start(group, end->in, 8, TOW_F32, 2, NULL, &op)));
	twt_say(end, "nobody to tell: %s",
		tow_status_name(tow_coll_barrier_start(group, NULL, NULL)));
}

/*
 * A part of the group, to be broken. Nobody drives while the call blocks, unless the library's
 * thread does: what the other still waits for is over before it.
 */
static struct tow_group *part_of(struct twt_end *end)
{
	struct tow_group *part;

	twt_meet(end);
	twt_ok(end, tow_group_split(end->group, 0, 0, TWT_CELL_NS, &part));
	twt_meet(end);
	return part;
}

static int sum(struct twt_end *end, struct tow_group *part, uint64_t count, uint64_t timeout_ns,
	       struct twt_doing *doing)
{
	const struct tow_coll_options options = options_of(end, doing, timeout_ns);

	return tow_coll_all_reduce_start(part, end->out, end->in, count, TOW_S32, TOW_SUM, &options,
					 &doing->op);
}

/* A broken group, the n-th, refuses; what is made of its ranks is whole. */
static void mend(struct twt_end *end, struct tow_group *part, unsigned n)
{
	struct tow_result result;
	struct tow_group *whole;
	struct twt_doing doing;

	twt_until(end, "/v1/counters", "counters", "coll_groups_broken", n);
	twt_say(end, "in a broken group: %s",
		tow_status_name(sum(end, part, 8, TWT_CELL_NS, &doing)));
	twt_meet(end);
	twt_ok(end, tow_group_shrink(part, TWT_CELL_NS, &whole));
	twt_say(end, "shrunk: rank %u of %u", tow_group_rank(whole), tow_group_size(whole));
	twt_ok(end, sum(end, whole, 8, TWT_CELL_NS, &doing));
	twt_say(end, "in the new one: %s", tow_status_name(twt_await(end, &doing, &result)));
	twt_meet(end);
	twt_ok(end, tow_group_close(whole));
	twt_ok(end, tow_group_close(part));
	twt_meet(end);
}

static void expire(struct twt_end *end)
{
	struct tow_group *part = part_of(end);
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0) {
		twt_ok(end, sum(end, part, SMALL, SHORT, &doing));
		twt_say(end, "past its deadline: %s",
			tow_status_name(twt_await(end, &doing, &result)));
	}
	twt_meet(end);
	mend(end, part, 1);
}

static void cancel(struct twt_end *end)
{
	struct tow_group *part = part_of(end);
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0) {
		twt_ok(end, sum(end, part, SMALL, TOW_FOREVER, &doing));
		twt_ok(end, tow_op_cancel(doing.op));
		twt_say(end, "canceled: %s", tow_status_name(twt_await(end, &doing, &result)));
	}
	twt_meet(end);
	mend(end, part, 2);
}

static void mismatch(struct twt_end *end)
{
	struct tow_group *part = part_of(end);
	struct tow_result result;
	struct twt_doing doing;

	twt_ok(end, sum(end, part, end->which == 0 ? 10 : 20, TOW_FOREVER, &doing));
	twt_say(end, "of two lengths: %s", tow_status_name(twt_await(end, &doing, &result)));
	twt_meet(end);
	mend(end, part, 3);
}

static void play(struct twt_end *end)
{
	twt_group_connect(end);
	all_kinds(end);
	all_sizes(end);
	fused(end);
	many(end);
	scaled(end);
	misuse(end);
	scale_misuse(end);
	expire(end);
	cancel(end);
	mismatch(end);
}

int main(void)
{
	return twt_conform(TWT_COLLECTIVES, play, NULL);
}
