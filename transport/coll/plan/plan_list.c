/*
 * plan_list.c - growing lists of programs, steps and refs, and the arithmetic that builders share.
 */
#include "transport/coll/plan/plan_list.h"

#include <stdlib.h>

#include "diag/base/error.h"

/* Grows a list so that it can hold one more than `used`. False after a failure. */
#define GROW(list, array, room, used, limit)                                                       \
	((used) < (room) || grow_##array(list, (room) ? (room)*2 : 16, limit))

static bool list_fail(struct twi_plan_list *list, int status)
{
	list->status = status;
	return false;
}

static bool may_grow(struct twi_plan_list *list, uint32_t room, uint32_t limit)
{
	if (room <= limit)
		return true;
	return list_fail(list, twi_error(TOW_ENOTSUP,
					 "a plan of this kind for %u ranks would have more than %u "
					 "steps or operands; choose another plan",
					 list->what->ranks, limit));
}

#define DEFINE_GROW(array, type)                                                                   \
	static bool grow_##array(struct twi_plan_list *list, uint32_t room, uint32_t limit)        \
	{                                                                                          \
		type *grown;                                                                       \
                                                                                                   \
		if (!may_grow(list, room, limit))                                                  \
			return false;                                                              \
		grown = calloc(room, sizeof(*grown));                                              \
		if (grown == NULL)                                                                 \
			return list_fail(list, twi_error(TOW_ENOMEM, "no memory for a plan"));     \
		for (uint32_t i = 0; i < list->array##_room; i++)                                  \
			grown[i] = list->plan->array[i];                                           \
		free(list->plan->array);                                                           \
		list->plan->array = grown;                                                         \
		list->array##_room = room;                                                         \
		return true;                                                                       \
	}
DEFINE_GROW(programs, struct twi_plan_program)
DEFINE_GROW(steps, struct twi_plan_step)
DEFINE_GROW(refs, struct twi_plan_ref)
#undef DEFINE_GROW

uint64_t twi_plan_type_bytes(enum tow_type type)
{
	switch (type) {
#define BYTES(name, value, bytes, text)                                                            \
	case name:                                                                                 \
		return bytes;
		TOW_TYPE_MAP(BYTES)
#undef BYTES
	case TOW_TYPE_COUNT:
		break;
	}
	return 0;
}

struct twi_plan_ref twi_plan_of(const struct twi_plan_list *list, uint32_t rank,
				enum twi_plan_space space, uint64_t first)
{
	return (struct twi_plan_ref){ rank, (uint8_t)space, first * list->unit };
}

struct twi_plan_ref twi_plan_own(const struct twi_plan_list *list, enum twi_plan_space space,
				 uint64_t first)
{
	return twi_plan_of(list, list->what->rank, space, first);
}

void twi_plan_open(struct twi_plan_list *list, uint32_t repeats, bool fence, uint64_t stride)
{
	struct twi_plan *plan = list->plan;

	if (list->status < 0 ||
	    !GROW(list, programs, list->programs_room, plan->program_count, TWI_PLAN_STEPS_MAX))
		return;
	plan->programs[plan->program_count] = (struct twi_plan_program){
		.first = plan->step_count,
		.repeats = repeats,
		.fence = fence,
		.in_stride = stride * list->unit,
		.out_stride = stride * list->unit,
	};
	list->stage = 0;
}

/* Numbers the stages 0, 1, 2, ... and finds the one with the most messages. */
void twi_plan_close(struct twi_plan_list *list)
{
	struct twi_plan *plan = list->plan;
	struct twi_plan_program *program;
	uint32_t stage = 0, was = 0, messages = 0;

	if (list->status < 0)
		return;
	program = &plan->programs[plan->program_count++];
	program->count = plan->step_count - program->first;
	for (uint32_t i = 0; i < program->count; i++) {
		struct twi_plan_step *step = &plan->steps[program->first + i];

		if (i > 0 && step->stage != was) {
			stage++;
			messages = 0;
		}
		was = step->stage;
		step->stage = (uint16_t)stage;
		messages += step->kind == TWI_PLAN_SEND || step->kind == TWI_PLAN_RECV;
		if (plan->messages_max < messages)
			plan->messages_max = messages;
	}
}

void twi_plan_stage(struct twi_plan_list *list)
{
	if (++list->stage > UINT16_MAX && list->status == TOW_OK)
		list->status = twi_error(TOW_ENOTSUP,
					 "a plan of this kind for %u ranks would have more than "
					 "%u stages; choose another plan",
					 list->what->ranks, UINT16_MAX);
}

static void add_ref(struct twi_plan_list *list, struct twi_plan_ref ref, uint64_t bytes)
{
	struct twi_plan *plan = list->plan;

	if (!GROW(list, refs, list->refs_room, plan->ref_count, TWI_PLAN_REFS_MAX))
		return;
	plan->refs[plan->ref_count++] = ref;
	if (ref.space == TWI_PLAN_SCRATCH && plan->scratch_bytes < ref.offset + bytes)
		plan->scratch_bytes = ref.offset + bytes;
}

/* NULL after a failure. */
static struct twi_plan_step *add_step(struct twi_plan_list *list, enum twi_plan_step_kind kind,
				      uint64_t count)
{
	struct twi_plan *plan = list->plan;
	struct twi_plan_step *step;

	if (list->status < 0 ||
	    !GROW(list, steps, list->steps_room, plan->step_count, TWI_PLAN_STEPS_MAX))
		return NULL;
	step = &plan->steps[plan->step_count++];
	*step = (struct twi_plan_step){ .kind = (uint8_t)kind,
					.stage = (uint16_t)list->stage,
					.ref = plan->ref_count,
					.bytes = count * list->unit };
	return step;
}

static void add_message(struct twi_plan_list *list, enum twi_plan_step_kind kind,
			struct twi_plan_ref ref, uint64_t count, uint32_t peer, uint32_t tag)
{
	struct twi_plan_step *step = add_step(list, kind, count);

	if (step == NULL)
		return;
	step->peer = peer;
	step->tag = (uint16_t)tag;
	add_ref(list, ref, step->bytes);
}

void twi_plan_send(struct twi_plan_list *list, struct twi_plan_ref from, uint64_t count,
		   uint32_t peer, uint32_t tag)
{
	if (count > 0)
		add_message(list, TWI_PLAN_SEND, from, count, peer, tag);
}

void twi_plan_recv(struct twi_plan_list *list, struct twi_plan_ref to, uint64_t count,
		   uint32_t peer, uint32_t tag)
{
	if (count > 0)
		add_message(list, TWI_PLAN_RECV, to, count, peer, tag);
}

void twi_plan_signal(struct twi_plan_list *list, enum twi_plan_step_kind kind, uint32_t peer,
		     uint32_t tag)
{
	add_message(list, kind, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), 0, peer, tag);
}

/* Whether `ref` begins where `bytes` bytes at `last` end. */
static bool ref_follows(struct twi_plan_ref ref, const struct twi_plan_ref *last, uint64_t bytes)
{
	return ref.rank == last->rank && ref.space == last->space &&
	       ref.offset == last->offset + bytes;
}

/* Joins a copy with the last step, if that is a copy and ends where this one begins. */
static bool copy_joins(struct twi_plan_list *list, struct twi_plan_ref to, struct twi_plan_ref from,
		       uint64_t count)
{
	struct twi_plan *plan = list->plan;
	struct twi_plan_step *last;
	const struct twi_plan_ref *refs;

	if (list->status < 0 || plan->step_count == 0 ||
	    plan->step_count == plan->programs[plan->program_count].first)
		return false;
	last = &plan->steps[plan->step_count - 1];
	if (last->kind != TWI_PLAN_COPY || last->stage != (uint16_t)list->stage)
		return false;
	refs = &plan->refs[last->ref];
	if (!ref_follows(to, &refs[0], last->bytes) || !ref_follows(from, &refs[1], last->bytes))
		return false;
	last->bytes += count * list->unit;
	for (int i = 0; i < 2; i++)
		if (refs[i].space == TWI_PLAN_SCRATCH &&
		    plan->scratch_bytes < refs[i].offset + last->bytes)
			plan->scratch_bytes = refs[i].offset + last->bytes;
	return true;
}

void twi_plan_copy(struct twi_plan_list *list, struct twi_plan_ref to, struct twi_plan_ref from,
		   uint64_t count)
{
	if (count == 0 || copy_joins(list, to, from, count) ||
	    add_step(list, TWI_PLAN_COPY, count) == NULL)
		return;
	add_ref(list, to, count * list->unit);
	add_ref(list, from, count * list->unit);
}

void twi_plan_zero(struct twi_plan_list *list, struct twi_plan_ref to, uint64_t count)
{
	if (count > 0 && add_step(list, TWI_PLAN_ZERO, count) != NULL)
		add_ref(list, to, count * list->unit);
}

void twi_plan_sync(struct twi_plan_list *list)
{
	twi_plan_stage(list);
	if (add_step(list, TWI_PLAN_SYNC, 0) != NULL)
		list->plan->syncs++;
	twi_plan_stage(list);
}

void twi_plan_reduce(struct twi_plan_list *list, uint64_t count, bool divide)
{
	struct twi_plan_step *step;

	list->muted = count == 0;
	step = list->muted ? NULL : add_step(list, TWI_PLAN_REDUCE, count);
	if (step != NULL)
		step->divide = divide && list->what->reduce == TOW_AVG;
}

static void add_operand(struct twi_plan_list *list, struct twi_plan_ref ref, bool result)
{
	struct twi_plan_step *step;

	if (list->muted || list->status < 0)
		return;
	step = &list->plan->steps[list->plan->step_count - 1];
	step->results_n += result;
	step->sources_n += !result;
	add_ref(list, ref, step->bytes);
}

void twi_plan_result(struct twi_plan_list *list, struct twi_plan_ref ref)
{
	add_operand(list, ref, true);
}

void twi_plan_source(struct twi_plan_list *list, struct twi_plan_ref ref)
{
	add_operand(list, ref, false);
}

struct twi_plan_range twi_plan_slice(const struct twi_plan_list *list, struct twi_plan_range of,
				     uint32_t parts, uint32_t index)
{
	uint64_t line = TWI_PLAN_LINE / list->unit;
	uint64_t lines = (of.count + line - 1) / line;
	/* the first `more` parts have one line more */
	uint64_t each = lines / parts, more = lines % parts;
	uint64_t first = (index * each + (index < more ? index : more)) * line;
	uint64_t count = (each + (index < more)) * line;

	if (first > of.count)
		first = of.count;
	if (count > of.count - first)
		count = of.count - first;
	return (struct twi_plan_range){ of.first + first, count };
}

uint64_t twi_plan_slice_max(const struct twi_plan_list *list, uint64_t count, uint32_t parts)
{
	uint64_t line = TWI_PLAN_LINE / list->unit;
	uint64_t lines = (count + line - 1) / line;

	return (lines + parts - 1) / parts * line;
}

struct twi_plan_range twi_plan_block(const struct twi_plan_list *list, struct twi_plan_range run,
				     uint32_t rank)
{
	const struct twi_plan_case *what = list->what;

	switch (what->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE:
	case TWI_COLL_BROADCAST:
		return twi_plan_slice(list, run, what->ranks, rank);
	case TWI_COLL_ALL_GATHER_V:
		return (struct twi_plan_range){ list->recv_offsets[rank], what->recv_counts[rank] };
	default:
		return (struct twi_plan_range){ rank * what->count + run.first, run.count };
	}
}

uint64_t twi_plan_block_max(const struct twi_plan_list *list, struct twi_plan_range run)
{
	switch (list->what->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE:
	case TWI_COLL_BROADCAST:
		return twi_plan_slice_max(list, run.count, list->what->ranks);
	default:
		return (run.count * list->unit + TWI_PLAN_LINE - 1) / TWI_PLAN_LINE *
		       (TWI_PLAN_LINE / list->unit);
	}
}

/* How many columns a run has. */
static uint64_t segment_count(const struct twi_plan_list *list, uint32_t weight, uint32_t parts)
{
	const struct twi_plan_case *what = list->what;
	uint64_t line = TWI_PLAN_LINE / list->unit;
	uint64_t message = what->segment_bytes < 4096 ? what->segment_bytes : 4096;
	uint64_t most = what->segment_bytes / list->unit / weight;
	uint64_t least = message / list->unit * parts;
	uint64_t runs, length;

	most = most > least ? most : least;
	most = most > 0 ? most : 1;
	runs = what->count / most + (what->count % most > 0);
	/* A plan may go over the columns twice, with a rest each, and programs in between. */
	if (runs > TWI_PLAN_RUNS_MAX / 2 - 8)
		runs = TWI_PLAN_RUNS_MAX / 2 - 8;
	length = what->count / runs + (what->count % runs > 0);
	return (length + line - 1) / line * line;
}

static void one_program(struct twi_plan_list *list, uint64_t repeats, bool fence, uint64_t stride,
			struct twi_plan_range range, twi_plan_run_fn run)
{
	if (repeats == 0)
		return;
	twi_plan_open(list, (uint32_t)repeats, fence, stride);
	run(list, range);
	twi_plan_close(list);
}

void twi_plan_segments(struct twi_plan_list *list, uint32_t weight, uint32_t parts, bool fence,
		       twi_plan_run_fn run)
{
	uint64_t total = list->what->count, length = segment_count(list, weight, parts);
	uint64_t repeats = total / length, rest = total % length;

	one_program(list, repeats, fence, repeats > 1 ? length : 0,
		    (struct twi_plan_range){ 0, length }, run);
	one_program(list, rest > 0, fence && repeats == 0, 0,
		    (struct twi_plan_range){ repeats * length, rest }, run);
}

void twi_plan_whole(struct twi_plan_list *list, bool fence, twi_plan_run_fn run)
{
	one_program(list, 1, fence, 0, (struct twi_plan_range){ 0, list->what->count }, run);
}

int64_t twi_plan_pair_source(const struct twi_plan_case *what)
{
	for (uint32_t i = 0; i < what->pair_count; i++)
		if (what->pairs[i].target == what->rank)
			return what->pairs[i].source;
	return TOW_GROUP_NONE;
}

int64_t twi_plan_pair_target(const struct twi_plan_case *what)
{
	for (uint32_t i = 0; i < what->pair_count; i++)
		if (what->pairs[i].source == what->rank)
			return what->pairs[i].target;
	return TOW_GROUP_NONE;
}
