/*
 * hunt_colls.c - acts of all ranks of a group: collectives whose results are known, barriers of
 * which each rank may give up its own, and groups that come, are aborted and go.
 */
#include "hunt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS    6u
#define BARRIERS 6u

enum what {
	ALL_REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	BROADCAST,
	ALL_TO_ALL,
	GATHER,
	SCATTER,
	REDUCE,
	BARRIER,
	WHATS
};

struct call {
	enum what what;
	uint64_t count, id; /* elements of 8 bytes, for each rank */
	uint32_t root;
	int32_t priority;
	struct hunt_pend pend;
	struct hunt_memory in, out;
};

static uint64_t element(uint64_t id, uint64_t rank, uint64_t i)
{
	return (id ^ rank << 40) * 0xd1342543de82ef95ull + i * (2 * rank + 1);
}

static uint64_t reduced(uint64_t id, uint64_t ranks, uint64_t i)
{
	uint64_t sum = 0;

	for (uint64_t r = 0; r < ranks; r++)
		sum += element(id, r, i);
	return sum;
}

static void put_elements(struct call *call, uint64_t rank, uint64_t count)
{
	uint64_t *data = (uint64_t *)call->in.data;

	for (uint64_t i = 0; i < count; i++)
		data[i] = element(call->id, rank, i);
}

static void draw_call(struct hunt_side *side, struct call *call, uint32_t ranks)
{
	static const uint64_t most[] = { 1, 16, 128, 1000, 5000, 40000 };

	*call = (struct call){ .what = (enum what)hunt_shared(side, WHATS) };
	call->count = hunt_shared(side, most[hunt_shared(side, 6)] + 1);
	call->id = twt_random(&side->shared);
	call->root = (uint32_t)hunt_shared(side, ranks);
	call->priority = hunt_shared(side, 4) == 0 ? (int32_t)hunt_shared(side, 3) : 0;
}

static int start_rooted(struct tow_group *group, struct call *call,
			const struct tow_coll_options *options)
{
	struct tow_op **op = hunt_out(&call->pend);
	void *in = call->in.data, *out = call->out.data;

	switch (call->what) {
	case BROADCAST:
		return tow_coll_broadcast_start(group, in, call->count, TOW_U64, call->root,
						options, op);
	case GATHER:
		return tow_coll_gather_start(group, in, out, call->count, TOW_U64, call->root,
					     options, op);
	case SCATTER:
		return tow_coll_scatter_start(group, in, out, call->count, TOW_U64, call->root,
					      options, op);
	case REDUCE:
		return tow_coll_reduce_start(group, in, out, call->count, TOW_U64, TOW_SUM,
					     call->root, options, op);
	default:
		return tow_coll_barrier_start(group, options, op);
	}
}

static void start_call(struct hunt_side *side, struct tow_group *group, struct call *call,
		       uint64_t timeout_ns)
{
	struct tow_coll_options options;
	uint64_t ranks = tow_group_size(group), rank = tow_group_rank(group);
	void *in, *out;
	int status;

	hunt_take(side, &call->in, ranks * call->count * 8 + 8);
	hunt_take(side, &call->out, ranks * call->count * 8 + 8);
	put_elements(call, rank, ranks * call->count);
	memset(call->out.data, 0x5a, call->out.bytes);
	hunt_way(side, &call->pend, true);
	options = hunt_coll_options(side, &call->pend);
	options.priority = call->priority;
	if (timeout_ns != 0)
		options.timeout_ns = timeout_ns;
	in = call->in.data;
	out = call->out.data;
	if (call->what == ALL_REDUCE)
		status = tow_coll_all_reduce_start(group, in, out, call->count, TOW_U64, TOW_SUM,
						   &options, hunt_out(&call->pend));
	else if (call->what == ALL_GATHER)
		status = tow_coll_all_gather_start(group, in, out, call->count, TOW_U64, &options,
						   hunt_out(&call->pend));
	else if (call->what == REDUCE_SCATTER)
		status = tow_coll_reduce_scatter_start(group, in, out, call->count, TOW_U64,
						       TOW_SUM, &options, hunt_out(&call->pend));
	else if (call->what == ALL_TO_ALL)
		status = tow_coll_all_to_all_start(group, in, out, call->count, TOW_U64, &options,
						   hunt_out(&call->pend));
	else
		status = start_rooted(group, call, &options);
	hunt_started(&call->pend, status);
}

/* What element i of part p of the result must be. */
static uint64_t truth(const struct call *call, uint64_t ranks, uint64_t rank, uint64_t p,
		      uint64_t i)
{
	switch (call->what) {
	case ALL_REDUCE:
	case REDUCE:
		return reduced(call->id, ranks, i);
	case REDUCE_SCATTER:
		return reduced(call->id, ranks, rank * call->count + i);
	case BROADCAST:
		return element(call->id, call->root, i);
	case SCATTER:
		return element(call->id, call->root, rank * call->count + i);
	case ALL_TO_ALL:
		return element(call->id, p, rank * call->count + i);
	default:
		return element(call->id, p, i);
	}
}

