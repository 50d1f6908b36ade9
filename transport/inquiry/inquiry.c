/*
 * inquiry.c - rounds: asks the ranks, keeps their states, and has them judged. See inquiry.h.
 *
 * The timer is an operation of the library's own, so the driver sends the requests, with its ring.
 * A thread that begins a round without driving only wakes a driver.
 */
#include "transport/inquiry/inquiry.h"

#include <stdio.h>
#include <stdlib.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/coll/coll_run.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/flight.h"
#include "transport/job/group.h"
#include "transport/rpc/rpc_link.h"

#define ANY_ROUND 0u
#define FRESH_NS  30000000000ull
#define ASK_MAX   1024u /* a larger job asks only connected ranks */

static void drop_round(struct twi_inquiry_round *round)
{
	if (round == NULL || --round->users > 0)
		return;
	for (uint32_t i = 0; i < round->count; i++) {
		free(round->entries[i].states[0]);
		free(round->entries[i].states[1]);
	}
	free(round);
}

static struct twi_ranks *ranks_of(const struct twi_inquiry *inquiry)
{
	const struct twi_list *pos = twi_list_first(&inquiry->engine->coll_groups);

	if (pos != NULL)
		return twi_container_of(pos, struct twi_coll_group, all)->ranks;
	pos = twi_list_first(&inquiry->lines);
	return pos != NULL ? twi_container_of(pos, struct twi_inquiry_line, link)->ear.ranks : NULL;
}

/* --- asking --- */

static void on_connected(struct tow_op *op, const struct tow_result *result)
{
	(void)result; /* its line is asked in the next sample */
	tow_op_release(op);
}

/* Begins a connection, which costs one operation and then serves all later rounds. */
static void connect_to(struct twi_ranks *ranks, uint32_t rank)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TWI_INQUIRY_ROUND,
						.done = on_connected,
						.user = NULL };
	struct twi_slot *slot = &ranks->slots[rank];
	bool wanted = slot->tries.wanted;
	struct tow_op *op;

	if (slot->state != TWI_SLOT_NONE || ranks->closing)
		return;
	twi_ranks_connect(ranks, rank, TWI_SPACE_LINK, &options, &op);
	if (slot->state != TWI_SLOT_UP)
		slot->tries.wanted = wanted; /* the job itself does not need it */
}

static void ask_all(struct twi_inquiry *inquiry)
{
	struct twi_inquiry_round *round = inquiry->round;
	struct twi_ranks *ranks = ranks_of(inquiry);
	unsigned sample = round->sample;

	for (uint32_t i = 0; ranks != NULL && i < round->count; i++) {
		struct twi_inquiry_entry *entry = &round->entries[i];

		if (entry->rank == ranks->rank || entry->rank >= ranks->size)
			continue;
		entry->line = twi_inquiry_line_of(inquiry, entry->rank);
		if (entry->line == NULL || entry->line->ear.peer == NULL) {
			entry->dialed = round->connects && ranks->size <= ASK_MAX;
			if (entry->dialed)
				connect_to(ranks, entry->rank);
		} else if (twi_inquiry_ask(entry->line, round->id, sample)) {
			entry->asked_ns[sample] = twi_engine_clock(inquiry->engine);
		}
	}
}

static void keep_own(struct twi_inquiry *inquiry)
{
	struct twi_inquiry_round *round = inquiry->round;
	const struct twi_rank_state *own = twi_inquiry_self(inquiry);

	for (uint32_t i = 0; own != NULL && i < round->count; i++) {
		struct twi_rank_state **at = &round->entries[i].states[round->sample];

		if (round->entries[i].rank != own->rank || *at != NULL)
			continue;
		*at = malloc(sizeof(**at));
		if (*at != NULL)
			**at = *own;
	}
}

static void set_timer(struct twi_inquiry *inquiry);

static void on_timer_done(struct tow_op *op, const struct tow_result *result)
{
	struct twi_inquiry *inquiry = twi_container_of(op, struct twi_inquiry, timer);

	(void)result;
	inquiry->timed = false;
	if (inquiry->round != NULL && inquiry->round->id != inquiry->timed_id)
		set_timer(inquiry);
}

/* The timer has expired: takes the next sample, if one is left. */
static void on_timer(struct tow_op *op, int status)
{
	struct twi_inquiry *inquiry = twi_container_of(op, struct twi_inquiry, timer);
	struct twi_inquiry_round *round = inquiry->round;

	if (status != TOW_EDEADLINE || round == NULL || round->closed || round->sample > 1) {
		twi_op_complete(op, TOW_OK, 0);
		return;
	}
	keep_own(inquiry);
	ask_all(inquiry);
	if (++round->sample > 1) {
		twi_op_complete(op, TOW_OK, 0);
		return;
	}
	op->deadline_ns = round->begun_ns + TWI_INQUIRY_SAMPLE;
	twi_op_watch(op);
}

