/*
 * coll_shrink.c - lets the surviving ranks agree on who they are, and makes a group of them.
 *
 *	every rank:  the lowest rank that it does not know to be gone is the gatherer
 *	others    --JOIN-->    it, once they are connected; if it goes, to the next
 *	gatherer  --DECIDED--> all that have joined, when each of the rest has gone
 *	late:     --DELAYED--> all that have joined: the gatherer's time is over
 *
 * The store is not used, since it may have gone with rank 0. A rank joins one gatherer at a time,
 * and leaves it only when its connection to it has gone. So two gatherers do not decide for the
 * same ranks. A rank that has decided, or has received a decision, keeps to it, and answers each
 * JOIN with it. If its gatherer goes, it passes the decision on to the next one, which may not have
 * got it. So the ranks that a dying gatherer did not tell get its decision from the next one. For
 * this the decision is kept until the job's end, even after the old group has been closed.
 *
 * The number of the new group is from a range that the store does not give out. Each JOIN offers a
 * number that its rank has not seen yet; the highest of them is new to all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/span.h"
#include "transport/coll/coll_line.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"

#define PART_CHARS 400u
#define PART_RANKS (4 * PART_CHARS) /* a hex digit stands for four ranks */
#define NOBODY     UINT32_MAX
#define GRACE_NS   (500ull * 1000 * 1000) /* time for the gatherer's DELAYED */

struct member {
	struct shrink *shrink;
	uint32_t job_rank;
	uint32_t number; /* the number that its JOIN has offered */
	bool joined, gone;
	bool dialing, dialed;
};

struct shrink {
	struct twi_list link; /* on ranks->shrinks */
	struct twi_ranks *ranks;
	uint32_t ctx, rank, size; /* of the old group */
	struct tow_op *op;        /* operation of the call; NULL: there is none now */
	bool overtime;     /* its deadline has passed; it still waits for the gatherer's message */
	uint32_t gatherer; /* the one that it has joined, or has told the decision */
	bool decided, made;
	uint32_t number; /* number of the new group; before the decision, this rank's offer */
	uint32_t decider, parts;
	uint8_t *is_member; /* of the new group; one for each rank, set by the decision */
	struct member members[];
};

static struct shrink *find_shrink(struct twi_ranks *ranks, uint32_t ctx)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->shrinks) {
		struct shrink *shrink = twi_container_of(pos, struct shrink, link);

		if (shrink->ctx == ctx)
			return shrink;
	}
	return NULL;
}

static struct shrink *make_shrink(struct twi_coll_group *coll)
{
	struct shrink *shrink =
		calloc(1, sizeof(*shrink) + coll->size * (sizeof(struct member) + 1));

	if (shrink == NULL) {
		twi_error(TOW_ENOMEM, "no memory to shrink a group of %u", coll->size);
		return NULL;
	}
	shrink->ranks = coll->ranks;
	shrink->ctx = coll->ctx;
	shrink->rank = coll->rank;
	shrink->size = coll->size;
	shrink->gatherer = shrink->decider = NOBODY;
	shrink->is_member = (uint8_t *)&shrink->members[coll->size];
	for (uint32_t i = 0; i < coll->size; i++) {
		shrink->members[i].shrink = shrink;
		shrink->members[i].job_rank = coll->members[i];
	}
	twi_list_push_back(&coll->ranks->shrinks, &shrink->link);
	return shrink;
}

static const struct twi_slot *slot_of(const struct shrink *shrink, uint32_t rank)
{
	return &shrink->ranks->slots[shrink->members[rank].job_rank];
}

static bool has_gone(const struct shrink *shrink, uint32_t rank)
{
	return rank != shrink->rank && (shrink->members[rank].gone || slot_of(shrink, rank)->lost);
}

/* The gatherer, as this rank sees it. */
static uint32_t gatherer_of(const struct shrink *shrink)
{
	uint32_t rank = 0;

	while (has_gone(shrink, rank))
		rank++;
	return rank;
}

