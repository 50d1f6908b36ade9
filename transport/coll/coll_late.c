/*
 * coll_late.c - handles ranks that do not come. A rank whose deadline passes asks all ranks how far
 * they are. It waits ANSWER_NS at most for the answers, and breaks the group with the names of the
 * ranks that are behind.
 */
#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_run.h"
#include "transport/engine/engine.h"

#define ANSWER_NS  (500ull * 1000 * 1000)
#define MORE_BYTES sizeof(" and 4294967295 more")

struct answer {
	bool there;
	uint64_t begun; /* the last seq that the rank has begun */
	char what[72];
};

struct twi_coll_late {
	uint64_t seq;
	uint64_t until_ns; /* deadline of the answers */
	uint32_t missing;
	struct answer answers[];
};

static void ask_ranks(struct twi_coll_group *coll, struct twi_coll_late *late)
{
	const struct twi_coll_word word = { .type = TWI_COLL_ASK, .seq = late->seq };

	for (uint32_t i = 0; i < coll->size; i++) {
		if (i != coll->rank)
			twi_coll_say(coll, i, &word);
	}
}

/* Appends a rank, or nothing if it does not fit. Returns how long the text is. */
static size_t append_rank(char *out, size_t bytes, size_t used, uint32_t rank)
{
	int n = snprintf(out + used, bytes - used, "%s%u", used > 0 ? ", " : "", rank);

	if (n >= 0 && used + (size_t)n < bytes)
		return used + (size_t)n;
	out[used] = '\0'; /* a part of the number would name another rank */
	return used;
}

/* Lists the ranks that are behind, or with `silent` those without an answer. Returns how many. */
static uint32_t name_ranks(const struct twi_coll_group *coll, const struct twi_coll_late *late,
			   bool silent, char *out, size_t bytes)
{
	uint32_t count = 0, named = 0;
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < coll->size; i++) {
		const struct answer *answer = &late->answers[i];
		size_t before = used;

		if (i == coll->rank || answer->there == silent ||
		    (!silent && answer->begun >= late->seq))
			continue;
		if (named == count)
			used = append_rank(out, bytes - MORE_BYTES, used, i);
		named += used > before;
		count++;
	}
	if (named < count)
		snprintf(out + used, bytes - used, " and %u more", count - named);
	return count;
}

/* The last call of the first rank that is behind. */
static const char *last_of(const struct twi_coll_group *coll, const struct twi_coll_late *late)
{
	for (uint32_t i = 0; i < coll->size; i++) {
		if (i != coll->rank && late->answers[i].there && late->answers[i].begun < late->seq)
			return late->answers[i].what;
	}
	return "";
}

static void set_late_error(struct twi_coll_group *coll, const struct twi_coll_late *late)
{
	struct twi_coll_run *run = twi_coll_run_of(coll, late->seq);
	char behind[100], silent[100], what[120] = "collective";
	uint32_t behind_n, silent_n;

	if (run != NULL)
		twi_coll_call_text(run, what, sizeof(what));
	behind_n = name_ranks(coll, late, false, behind, sizeof(behind));
	silent_n = name_ranks(coll, late, true, silent, sizeof(silent));
	if (behind_n == 0 && silent_n == 0) {
		twi_error(TOW_EDEADLINE,
			  "collective %llu (%.100s): all ranks have come to it, and "
			  "it was not finished in time",
			  (unsigned long long)late->seq, what);
		return;
	}
	twi_error(TOW_EDEADLINE, "collective %llu (%.100s): %s%s%s%.60s%s%s%s%s",
		  (unsigned long long)late->seq, what,
		  behind_n == 0   ? ""
		  : behind_n == 1 ? "rank "
				  : "ranks ",
		  behind, behind_n == 0 ? "" : " never entered (last: ",
		  behind_n == 0 ? "" : last_of(coll, late), behind_n == 0 ? "" : ")",
		  silent_n == 0   ? ""
		  : behind_n == 0 ? "no answer from "
				  : "; no answer from ",
		  silent_n == 0   ? ""
		  : silent_n == 1 ? "rank "
				  : "ranks ",
		  silent);
}

/* Adds the inquiry's verdict to the error message, also about ranks that have not answered. */
static void add_verdict(struct twi_coll_group *coll)
{
	char text[240], why[200];

	snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, tow_error_message());
	coll->engine->hooks.inquiry->brief(coll->engine, "; ", why, sizeof(why));
	if (why[0] != '\0')
		twi_error(TOW_EDEADLINE, "%s%s", text, why);
}

