/* coll_call.c - one collective of a random case: started, and looked at. */
#include "coll_call.h"

static void twt_coll_block(struct twt_coll_call *call, struct tow_runtime *runtime, int space,
			   uint64_t bytes, uint64_t unit, uint64_t random)
{
	uint64_t shift = random % TWT_COLL_SHIFTS / unit * unit;
	uint64_t whole = bytes + 2 * TWT_PLAN_GUARD + shift;
	void *at = NULL;

	call->pool[space] = random >> 32 & 1 && tow_alloc(runtime, whole, 0, &at) == TOW_OK;
	if (!call->pool[space])
		at = malloc(whole);
	assert_non_null(at);
	memset(at, 0xa5, whole);
	call->memory.owned[space] = at;
	call->memory.at[space] = (unsigned char *)at + shift + TWT_PLAN_GUARD;
	call->memory.bytes[space] = bytes;
}

void twt_coll_call_init(struct twt_coll_call *call, const struct twt_coll_case *c, uint32_t rank,
			struct tow_group *group, uint64_t random)
{
	const struct twi_plan_case *what = &c->ranks[rank];
	uint64_t unit = twt_plan_unit(what->type);
	uint64_t in = twt_plan_length(what, true) * unit;
	uint64_t out = twt_plan_length(what, false) * unit;
	int large = in >= out ? TWI_PLAN_IN : TWI_PLAN_OUT;
	struct twt_plan_memory *memory = &call->memory;

	*call = (struct twt_coll_call){ .of = c, .rank = rank, .group = group };
	twt_coll_block(call, group->runtime, large, in >= out ? in : out, unit, random);
	if (twt_plan_joined(what)) {
		memory->at[!large] = memory->at[large] + twt_plan_part(what) * unit;
		memory->bytes[!large] = in >= out ? out : in;
	} else {
		twt_coll_block(call, group->runtime, !large, in >= out ? out : in, unit,
			       twt_coll_hash(random, 1));
	}
	memset(memory->at[TWI_PLAN_OUT], 0x5a, out);
	twt_coll_fill(c, rank, memory->at[TWI_PLAN_IN], in);
	call->before = twt_coll_array(out, 1);
	memcpy(call->before, memory->at[TWI_PLAN_OUT], out);
}

void twt_coll_call_fini(struct twt_coll_call *call)
{
	for (int space = 0; space < 2; space++) {
		if (call->pool[space])
			tow_free(call->group->runtime, call->memory.owned[space]);
		else
			free(call->memory.owned[space]);
	}
	free(call->before);
}

static int twt_coll_start_other(struct twt_coll_call *call, const struct tow_coll_options *options)
{
	const struct twi_plan_case *what = &call->of->ranks[call->rank];
	const struct tow_coll_parts send = { what->send_counts, what->send_offsets };
	const struct tow_coll_parts receive = { what->recv_counts, what->recv_offsets };
	const void *in = call->memory.at[TWI_PLAN_IN];
	void *out = call->memory.at[TWI_PLAN_OUT];
	struct tow_group *group = call->group;

	switch (what->kind) {
	case TWI_COLL_ALL_GATHER_V:
		return tow_coll_all_gather_v_start(group, in, out, what->recv_counts,
						   what->recv_offsets, what->type, options,
						   &call->op);
	case TWI_COLL_ALL_TO_ALL:
		return tow_coll_all_to_all_start(group, in, out, what->count, what->type, options,
						 &call->op);
	case TWI_COLL_ALL_TO_ALL_V:
		return tow_coll_all_to_all_v_start(group, in, &send, out, &receive, what->type,
						   options, &call->op);
	case TWI_COLL_PERMUTE:
		return tow_coll_permute_start(group, in, out, what->count, what->type, what->pairs,
					      what->pair_count, options, &call->op);
	case TWI_COLL_SEND_RECEIVE:
		return tow_coll_send_receive_start(group, in, what->target, out, what->source,
						   what->count, what->type, options, &call->op);
	default:
		return tow_coll_barrier_start(group, options, &call->op);
	}
}