static void say_to(const struct shrink *shrink, uint32_t rank, const struct twi_coll_word *word)
{
	twi_coll_say_to(shrink->ranks, shrink->members[rank].job_rank, shrink->ctx, shrink->rank,
			word);
}

static void end_shrink(struct shrink *shrink, int status)
{
	struct tow_op *op = shrink->op;

	shrink->op = NULL;
	if (op != NULL)
		twi_op_complete(op, status, 0);
}

/* --- connections --- */

static void shrink_turn(struct shrink *shrink);

static void on_dialed(struct tow_op *op, const struct tow_result *result)
{
	struct member *member = result->user;
	struct shrink *shrink = member->shrink;
	struct twi_ranks *ranks = shrink->ranks;
	int status = result->status;

	tow_op_release(op);
	member->dialing = false;
	/* No process is there, or another one. Other failures tell nothing about the rank. */
	if (status == TOW_EREFUSED || status == TOW_EPEER || status == TOW_EMISMATCH)
		member->gone = true;
	else if (status == TOW_EDEADLINE) /* it was silent: it is stopped, or takes long to die */
		member->dialed = false;
	if (!ranks->closing)
		shrink_turn(shrink);
	twi_ranks_drop(ranks);
}

static void dial_rank(struct shrink *shrink, uint32_t rank)
{
	struct member *member = &shrink->members[rank];
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_dialed,
						.user = member };
	struct tow_op *op;
	int status;

	if (member->dialing || member->dialed)
		return;
	status = twi_ranks_connect(shrink->ranks, member->job_rank, TWI_SPACE_LINK, &options, &op);
	if (status < 0) {
		end_shrink(shrink, status);
		return;
	}
	member->dialing = member->dialed = true;
	twi_ranks_use(shrink->ranks);
}

/* --- the decision --- */

static void send_decision(const struct shrink *shrink, uint32_t rank)
{
	struct twi_coll_word word = { .type = TWI_COLL_DECIDED, .value = shrink->number };

	for (uint32_t at = 0; at < shrink->size; word.other++) {
		uint32_t chars = 0;

		for (; chars < PART_CHARS && at < shrink->size; chars++, at += 4) {
			unsigned digit = 0;

			for (uint32_t bit = 0; bit < 4 && at + bit < shrink->size; bit++)
				digit |= (unsigned)shrink->is_member[at + bit] << bit;
			word.text[chars] = "0123456789abcdef"[digit];
		}
		word.text[chars] = '\0';
		say_to(shrink, rank, &word);
	}
}

/* The decision is known now, this rank's own or another one's. */
static void settle_shrink(struct shrink *shrink)
{
	struct twi_ranks *ranks = shrink->ranks;
	int status = TOW_OK;

	shrink->decided = true;
	ranks->shrunk = twi_max(ranks->shrunk, shrink->number - TWI_COLL_CTX_SHRUNK + 1);
	if (shrink->op == NULL)
		return;
	if (!shrink->is_member[shrink->rank])
		status = twi_error(TOW_EMISMATCH,
				   "tow_group_shrink: the other ranks have decided that rank "
				   "%u, which is this process, is dead",
				   shrink->rank);
	end_shrink(shrink, status);
}

static void decide_members(struct shrink *shrink)
{
	for (uint32_t i = 0; i < shrink->size; i++) {
		shrink->is_member[i] = !has_gone(shrink, i);
		if (shrink->is_member[i] && i != shrink->rank)
			shrink->number = twi_max(shrink->number, shrink->members[i].number);
	}
	for (uint32_t i = 0; i < shrink->size; i++) {
		if (shrink->is_member[i] && i != shrink->rank)
			send_decision(shrink, i);
	}
	settle_shrink(shrink);
}

/* Whether every rank has joined or gone. Connects to the others: that shows which have gone. */
static bool all_gathered(struct shrink *shrink)
{
	bool all = true;

	for (uint32_t i = 0; i < shrink->size && shrink->op != NULL; i++) {
		if (i == shrink->rank || has_gone(shrink, i))
			continue;
		if (slot_of(shrink, i)->state != TWI_SLOT_UP)
			dial_rank(shrink, i);
		all &= shrink->members[i].joined;
	}
	return all && shrink->op != NULL;
}

