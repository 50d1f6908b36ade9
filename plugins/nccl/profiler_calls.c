/*
 * profiler_calls.c - collectives, sends and receives: decides when a call is entered and when it is
 * over (profiler.h).
 */
#include "plugins/nccl/profiler.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *function;
	enum tow_foreign_kind kind;
} kinds[] = {
	{ "AllReduce", TOW_FOREIGN_ALL_REDUCE }, { "ReduceScatter", TOW_FOREIGN_REDUCE_SCATTER },
	{ "AllGather", TOW_FOREIGN_ALL_GATHER }, { "Broadcast", TOW_FOREIGN_BROADCAST },
	{ "Reduce", TOW_FOREIGN_REDUCE },        { "Gather", TOW_FOREIGN_GATHER },
	{ "Scatter", TOW_FOREIGN_SCATTER },      { "AllToAll", TOW_FOREIGN_ALL_TO_ALL },
	{ "AlltoAll", TOW_FOREIGN_ALL_TO_ALL },
};

static const struct {
	const char *name;
	int type;
	uint8_t bytes;
} types[] = {
	{ "ncclInt8", TOW_S8, 1 },           { "ncclUint8", TOW_U8, 1 },
	{ "ncclInt32", TOW_S32, 4 },         { "ncclUint32", TOW_U32, 4 },
	{ "ncclInt64", TOW_S64, 8 },         { "ncclUint64", TOW_U64, 8 },
	{ "ncclFloat16", TOW_F16, 2 },       { "ncclFloat32", TOW_F32, 4 },
	{ "ncclFloat64", TOW_F64, 8 },       { "ncclBfloat16", TOW_BF16, 2 },
	{ "ncclFloat8e4m3", TOW_F8E4M3, 1 }, { "ncclFloat8e5m2", TOW_F8E5M2, 1 },
};

/* The bytes that a rank gets or sends, whichever is more. NCCL's count is the same at all ranks. */
static uint64_t bytes_of(const struct twp_comm *comm, int kind, uint64_t bytes)
{
	bool all = kind == TOW_FOREIGN_ALL_GATHER || kind == TOW_FOREIGN_REDUCE_SCATTER ||
		   kind == TOW_FOREIGN_ALL_TO_ALL || kind == TOW_FOREIGN_GATHER ||
		   kind == TOW_FOREIGN_SCATTER;

	return all ? bytes * comm->ranks : bytes;
}

/*
 * False: the function is unknown. That holds for all ranks, so the order of calls stays the same.
 */
static bool describe_coll(const struct twp_comm *comm, const struct nccl_event_descriptor *what,
			  char plan[64], struct tow_foreign_coll *out)
{
	const char *algorithm = what->coll.algorithm, *protocol = what->coll.protocol;
	uint64_t bytes = what->coll.count;

	*out = (struct tow_foreign_coll)TOW_FOREIGN_COLL_INIT;
	out->kind = -1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (what->coll.function != NULL &&
		    strcmp(what->coll.function, kinds[i].function) == 0)
			out->kind = (int32_t)kinds[i].kind;
	if (out->kind < 0)
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (what->coll.type != NULL && strcmp(what->coll.type, types[i].name) == 0) {
			out->type = types[i].type;
			bytes *= types[i].bytes;
		}
	out->bytes = bytes_of(comm, out->kind, bytes);
	if (out->kind == TOW_FOREIGN_BROADCAST || out->kind == TOW_FOREIGN_REDUCE ||
	    out->kind == TOW_FOREIGN_GATHER || out->kind == TOW_FOREIGN_SCATTER)
		out->root = what->coll.root;
	if (algorithm != NULL)
		snprintf(plan, 64, "%.20s/%.20s", algorithm, protocol != NULL ? protocol : "?");
	out->plan = algorithm != NULL ? plan : NULL;
	return true;
}

/* The call ended when its last part stopped, as far as is known. */
static void end_coll(struct twp_comm *comm, struct twp_coll *coll)
{
	if (coll->over)
		return;
	coll->over = true;
	if (coll->seq != 0)
		tow_foreign_coll_end(comm->group, coll->seq, coll->last_ns, TOW_OK);
}

/* Takes the row of the next call. The old call of this row ends. */
static struct twp_coll *take_coll(struct twp_comm *comm)
{
	struct twp_coll *coll = &comm->colls[comm->coll_count++ % TWP_COLLS];

	if (coll->number != 0)
		end_coll(comm, coll);
	*coll = (struct twp_coll){ .number = ++comm->last_number };
	return coll;
}

struct twp_coll *twp_coll_begin(struct twp_comm *comm, const struct nccl_event_descriptor *what)
{
	struct tow_foreign_coll call;
	struct twp_coll *coll;
	char plan[64];

	if (!describe_coll(comm, what, plan, &call))
		return NULL;
	coll = take_coll(comm);
	if (tow_foreign_coll_begin(comm->group, &call, &coll->seq) < 0)
		coll->seq = 0;
	return coll;
}

struct twp_coll *twp_coll_begin_p2p(struct twp_comm *comm)
{
	return take_coll(comm);
}

/*
 * A device executes the collectives of a communicator one after another. So earlier calls that were
 * entered and have stopped are over, if no part of them is under way.
 */
void twp_coll_enter(struct twp_comm *comm, struct twp_coll *coll)
{
	if (coll->entered)
		return;
	coll->entered = true;
	coll->last_ns = tow_foreign_clock();
	if (coll->seq == 0)
		return;
	tow_foreign_coll_enter(comm->group, coll->seq, coll->last_ns);
	for (size_t i = 0; i < TWP_COLLS; i++) {
		struct twp_coll *other = &comm->colls[i];

		if (other->number != 0 && other->number < coll->number && other->entered &&
		    other->stopped && other->under_way == 0)
			end_coll(comm, other);
	}
}

void twp_coll_settle(struct twp_comm *comm, struct twp_coll *coll)
{
	coll->last_ns = tow_foreign_clock();
	if (!coll->stopped || coll->under_way > 0 || coll->parts == 0)
		return;
	if (!comm->kernels_told || coll->ran)
		end_coll(comm, coll);
}

void twp_colls_end(struct twp_comm *comm)
{
	for (size_t i = 0; i < TWP_COLLS; i++)
		if (comm->colls[i].number != 0)
			end_coll(comm, &comm->colls[i]);
}