static void judge_call(struct hunt_side *side, struct tow_group *group, struct call *call)
{
	uint64_t ranks = tow_group_size(group), rank = tow_group_rank(group), parts = 1;
	const uint64_t *data =
		(const uint64_t *)(call->what == BROADCAST ? call->in.data : call->out.data);

	if (call->what == BARRIER ||
	    ((call->what == GATHER || call->what == REDUCE) && rank != call->root))
		return;
	if (call->what == ALL_GATHER || call->what == GATHER || call->what == ALL_TO_ALL)
		parts = ranks;
	for (uint64_t p = 0; p < parts; p++)
		for (uint64_t i = 0; i < call->count; i++)
			if (data[p * call->count + i] != truth(call, ranks, rank, p, i))
				hunt_bad(side, "collective %d of %llu: part %llu element %llu",
					 call->what, (unsigned long long)call->count,
					 (unsigned long long)p, (unsigned long long)i);
}

static void end_call(struct hunt_side *side, struct call *call)
{
	hunt_drop(&call->pend);
	hunt_give(side, &call->in);
	hunt_give(side, &call->out);
}

/*
 * What the knob combine holds back goes now: who only looks for callbacks would wait for it. (A
 * tow_flush would let the calls of other sides go, which have to be fused alike at all ranks.)
 */
static void let_go(struct call *calls, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (calls[i].pend.op != NULL)
			tow_op_test(calls[i].pend.op);
}

void hunt_colls(struct hunt_side *side)
{
	struct call calls[CALLS];
	uint32_t count = 1 + (uint32_t)hunt_shared(side, CALLS);
	bool batch = hunt_shared(side, 4) == 0;

	side->what = "collectives";
	for (uint32_t i = 0; i < count; i++)
		draw_call(side, &calls[i], tow_group_size(side->group));
	if (batch && !hunt_said(side, tow_coll_batch_begin(side->group), "batch"))
		batch = false;
	for (uint32_t i = 0; i < count; i++)
		start_call(side, side->group, &calls[i], 0);
	if (batch)
		hunt_said(side, tow_coll_batch_end(side->group), "batch end");
	let_go(calls, count);
	for (uint32_t i = 0; i < count; i++)
		if (hunt_well(side, &calls[i].pend, hunt_finish(side, &calls[i].pend),
			      "collective"))
			judge_call(side, side->group, &calls[i]);
	for (uint32_t i = 0; i < count; i++)
		end_call(side, &calls[i]);
}

/* --- barriers --- */

void hunt_barriers(struct hunt_side *side)
{
	struct hunt_pend pends[BARRIERS];
	uint32_t count = 1 + (uint32_t)hunt_shared(side, BARRIERS);
	bool mine[BARRIERS];

	side->what = "barriers";
	for (uint32_t i = 0; i < count; i++) {
		struct tow_op_options options;

		mine[i] = hunt_own(side, 6) == 0;
		hunt_way(side, &pends[i], true);
		options = hunt_options(side, &pends[i]);
		if (mine[i] && hunt_own(side, 2) == 0)
			options.timeout_ns = 1 + hunt_own(side, 1000000);
		hunt_started(&pends[i],
			     tow_group_barrier_start(side->group, &options, hunt_out(&pends[i])));
		if (hunt_own(side, 4) == 0)
			hunt_nap(side, 300000);
	}
	for (uint32_t i = 0; i < count; i++)
		if (mine[i] && pends[i].op != NULL && hunt_own(side, 2) == 0 &&
		    !(pends[i].way == BY_QUEUE && pends[i].done))
			tow_op_cancel(pends[i].op);
	for (uint32_t i = 0; i < count; i++) {
		int status = hunt_finish(side, &pends[i]);

		if (!mine[i] || (status != TOW_EDEADLINE && status != TOW_ECANCELED))
			hunt_well(side, &pends[i], status, "barrier");
		hunt_drop(&pends[i]);
	}
}

/* --- groups that come and go --- */

/* Calls in a group in which some rank ends one early, or all of it. */
static void calls_that_end(struct hunt_side *side, struct tow_group *group)
{
	struct call calls[CALLS];
	uint32_t count = 1 + (uint32_t)hunt_shared(side, CALLS);
	uint32_t who = (uint32_t)hunt_shared(side, tow_group_size(group));
	uint32_t which = (uint32_t)hunt_shared(side, count);
	uint64_t how = hunt_shared(side, 4);
	bool me = who == tow_group_rank(group);
	int status;

	for (uint32_t i = 0; i < count; i++) {
		draw_call(side, &calls[i], tow_group_size(group));
		start_call(side, group, &calls[i],
			   me && i == which && how == 1 ? 1 + hunt_own(side, 2000000) : 0);
	}
	let_go(calls, count);
	if (me && how >= 2)
		hunt_nap(side, 400000);
	if (me && how == 2)
		hunt_said(side, tow_group_abort(group, "it is drawn so"), "abort");
	if (me && how == 3 && calls[which].pend.op != NULL &&
	    !(calls[which].pend.way == BY_QUEUE && calls[which].pend.done))
		tow_op_cancel(calls[which].pend.op);
	for (uint32_t i = 0; i < count; i++) {
		status = hunt_finish(side, &calls[i].pend);
		if (status >= 0)
			judge_call(side, group, &calls[i]);
		else if (how == 0)
			hunt_well(side, &calls[i].pend, status, "collective of a new group");
		else if (status != TOW_EPEER && status != TOW_EABORTED && status != TOW_ECANCELED &&
			 status != TOW_EDEADLINE && status != TOW_ECLOSED)
			hunt_bad(side, "a call ended early (%llu) with %s: %s",
				 (unsigned long long)how, tow_status_name(status),
				 calls[i].pend.message);
		end_call(side, &calls[i]);
	}
}

