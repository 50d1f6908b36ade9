/*
 * coll_api.c - the public calls: checks the arguments and makes a call of them. See coll.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/reduce/reduce.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"
#include "transport/op/queue.h"

/* The most elements of any type that all ranks can have together, with every byte counted. */
#define TYPE_BYTES_MAX 16u
#define ELEMENTS_MAX   ((uint64_t)INT64_MAX / TYPE_BYTES_MAX)

#define TYPE_FITS(name, value, bytes, text)                                                        \
	_Static_assert((bytes) <= TYPE_BYTES_MAX, "ELEMENTS_MAX is too large for " text);
TOW_TYPE_MAP(TYPE_FITS)
#undef TYPE_FITS

TOW_PUBLIC uint64_t tow_type_bytes(enum tow_type type)
{
	switch (type) {
#define TYPE_BYTES(name, value, bytes, text)                                                       \
	case value:                                                                                \
		return bytes;
		TOW_TYPE_MAP(TYPE_BYTES)
#undef TYPE_BYTES
	default:
		return 0;
	}
}

TOW_PUBLIC const char *tow_type_name(enum tow_type type)
{
	switch (type) {
#define TYPE_NAME(name, value, bytes, text)                                                        \
	case value:                                                                                \
		return text;
		TOW_TYPE_MAP(TYPE_NAME)
#undef TYPE_NAME
	default:
		return "?";
	}
}

TOW_PUBLIC const char *tow_reduce_name(enum tow_reduce reduce)
{
	switch (reduce) {
#define REDUCE_NAME(name, value, text)                                                             \
	case value:                                                                                \
		return text;
		TOW_REDUCE_MAP(REDUCE_NAME)
#undef REDUCE_NAME
	default:
		return "?";
	}
}

/* The arguments of a public call. start_request() checks what all kinds have in common. */
struct request {
	const char *call;
	struct tow_group *group;
	struct twi_coll_call what;
	const struct tow_coll_options *options;
	struct tow_op **op_out;
};

static bool kind_reduces(enum twi_coll_kind kind)
{
	return kind == TWI_COLL_ALL_REDUCE || kind == TWI_COLL_REDUCE_SCATTER ||
	       kind == TWI_COLL_REDUCE;
}

static int check_numbers(const struct request *request, uint32_t size)
{
	const struct twi_coll_call *what = &request->what;
	uint64_t bytes = tow_type_bytes(what->type);

	if (bytes == 0)
		return twi_error(TOW_EINVAL, "%s: type is %d, which is not a data type",
				 request->call, (int)what->type);
	if (what->count > ELEMENTS_MAX / size)
		return twi_error(TOW_EINVAL,
				 "%s: count is %llu, which is more than any memory "
				 "holds",
				 request->call, (unsigned long long)what->count);
	if (what->root >= size)
		return twi_error(TOW_EINVAL, "%s: root is %u, the group has %u", request->call,
				 what->root, size);
	if (what->scale != 0 && !(kind_reduces(what->kind) && twi_reduce_scales(what->type)))
		return twi_error(TOW_EINVAL,
				 "%s: scale is %g, which is for reductions of floats and complex "
				 "numbers, not for this one of %s",
				 request->call, what->scale, tow_type_name(what->type));
	if (!kind_reduces(what->kind))
		return TOW_OK;
	if ((unsigned)what->reduce >= TOW_REDUCE_COUNT)
		return twi_error(TOW_EINVAL, "%s: reduce is %d, which is not a reduction",
				 request->call, (int)what->reduce);
	if (!twi_reduce_legal(what->type, what->reduce))
		return twi_error(TOW_EINVAL, "%s: %s is not defined for %s", request->call,
				 tow_reduce_name(what->reduce), tow_type_name(what->type));
	return TOW_OK;
}

