/*
 * plan_hier.c - several hosts with any numbers of ranks. Within a host, ranks read memory in place;
 * between hosts, each part of the payload travels once.
 *
 * Part x is the slice, or the part, of rank x. It has a *holder* on every host. On the host of rank
 * x this is rank x itself. On another host of L ranks, its index is the index of x on its own host,
 * modulo L. So the work of a host is spread over its ranks. With equal numbers of ranks, each one
 * exchanges with its counterparts.
 *
 *	reduce-scatter   the holder of x reduces the part out of IN of its host, in place, and sends
 *	                 it to x, which adds the hosts' in their order
 *	all-gather       x sends its part to its holder on every other host; after a SYNC each rank
 *	                 copies the parts from the holders of its host
 *	all-reduce       one after the other; a reduce sends the slices to the root instead
 *
 * In place nothing is overwritten too early: of a rank's IN, only the holder of x reads part x.
 * Before the SYNC a rank writes only those parts of OUT that it holds.
 *
 * In a broadcast or barrier one rank of each host exchanges with other hosts: as a tree, or by
 * dissemination.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/coll/plan/plan_list.h"

struct twi_plan_hosts {
	uint32_t own; /* of this rank */
	/* of each host: the index of its first rank in `members`; one more at the end */
	uint32_t *first;
	uint32_t *members; /* ranks by host, ascending */
	uint32_t *index;   /* index of each rank on its host */
};

static uint32_t host_of(const struct twi_plan_list *list, uint32_t rank)
{
	return list->what->hosts[rank];
}

static uint32_t members_n(const struct twi_plan_list *list, uint32_t host)
{
	return list->hosts->first[host + 1] - list->hosts->first[host];
}

static uint32_t holder_of(const struct twi_plan_list *list, uint32_t host, uint32_t rank)
{
	if (host_of(list, rank) == host)
		return rank;
	return list->hosts->members[list->hosts->first[host] +
				    list->hosts->index[rank] % members_n(list, host)];
}

static bool is_held(const struct twi_plan_list *list, uint32_t rank)
{
	return holder_of(list, list->hosts->own, rank) == list->what->rank;
}

/* The host that this one meets in a round; both meet in the same round. */
static uint32_t host_of_round(const struct twi_plan_list *list, uint32_t round)
{
	return (round + list->what->hosts_n - list->hosts->own) % list->what->hosts_n;
}

/*
 * Ends a round, and with it the stage, if that has enough messages. Rounds have the same order at
 * all ranks, so ranks may end stages after different rounds. If stages ended within a round, ranks
 * might wait for each other in a circle.
 */
static void end_round(struct twi_plan_list *list, uint32_t *messages)
{
	if (*messages < 2 * TWI_PLAN_PEERS)
		return;
	twi_plan_stage(list);
	*messages = 0;
}

/* Adds sources: IN of all ranks of this host. */
static void add_host(struct twi_plan_list *list, uint64_t first)
{
	for (uint32_t i = 0; i < list->what->locals_n; i++)
		twi_plan_source(list, twi_plan_of(list, list->what->locals[i], TWI_PLAN_IN, first));
}

/* How many parts this rank holds for others. SCRATCH has these first, in their order; then what
 * comes from other hosts. */
static uint32_t held_for_others(const struct twi_plan_list *list)
{
	uint32_t held = 0;

	for (uint32_t x = 0; x < list->what->ranks; x++)
		held += x != list->what->rank && is_held(list, x);
	return held;
}

static struct twi_plan_ref area_of(const struct twi_plan_list *list, struct twi_plan_range run,
				   uint32_t index)
{
	return twi_plan_own(list, TWI_PLAN_SCRATCH, index * twi_plan_block_max(list, run));
}

static void reduce_held(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t index = 0;

	for (uint32_t x = 0; x < list->what->ranks; x++) {
		struct twi_plan_range part = twi_plan_block(list, run, x);

		if (x == list->what->rank || !is_held(list, x))
			continue;
		twi_plan_reduce(list, part.count, false);
		twi_plan_result(list, area_of(list, run, index++));
		add_host(list, part.first);
	}
	twi_plan_stage(list);
}

/* Sends each held part to its rank, and receives the own part from other hosts. */
static void send_held(struct twi_plan_list *list, struct twi_plan_range run, uint32_t base)
{
	const struct twi_plan_hosts *hosts = list->hosts;
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	uint32_t messages = 0;

	for (uint32_t round = 0; round < list->what->hosts_n; round++) {
		uint32_t host = host_of_round(list, round), index = 0;

		if (host == hosts->own)
			continue;
		twi_plan_recv(list, area_of(list, run, base + host), own.count,
			      holder_of(list, host, list->what->rank), 0);
		messages++;
		for (uint32_t x = 0; x < list->what->ranks; x++) {
			if (x == list->what->rank || !is_held(list, x))
				continue;
			if (host_of(list, x) == host) {
				twi_plan_send(list, area_of(list, run, index),
					      twi_plan_block(list, run, x).count, x, 0);
				messages++;
			}
			index++;
		}
		end_round(list, &messages);
	}
	twi_plan_stage(list);
}