static void give_up(struct twi_coll_group *coll)
{
	struct twi_coll_late *late = coll->late;

	set_late_error(coll, late);
	add_verdict(coll);
	coll->late = NULL;
	twi_coll_break(coll, late->seq, TOW_EDEADLINE, true);
	free(late);
}

/* Whether the collective has ended after all: then there is nothing to ask any more. */
static bool is_over(const struct twi_coll_group *coll, uint64_t seq)
{
	return seq <= coll->series.finished || (coll->over >> seq % TWI_COLL_SLOTS & 1) != 0;
}

/* The others were asked about `late` already: `op` waits for the same answers. */
static void wait_for_answers(struct twi_coll_group *coll, struct tow_op *op)
{
	const struct twi_coll_late *late = coll->late;

	if (twi_engine_clock(coll->engine) >= late->until_ns) {
		give_up(coll);
		return;
	}
	op->deadline_ns = late->until_ns;
	twi_op_watch(op);
}

void twi_coll_late(struct twi_coll_group *coll, struct tow_op *op, uint64_t seq)
{
	struct twi_coll_late *late;

	twi_assert_held(coll->engine);
	if (coll->late != NULL && is_over(coll, coll->late->seq))
		twi_coll_late_end(coll);
	if (coll->late != NULL) {
		wait_for_answers(coll, op);
		return;
	}
	late = calloc(1, sizeof(*late) + coll->size * sizeof(late->answers[0]));
	if (late == NULL) {
		twi_error(TOW_EDEADLINE, "collective %llu did not end in time",
			  (unsigned long long)seq);
		twi_coll_break(coll, seq, TOW_EDEADLINE, true);
		return;
	}
	late->seq = seq;
	late->until_ns = twi_engine_clock(coll->engine) + ANSWER_NS;
	late->missing = coll->size - 1;
	coll->late = late;
	if (late->missing == 0) {
		give_up(coll);
		return;
	}
	wait_for_answers(coll, op);
	coll->engine->hooks.inquiry->begin(coll->engine);
	ask_ranks(coll, late);
}

static void answer_late(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	struct twi_coll_word out = { .type = TWI_COLL_ANSWER,
				     .seq = word->seq,
				     .value = coll->series.next_seq - 1 };
	const struct twi_coll_run *run = twi_coll_run_of(coll, coll->series.next_seq - 1);

	if (run != NULL)
		twi_coll_call_text(run, out.text, sizeof(out.text));
	else if (coll->series.next_seq == 1)
		snprintf(out.text, sizeof(out.text), "none");
	else
		snprintf(out.text, sizeof(out.text), "%llu, finished",
			 (unsigned long long)coll->series.next_seq - 1);
	twi_coll_say(coll, word->from, &out);
}

void twi_coll_late_heard(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	struct twi_coll_late *late = coll->late;
	struct answer *entry;

	if (word->type == TWI_COLL_ASK) {
		answer_late(coll, word);
		return;
	}
	if (late == NULL || word->seq != late->seq || late->answers[word->from].there)
		return;
	entry = &late->answers[word->from];
	entry->there = true;
	entry->begun = word->value;
	snprintf(entry->what, sizeof(entry->what), "%.*s", (int)sizeof(entry->what) - 1,
		 word->text);
	if (--late->missing > 0)
		return;
	if (is_over(coll, late->seq))
		twi_coll_late_end(coll);
	else
		give_up(coll);
}

void twi_coll_late_end(struct twi_coll_group *coll)
{
	twi_assert_held(coll->engine);
	free(coll->late);
	coll->late = NULL;
}

void twi_coll_abort(struct tow_op *op, int status)
{
	struct twi_coll_run *run = op->owner;
	struct twi_coll_group *coll = run->coll;

	twi_assert_held(op->engine);
	if (run->state == TWI_COLL_FAILING) /* it ends soon */
		return;
	if (status == TOW_EDEADLINE) {
		twi_coll_late(coll, op, run->seq);
		return;
	}
	twi_error(status, "rank %u has %s collective %llu", coll->rank,
		  status == TOW_ECANCELED ? "canceled" : "ended", (unsigned long long)run->seq);
	twi_coll_break(coll, run->seq, status, true);
}