static bool ranges_overlap(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
	return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

/* For kinds that may be in place: where `in` has to lie, as an offset from `out`. */
static bool in_place_at(const struct twi_coll_call *what, uint32_t rank, int64_t *offset_out)
{
	int64_t part = (int64_t)(what->count * tow_type_bytes(what->type));

	*offset_out = 0;
	switch (what->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_BROADCAST:
	case TWI_COLL_ALL_TO_ALL:
		return true;
	case TWI_COLL_REDUCE:
		return rank == what->root;
	case TWI_COLL_ALL_GATHER:
		*offset_out = part * rank;
		return true;
	case TWI_COLL_ALL_GATHER_V:
		*offset_out = (int64_t)(what->recv_offsets[rank] * tow_type_bytes(what->type));
		return true;
	case TWI_COLL_GATHER:
		*offset_out = part * rank;
		return rank == what->root;
	case TWI_COLL_REDUCE_SCATTER:
		*offset_out = -part * rank;
		return true;
	case TWI_COLL_SCATTER:
		*offset_out = -part * rank;
		return rank == what->root;
	default:
		return false;
	}
}

static int check_buffers(struct request *request, uint32_t rank, uint32_t size)
{
	struct twi_coll_call *what = &request->what;
	const uint8_t *in = what->in, *out = what->out;
	uint64_t in_bytes, out_bytes;
	int64_t offset;

	twi_coll_spans(what, rank, size, &in_bytes, &out_bytes);
	if (in == NULL && in_bytes > 0)
		return twi_error(TOW_EINVAL, "%s: in is NULL", request->call);
	if (out == NULL && out_bytes > 0)
		return twi_error(TOW_EINVAL, "%s: out is NULL", request->call);
	if (!ranges_overlap(in, in_bytes, out, out_bytes))
		return TOW_OK;
	if (!in_place_at(what, rank, &offset) || in != out + offset)
		return twi_error(TOW_EINVAL, "%s: in and out overlap", request->call);
	what->in_place = true;
	return TOW_OK;
}

static int check_options(struct request *request, const struct tow_coll_options *options)
{
	struct twi_coll_call *what = &request->what;

	if (request->op_out == NULL &&
	    (options == NULL || (options->done == NULL && options->queue == NULL)))
		return twi_error(TOW_EINVAL,
				 "%s: op_out is NULL, and there is neither a callback nor a queue",
				 request->call);
	if (options == NULL)
		return TOW_OK;
	what->priority = options->priority;
	if (!isfinite(options->scale))
		return twi_error(TOW_EINVAL, "%s: scale is %g, which is no finite number",
				 request->call, options->scale);
	what->scale = options->scale == 1 ? 0 : options->scale;
	if (options->plan != NULL) {
		what->forced = twi_plan_find(options->plan);
		if (what->forced == NULL) {
			char names[TWI_PLAN_NAMES_BYTES];

			twi_plan_names(names);
			return twi_error(TOW_EINVAL,
					 "%s: there is no plan \"%.40s\"; there are: %s",
					 request->call, options->plan, names);
		}
	}
	if (options->name == NULL)
		return TOW_OK;
	if (strlen(options->name) >= sizeof(what->name))
		return twi_error(TOW_EINVAL, "%s: the name has more than %zu bytes", request->call,
				 sizeof(what->name) - 1);
	strcpy(what->name, options->name);
	return TOW_OK;
}

static int begin_request(struct request *request, const struct tow_coll_options *options,
			 struct twi_engine *engine)
{
	struct tow_op_options op_options = TOW_OP_OPTIONS_INIT;
	struct twi_coll_group *coll = request->group->coll;
	struct tow_op *op;
	int status;

	if (twi_unlikely(coll == NULL)) {
		status = twi_coll_of(request->group, &coll);
		if (status < 0)
			return status;
	}
	op_options.timeout_ns = engine->knobs.coll_timeout_ns;
	if (options != NULL) {
		if (options->timeout_ns != 0)
			op_options.timeout_ns = options->timeout_ns;
		op_options.done = options->done;
		op_options.user = options->user;
		op_options.queue = options->queue;
	}
	op = twi_op_acquire(engine, &twi_coll_op_ops, &op_options);
	if (op == NULL)
		return TOW_EBUSY;
	if (request->op_out != NULL)
		*request->op_out = op;
	else
		twi_op_forget(op);
	if (twi_likely(!coll->holds_back)) {
		status = twi_coll_start(coll, &request->what, op);
	} else {
		twi_coll_record_begin(coll, &request->what, request->what.name, op);
		status = twi_coll_batch_add(coll, &request->what, op);
	}
	if (status < 0) {
		twi_coll_record_undo(op);
		twi_op_discard(op);
		if (request->op_out != NULL)
			*request->op_out = NULL;
	}
	return status;
}

static int start_request(struct request *request)
{
	const struct tow_coll_options *options = request->options;
	struct tow_group *group = request->group;
	struct tow_coll_options known; /* a copy, when the caller's struct has another size */
	struct twi_engine *engine;
	int status;

	if (request->op_out != NULL)
		*request->op_out = NULL;
	status = TWI_SIZED_IN(tow_coll_options, request->call, options, &known);
	if (status == TOW_OK)
		status = check_options(request, options);
	if (status == TOW_OK)
		status = twi_group_check(group, request->call);
	if (status == TOW_OK && twi_unlikely(options != NULL && options->queue != NULL))
		status = twi_queue_check(options->queue, group->ranks->engine, options->done,
					 request->call);
	if (status == TOW_OK)
		status = check_numbers(request, group->size);
	if (status == TOW_OK)
		status = check_buffers(request, group->rank, group->size);
	if (status < 0)
		return status;
	engine = group->ranks->engine;
	twi_group_enter(engine);
	if (engine->failing || group->ranks->closing)
		status = twi_error(TOW_ECLOSED, "%s: the group is being closed", request->call);
	else
		status = begin_request(request, options, engine);
	if (request->what.count >= TWI_HANDOFF_BULK / sizeof(uint64_t))
		twi_handoff_restart(&engine->handoff, twi_engine_clock(engine));
	twi_engine_leave(engine);
	return status;
}

#define REQUEST(kind_, ...)                                                                        \
	(&(struct request){ .call = __func__,                                                      \
			    .group = group,                                                        \
			    .options = options,                                                    \
			    .op_out = op_out,                                                      \
			    .what = { .kind = (kind_), .site = TWI_SITE_HERE, __VA_ARGS__ } })

TOW_PUBLIC int tow_coll_all_reduce_start(struct tow_group *group, const void *in, void *out,
					 uint64_t count, enum tow_type type, enum tow_reduce reduce,
					 const struct tow_coll_options *options,
					 struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_ALL_REDUCE, .in = in, .out = out, .count = count,
				     .type = type, .reduce = reduce));
}