static void reduce_scatter(struct twi_plan_list *list, struct twi_plan_range run,
			   struct twi_plan_ref result)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	uint32_t base = held_for_others(list);

	reduce_held(list, run);
	send_held(list, run, base);
	twi_plan_reduce(list, own.count, true);
	twi_plan_result(list, result);
	for (uint32_t host = 0; host < list->what->hosts_n; host++)
		if (host == list->hosts->own)
			add_host(list, own.first);
		else
			twi_plan_source(list, area_of(list, run, base + host));
	twi_plan_stage(list);
}

/* Sends the own part, at `from`, to its holders, and receives the parts that this rank holds. */
static void spread_part(struct twi_plan_list *list, struct twi_plan_range run,
			struct twi_plan_ref from)
{
	const struct twi_plan_hosts *hosts = list->hosts;
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	uint32_t messages = 0;

	for (uint32_t round = 0; round < list->what->hosts_n; round++) {
		uint32_t host = host_of_round(list, round);

		if (host == hosts->own)
			continue;
		twi_plan_send(list, from, own.count, holder_of(list, host, list->what->rank), 1);
		messages++;
		for (uint32_t i = hosts->first[host]; i < hosts->first[host + 1]; i++) {
			struct twi_plan_range part = twi_plan_block(list, run, hosts->members[i]);

			if (!is_held(list, hosts->members[i]))
				continue;
			twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, part.first),
				      part.count, hosts->members[i], 1);
			messages++;
		}
		end_round(list, &messages);
	}
	twi_plan_stage(list);
}

/* After a SYNC: copies the parts that other ranks of this host hold. */
static void run_copies(struct twi_plan_list *list, struct twi_plan_range run)
{
	const struct twi_plan_case *what = list->what;

	for (uint32_t i = 1; i < what->ranks; i++) {
		uint32_t x = (what->rank + i) % what->ranks;
		uint32_t from = holder_of(list, list->hosts->own, x);
		struct twi_plan_range part = twi_plan_block(list, run, x);
		struct twi_plan_ref source = twi_plan_of(list, from, TWI_PLAN_OUT, part.first);

		if (from == what->rank)
			continue;
		if (what->kind == TWI_COLL_ALL_GATHER && from == x)
			source = twi_plan_of(list, x, TWI_PLAN_IN, run.first);
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, part.first), source,
			      part.count);
	}
}

static void run_all_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_ref own =
		twi_plan_own(list, TWI_PLAN_OUT, twi_plan_block(list, run, list->what->rank).first);

	reduce_scatter(list, run, own);
	spread_part(list, run, own);
}

static void run_reduce_scatter(struct twi_plan_list *list, struct twi_plan_range run)
{
	reduce_scatter(list, run, twi_plan_own(list, TWI_PLAN_OUT, run.first));
}

static void run_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_range own = twi_plan_block(list, run, what->rank);
	uint32_t base = held_for_others(list), messages = 0;
	struct twi_plan_ref result = what->rank == what->root
					     ? twi_plan_own(list, TWI_PLAN_OUT, own.first)
					     : area_of(list, run, base + what->hosts_n);

	reduce_scatter(list, run, result);
	if (what->rank != what->root) {
		twi_plan_send(list, result, own.count, what->root, 1);
		return;
	}
	for (uint32_t x = 0; x < what->ranks; x++) {
		struct twi_plan_range part = twi_plan_block(list, run, x);

		if (x == what->rank)
			continue;
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, part.first), part.count, x, 1);
		messages++;
		end_round(list, &messages);
	}
}

static void run_all_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_ref from = twi_plan_own(list, TWI_PLAN_IN, run.first);
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	if (!list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, own.first), from, own.count);
	spread_part(list, run, from);
}

/* The rank that exchanges with other hosts in a broadcast or barrier. */
static uint32_t speaker_of(const struct twi_plan_list *list, uint32_t host)
{
	if (list->what->kind == TWI_COLL_BROADCAST && host_of(list, list->what->root) == host)
		return list->what->root;
	return list->hosts->members[list->hosts->first[host]];
}

