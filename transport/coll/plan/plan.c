/*
 * plan.c - the table of algorithms, and what is common to all. A case is checked before a plan is
 * built; one rank needs no algorithm; nothing to do is an empty plan.
 */
#include "transport/coll/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "transport/coll/plan/plan_list.h"

#define BIT(kind) (1u << TWI_COLL_##kind)
#define ALL_KINDS ((1u << TWI_COLL_KINDS) - 1)

const struct twi_plan_row twi_plan_rows[] = {
	{ "ring", "each rank passes parts on to the next: fewest bytes, most steps",
	  BIT(ALL_REDUCE) | BIT(REDUCE_SCATTER) | BIT(ALL_GATHER) | BIT(ALL_GATHER_V), false, false,
	  NULL, twi_plan_build_ring },
	{ "direct", "each rank exchanges its part with every other: fewest bytes, fewest steps",
	  BIT(ALL_REDUCE) | BIT(REDUCE_SCATTER) | BIT(ALL_GATHER) | BIT(ALL_GATHER_V) |
		  BIT(BROADCAST) | BIT(REDUCE) | BIT(GATHER) | BIT(SCATTER) | BIT(ALL_TO_ALL) |
		  BIT(ALL_TO_ALL_V) | BIT(PERMUTE) | BIT(SEND_RECEIVE),
	  true, false, twi_plan_few_sources, twi_plan_build_direct },
	{ "exchange", "whole vectors to every other rank, or to the root: one step, for few ranks",
	  BIT(ALL_REDUCE) | BIT(REDUCE), true, false, twi_plan_few_sources,
	  twi_plan_build_exchange },
	{ "binomial", "a tree of ranks, log2(n) steps deep",
	  BIT(BROADCAST) | BIT(REDUCE) | BIT(GATHER) | BIT(SCATTER) | BIT(BARRIER), false, false,
	  twi_plan_fits_binomial, twi_plan_build_binomial },
	{ "halving",
	  "pairs at distances of powers of two halve and double: few bytes, log2(n) steps",
	  BIT(ALL_REDUCE), false, false, NULL, twi_plan_build_halving },
	{ "doubling",
	  "pairs at distances of powers of two swap whole vectors: log2(n) steps, small ones",
	  BIT(ALL_REDUCE), false, false, NULL, twi_plan_build_doubling },
	{ "double-tree", "two binary trees, each for one half: few bytes, log2(n) steps",
	  BIT(ALL_REDUCE) | BIT(BROADCAST) | BIT(REDUCE), false, false, NULL,
	  twi_plan_build_double_tree },
	{ "bruck", "log2(n) steps with growing messages, for small payloads",
	  BIT(ALL_GATHER) | BIT(ALL_TO_ALL), true, false, twi_plan_is_small, twi_plan_build_bruck },
	{ "dissemination",
	  "each rank signals one other at doubling distances: log2(n) "
	  "steps",
	  BIT(BARRIER), true, false, NULL, twi_plan_build_dissemination },
	{ "local-cell", "one host: through small slots of shared memory, one meeting",
	  ALL_KINDS & ~(BIT(ALL_TO_ALL_V) | BIT(BARRIER)), true, true, twi_plan_fits_cell,
	  twi_plan_build_cell },
	{ "local",
	  "one host: each rank computes its slice from the buffers of all ranks, in "
	  "place",
	  ALL_KINDS & ~BIT(ALL_TO_ALL_V), true, true, twi_plan_fits_local, twi_plan_build_local },
	{ "local-all",
	  "one host: each rank reduces the whole vector for itself from the buffers of all ranks",
	  BIT(ALL_REDUCE), true, true, twi_plan_few_sources, twi_plan_build_local_all },
	{ "hierarchical", "in memory within a host, messages between hosts",
	  BIT(ALL_REDUCE) | BIT(REDUCE_SCATTER) | BIT(ALL_GATHER) | BIT(BROADCAST) | BIT(REDUCE) |
		  BIT(BARRIER),
	  false, false, twi_plan_fits_hierarchical, twi_plan_build_hierarchical },
};
const unsigned twi_plan_row_count = sizeof(twi_plan_rows) / sizeof(twi_plan_rows[0]);

