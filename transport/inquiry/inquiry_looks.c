/*
 * inquiry_looks.c - one rank looks at the job each verdict_interval_ns, and keeps a history.
 *
 * So faults that come and go are known later, and /metrics can report them.
 *
 * Rank 0 makes the looks. Another rank does so if no lower rank has asked it for two intervals, and
 * a quarter more for each rank below it. When rank 0 has gone, rank 1 is the first to miss it, and
 * then asks the others. Ranks without connections do not ask each other, so each part of the job
 * has its own looks.
 */
#include <pthread.h>
#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/judge/verdict_history.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/flight.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"

struct twi_inquiry_looks {
	uint64_t begun_ns, last_ns; /* begin of the looks; the last own look. 0: none */
	uint32_t round;             /* the round under way; only the thread that looks uses it */
	struct twi_verdict verdict; /* only the thread that looks uses it */
	pthread_mutex_t lock;       /* protects the history */
	struct twi_history history;
};

int twi_inquiry_looks_open(struct twi_inquiry *inquiry)
{
	if (inquiry->engine->knobs.verdict_interval_ns == 0)
		return TOW_OK;
	inquiry->looks = calloc(1, sizeof(*inquiry->looks));
	if (inquiry->looks == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	pthread_mutex_init(&inquiry->looks->lock, NULL);
	return TOW_OK;
}

bool twi_inquiry_looks_start(struct twi_inquiry *inquiry)
{
	twi_assert_held(inquiry->engine);
	if (inquiry->looks == NULL || inquiry->looks->begun_ns != 0)
		return false;
	inquiry->looks->begun_ns = twi_engine_clock(inquiry->engine);
	return true;
}

void twi_inquiry_looks_close(struct twi_inquiry *inquiry)
{
	if (inquiry->looks == NULL)
		return;
	pthread_mutex_destroy(&inquiry->looks->lock);
	free(inquiry->looks);
	inquiry->looks = NULL;
}

static uint64_t rank_here(const struct twi_inquiry *inquiry)
{
	const struct twi_list *pos = twi_list_first(&inquiry->lines);

	if (pos == NULL)
		return (uint64_t)inquiry->engine->knobs.rank;
	return twi_container_of(pos, struct twi_inquiry_line, link)->ear.ranks->rank;
}

/* A look takes as long as a round, so a shorter interval has no effect. */
static uint64_t interval_of(const struct twi_engine *engine)
{
	return twi_max((uint64_t)engine->knobs.verdict_interval_ns, (uint64_t)TWI_INQUIRY_ROUND);
}

/* Returns when the next look is due. The engine is held. */
static uint64_t due_at(const struct twi_inquiry *inquiry)
{
	uint64_t rank = rank_here(inquiry);
	const struct twi_inquiry_looks *looks = inquiry->looks;
	uint64_t interval = interval_of(inquiry->engine);
	uint64_t heard = twi_max(inquiry->lower_ns, looks->begun_ns);

	if (rank == 0 || (looks->last_ns != 0 && looks->last_ns > heard))
		return twi_max(looks->last_ns, looks->begun_ns) + interval;
	return heard + 2 * interval + twi_min(rank, 1024u) * (interval / 4);
}

uint64_t twi_inquiry_look_due(struct twi_inquiry *inquiry)
{
	struct twi_engine *engine = inquiry->engine;
	uint64_t due = UINT64_MAX;

	twi_engine_enter(engine);
	if (inquiry->looks != NULL && inquiry->looks->begun_ns != 0)
		due = due_at(inquiry);
	twi_engine_leave(engine);
	return due;
}

bool twi_inquiry_look_begin(struct twi_inquiry *inquiry, uint64_t *judged_ns_out)
{
	struct twi_inquiry_looks *looks = inquiry->looks;
	struct twi_engine *engine = inquiry->engine;

	twi_engine_enter(engine);
	looks->last_ns = twi_engine_clock(engine);
	*judged_ns_out = 0;
	if (!twi_list_empty(&inquiry->lines))
		*judged_ns_out = twi_inquiry_begin_quietly(engine, &looks->round);
	twi_engine_leave(engine);
	return *judged_ns_out != 0;
}

void twi_inquiry_look_end(struct twi_inquiry *inquiry)
{
	struct twi_inquiry_looks *looks = inquiry->looks;
	const struct twi_history_finding *news;
	struct twi_history_finding found;
	char text[TWI_FINDING_TEXT * 2];
	bool changed;

	if (!twi_inquiry_judge_round(inquiry->engine, looks->round, &looks->verdict))
		return;
	pthread_mutex_lock(&looks->lock);
	changed = twi_history_add(&looks->history, &looks->verdict,
				  twi_engine_clock(inquiry->engine));
	news = twi_history_news(&looks->history);
	if (news != NULL)
		found = *news;
	pthread_mutex_unlock(&looks->lock);
	if (news != NULL && inquiry->engine->knobs.trace_on_verdict)
		twi_inquiry_news_tell(inquiry, &found);
	if (!changed || looks->verdict.finding_count == 0)
		return;
	twi_verdict_short(&looks->verdict, text, sizeof(text));
	twi_log(inquiry->engine->diag, 3, "verdict: %s", text);
}

void twi_inquiry_looks_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_inquiry_looks *looks = engine->inquiry->looks;
	uint64_t now = twi_engine_clock(engine);

	twi_emit_u64(emit, "interval_ns", (uint64_t)engine->knobs.verdict_interval_ns);
	if (looks == NULL)
		return;
	pthread_mutex_lock(&looks->lock);
	twi_history_emit(&looks->history, now, twi_flight_unix_offset(engine), emit);
	pthread_mutex_unlock(&looks->lock);
}

void twi_inquiry_looks_metrics(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_inquiry_looks *looks = engine->inquiry->looks;
	uint64_t interval = interval_of(engine);
	const struct twi_history_row *row;

	if (looks == NULL)
		return;
	pthread_mutex_lock(&looks->lock);
	row = twi_history_row(&looks->history, 0);
	twi_history_metrics(&looks->history,
			    row != NULL && row->to_ns + 3 * interval > twi_engine_clock(engine),
			    emit);
	pthread_mutex_unlock(&looks->lock);
}