static const struct twi_op_ops timer_ops = {
	.kind = TWI_OP_CALL, .noun = "timer", .span = TWI_SPAN_CALL, .abort = on_timer
};

static void set_timer(struct twi_inquiry *inquiry)
{
	struct twi_engine *engine = inquiry->engine;
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = 0, .done = on_timer_done, .user = NULL
	};

	if (inquiry->timed && !twi_heap_has(&inquiry->timer.timed))
		return; /* it is ending, and then is set again */
	if (inquiry->timed)
		twi_op_unwatch(&inquiry->timer); /* it was for a round that was replaced */
	else
		twi_op_embed(&inquiry->timer, engine, &timer_ops, &options);
	inquiry->timer.deadline_ns = twi_engine_clock(engine);
	inquiry->timed = true;
	inquiry->timed_id = inquiry->round->id;
	twi_op_watch(&inquiry->timer);
	engine->armed_since_enter = true; /* wake a sleeping thread to drive */
}

static struct twi_inquiry_round *make_round(struct twi_inquiry *inquiry, bool connects)
{
	const struct twi_ranks *ranks = ranks_of(inquiry);
	uint32_t count = ranks != NULL ? ranks->size : 1;
	struct twi_inquiry_round *round =
		calloc(1, sizeof(*round) + count * sizeof(round->entries[0]));

	if (round == NULL)
		return NULL;
	round->users = 1;
	round->id = ++inquiry->rounds;
	round->connects = connects;
	round->begun_ns = twi_engine_clock(inquiry->engine);
	round->count = count;
	for (uint32_t i = 0; i < count; i++)
		round->entries[i].rank = ranks != NULL ? i : inquiry->engine->knobs.rank;
	return round;
}

/*
 * Begins a round or shares the last one. A round without connects is not shared by a request for
 * all ranks: that begins a new one.
 */
static uint64_t begin_round(struct twi_engine *engine, bool connects)
{
	struct twi_inquiry *inquiry = engine->inquiry;
	uint64_t now = twi_engine_clock(engine);
	struct twi_inquiry_round *round;

	twi_assert_held(engine);
	if (inquiry == NULL)
		return 0;
	round = inquiry->round;
	if (round != NULL && now < round->begun_ns + TWI_INQUIRY_ROUND + TWI_INQUIRY_KEEP &&
	    (round->connects || !connects))
		return round->begun_ns + TWI_INQUIRY_ROUND;
	round = make_round(inquiry, connects);
	if (round == NULL)
		return 0;
	if (inquiry->round != NULL)
		inquiry->round->closed = true;
	drop_round(inquiry->round);
	inquiry->round = round;
	twi_count(engine->diag, TWI_C_inquiries, 1);
	set_timer(inquiry);
	return round->begun_ns + TWI_INQUIRY_ROUND;
}

uint64_t twi_inquiry_begin(struct twi_engine *engine)
{
	return begin_round(engine, true);
}

uint64_t twi_inquiry_begin_quietly(struct twi_engine *engine, uint32_t *id_out)
{
	uint64_t due = begin_round(engine, false);

	*id_out = due != 0 ? engine->inquiry->round->id : 0;
	return due;
}

void twi_inquiry_forget(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line)
{
	struct twi_inquiry_round *round = inquiry->round;

	twi_assert_held(inquiry->engine);
	for (uint32_t i = 0; round != NULL && i < round->count; i++) {
		if (round->entries[i].line == line)
			round->entries[i].line = NULL;
	}
}

void twi_inquiry_heard(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line,
		       uint32_t id, uint32_t sample, uint64_t sent_ns, const uint8_t *state,
		       size_t bytes)
{
	struct twi_inquiry_round *round = inquiry->round;
	uint64_t now = twi_engine_clock(inquiry->engine), trip;
	struct twi_inquiry_entry *entry;
	struct twi_rank_state *kept;

	twi_assert_held(inquiry->engine);
	if (round == NULL || round->closed || round->id != id || sample > 1 ||
	    line->rank >= round->count)
		return;
	entry = &round->entries[line->rank];
	if (entry->asked_ns[sample] == 0 || entry->states[sample] != NULL)
		return;
	kept = malloc(sizeof(*kept));
	if (kept == NULL || !twi_rank_state_decode(state, bytes, kept) ||
	    kept->rank != line->rank) {
		free(kept);
		return;
	}
	entry->states[sample] = kept;
	trip = now - entry->asked_ns[sample];
	/* The rank's clock, as it read it for the answer; the better sample counts. */
	if (entry->error_ns == 0 || trip / 2 < entry->error_ns) {
		entry->error_ns = trip / 2 + 1;
		entry->offset_ns =
			(int64_t)(sent_ns - entry->asked_ns[sample]) - (int64_t)(trip / 2);
	}
}