static void rank_joins(struct shrink *shrink, uint32_t rank)
{
	const struct twi_coll_word word = { .type = TWI_COLL_JOIN, .value = shrink->number };

	if (shrink->gatherer == rank)
		return;
	if (slot_of(shrink, rank)->state != TWI_SLOT_UP) {
		dial_rank(shrink, rank);
		return;
	}
	shrink->gatherer = rank;
	say_to(shrink, rank, &word);
}

/* Passes the decision on to the next gatherer. If there is no connection yet, it will make one. */
static void pass_decision(struct shrink *shrink)
{
	uint32_t first = gatherer_of(shrink);

	if (first == shrink->rank || first == shrink->gatherer ||
	    slot_of(shrink, first)->state != TWI_SLOT_UP)
		return;
	shrink->gatherer = first;
	send_decision(shrink, first);
}

static void shrink_turn(struct shrink *shrink)
{
	uint32_t first;

	if (shrink->decided) {
		pass_decision(shrink);
		return;
	}
	if (shrink->op == NULL)
		return;
	first = gatherer_of(shrink);
	if (first != shrink->rank)
		rank_joins(shrink, first);
	else if (all_gathered(shrink))
		decide_members(shrink);
}

/* --- control messages --- */

static void on_join(struct shrink *shrink, const struct twi_coll_word *word)
{
	struct member *member = &shrink->members[word->from];

	if (shrink->decided) {
		send_decision(shrink, word->from);
		return;
	}
	if (word->value < TWI_COLL_CTX_SHRUNK || word->value >= TWI_COLL_CTX_MAX)
		return;
	member->joined = true;
	member->number = (uint32_t)word->value;
	shrink_turn(shrink);
}

/* A digit stands for four ranks, its lowest bit for the first. */
static bool take_part(struct shrink *shrink, const struct twi_coll_word *word)
{
	uint32_t at = (uint32_t)word->other * PART_RANKS;

	for (uint32_t i = 0; i < PART_CHARS && at < shrink->size; i++, at += 4) {
		char c = word->text[i];
		unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
							: 16;

		if (digit == 16)
			return false;
		for (uint32_t bit = 0; bit < 4 && at + bit < shrink->size; bit++)
			shrink->is_member[at + bit] = digit >> bit & 1;
	}
	return true;
}

static void on_decided(struct shrink *shrink, const struct twi_coll_word *word)
{
	if (shrink->decided || word->value < TWI_COLL_CTX_SHRUNK || word->value >= TWI_COLL_CTX_MAX)
		return;
	if (word->other == 0) {
		shrink->decider = word->from;
		shrink->parts = 0;
	}
	if (shrink->decider != word->from || shrink->parts != word->other ||
	    !take_part(shrink, word))
		return;
	shrink->parts++;
	if (shrink->parts * (uint64_t)PART_RANKS < shrink->size)
		return;
	shrink->number = (uint32_t)word->value;
	shrink->gatherer = word->from;
	settle_shrink(shrink);
}

void twi_coll_shrink_heard(struct twi_ranks *ranks, struct twi_coll_group *coll, uint32_t job_rank,
			   const struct twi_coll_word *word)
{
	struct shrink *shrink = find_shrink(ranks, word->ctx);

	if (shrink == NULL && coll != NULL)
		shrink = make_shrink(coll);
	if (shrink == NULL || word->from >= shrink->size || word->from == shrink->rank ||
	    shrink->members[word->from].job_rank != job_rank)
		return;
	switch (word->type) {
	case TWI_COLL_JOIN:
		on_join(shrink, word);
		break;
	case TWI_COLL_DECIDED:
		on_decided(shrink, word);
		break;
	case TWI_COLL_DELAYED:
		if (shrink->op == NULL || word->from != shrink->gatherer)
			break;
		twi_error(TOW_EDEADLINE, "%s", word->text);
		end_shrink(shrink, TOW_EDEADLINE);
		break;
	default: /* a message for a group that is over here */
		break;
	}
}