void hunt_groups(struct hunt_side *side)
{
	uint32_t ranks[HUNT_SIDES], count = 0, n = side->hunt->ranks;
	uint64_t how = hunt_shared(side, 3);
	struct tow_group *group = NULL;
	bool in = false;
	uint64_t kept;
	int status;

	side->what = "a new group";
	for (uint32_t i = 0; i < n; i++)
		if (hunt_shared(side, 4) != 0)
			ranks[count++] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)hunt_shared(side, i), last = ranks[i - 1];

		ranks[i - 1] = ranks[j];
		ranks[j] = last;
	}
	for (uint32_t i = 0; i < count; i++)
		in |= ranks[i] == side->hunt->rank;
	if (how == 0 || count == 0)
		status = tow_group_split(side->group, in ? 1 : TOW_GROUP_NONE,
					 (int64_t)hunt_own(side, 100), 20 * HUNT_NS, &group);
	else if (in)
		status = tow_group_create(side->group, ranks, count, NULL, 20 * HUNT_NS, &group);
	else
		status = TOW_OK;
	if (!hunt_said(side, status, "a new group"))
		return;
	/* Who is not in it draws none of the numbers of its calls, so all go on from here. */
	kept = side->shared;
	if (group != NULL) {
		side->what = "calls of a new group";
		calls_that_end(side, group);
		if (hunt_own(side, 2) == 0 && tow_group_barrier(group, HUNT_NS) == TOW_EINVAL)
			hunt_bad(side, "barrier: %s", tow_error_message());
		hunt_said(side, tow_group_close(group), "close");
	}
	side->shared = kept;
	twt_random(&side->shared);
}

/* --- who lives on --- */

/* Makes the group that survivors go on with, and closes the broken one. */
static void shrink(struct hunt_side *side)
{
	struct tow_group *old = side->group, *made = NULL;
	int status = tow_group_shrink(old, 20 * HUNT_NS, &made);

	side->what = "shrinking";
	if (status != TOW_OK)
		hunt_bad(side, "shrink: %s: %s", tow_status_name(status), tow_error_message());
	side->group = made;
	side->shared = side->hunt->seed * 977 + tow_group_size(made);
	HUNT_TRUE(side, tow_group_close(old) == TOW_OK);
	printf("hunt: rank %u lives on as %u of %u\n", side->hunt->rank, tow_group_rank(made),
	       tow_group_size(made));
}

/* Some calls of all survivors; false: a rank has died. */
static bool calls_of_survivors(struct hunt_side *side, uint8_t *word)
{
	struct call calls[CALLS];
	struct tow_op *op = NULL;
	uint32_t count = 1 + (uint32_t)hunt_shared(side, CALLS);
	bool well;
	int status = tow_coll_broadcast_start(side->group, word, 1, TOW_U8, 0, NULL, &op);

	if (status == TOW_OK)
		status = tow_op_wait(op, HUNT_BOUND_S * HUNT_NS);
	tow_op_release(op);
	well = status >= 0;
	for (uint32_t i = 0; i < count; i++) {
		draw_call(side, &calls[i], tow_group_size(side->group));
		start_call(side, side->group, &calls[i], 0);
	}
	let_go(calls, count);
	for (uint32_t i = 0; i < count; i++) {
		status = hunt_finish(side, &calls[i].pend);
		if (status >= 0)
			judge_call(side, side->group, &calls[i]);
		else if (status != TOW_EPEER && status != TOW_EDEADLINE)
			hunt_bad(side, "a survivor's call: %s: %s", tow_status_name(status),
				 calls[i].pend.message);
		well &= status >= 0;
		end_call(side, &calls[i]);
	}
	if (!well && !side->hunt->dying)
		hunt_bad(side, "a call failed, and nobody has died: %s", tow_error_message());
	return well;
}

/* Plays until the time is over, whoever dies: at most one such side in a job. */
void hunt_survivors(struct hunt_side *side)
{
	uint8_t word = 1; /* the first rank's: whether all go on */

	side->what = "survivors' calls";
	while (word == 1) {
		word = hunt_now() < side->hunt->end_ns;
		if (!calls_of_survivors(side, &word)) {
			shrink(side);
			word = 1;
		}
		side->round++;
	}
}
