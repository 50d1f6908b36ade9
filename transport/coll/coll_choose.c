/*
 * coll_choose.c - chooses the plan for a call: the caller's choice, the knob, measured tables, in
 * this order. All ranks choose the same plan, since they look at nothing that differs between them.
 *
 * The table below was measured with `tow-coll-tune` (docs/collectives.md has the figures). A file
 * in the same form, named by the knob coll_table, is looked at before it (coll_table.c).
 */
#include "diag/base/error.h"
#include "transport/coll/coll.h"
#include "transport/coll/coll_cut.h"
#include "transport/coll/coll_table.h"
#include "transport/engine/engine.h"

#define INF UINT64_MAX

#define DEFAULT_DEPTH 4u /* of the knob coll_depth (diag/knob/knob.def) */

#define KIND(name) (1u << TWI_COLL_##name)

enum place { ANYWHERE, ONE_HOST, NO_HOST, SOME_HOSTS };

struct choice {
	uint32_t kinds;
	enum place place;
	uint32_t ranks_max;
	uint64_t bytes_max; /* of the call (twi_coll_measure) */
	const char *plan;
	uint64_t segment_bytes; /* 0: the knobs' */
	uint32_t depth;
};

/* The first row that matches, and whose plan fits, is taken. */
static const struct choice built_in[] = {
	{ KIND(BARRIER), ONE_HOST, UINT32_MAX, INF, "local", 0, 0 },
	{ ~0u, ONE_HOST, UINT32_MAX, 2032, "local-cell", 0, 0 },
	{ KIND(ALL_REDUCE), ONE_HOST, 2, 16 << 10, "local", 0, 0 },
	{ KIND(ALL_REDUCE), ONE_HOST, 2, 512 << 10, "local-all", 0, 0 },
	{ ~0u, ONE_HOST, UINT32_MAX, INF, "local", 0, 0 },
	{ ~0u, SOME_HOSTS, UINT32_MAX, INF, "hierarchical", 0, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, 2, 16 << 10, "exchange", 0, 0 },
	/* in pieces so small that they travel with their headers: no handshake */
	{ KIND(ALL_REDUCE), ANYWHERE, 2, 64 << 10, "exchange", 16 << 10, 8 },
	{ KIND(ALL_REDUCE), ANYWHERE, 2, 1 << 20, "exchange", 2 << 20, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, 2, INF, "direct", 2 << 20, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, UINT32_MAX, 16 << 10, "doubling", 0, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, 4, 64 << 10, "direct", 0, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, 4, 256 << 10, "direct", 64 << 10, 8 },
	{ KIND(ALL_REDUCE), ANYWHERE, 4, 4 << 20, "halving", 2 << 20, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, 4, INF, "direct", 2 << 20, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, UINT32_MAX, 256 << 10, "halving", 0, 0 },
	{ KIND(ALL_REDUCE), ANYWHERE, UINT32_MAX, INF, "ring", 0, 0 },
	{ KIND(REDUCE_SCATTER), ANYWHERE, 8, INF, "direct", 0, 0 },
	{ KIND(REDUCE_SCATTER), ANYWHERE, UINT32_MAX, INF, "ring", 0, 0 },
	{ KIND(ALL_GATHER), ANYWHERE, 2, INF, "direct", 0, 0 },
	{ KIND(ALL_GATHER), ANYWHERE, UINT32_MAX, 4 << 10, "bruck", 0, 0 },
	{ KIND(ALL_GATHER) | KIND(ALL_GATHER_V), ANYWHERE, 8, 64 << 10, "direct", 0, 0 },
	{ KIND(ALL_GATHER) | KIND(ALL_GATHER_V), ANYWHERE, UINT32_MAX, INF, "ring", 0, 0 },
	{ KIND(ALL_TO_ALL), ANYWHERE, UINT32_MAX, 128, "bruck", 0, 0 },
	{ KIND(BROADCAST) | KIND(REDUCE), ANYWHERE, 2, INF, "direct", 0, 0 },
	{ KIND(BROADCAST) | KIND(REDUCE), ANYWHERE, UINT32_MAX, 64 << 10, "binomial", 0, 0 },
	{ KIND(BROADCAST) | KIND(REDUCE), ANYWHERE, UINT32_MAX, INF, "double-tree", 0, 0 },
	{ KIND(GATHER) | KIND(SCATTER), ANYWHERE, UINT32_MAX, 4 << 10, "binomial", 0, 0 },
	{ KIND(BARRIER), ANYWHERE, UINT32_MAX, INF, "dissemination", 0, 0 },
	{ ~0u, ANYWHERE, UINT32_MAX, INF, "direct", 0, 0 },
};