TOW_PUBLIC int tow_coll_reduce_scatter_start(struct tow_group *group, const void *in, void *out,
					     uint64_t count, enum tow_type type,
					     enum tow_reduce reduce,
					     const struct tow_coll_options *options,
					     struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_REDUCE_SCATTER, .in = in, .out = out, .count = count,
				     .type = type, .reduce = reduce));
}

TOW_PUBLIC int tow_coll_all_gather_start(struct tow_group *group, const void *in, void *out,
					 uint64_t count, enum tow_type type,
					 const struct tow_coll_options *options,
					 struct tow_op **op_out)
{
	return start_request(
		REQUEST(TWI_COLL_ALL_GATHER, .in = in, .out = out, .count = count, .type = type));
}

TOW_PUBLIC int tow_coll_broadcast_start(struct tow_group *group, void *data, uint64_t count,
					enum tow_type type, uint32_t root,
					const struct tow_coll_options *options,
					struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_BROADCAST, .in = data, .out = data, .count = count,
				     .type = type, .root = root));
}

TOW_PUBLIC int tow_coll_reduce_start(struct tow_group *group, const void *in, void *out,
				     uint64_t count, enum tow_type type, enum tow_reduce reduce,
				     uint32_t root, const struct tow_coll_options *options,
				     struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_REDUCE, .in = in, .out = out, .count = count,
				     .type = type, .reduce = reduce, .root = root));
}

TOW_PUBLIC int tow_coll_gather_start(struct tow_group *group, const void *in, void *out,
				     uint64_t count, enum tow_type type, uint32_t root,
				     const struct tow_coll_options *options, struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_GATHER, .in = in, .out = out, .count = count,
				     .type = type, .root = root));
}

TOW_PUBLIC int tow_coll_scatter_start(struct tow_group *group, const void *in, void *out,
				      uint64_t count, enum tow_type type, uint32_t root,
				      const struct tow_coll_options *options,
				      struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_SCATTER, .in = in, .out = out, .count = count,
				     .type = type, .root = root));
}

TOW_PUBLIC int tow_coll_all_to_all_start(struct tow_group *group, const void *in, void *out,
					 uint64_t count, enum tow_type type,
					 const struct tow_coll_options *options,
					 struct tow_op **op_out)
{
	return start_request(
		REQUEST(TWI_COLL_ALL_TO_ALL, .in = in, .out = out, .count = count, .type = type));
}

