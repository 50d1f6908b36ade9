/*
 * verdict_shifted.c - a rank that has left out a call, or made one more, while all its calls look
 * alike. Nothing fails, but each of its calls meets another call of the others. If calls have
 * names, the n-th call has another name at that rank. Otherwise its bursts of calls begin at other
 * numbers than theirs, each time.
 *
 *	others   [31 32 33]    [34 35 36]    [37 38 39]       the calls of one step each
 *	rank 0      [32 33 34]    [35 36 37]    [38 39 40]    its are one call behind
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#define BURSTS     6u   /* least number at each rank, in the calls that both know */
#define CONFIDENCE 0.75 /* ranks that take turns, with calls that are alike, look the same */
#define OF_TWO     0.6
#define NAMES      6u /* least number known at both ranks */
#define MOVED_MOST 8  /* most calls by which a rank is shifted */
#define BY_NAMES   0.95

/* The bursts of two ranks, in the calls that both know. */
struct overlap {
	uint32_t a, b, common; /* bursts of a, of b, and of both */
	uint32_t moved;        /* most bursts of a that are shifted alike against bursts of b */
};

static bool begins_at(const struct twi_state_group *group, uint64_t seq)
{
	for (uint32_t i = 0; i < group->head_count; i++)
		if (group->heads[i].seq == seq)
			return true;
	return false;
}

/* The least number of calls from one burst to the next. */
static uint64_t shortest_burst(const struct twi_state_group *group)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 1; i < group->head_count; i++)
		least = twi_min(least, group->heads[i - 1].seq - group->heads[i].seq);
	return least;
}

/* The most bursts of `a` that are the same number of calls before, or after, a burst of `b`. */
static uint32_t most_moved(const struct twi_state_group *a, const struct twi_state_group *b,
			   uint64_t from, uint64_t to)
{
	uint64_t least = twi_min(shortest_burst(a), shortest_burst(b));
	uint32_t most = 0;

	for (uint64_t moved = 1; moved <= MOVED_MOST && moved < least; moved++) {
		uint32_t after = 0, before = 0;

		for (uint32_t i = 0; i < a->head_count; i++) {
			if (a->heads[i].seq < from || a->heads[i].seq > to)
				continue;
			after += begins_at(b, a->heads[i].seq + moved);
			before += begins_at(b, a->heads[i].seq - moved);
		}
		most = twi_max(most, twi_max(after, before));
	}
	return most;
}

static struct overlap overlap_of(const struct twi_state_group *a, const struct twi_state_group *b)
{
	struct overlap out = { 0 };
	uint64_t from, to;

	if (a->head_count == 0 || b->head_count == 0)
		return out;
	from = a->heads[a->head_count - 1].seq > b->heads[b->head_count - 1].seq
		       ? a->heads[a->head_count - 1].seq
		       : b->heads[b->head_count - 1].seq;
	to = a->heads[0].seq < b->heads[0].seq ? a->heads[0].seq : b->heads[0].seq;
	for (uint32_t i = 0; i < a->head_count; i++) {
		if (a->heads[i].seq < from || a->heads[i].seq > to)
			continue;
		out.a++;
		out.common += begins_at(b, a->heads[i].seq);
	}
	for (uint32_t i = 0; i < b->head_count; i++)
		out.b += b->heads[i].seq >= from && b->heads[i].seq <= to;
	out.moved = most_moved(a, b, from, to);
	return out;
}

/*
 * Each rank keeps only bursts before which nothing was under way for long. So two ranks that pause
 * in turn have no burst in common either, but their bursts are not shifted by one same number.
 */
static bool are_apart(const struct overlap *two)
{
	uint32_t fewer = two->a < two->b ? two->a : two->b;

	return fewer >= BURSTS && two->common == 0 && two->moved * 4 >= fewer * 3;
}

/* True: most bursts of the rank with fewer bursts are bursts of the other rank as well. */
static bool are_alike(const struct overlap *two)
{
	uint32_t fewer = two->a < two->b ? two->a : two->b;

	return fewer >= BURSTS && two->common * 4 >= fewer * 3;
}

/* How many calls of `a` have names at both, if `b` is `moved` calls ahead; and the same name. */
struct names {
	uint32_t known, same;
	uint64_t seq; /* the newest of these calls, by the number at `a` */
};

static struct names names_of(const struct twi_state_group *a, const struct twi_state_group *b,
			     int moved)
{
	struct names out = { 0 };

	for (uint32_t i = 0; i < a->past_count; i++) {
		const struct twi_state_past *past =
			twi_state_group_past(b, a->past[i].seq + (uint64_t)moved);

		if (a->past[i].name == 0 || past == NULL || past->name == 0)
			continue;
		if (out.known++ == 0)
			out.seq = a->past[i].seq;
		out.same += past->name == a->past[i].name;
	}
	return out;
}

/* False: all calls have one name, which says as little as no name. */
static bool has_names(const struct twi_state_group *group)
{
	for (uint32_t i = 1; i < group->past_count; i++)
		if (group->past[i].name != group->past[0].name)
			return true;
	return false;
}