bool twi_coll_kind_reduces(enum twi_coll_kind kind)
{
	return kind == TWI_COLL_ALL_REDUCE || kind == TWI_COLL_REDUCE_SCATTER ||
	       kind == TWI_COLL_REDUCE;
}

const struct twi_plan_row *twi_plan_find(const char *name)
{
	for (unsigned i = 0; i < twi_plan_row_count; i++)
		if (strcmp(twi_plan_rows[i].name, name) == 0)
			return &twi_plan_rows[i];
	return NULL;
}

void twi_plan_names(char out[TWI_PLAN_NAMES_BYTES])
{
	size_t used = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < twi_plan_row_count && used < TWI_PLAN_NAMES_BYTES; i++)
		used += (size_t)snprintf(out + used, TWI_PLAN_NAMES_BYTES - used, "%s%s",
					 i > 0 ? ", " : "", twi_plan_rows[i].name);
}

static bool is_v(const struct twi_plan_case *what)
{
	return what->kind == TWI_COLL_ALL_GATHER_V || what->kind == TWI_COLL_ALL_TO_ALL_V;
}

/* Whether there is nothing to do, as all ranks can see. */
static bool is_empty(const struct twi_plan_case *what)
{
	return what->count == 0 && !is_v(what) && what->kind != TWI_COLL_BARRIER;
}

bool twi_plan_is_small(const struct twi_plan_case *what)
{
	return what->count * twi_plan_type_bytes(what->type) * what->ranks <= TWI_PLAN_SMALL_BYTES;
}

bool twi_plan_few_sources(const struct twi_plan_case *what)
{
	return what->ranks <= TWI_PLAN_SOURCES_MAX || !twi_coll_kind_reduces(what->kind);
}

bool twi_plan_fits(const struct twi_plan_row *row, const struct twi_plan_case *what)
{
	if (!(row->kinds & 1u << what->kind))
		return false;
	if (what->ranks == 1 || is_empty(what))
		return true;
	if (row->local && what->locals_n != what->ranks)
		return false;
	return row->fits == NULL || row->fits(what);
}

static int check_places(const struct twi_plan_case *what)
{
	if (what->rank >= what->ranks)
		return twi_error(TOW_EINVAL, "rank %u of %u ranks is none", what->rank,
				 what->ranks);
	if (what->root >= what->ranks)
		return twi_error(TOW_EINVAL, "root %u of %u ranks is none", what->root,
				 what->ranks);
	for (uint32_t i = 0; i < what->pair_count; i++)
		if (what->pairs[i].source >= what->ranks || what->pairs[i].target >= what->ranks)
			return twi_error(TOW_EINVAL, "pair %u (from %u to %u) names no rank of %u",
					 i, what->pairs[i].source, what->pairs[i].target,
					 what->ranks);
	if (what->kind == TWI_COLL_SEND_RECEIVE &&
	    (what->target >= what->ranks || what->source >= what->ranks))
		return twi_error(TOW_EINVAL, "target %lld or source %lld is no rank of %u",
				 (long long)what->target, (long long)what->source, what->ranks);
	return TOW_OK;
}

static int check_hosts(const struct twi_plan_case *what)
{
	bool here = what->locals_n == 0;

	for (uint32_t i = 0; i < what->locals_n; i++) {
		here = here || what->locals[i] == what->rank;
		if (what->locals[i] >= what->ranks ||
		    (i > 0 && what->locals[i] <= what->locals[i - 1]))
			return twi_error(TOW_EINVAL, "locals of rank %u are not ascending ranks",
					 what->rank);
	}
	if (!here)
		return twi_error(TOW_EINVAL, "rank %u is not among its locals", what->rank);
	for (uint32_t r = 0; what->hosts != NULL && r < what->ranks; r++)
		if (what->hosts[r] >= what->hosts_n)
			return twi_error(TOW_EINVAL, "host %u of rank %u of %u hosts is none",
					 what->hosts[r], r, what->hosts_n);
	return TOW_OK;
}