uint64_t twi_coll_measure(const struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	uint64_t bytes = tow_type_bytes(call->type), sum = 0;

	switch (call->kind) {
	case TWI_COLL_ALL_GATHER_V:
		for (uint32_t i = 0; i < coll->size; i++)
			sum += call->recv_counts[i];
		return sum / coll->size * bytes;
	case TWI_COLL_ALL_TO_ALL_V: /* the bytes differ from rank to rank */
		return UINT64_MAX;
	default:
		return call->count * bytes;
	}
}

static enum place place_of(const struct twi_coll_group *coll)
{
	return coll->all_local               ? ONE_HOST
	       : coll->hosts_n == coll->size ? NO_HOST
	       : coll->hosts_n == 0          ? NO_HOST
					     : SOME_HOSTS;
}

static bool is_usable(const struct twi_coll_group *coll, const struct twi_plan_row *row,
		      const struct twi_plan_case *what)
{
	if (row == NULL || !twi_plan_fits(row, what))
		return false;
	if (row->local && !coll->all_local && coll->size > 1)
		return false;
	return !coll->engine->knobs.reproducible || row->canonical ||
	       !twi_coll_kind_reduces(what->kind);
}

static const struct twi_plan_row *from_built_in(const struct twi_coll_group *coll,
						const struct twi_coll_call *call,
						struct twi_plan_case *what)
{
	uint64_t bytes = twi_coll_measure(coll, call);
	enum place place = place_of(coll);

	for (unsigned i = 0; i < twi_array_count(built_in); i++) {
		const struct choice *choice = &built_in[i];
		const struct twi_plan_row *row;

		if ((choice->kinds >> call->kind & 1) == 0 || coll->size > choice->ranks_max ||
		    bytes > choice->bytes_max ||
		    (choice->place != ANYWHERE && choice->place != place))
			continue;
		row = twi_plan_find(choice->plan);
		if (!is_usable(coll, row, what))
			continue;
		/* Knobs that the user has set take precedence over measured values. */
		if (choice->segment_bytes > 0 && what->segment_bytes == TWI_COLL_SEGMENT_BYTES)
			what->segment_bytes = choice->segment_bytes;
		if (choice->depth > 0 && what->depth == DEFAULT_DEPTH)
			what->depth = choice->depth;
		return row;
	}
	return NULL;
}

static const struct twi_plan_row *any_that_fits(const struct twi_coll_group *coll,
						const struct twi_plan_case *what)
{
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		if (is_usable(coll, &twi_plan_rows[i], what))
			return &twi_plan_rows[i];
	}
	return NULL;
}

const struct twi_plan_row *twi_coll_choose(const struct twi_coll_group *coll,
					   const struct twi_coll_call *call,
					   struct twi_plan_case *what, const char **why_out)
{
	const char *knob_plan = coll->engine->knobs.coll_plan;
	const struct twi_plan_row *row = call->forced;

	if (row != NULL) {
		*why_out = "the call asks for it";
		if (is_usable(coll, row, what))
			return row;
		twi_error(TOW_EINVAL, "the plan %s cannot serve %s of %llu %s among %u ranks%s",
			  row->name, twi_coll_kind_name(call->kind),
			  (unsigned long long)call->count, tow_type_name(call->type), coll->size,
			  coll->engine->knobs.reproducible ? " with reproducible" : "");
		return NULL;
	}
	*why_out = "knob coll_plan";
	row = knob_plan != NULL && knob_plan[0] != '\0' ? twi_plan_find(knob_plan) : NULL;
	if (is_usable(coll, row, what))
		return row;
	*why_out = "file of the knob coll_table";
	row = twi_coll_table_find(coll, call);
	if (is_usable(coll, row, what))
		return row;
	*why_out = coll->engine->knobs.reproducible ? "built-in table, reproducible"
						    : "built-in table";
	row = from_built_in(coll, call, what);
	if (row != NULL)
		return row;
	*why_out = "nothing else fits";
	row = any_that_fits(coll, what);
	if (row == NULL)
		twi_error(TOW_ENOTSUP, "no plan serves %s among %u ranks%s",
			  twi_coll_kind_name(call->kind), coll->size,
			  coll->engine->knobs.reproducible ? " with reproducible" : "");
	return row;
}