void twi_coll_shrink_up(struct twi_ranks *ranks)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->shrinks) {
		struct shrink *shrink = twi_container_of(pos, struct shrink, link);

		if (shrink->decided)
			pass_decision(shrink);
	}
}

void twi_coll_shrink_lost(struct twi_ranks *ranks)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->shrinks)
		shrink_turn(twi_container_of(pos, struct shrink, link));
}

void twi_coll_shrinks_end(struct twi_ranks *ranks)
{
	struct twi_list *pos;

	while ((pos = twi_list_first(&ranks->shrinks)) != NULL) {
		twi_list_remove(pos);
		free(twi_container_of(pos, struct shrink, link));
	}
}

/* --- time --- */

/* The gatherer's time is over: it names the ranks that it has waited for. */
static void give_up(struct shrink *shrink)
{
	struct twi_coll_word word = { .type = TWI_COLL_DELAYED, .status = TOW_EDEADLINE };
	char names[200] = "";
	uint32_t more = 0;
	size_t used = 0;

	for (uint32_t i = 0; i < shrink->size; i++) {
		if (i == shrink->rank || has_gone(shrink, i) || shrink->members[i].joined)
			continue;
		if (used + 40 < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%u",
						 used > 0 ? ", " : "", i);
		else
			more++;
	}
	if (more > 0)
		snprintf(names + used, sizeof(names) - used, " and %u more", more);
	snprintf(word.text, sizeof(word.text),
		 "tow_group_shrink: these ranks neither called it nor ended in time: "
		 "rank %s",
		 names);
	for (uint32_t i = 0; i < shrink->size; i++) {
		if (i != shrink->rank && !has_gone(shrink, i) && shrink->members[i].joined)
			say_to(shrink, i, &word);
	}
	twi_error(TOW_EDEADLINE, "%s", word.text);
	end_shrink(shrink, TOW_EDEADLINE);
}

static void abort_shrink(struct tow_op *op, int status)
{
	struct shrink *shrink = op->owner;
	uint32_t first = gatherer_of(shrink);

	if (status == TOW_EDEADLINE && first == shrink->rank) {
		give_up(shrink);
	} else if (status == TOW_EDEADLINE && !shrink->overtime) {
		shrink->overtime = true;
		op->deadline_ns = twi_engine_clock(op->engine) + GRACE_NS;
		twi_op_watch(op);
	} else if (status == TOW_EDEADLINE) {
		twi_error(status,
			  "tow_group_shrink: rank %u, which decides which ranks are alive, "
			  "neither called it nor ended in time",
			  first);
		end_shrink(shrink, status);
	} else {
		end_shrink(shrink, status);
	}
}

static const struct twi_op_ops shrink_ops = { .kind = TWI_OP_CALL,
					      .noun = "shrinking of a group",
					      .span = TWI_SPAN_CALL,
					      .abort = abort_shrink };

/* --- the call --- */

/* A rank that calls again after its deadline joins again. */
static int begin_shrink(struct shrink *shrink, uint64_t timeout_ns, struct tow_op **op_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct twi_ranks *ranks = shrink->ranks;

	if (shrink->made)
		return twi_error(TOW_EINVAL, "tow_group_shrink: the group has been shrunk "
					     "before; shrink the group that resulted");
	if (shrink->op != NULL)
		return twi_error(TOW_EBUSY, "tow_group_shrink: another thread shrinks the group");
	if (ranks->shrunk >= TWI_COLL_CTX_MAX - TWI_COLL_CTX_SHRUNK)
		return twi_error(TOW_EBUSY, "tow_group_shrink: a job can shrink groups %u times",
				 TWI_COLL_CTX_MAX - TWI_COLL_CTX_SHRUNK);
	options.timeout_ns = timeout_ns;
	*op_out = shrink->op = twi_op_acquire(ranks->engine, &shrink_ops, &options);
	if (shrink->op == NULL)
		return TOW_EBUSY;
	shrink->op->owner = shrink;
	twi_op_watch(shrink->op);
	shrink->overtime = false;
	if (shrink->decided) {
		settle_shrink(shrink);
		return TOW_OK;
	}
	shrink->gatherer = NOBODY;
	for (uint32_t i = 0; i < shrink->size; i++)
		shrink->members[i].dialed = shrink->members[i].dialing;
	shrink->number = TWI_COLL_CTX_SHRUNK + ranks->shrunk++;
	shrink_turn(shrink);
	return TOW_OK;
}