/* --- judging --- */

static bool shares_clock(const struct twi_engine *engine, const struct twi_rank_state *state)
{
	const struct twi_identity who = { .boot = state->boot,
					  .time_namespace = state->time_namespace };

	return !engine->virtual_clock && twi_identity_shares_clock(&engine->self, &who);
}

static void fill_rank(const struct twi_inquiry *inquiry, const struct twi_inquiry_entry *entry,
		      struct twi_verdict_rank *out)
{
	const struct twi_inquiry_line *line = entry->line;
	const struct twi_ranks *ranks = ranks_of(inquiry);
	struct twi_clock_estimate clock;
	const struct tow_peer *peer;

	*out = (struct twi_verdict_rank){
		.rank = entry->rank,
		.me = ranks == NULL || entry->rank == ranks->rank,
		.asked = entry->asked_ns[0] != 0 && entry->asked_ns[1] != 0,
		.dialed = entry->dialed,
		.offset_ns = entry->offset_ns,
		.error_ns = entry->error_ns,
		.first = entry->states[1] != NULL ? entry->states[0] : NULL,
		.last = entry->states[1] != NULL ? entry->states[1] : entry->states[0],
	};
	if (out->last != NULL && shares_clock(inquiry->engine, out->last)) {
		out->offset_ns = 0;
		out->error_ns = 0;
	}
	if (line == NULL || ranks == NULL || entry->rank >= ranks->size)
		return;
	peer = line->ear.ranks == ranks ? twi_inquiry_line_peer(line) : NULL;
	out->lost = peer == NULL || ranks->slots[entry->rank].lost;
	if (peer != NULL) {
		out->bye = peer->said_bye;
		if (twi_link_clock(peer, &clock) && clock.error_ns < out->error_ns) {
			out->offset_ns = clock.offset_ns;
			out->error_ns = clock.error_ns;
		}
	}
	if (line->known) {
		out->pid = line->identity.pid;
		if (out->last == NULL)
			out->process = twi_identity_look(&inquiry->engine->self, &line->identity,
							 &out->process_state);
	}
}

static const char *kind_name(unsigned kind)
{
	return kind < TWI_COLL_KINDS ? twi_coll_kind_name((enum twi_coll_kind)kind) : "unknown";
}

/*
 * Makes the case to judge: an array that goes to free(), and a round that stays as it is. The round
 * is the last one, or the one of that number if it has taken both samples.
 */
static struct twi_verdict_rank *make_case(struct twi_engine *engine, uint32_t id,
					  struct twi_inquiry_round **round_out,
					  struct twi_verdict_case *out)
{
	struct twi_inquiry *inquiry = engine->inquiry;
	struct twi_inquiry_round *round;
	struct twi_verdict_rank *ranks = NULL;

	twi_engine_enter(engine);
	round = inquiry != NULL ? inquiry->round : NULL;
	if (round != NULL && id != ANY_ROUND && (round->id != id || round->sample < 2))
		round = NULL;
	if (round != NULL && round->sample == 0 && !round->closed)
		keep_own(inquiry); /* no thread drives: only this rank's state is known */
	if (round != NULL)
		ranks = calloc(round->count, sizeof(*ranks));
	if (ranks != NULL) {
		round->closed |= twi_engine_clock(engine) >= round->begun_ns + TWI_INQUIRY_ROUND;
		round->users++;
		for (uint32_t i = 0; i < round->count; i++)
			fill_rank(inquiry, &round->entries[i], &ranks[i]);
		*out = (struct twi_verdict_case){ .now_ns = twi_engine_clock(engine),
						  .rank_count = round->count,
						  .world = engine->knobs.world_size,
						  .ranks = ranks,
						  .kind_name = kind_name };
		twi_forming_tell(engine, &out->forming);
		if (out->forming.size > 0)
			out->world = out->forming.size;
		for (uint32_t i = 0; i < round->count; i++) {
			if (ranks[i].me)
				out->me = ranks[i].rank;
		}
		*round_out = round;
	}
	twi_engine_leave(engine);
	return ranks;
}