TOW_PUBLIC int tow_coll_barrier_start(struct tow_group *group,
				      const struct tow_coll_options *options,
				      struct tow_op **op_out)
{
	return start_request(REQUEST(TWI_COLL_BARRIER, .type = TOW_U8));
}

TOW_PUBLIC int tow_coll_send_receive_start(struct tow_group *group, const void *in, int64_t target,
					   void *out, int64_t source, uint64_t count,
					   enum tow_type type,
					   const struct tow_coll_options *options,
					   struct tow_op **op_out)
{
	int status = twi_group_check(group, "tow_coll_send_receive_start");
	int64_t size;

	if (status < 0)
		return status;
	size = group->size;
	if (target < TOW_GROUP_NONE || target >= size || source < TOW_GROUP_NONE || source >= size)
		return twi_error(TOW_EINVAL,
				 "tow_coll_send_receive_start: target is %lld, source is %lld; the "
				 "group has %lld",
				 (long long)target, (long long)source, (long long)size);
	return start_request(REQUEST(TWI_COLL_SEND_RECEIVE, .in = in, .out = out, .count = count,
				     .type = type, .target = target, .source = source));
}

/* Checks that the pairs name ranks of the group. */
static int check_pairs(const struct tow_coll_pair *pairs, uint32_t pair_count, uint32_t size)
{
	if (pair_count > size || (pairs == NULL && pair_count > 0))
		return twi_error(TOW_EINVAL,
				 "tow_coll_permute_start: pairs is NULL, or pair_count %u is more "
				 "than the %u ranks of the group",
				 pair_count, size);
	for (uint32_t i = 0; i < pair_count; i++) {
		if (pairs[i].source >= size || pairs[i].target >= size)
			return twi_error(TOW_EINVAL,
					 "tow_coll_permute_start: pairs[%u] is %u to %u, the group "
					 "has %u",
					 i, pairs[i].source, pairs[i].target, size);
	}
	return TOW_OK;
}

/* Checks that each rank is the source of at most one pair, and the target of at most one. `seen`
 * has 2 * size bits, which are 0. */
static int check_unique(const struct tow_coll_pair *pairs, uint32_t pair_count, uint32_t size,
			uint64_t *seen)
{
	for (uint32_t i = 0; i < pair_count; i++) {
		const uint32_t at[2] = { pairs[i].source, size + pairs[i].target };

		for (int side = 0; side < 2; side++) {
			if ((seen[at[side] / 64] >> at[side] % 64 & 1) != 0)
				return twi_error(TOW_EINVAL,
						 "tow_coll_permute_start: pairs[%u]: rank %u is %s "
						 "of two pairs",
						 i, side == 0 ? pairs[i].source : pairs[i].target,
						 side == 0 ? "the source" : "the target");
			seen[at[side] / 64] |= 1ull << at[side] % 64;
		}
	}
	return TOW_OK;
}

TOW_PUBLIC int tow_coll_permute_start(struct tow_group *group, const void *in, void *out,
				      uint64_t count, enum tow_type type,
				      const struct tow_coll_pair *pairs, uint32_t pair_count,
				      const struct tow_coll_options *options,
				      struct tow_op **op_out)
{
	uint64_t few[8] = { 0 }, *seen = few;
	uint32_t words;
	int status = twi_group_check(group, "tow_coll_permute_start");

	if (status == TOW_OK)
		status = check_pairs(pairs, pair_count, group->size);
	if (status < 0)
		return status;
	words = (2 * group->size + 63) / 64;
	if (words > twi_array_count(few))
		seen = calloc(words, sizeof(seen[0]));
	if (seen == NULL)
		return twi_error(TOW_ENOMEM, "tow_coll_permute_start: no memory to check %u pairs",
				 pair_count);
	status = check_unique(pairs, pair_count, group->size, seen);
	if (seen != few)
		free(seen);
	if (status < 0)
		return status;
	return start_request(REQUEST(TWI_COLL_PERMUTE, .in = in, .out = out, .count = count,
				     .type = type, .pairs = pairs, .pair_count = pair_count));
}

/*
 * Makes the offsets that the caller has not given: one part after another. Their memory belongs to
 * the group, so only the first call allocates; no two calls of one group run at once. NULL: no
 * memory.
 */