static int twt_coll_start_kind(struct twt_coll_call *call, const struct tow_coll_options *options)
{
	const struct twi_plan_case *what = &call->of->ranks[call->rank];
	const void *in = call->memory.at[TWI_PLAN_IN];
	void *out = call->memory.at[TWI_PLAN_OUT];
	struct tow_group *group = call->group;
	uint64_t n = what->count;

	switch (what->kind) {
	case TWI_COLL_ALL_REDUCE:
		return tow_coll_all_reduce_start(group, in, out, n, what->type, what->reduce,
						 options, &call->op);
	case TWI_COLL_REDUCE_SCATTER:
		return tow_coll_reduce_scatter_start(group, in, out, n, what->type, what->reduce,
						     options, &call->op);
	case TWI_COLL_ALL_GATHER:
		return tow_coll_all_gather_start(group, in, out, n, what->type, options, &call->op);
	case TWI_COLL_BROADCAST:
		return tow_coll_broadcast_start(group, out, n, what->type, what->root, options,
						&call->op);
	case TWI_COLL_REDUCE:
		return tow_coll_reduce_start(group, in, out, n, what->type, what->reduce,
					     what->root, options, &call->op);
	case TWI_COLL_GATHER:
		return tow_coll_gather_start(group, in, out, n, what->type, what->root, options,
					     &call->op);
	case TWI_COLL_SCATTER:
		return tow_coll_scatter_start(group, in, out, n, what->type, what->root, options,
					      &call->op);
	default:
		return twt_coll_start_other(call, options);
	}
}

static void twt_coll_called(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	((struct twt_coll_call *)result->user)->called++;
}

int twt_coll_call_start(struct twt_coll_call *call)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.done = twt_coll_called;
	options.user = call;
	return twt_coll_call_start_by(call, &options);
}

int twt_coll_call_start_by(struct twt_coll_call *call, struct tow_coll_options *options)
{
	options->priority = call->of->priority;
	options->plan = call->of->forced != NULL ? call->of->forced->name : NULL;
	options->scale = call->of->scales != NULL ? call->of->scales[call->rank] : 0;
	return twt_coll_start_kind(call, options);
}

static bool twt_coll_made_of(const struct twi_coll_entry *entry, const struct twt_coll_call *call)
{
	const struct twi_plan_case *what = &call->of->ranks[call->rank];
	double scale = call->of->scales != NULL ? call->of->scales[call->rank] : 0;
	bool in_place = twt_plan_joined(what) && what->count > 0;

	if (scale != 0 && scale != 1) /* the scaled input lies in OUT */
		in_place = what->kind == TWI_COLL_ALL_REDUCE ||
			   (what->kind == TWI_COLL_REDUCE && what->root == call->rank);

	return entry->call.kind == what->kind && entry->call.type == what->type &&
	       entry->call.reduce == what->reduce && entry->call.count == what->count &&
	       entry->call.root == what->root && entry->call.priority == call->of->priority &&
	       entry->call.forced == call->of->forced && entry->call.in_place == in_place;
}

/* The plan of a reduction that has been made; NULL: it has left the cache. */
static const struct twi_plan *twt_coll_plan_of(const struct twt_coll_call *call)
{
	const struct twi_plan *plan = NULL;
	struct twi_list *pos, *next;

	twi_group_enter(call->group->ranks->engine);
	twi_list_for_each_safe (pos, next, &call->group->coll->ages) {
		const struct twi_coll_entry *entry =
			twi_container_of(pos, struct twi_coll_entry, age);

		if (plan == NULL && twt_coll_made_of(entry, call))
			plan = entry->plan;
	}
	twi_engine_leave(call->group->ranks->engine);
	return plan;
}

uint64_t twt_coll_call_end(struct twt_coll_call *call, const struct twt_coll_truth *truth,
			   bool *wrong)
{
	const struct twi_plan_case *what = &call->of->ranks[call->rank];
	const struct twt_plan_memory *memory = &call->memory;
	uint64_t bytes = memory->bytes[TWI_PLAN_OUT];
	bool alone = truth->sum != NULL && !call->fused;
	const struct twi_plan *plan = alone ? twt_coll_plan_of(call) : NULL;
	const char *fault;

	twt_coll_expect(truth, call->rank, call->before);
	fault = twt_coll_judge(truth, call->rank, plan != NULL && plan->canonical,
			       memory->at[TWI_PLAN_OUT], call->before, bytes);
	if (fault == NULL && !twt_plan_in_kept(what, memory, &truth->images[call->rank]))
		fault = "IN was written";
	if (fault == NULL && !twt_plan_guards_hold(memory))
		fault = "memory around a buffer was written";
	if (fault == NULL && call->called != 1)
		fault = "the callback was not called once";
	if (fault != NULL) {
		twt_coll_say(call->of, call->rank, plan != NULL ? plan->name : "?");
		fprintf(stderr, "%s; in %s, out %s the pool\n", fault,
			call->pool[TWI_PLAN_IN] ? "within" : "outside",
			call->pool[TWI_PLAN_OUT] ? "within" : "outside");
		*wrong = true;
	}
	return twt_coll_digest(memory->at[TWI_PLAN_OUT], bytes);
}
