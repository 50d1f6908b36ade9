/*
 * verdict_states.c - judges states that ranks report through their sockets; see verdict_states.h.
 * The code checks these states like states that come from other ranks.
 */
#include "tools/verdict/verdict_states.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/judge/verdict.h"
#include "diag/record/coll_kind.h"

#define HEAD 8u /* the clock of the reporting process, little-endian */

static uint64_t read_clock(const unsigned char *bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < HEAD; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

static bool decode_look(const struct states_look *look, struct twi_rank_state *out)
{
	return look->bytes != NULL && look->count > HEAD &&
	       twi_rank_state_decode(look->bytes + HEAD, look->count - HEAD, out);
}

/* Returns the largest group of another library. NULL: there is none with several ranks. */
static const struct twi_state_group *largest_group(const struct twi_rank_state *state)
{
	const struct twi_state_group *found = NULL;

	for (uint32_t i = 0; i < state->group_count; i++) {
		const struct twi_state_group *group = &state->groups[i];

		if ((group->ctx & TWI_STATE_FOREIGN) != 0 && group->size > 1 &&
		    (found == NULL || group->size > found->size))
			found = group;
	}
	return found;
}

int states_are_joined(const struct states_rank *ranks, size_t count)
{
	struct twi_rank_state *state = malloc(sizeof(*state));
	bool foreign = false, ours = false;

	for (size_t i = 0; state != NULL && i < count; i++) {
		if (!decode_look(&ranks[i].looks[0], state))
			continue;
		foreign |= largest_group(state) != NULL;
		ours |= state->world > 1;
	}
	free(state);
	return foreign && !ours;
}

/* Memory for the decoded states of a rank. */
struct decoded {
	struct twi_rank_state first, last;
};

/* Computes the offset of the rank's clock, and its error, from the better of the two looks. */
static void compare_clocks(const struct states_rank *in, struct twi_verdict_rank *out)
{
	out->error_ns = UINT64_MAX;
	for (unsigned i = 0; i < 2; i++) {
		const struct states_look *look = &in->looks[i];
		uint64_t trip = look->came_ns - look->asked_ns;

		if (look->bytes == NULL || look->count < HEAD || trip / 2 + 1 >= out->error_ns)
			continue;
		out->error_ns = trip / 2 + 1;
		out->offset_ns =
			(int64_t)(read_clock(look->bytes) - look->asked_ns) - (int64_t)(trip / 2);
	}
}

static void fill_rank(const struct states_rank *in, struct decoded *room,
		      struct twi_verdict_rank *out)
{
	*out = (struct twi_verdict_rank){
		.rank = in->rank, .asked = true, .pid = in->pid, .process_state = in->process_state
	};
	if (decode_look(&in->looks[0], &room->first))
		out->first = &room->first;
	if (decode_look(&in->looks[1], &room->last))
		out->last = &room->last;
	if (out->last == NULL) {
		out->last = out->first;
		out->first = NULL;
	}
	compare_clocks(in, out);
	if (out->last != NULL)
		out->rank = out->last->rank;
	else if (in->process_state == 'T' || in->process_state == 't')
		out->process = TWI_PROCESS_STOPPED;
	else if (in->process_state != 0)
		out->process = TWI_PROCESS_RUNS;
}

static bool has_rank(const struct twi_verdict_rank *ranks, uint32_t count, uint32_t rank)
{
	for (uint32_t i = 0; i < count; i++)
		if (ranks[i].rank == rank)
			return true;
	return false;
}

/* Counts the members of the largest group that are not among the ranks of the case. */
static uint32_t count_elsewhere(const struct twi_verdict_case *what)
{
	const struct twi_state_group *largest = NULL;
	uint32_t there = 0;

	for (uint32_t i = 0; i < what->rank_count; i++) {
		const struct twi_rank_state *state = what->ranks[i].last;
		const struct twi_state_group *group = state != NULL ? largest_group(state) : NULL;

		if (group != NULL && (largest == NULL || group->size > largest->size))
			largest = group;
	}
	for (uint32_t i = 0; largest != NULL && i < what->rank_count; i++)
		there += twi_rank_state_group(what->ranks[i].last, largest->ctx) != NULL ||
			 what->ranks[i].last == NULL;
	return largest != NULL && largest->size > there ? largest->size - there : 0;
}

static const char *kind_name(unsigned kind)
{
	return kind < TWI_COLL_KINDS ? twi_coll_kind_name((enum twi_coll_kind)kind) : "unknown";
}

static char *write_document(const struct twi_verdict_case *what)
{
	struct twi_verdict *verdict = malloc(sizeof(*verdict));
	struct twi_emit emit;
	char *text = NULL;

	if (verdict == NULL)
		return NULL;
	twi_verdict_judge(what, verdict);
	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_verdict_emit(verdict, what, &emit);
	twi_emit_bool(&emit, "joined", true);
	twi_emit_u64(&emit, "ranks_elsewhere", count_elsewhere(what));
	twi_emit_object_end(&emit);
	if (twi_emit_take(&emit, &text) < 0)
		text = NULL;
	twi_emit_fini(&emit);
	free(verdict);
	return text;
}

char *states_verdict(const struct states_rank *ranks, size_t count)
{
	struct decoded *room = calloc(count, sizeof(*room));
	struct twi_verdict_rank *rows = calloc(count, sizeof(*rows));
	struct timespec now;
	struct twi_verdict_case what = { .ranks = rows, .kind_name = kind_name };
	char *text = NULL;

	clock_gettime(CLOCK_MONOTONIC, &now);
	what.now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	for (size_t i = 0; room != NULL && rows != NULL && i < count; i++) {
		struct twi_verdict_rank *row = &rows[what.rank_count];

		fill_rank(&ranks[i], &room[i], row);
		/* A process may have two runtimes of one rank; the first one counts. */
		if (!has_rank(rows, what.rank_count, row->rank))
			what.rank_count++;
	}
	if (what.rank_count > 0) {
		what.me = rows[0].rank;
		text = write_document(&what);
	}
	free(rows);
	free(room);
	return text;
}