static int check_case(const struct twi_plan_case *what)
{
	uint64_t unit = twi_plan_type_bytes(what->type);
	int status;

	if ((unsigned)what->kind >= TWI_COLL_KINDS || unit == 0)
		return twi_error(TOW_EINVAL, "collective %d of type %d is none", (int)what->kind,
				 (int)what->type);
	if (what->ranks == 0 || what->depth == 0 || what->segment_bytes == 0)
		return twi_error(TOW_EINVAL, "ranks, depth and segment_bytes of a plan are from 1");
	if (what->count > INT64_MAX / unit / what->ranks)
		return twi_error(TOW_EINVAL, "%llu elements for each of %u ranks are too many",
				 (unsigned long long)what->count, what->ranks);
	status = check_places(what);
	return status == TOW_OK ? check_hosts(what) : status;
}

/* One rank alone: its input becomes its output. */
static void build_alone(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	uint64_t in = 0, out = 0, count = what->count;

	if (what->in_place || what->kind == TWI_COLL_BARRIER || what->kind == TWI_COLL_BROADCAST)
		return;
	if (is_v(what)) {
		out = list->recv_offsets[0];
		count = what->recv_counts[0];
	}
	if (what->kind == TWI_COLL_ALL_TO_ALL_V)
		in = list->send_offsets[0];
	if (what->kind == TWI_COLL_SEND_RECEIVE && what->source != 0)
		return;
	twi_plan_open(list, 1, false, 0);
	if (what->kind == TWI_COLL_PERMUTE && what->pair_count == 0)
		twi_plan_zero(list, twi_plan_own(list, TWI_PLAN_OUT, out), count);
	else
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, out),
			      twi_plan_own(list, TWI_PLAN_IN, in), count);
	twi_plan_close(list);
}

/* Returns the given offsets; if there are none, those of parts that lie one after another. */
static const uint64_t *offsets_of(struct twi_plan_list *list, const uint64_t *given,
				  const uint64_t *counts, uint64_t **owned)
{
	uint64_t sum = 0;

	if (given != NULL || counts == NULL)
		return given;
	*owned = calloc(list->what->ranks, sizeof(**owned));
	if (*owned == NULL) {
		list->status = twi_error(TOW_ENOMEM, "no memory for a plan");
		return NULL;
	}
	for (uint32_t i = 0; i < list->what->ranks; i++) {
		(*owned)[i] = sum;
		sum += counts[i];
	}
	return *owned;
}

static void build_plan(struct twi_plan_list *list, const struct twi_plan_row *row)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan *plan = list->plan;
	uint64_t runs = 0;

	list->send_offsets =
		offsets_of(list, what->send_offsets, what->send_counts, &list->owned_offsets[0]);
	list->recv_offsets =
		offsets_of(list, what->recv_offsets, what->recv_counts, &list->owned_offsets[1]);
	if (list->status == TOW_OK && !is_empty(what)) {
		if (what->ranks == 1)
			build_alone(list);
		else
			row->build(list);
	}
	free(list->owned_offsets[0]);
	free(list->owned_offsets[1]);
	for (uint32_t i = 0; i < plan->program_count; i++)
		runs += plan->programs[i].repeats;
	plan->depth = runs < what->depth ? (uint32_t)runs : what->depth;
	if (plan->depth == 0)
		plan->depth = 1;
	plan->scratch_bytes = (plan->scratch_bytes + TWI_PLAN_LINE - 1) & ~(TWI_PLAN_LINE - 1ull);
}

int twi_plan_build(const struct twi_plan_row *row, const struct twi_plan_case *what,
		   struct twi_plan **plan_out)
{
	struct twi_plan_list list = { .what = what };
	int status = check_case(what);

	if (status < 0)
		return status;
	if (!twi_plan_fits(row, what))
		return twi_error(TOW_ENOTSUP, "the plan %s does not serve this %s of %u ranks",
				 row->name, twi_coll_kind_name(what->kind), what->ranks);
	list.unit = twi_plan_type_bytes(what->type);
	list.plan = calloc(1, sizeof(*list.plan));
	if (list.plan == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a plan");
	list.plan->name = row->name;
	list.plan->canonical = row->canonical || !twi_coll_kind_reduces(what->kind);
	build_plan(&list, row);
	if (list.status < 0) {
		twi_plan_free(list.plan);
		return list.status;
	}
	*plan_out = list.plan;
	return TOW_OK;
}

void twi_plan_free(struct twi_plan *plan)
{
	if (plan == NULL)
		return;
	free(plan->programs);
	free(plan->steps);
	free(plan->refs);
	free(plan);
}