static uint64_t *offsets_of(struct tow_group *group, unsigned which, const uint64_t *counts)
{
	uint64_t *offsets = group->part_offsets[which];
	uint64_t at = 0;

	if (offsets == NULL)
		offsets = group->part_offsets[which] = malloc(group->size * sizeof(offsets[0]));
	for (uint32_t i = 0; offsets != NULL && i < group->size; i++) {
		offsets[i] = at;
		at += counts[i];
	}
	return offsets;
}

/* Checks that each count and offset is possible, and fills in offsets that were not given. */
static int check_parts(const char *call, struct tow_group *group, unsigned which,
		       const struct tow_coll_parts *parts, const uint64_t **offsets_out)
{
	const uint32_t size = group->size;

	if (parts == NULL || parts->counts == NULL)
		return twi_error(TOW_EINVAL, "%s: counts is NULL", call);
	for (uint32_t i = 0; i < size; i++) {
		const uint64_t count = parts->counts[i];
		const uint64_t offset = parts->offsets != NULL ? parts->offsets[i] : 0;

		/* Then neither the end of a part nor the sum of all counts can wrap. */
		if (count > ELEMENTS_MAX / size || offset > ELEMENTS_MAX - count)
			return twi_error(TOW_EINVAL,
					 "%s: the part of rank %u has %llu elements at %llu, "
					 "which is more than any memory holds",
					 call, i, (unsigned long long)count,
					 (unsigned long long)offset);
	}
	*offsets_out =
		parts->offsets != NULL ? parts->offsets : offsets_of(group, which, parts->counts);
	if (*offsets_out == NULL)
		return twi_error(TOW_ENOMEM, "%s: no memory for %u offsets", call, size);
	return TOW_OK;
}

TOW_PUBLIC int tow_coll_all_gather_v_start(struct tow_group *group, const void *in, void *out,
					   const uint64_t *counts, const uint64_t *offsets,
					   enum tow_type type,
					   const struct tow_coll_options *options,
					   struct tow_op **op_out)
{
	const struct tow_coll_parts parts = { counts, offsets };
	const uint64_t *at;
	int status = twi_group_check(group, "tow_coll_all_gather_v_start");

	if (status == TOW_OK)
		status = check_parts("tow_coll_all_gather_v_start", group, 1, &parts, &at);
	if (status < 0)
		return status;
	return start_request(REQUEST(TWI_COLL_ALL_GATHER_V, .in = in, .out = out, .type = type,
				     .count = counts[group->rank], .recv_counts = counts,
				     .recv_offsets = at));
}

TOW_PUBLIC int tow_coll_all_to_all_v_start(struct tow_group *group, const void *in,
					   const struct tow_coll_parts *send, void *out,
					   const struct tow_coll_parts *receive, enum tow_type type,
					   const struct tow_coll_options *options,
					   struct tow_op **op_out)
{
	static const char call[] = "tow_coll_all_to_all_v_start";
	const uint64_t *at[2];
	int status = twi_group_check(group, call);

	if (status == TOW_OK)
		status = check_parts(call, group, 0, send, &at[0]);
	if (status == TOW_OK)
		status = check_parts(call, group, 1, receive, &at[1]);
	if (status < 0)
		return status;
	return start_request(REQUEST(TWI_COLL_ALL_TO_ALL_V, .in = in, .out = out, .type = type,
				     .send_counts = send->counts, .send_offsets = at[0],
				     .recv_counts = receive->counts, .recv_offsets = at[1]));
}

/* After TOW_OK the engine is held. */
static int enter_group(struct tow_group *group, const char *call)
{
	int status = twi_group_check(group, call);

	if (status < 0)
		return status;
	twi_group_enter(group->ranks->engine);
	return TOW_OK;
}

TOW_PUBLIC int tow_coll_batch_begin(struct tow_group *group)
{
	struct twi_coll_group *coll;
	int status = enter_group(group, __func__);

	if (status < 0)
		return status;
	status = twi_coll_of(group, &coll);
	if (status == TOW_OK)
		status = twi_coll_batch_open(coll);
	twi_engine_leave(group->ranks->engine);
	return status;
}

TOW_PUBLIC int tow_coll_batch_end(struct tow_group *group)
{
	int status = enter_group(group, __func__);

	if (status < 0)
		return status;
	if (group->coll == NULL)
		status = twi_error(TOW_EINVAL, "tow_coll_batch_end: none is open");
	else
		status = twi_coll_batch_close(group->coll);
	twi_engine_leave(group->ranks->engine);
	return status;
}