static void run_broadcast(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t hosts_n = list->what->hosts_n, root = host_of(list, list->what->root);
	uint32_t self = (list->hosts->own + hosts_n - root) % hosts_n, low = 1;
	struct twi_plan_ref data = twi_plan_own(list, self ? TWI_PLAN_OUT : TWI_PLAN_IN, run.first);

	if (speaker_of(list, list->hosts->own) != list->what->rank)
		return;
	while (low < hosts_n && !(self & low))
		low *= 2;
	if (self)
		twi_plan_recv(list, data, run.count,
			      speaker_of(list, ((self & (self - 1)) + root) % hosts_n), 0);
	twi_plan_stage(list);
	for (low /= 2; low > 0; low /= 2)
		if (self + low < hosts_n)
			twi_plan_send(list, data, run.count,
				      speaker_of(list, (self + low + root) % hosts_n), 0);
}

static void run_barrier(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t hosts_n = list->what->hosts_n, own = list->hosts->own, tag = 0;

	(void)run;
	twi_plan_sync(list);
	for (uint32_t d = 1; d < hosts_n && speaker_of(list, own) == list->what->rank; d *= 2) {
		twi_plan_signal(list, TWI_PLAN_SEND, speaker_of(list, (own + d) % hosts_n), tag);
		twi_plan_signal(list, TWI_PLAN_RECV,
				speaker_of(list, (own + hosts_n - d) % hosts_n), tag++);
		twi_plan_stage(list);
	}
	twi_plan_sync(list);
}

static void run_sync(struct twi_plan_list *list, struct twi_plan_range run)
{
	(void)run;
	twi_plan_sync(list);
}

/* After the tree: copies the data from the rank of this host that has it. */
static void run_take(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t from = speaker_of(list, list->hosts->own);
	bool root = from == list->what->root;

	twi_plan_sync(list);
	if (from != list->what->rank)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, 0),
			      twi_plan_of(list, from, root ? TWI_PLAN_IN : TWI_PLAN_OUT, 0),
			      run.count);
	twi_plan_sync(list);
}

static void build_hier(struct twi_plan_list *list)
{
	enum twi_coll_kind kind = list->what->kind;
	uint32_t ranks = list->what->ranks;

	if (kind == TWI_COLL_BARRIER) {
		twi_plan_whole(list, true, run_barrier);
		return;
	}
	if (kind == TWI_COLL_BROADCAST) {
		twi_plan_segments(list, 1, 1, false, run_broadcast);
		twi_plan_whole(list, true, run_take);
		return;
	}
	if (kind != TWI_COLL_ALL_GATHER)
		twi_plan_whole(list, true, run_sync);
	if (kind == TWI_COLL_ALL_REDUCE)
		twi_plan_segments(list, 1, ranks, true, run_all_reduce);
	else if (kind == TWI_COLL_REDUCE)
		twi_plan_segments(list, 1, ranks, true, run_reduce);
	else if (kind == TWI_COLL_REDUCE_SCATTER)
		twi_plan_segments(list, ranks, 1, true, run_reduce_scatter);
	else
		twi_plan_segments(list, 1, 1, true, run_all_gather);
	twi_plan_whole(list, true, run_sync);
	if (kind == TWI_COLL_REDUCE || kind == TWI_COLL_REDUCE_SCATTER)
		return;
	twi_plan_segments(list, 1, kind == TWI_COLL_ALL_REDUCE ? ranks : 1, true, run_copies);
	twi_plan_whole(list, true, run_sync);
}

void twi_plan_build_hierarchical(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_hosts hosts = { .own = what->hosts[what->rank] };
	uint32_t *memory = calloc(2 * (size_t)what->ranks + what->hosts_n + 1, sizeof(*memory));
	uint32_t at = 0;

	if (memory == NULL) {
		list->status = twi_error(TOW_ENOMEM, "no memory for a plan");
		return;
	}
	hosts.members = memory;
	hosts.index = memory + what->ranks;
	hosts.first = memory + 2 * (size_t)what->ranks;
	/* Counting sort: sums up the sizes, then puts each rank in the next place of its host. */
	for (uint32_t r = 0; r < what->ranks; r++)
		hosts.index[r] = hosts.first[what->hosts[r] + 1]++;
	for (uint32_t host = 0; host < what->hosts_n; host++) {
		at += hosts.first[host + 1];
		hosts.first[host + 1] = at;
	}
	for (uint32_t r = 0; r < what->ranks; r++)
		hosts.members[hosts.first[what->hosts[r]] + hosts.index[r]] = r;
	list->hosts = &hosts;
	build_hier(list);
	list->hosts = NULL;
	free(memory);
}

bool twi_plan_fits_hierarchical(const struct twi_plan_case *what)
{
	return what->hosts != NULL && what->hosts_n > 1 && what->hosts_n < what->ranks &&
	       twi_plan_few_sources(what);
}