static int start_shrink(struct tow_group *group, uint64_t timeout_ns, struct shrink **shrink_out,
			struct tow_op **op_out)
{
	struct twi_coll_group *coll;
	int status;

	if (group->ranks->engine->failing || group->ranks->closing)
		return twi_error(TOW_ECLOSED, "tow_group_shrink: the group is being closed");
	status = twi_coll_of(group, &coll);
	if (status < 0)
		return status;
	if (coll->state != TWI_COLL_BROKEN) {
		twi_error(TOW_EPEER, "rank %u shrinks the group", coll->rank);
		twi_coll_break(coll, coll->series.finished + 1, TOW_EPEER, true);
	}
	*shrink_out = find_shrink(coll->ranks, coll->ctx);
	if (*shrink_out == NULL)
		*shrink_out = make_shrink(coll);
	return *shrink_out == NULL ? TOW_ENOMEM : begin_shrink(*shrink_out, timeout_ns, op_out);
}

/* The number must be new here. It is, unless ranks shrank their groups in different orders. */
static int check_number(struct twi_ranks *ranks, uint32_t number)
{
	struct twi_list *pos, *next;
	bool used = (ranks->ended[number / 64] >> number % 64 & 1) != 0;

	twi_list_for_each_safe (pos, next, &ranks->colls)
		used |= twi_container_of(pos, struct twi_coll_group, link)->ctx == number;
	if (!used)
		return TOW_OK;
	return twi_error(TOW_EBUSY,
			 "tow_group_shrink: the other ranks gave the group the number %u, which "
			 "another group has here; shrink groups that share ranks in one order",
			 number);
}

static int build_group(struct tow_group *old, struct shrink *shrink, struct tow_group **group_out)
{
	char label[TOW_GROUP_LABEL_MAX];
	struct tow_group *group;
	uint32_t count = 0;
	int status;

	twi_group_enter(old->ranks->engine);
	status = check_number(old->ranks, shrink->number);
	shrink->made |= status == TOW_OK;
	twi_engine_leave(old->ranks->engine);
	if (status < 0)
		return status;
	for (uint32_t i = 0; i < shrink->size; i++)
		count += shrink->is_member[i];
	group = twi_group_make(old->runtime, old->ranks, count);
	if (group == NULL)
		return TOW_ENOMEM;
	count = 0;
	for (uint32_t i = 0; i < shrink->size; i++) {
		if (i == shrink->rank)
			group->rank = count;
		if (shrink->is_member[i])
			group->members[count++] = old->members[i];
	}
	group->id = shrink->number;
	group->shrunk = true;
	twi_group_begin(group);
	twi_group_label_like(group, twi_label_read(old->ranks->engine->diag, old->id, label));
	*group_out = group;
	return TOW_OK;
}

TOW_PUBLIC int tow_group_shrink(struct tow_group *group, uint64_t timeout_ns,
				struct tow_group **group_out)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;
	struct shrink *shrink = NULL;
	struct tow_op *op = NULL;
	int status;

	if (group_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_shrink: group_out is NULL");
	*group_out = NULL;
	status = twi_group_check(group, "tow_group_shrink");
	if (status < 0)
		return status;
	engine = group->ranks->engine;
	if (twi_engine_in_callback(engine))
		return twi_error(TOW_EINVAL, "tow_group_shrink in a completion callback");
	twi_group_enter(engine);
	status = start_shrink(group, timeout_ns, &shrink, &op);
	twi_engine_leave(engine);
	if (status < 0)
		return status;
	status = tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
	return status < 0 ? status : build_group(group, shrink, group_out);
}