static void end_case(struct twi_engine *engine, struct twi_inquiry_round *round,
		     struct twi_verdict_rank *ranks)
{
	free(ranks);
	twi_engine_enter(engine);
	drop_round(round);
	twi_engine_leave(engine);
}

bool twi_inquiry_judge(struct twi_engine *engine, struct twi_verdict *out)
{
	return twi_inquiry_judge_round(engine, ANY_ROUND, out);
}

bool twi_inquiry_judge_round(struct twi_engine *engine, uint32_t id, struct twi_verdict *out)
{
	struct twi_inquiry_round *round;
	struct twi_verdict_case what;
	struct twi_verdict_rank *ranks = make_case(engine, id, &round, &what);

	if (ranks == NULL)
		return false;
	twi_verdict_judge(&what, out);
	end_case(engine, round, ranks);
	return true;
}

bool twi_inquiry_is_fresh(struct twi_engine *engine)
{
	const struct twi_inquiry_round *round;
	bool fresh;

	twi_engine_enter(engine);
	round = engine->inquiry->round;
	fresh = round != NULL && round->sample > 1 &&
		twi_engine_clock(engine) - round->begun_ns < FRESH_NS;
	twi_engine_leave(engine);
	return fresh;
}

int twi_inquiry_document(struct twi_engine *engine, char **bytes_out, size_t *count_out)
{
	struct twi_inquiry_round *round;
	struct twi_verdict_case what;
	struct twi_verdict_rank *ranks = make_case(engine, ANY_ROUND, &round, &what);
	struct twi_verdict *verdict = malloc(sizeof(*verdict));
	struct twi_emit emit;
	int status = TOW_ENOMEM;

	*bytes_out = NULL;
	if (ranks != NULL && verdict != NULL) {
		twi_verdict_judge(&what, verdict);
		twi_emit_init(&emit);
		twi_emit_object_begin(&emit, NULL);
		twi_verdict_emit(verdict, &what, &emit);
		twi_emit_object_end(&emit);
		*count_out = emit.bytes;
		status = twi_emit_take(&emit, bytes_out);
		twi_emit_fini(&emit);
	}
	free(verdict);
	if (ranks != NULL)
		end_case(engine, round, ranks);
	return status < 0 ? twi_error(status, "no memory for a verdict") : TOW_OK;
}

void twi_inquiry_short(struct twi_engine *engine, const char *prefix, char *out, size_t room)
{
	struct twi_verdict *verdict = malloc(sizeof(*verdict));
	char text[TWI_FINDING_TEXT * 2];

	out[0] = '\0';
	if (verdict != NULL && twi_inquiry_judge(engine, verdict) && verdict->finding_count > 0) {
		twi_verdict_short(verdict, text, sizeof(text));
		snprintf(out, room, "%s%s", prefix, text);
	}
	free(verdict);
}

const struct twi_inquiry_hooks twi_inquiry_hooks = { .begin = twi_inquiry_begin,
						     .brief = twi_inquiry_short,
						     .failed = twi_inquiry_failed,
						     .settle = twi_flight_settle,
						     .suffered = twi_inquiry_suffered };

/* --- open and close --- */

int twi_inquiry_open(struct twi_engine *engine)
{
	struct twi_inquiry *inquiry;
	int status;

	if (engine->virtual_clock)
		return TOW_OK; /* the test of a simulated job asks it */
	inquiry = calloc(1, sizeof(*inquiry));
	if (inquiry == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	inquiry->engine = engine;
	twi_list_init(&inquiry->lines);
	status = twi_inquiry_looks_open(inquiry);
	if (status < 0) {
		free(inquiry);
		return status;
	}
	engine->inquiry = inquiry;
	return twi_inquiry_sources_add(engine);
}

void twi_inquiry_close(struct twi_engine *engine)
{
	struct twi_inquiry *inquiry = engine->inquiry;

	if (inquiry == NULL)
		return;
	twi_inquiry_sources_remove(engine);
	twi_engine_enter(engine);
	if (inquiry->timed) {
		twi_op_unwatch(&inquiry->timer);
		inquiry->timed = false;
	}
	twi_engine_leave(engine);
	twi_inquiry_news_close(inquiry);
	twi_inquiry_gone_close(inquiry);
	drop_round(inquiry->round);
	twi_inquiry_looks_close(inquiry);
	free(inquiry->own);
	free(inquiry);
	engine->inquiry = NULL;
}