/* The smallest shift, in calls, with which all names are the same. 0: there is none. */
static int moved_by(const struct twi_state_group *a, const struct twi_state_group *b)
{
	for (int moved = 1; moved <= MOVED_MOST; moved++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			struct names names = names_of(a, b, sign * moved);

			if (names.known >= NAMES && names.same == names.known)
				return sign * moved;
		}
	}
	return 0;
}

enum relation { UNKNOWN, ALIKE, APART, APART_BY_NAMES };

static enum relation relation_of(const struct twi_state_group *a, const struct twi_state_group *b)
{
	struct names names = names_of(a, b, 0);
	struct overlap two;

	if (names.known >= NAMES && has_names(a) && has_names(b)) {
		if (names.same == names.known)
			return ALIKE;
		return names.same * 4 <= names.known && moved_by(a, b) != 0 ? APART_BY_NAMES
									    : UNKNOWN;
	}
	two = overlap_of(a, b);
	return are_apart(&two) ? APART : are_alike(&two) ? ALIKE : UNKNOWN;
}

/* True: all ranks of the group are known, and their latest calls are all the same call. */
static bool calls_one_thing(const struct twi_judge *judge, uint32_t ctx)
{
	const struct twi_state_past *call = NULL;
	uint32_t covered = 0, size = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		for (uint32_t k = 0; group != NULL && k < group->past_count; k++) {
			if (call != NULL && (call->signature != group->past[k].signature ||
					     call->bytes != group->past[k].bytes))
				return false;
			call = &group->past[k];
		}
		if (group == NULL)
			continue;
		covered += twi_state_group_covers(group);
		size = group->size;
	}
	return call != NULL && covered == size;
}

/* "31, 34, 37": the numbers at which the rank began its last three bursts, oldest first. */
#define SEQS_TEXT 72u
static void tell_seqs(const struct twi_state_group *group, char out[SEQS_TEXT])
{
	snprintf(out, SEQS_TEXT, "%llu, %llu, %llu", (unsigned long long)group->heads[2].seq,
		 (unsigned long long)group->heads[1].seq, (unsigned long long)group->heads[0].seq);
}

/* Blames `rank` by comparison with `other`, which belongs to the majority. */
static void blame_shifted(struct twi_judge *judge, uint32_t ctx,
			  const struct twi_verdict_rank *rank, const struct twi_verdict_rank *other,
			  bool of_two)
{
	const struct twi_state_group *ours = twi_group_at(rank, ctx);
	const struct twi_state_group *theirs = twi_group_at(other, ctx);
	bool named = relation_of(theirs, ours) == APART_BY_NAMES;
	char own[SEQS_TEXT], their[SEQS_TEXT], group[TWI_JUDGE_GROUP];

	twi_judge_group(judge, ctx, group);
	if (named) {
		int moved = moved_by(theirs, ours);
		uint64_t seq = names_of(theirs, ours, moved).seq;

		twi_judge_blame(judge, TWI_CAUSE_OTHER_OPERATION, rank->rank,
				of_two ? OF_TWO : BY_NAMES,
				"%s %llu of %s has the name at rank %u that %llu has at rank "
				"%u, and all others are shifted alike: one of the two has left "
				"out a call, or made one more",
				twi_ctx_word(ctx), (unsigned long long)(seq + (uint64_t)moved),
				group, rank->rank, (unsigned long long)seq, other->rank);
		return;
	}
	tell_seqs(ours, own);
	tell_seqs(theirs, their);
	twi_judge_blame(
		judge, TWI_CAUSE_OTHER_OPERATION, rank->rank, of_two ? OF_TWO : CONFIDENCE,
		"rank %u begins its bursts of calls with %ss %s of %s, rank %u with %s, each "
		"time alike: one of the two has left out a call, or made one more",
		rank->rank, twi_ctx_word(ctx), own, group, other->rank, their);
}

/* Compares each rank with the first one. A single rank is apart: the first one, or another. */
static void judge_shifted(struct twi_judge *judge, uint32_t ctx)
{
	const struct twi_verdict_rank *first = NULL, *apart = NULL, *alike = NULL;
	uint32_t aparts = 0, alikes = 0, others = 0;

	if (!calls_one_thing(judge, ctx))
		return;
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		enum relation relation;

		if (twi_group_at(rank, ctx) == NULL)
			continue;
		if (first == NULL) {
			first = rank;
			continue;
		}
		others++;
		relation = relation_of(twi_group_at(first, ctx), twi_group_at(rank, ctx));
		aparts += relation == APART || relation == APART_BY_NAMES;
		alikes += relation == ALIKE;
		if (relation == ALIKE)
			alike = rank;
		else if (relation != UNKNOWN)
			apart = rank;
	}
	if (aparts == 0 || aparts + alikes != others)
		return;
	if (others == 1) {
		blame_shifted(judge, ctx, first, apart, true);
		blame_shifted(judge, ctx, apart, first, true);
	} else if (aparts == 1) {
		blame_shifted(judge, ctx, apart, alike, false);
	} else if (alikes == 0) {
		blame_shifted(judge, ctx, first, apart, false);
	}
}

void twi_judge_shifted(struct twi_judge *judge)
{
	twi_judge_groups(judge, judge_shifted);
}
