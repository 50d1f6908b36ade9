/*
 * group_barrier_words.c - what other ranks say of barriers that cannot end. See group_barrier.h.
 *
 * A word may come before this rank has begun the barrier, and is kept. It may come when this rank
 * has closed the group, while a barrier of it is still to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "transport/engine/engine.h"
#include "transport/job/group_barrier.h"

/* The log of a group of the job, also of one that is closed here. NULL: nothing runs any more. */
static struct twi_barrier_log *find_log(const struct twi_ranks *ranks, uint32_t ctx)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->engine->series) {
		struct twi_series *series = twi_container_of(pos, struct twi_series, link);
		struct twi_barrier_log *log;

		if (series->ctx != (ctx | TWI_STATE_BARRIERS))
			continue;
		log = twi_container_of(series, struct twi_barrier_log, series);
		if (log->ranks == ranks && log->told)
			return log;
	}
	return NULL;
}

/* The same, where rank `from` of the group is that rank of the job. */
static struct twi_barrier_log *find_told(const struct twi_ranks *ranks, uint32_t job_rank,
					 uint32_t ctx, uint32_t from)
{
	struct twi_barrier_log *log = find_log(ranks, ctx);

	return log != NULL && from < log->series.size && log->members[from] == job_rank ? log
											: NULL;
}

/* The first under way with a number of first to last; NULL: none. */
static struct twi_barrier *find_barrier(const struct twi_barrier_log *log, uint64_t first,
					uint64_t last)
{
	for (struct twi_list *at = log->running.next; at != &log->running; at = at->next) {
		struct twi_barrier *barrier = twi_container_of(at, struct twi_barrier, link);

		if (barrier->number >= first && barrier->number <= last)
			return barrier;
	}
	return NULL;
}

static void say_left(char *out, size_t bytes, uint32_t rank, uint64_t number)
{
	snprintf(out, bytes, "rank %u has closed the group without its barrier %llu", rank,
		 (unsigned long long)number);
}

/* Why a barrier cannot even begin; false: it can. */
bool twi_barrier_denied(const struct twi_barrier_log *log, uint64_t number, char *out, size_t bytes)
{
	uint32_t at = number % TWI_STATE_PAST;
	bool failed = log->failed[at].number == number;

	if (number >= log->left_first)
		say_left(out, bytes, log->left_rank, number);
	else if (failed)
		snprintf(out, bytes, "%s",
			 log->failed[at].why != NULL ? log->failed[at].why
						     : "it cannot end at another rank");
	return failed || number >= log->left_first;
}

void twi_barrier_left(struct twi_ranks *ranks, uint32_t job_rank, uint32_t ctx, uint32_t from,
		      uint64_t first)
{
	struct twi_barrier_log *log = find_told(ranks, job_rank, ctx, from);
	struct twi_barrier *barrier;
	char why[96];

	if (log == NULL || first == 0 || first >= log->left_first)
		return;
	log->left_first = first;
	log->left_rank = from;
	while ((barrier = find_barrier(log, first, UINT64_MAX)) != NULL) {
		say_left(why, sizeof(why), from, barrier->number);
		twi_barrier_deny(barrier, why);
	}
}

/* The same, of a barrier that has not begun yet. */
static void keep_failed(struct twi_barrier_log *log, const struct twi_barrier_word *word)
{
	uint32_t at = word->number % TWI_STATE_PAST;

	free(log->failed[at].why);
	log->failed[at].why = strdup(word->why);
	log->failed[at].number = word->number;
}

/* One that waits for a message of that rank; NULL: none. */
static struct twi_barrier *find_missing(const struct twi_barrier_log *log, uint32_t rank)
{
	for (struct twi_list *at = log->running.next; at != &log->running; at = at->next) {
		struct twi_barrier *barrier = twi_container_of(at, struct twi_barrier, link);

		if (twi_barrier_before(barrier) == rank && twi_barrier_misses(barrier))
			return barrier;
	}
	return NULL;
}

/* The rank has left. What it sent before has come, so what is missing does not come any more. */
static void on_missing(struct twi_barrier_log *log, uint32_t rank)
{
	struct twi_barrier *barrier;
	char why[96];

	log->asked = 0; /* the next barriers ask again */
	while ((barrier = find_missing(log, rank)) != NULL) {
		say_left(why, sizeof(why), rank, barrier->number);
		twi_barrier_deny(barrier, why);
	}
}

void twi_barrier_heard(struct twi_ranks *ranks, uint32_t job_rank,
		       const struct twi_barrier_word *word)
{
	struct twi_barrier_log *log = find_told(ranks, job_rank, word->ctx, word->from);
	struct twi_barrier *barrier;

	if (log == NULL || word->number == 0)
		return;
	barrier = find_barrier(log, word->number, word->number);
	if (word->says == TWI_BARRIER_FROM)
		twi_barrier_left(ranks, job_rank, word->ctx, word->from, word->number);
	else if (word->says == TWI_BARRIER_MISSING)
		on_missing(log, word->from);
	else if (word->says == TWI_BARRIER_FAILED && barrier != NULL)
		twi_barrier_deny(barrier, word->why);
	else if (word->says == TWI_BARRIER_FAILED && word->number >= log->series.next_seq)
		keep_failed(log, word);
}

void twi_barrier_asked(struct twi_ranks *ranks, uint32_t job_rank,
		       const struct twi_barrier_word *word)
{
	const struct twi_barrier_log *log = find_log(ranks, word->ctx);
	const struct twi_barrier_word answer = {
		.says = log != NULL ? TWI_BARRIER_FROM : TWI_BARRIER_MISSING,
		.ctx = word->ctx,
		.from = word->to,
		.to = word->from,
		.number = log != NULL ? log->series.next_seq : word->number
	};

	ranks->engine->hooks.coll->say_barrier(ranks, job_rank, &answer);
}
