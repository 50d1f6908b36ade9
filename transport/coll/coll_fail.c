/*
 * coll_fail.c - handles ranks that disagree, and ranks that are lost. See coll.h.
 *
 * Agreement. Ranks of one host compare signatures in their slots. With messages, each rank sends
 * its signature to the rank behind it. A collective does not end before the signature of the rank
 * before has come. Where not all ranks agree, two neighbours on the circle differ. The one that
 * finds this sends a text of its call to the other (TWI_COLL_CALL). The other knows both calls
 * then, and breaks the group.
 *
 * Breaking. A group is broken after its first failure, since a rank may then have any part of the
 * result. The first rank to know informs every rank that it is connected to, and these inform
 * others. A rank breaks a group once.
 *
 * coll_late.c handles ranks that do not come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/place.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_cut.h"
#include "transport/coll/coll_kept.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/engine/engine.h"
#include "transport/engine/require.h"
#include "transport/job/group_barrier.h"
#include "transport/job/group_over.h"
#include "transport/op/failure.h"
#include "transport/op/message.h"

#define SUSPECT_NS (500ull * 1000 * 1000)

/* Where the call was made. Nothing is said of a call of the library's own, which is named. */
static void say_site(const void *caller, char *out, size_t bytes)
{
	struct twi_place place;

	if (caller == NULL)
		return;
	twi_place_find(caller, &place);
	snprintf(out, bytes, ", at ");
	twi_place_text(&place, out + strlen(out), bytes - strlen(out));
}

void twi_coll_call_text(const struct twi_coll_run *run, char *out, size_t bytes)
{
	const struct twi_coll_call *call = &run->entry->call;
	uint64_t segment = run->coll->engine->knobs.coll_segment_bytes;
	char site[96] = "", root[24] = "", reduce[8] = "", cut[48] = "";

	say_site(run->site.caller, site, sizeof(site));
	if (call->kind == TWI_COLL_BROADCAST || call->kind == TWI_COLL_REDUCE ||
	    call->kind == TWI_COLL_GATHER || call->kind == TWI_COLL_SCATTER)
		snprintf(root, sizeof(root), ", root %u", call->root);
	if (call->kind == TWI_COLL_ALL_REDUCE || call->kind == TWI_COLL_REDUCE ||
	    call->kind == TWI_COLL_REDUCE_SCATTER)
		snprintf(reduce, sizeof(reduce), " %s", tow_reduce_name(call->reduce));
	if (segment != TWI_COLL_SEGMENT_BYTES)
		snprintf(cut, sizeof(cut), ", coll_segment_bytes = %llu",
			 (unsigned long long)segment);
	snprintf(out, bytes, "%s%s of %llu %s%s%s%.31s, plan %s%s%.95s",
		 twi_coll_kind_name(call->kind), reduce, (unsigned long long)call->count,
		 tow_type_name(call->type), root, run->name[0] != '\0' ? ", named " : "", run->name,
		 run->entry->plan->name, cut, site);
}

/* --- breaking --- */

static const char *status_of(int status)
{
	return tow_status_name(status);
}

void twi_coll_tell_broken(struct twi_coll_group *coll, uint64_t seq, int status)
{
	struct twi_coll_word word = { .type = TWI_COLL_BREAK, .status = status, .seq = seq };

	snprintf(word.text, sizeof(word.text), "%.*s", (int)TWI_COLL_WORD_TEXT, coll->why);
	twi_coll_say_all(coll, &word);
}

/* Keeps the thread's message as the reason, and adds the group's label, unless it is there. */
static void keep_why(struct twi_coll_group *coll)
{
	char label[TOW_GROUP_LABEL_MAX], quoted[TOW_GROUP_LABEL_MAX + 2];
	int room = (int)sizeof(coll->why) - 1;

	twi_label_read(coll->engine->diag, coll->ctx, label);
	snprintf(quoted, sizeof(quoted), "\"%s\"", label);
	if (label[0] == '\0' || strstr(tow_error_message(), quoted) != NULL)
		snprintf(coll->why, sizeof(coll->why), "%.*s", room, tow_error_message());
	else
		snprintf(coll->why, sizeof(coll->why), "%.*s (group %u %s)",
			 room - (int)TWI_LABEL_WORDS, tow_error_message(), coll->ctx, quoted);
}

void twi_coll_break(struct twi_coll_group *coll, uint64_t seq, int status, bool tell)
{
	struct twi_list *pos, *next;

	twi_assert_held(coll->engine);
	if (coll->state == TWI_COLL_BROKEN)
		return;
	coll->state = TWI_COLL_BROKEN;
	coll->series.broken = status;
	coll->series.broken_seq = seq;
	coll->engine->hooks.inquiry->failed(coll->engine);
	keep_why(coll);
	twi_log(coll->engine->diag, 1, "group %u is broken at collective %llu: %s: %s", coll->ctx,
		(unsigned long long)seq, status_of(status), coll->why);
	twi_count(coll->engine->diag, TWI_C_coll_groups_broken, 1);
	twi_coll_late_end(coll);
	if (tell)
		twi_coll_tell_broken(coll, seq, status);
	twi_list_for_each_safe (pos, next, &coll->runs)
		twi_coll_run_fail(twi_container_of(pos, struct twi_coll_run, link), status);
	twi_coll_fail_pending(coll, status);
	if (coll->connects > 0)
		twi_ranks_give_up(coll->ranks, coll);
	twi_coll_setup_end(coll);
	twi_group_over(coll->ranks, coll->ctx, TWI_OVER_COLLS, coll->members, coll->size);
}

static void on_break(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	int status = word->status < 0 && word->status >= TOW_EREMOTE ? word->status : TOW_EPROTOCOL;

	twi_coll_kept_over(coll, word->from);
	if (word->status == TOW_EABORTED) {
		twi_error(TOW_EABORTED, "%s", word->text);
		twi_coll_group_abort(coll);
		return;
	}
	if (coll->state == TWI_COLL_BROKEN)
		return;
	/* the rank closed in order; to this one it is a peer that left */
	if (status == TOW_ECLOSED)
		status = TOW_EPEER;
	twi_error(status, "%s", word->text);
	twi_coll_break(coll, word->seq, status, true);
}

static void say_left(struct twi_coll_group *coll)
{
	const struct twi_coll_word word = { .type = TWI_COLL_LEAVE,
					    .seq = coll->series.next_seq - 1,
					    .value = twi_barrier_next(coll->group) };

	coll->said_left = true;
	for (uint32_t i = 0; i < coll->size; i++) {
		const struct twi_slot *slot = &coll->ranks->slots[coll->members[i]];

		struct twi_rank_post *post;

		if (i == coll->rank || slot->state != TWI_SLOT_UP || slot->lost)
			continue;
		post = twi_coll_kept_post(coll, i);
		if (post != NULL)
			twi_coll_say_in(coll, i, &word, post);
		else
			twi_coll_say(coll, i, &word);
	}
}

void twi_coll_leave(struct twi_coll_group *coll, bool idle)
{
	twi_assert_held(coll->engine);
	if (coll->state != TWI_COLL_BROKEN && !idle) {
		twi_error(TOW_ECLOSED, "rank %u has closed the group", coll->rank);
		twi_coll_break(coll, coll->series.finished + 1, TOW_ECLOSED, true);
	} else if (coll->state != TWI_COLL_BROKEN) {
		coll->state = TWI_COLL_BROKEN; /* in order, but nothing may begin any more */
		coll->left = true;
	}
	if (!coll->said_left)
		say_left(coll);
}

void twi_coll_check_left(struct twi_coll_group *coll)
{
	twi_assert_held(coll->engine);
	if (coll->state == TWI_COLL_BROKEN)
		return;
	twi_error(TOW_EPEER, "rank %u has closed the group after collective %llu", coll->left_rank,
		  (unsigned long long)coll->left_seq);
	twi_coll_break(coll, coll->left_seq + 1, TOW_EPEER, true);
}

/* Collectives up to the leaver's last seq end well. Later ones that this rank has begun do not. */
static void on_leave(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	twi_coll_kept_over(coll, word->from);
	if (word->seq >= coll->left_seq)
		return;
	coll->left_seq = word->seq;
	coll->left_rank = word->from;
	if (coll->series.next_seq - 1 > word->seq)
		twi_coll_check_left(coll);
}

/*
 * A rank may go when it has done its part, while others are still busy. So its loss breaks nothing
 * by itself. Messages with that rank fail. A rank that waits for it in memory finds it gone, if
 * what it wrote before is not enough.
 */
static void rank_lost(struct twi_coll_group *coll, uint32_t rank, int status)
{
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (coll->locals[i].rank == rank)
			coll->locals[i].gone = true; /* the polled runs will find that */
	}
	if (coll->told != NULL)
		coll->told[rank].gone = true;
	twi_coll_kept_over(coll, rank);
	if (coll->setup == NULL || !twi_coll_setup_needs(coll, rank))
		return;
	twi_error(TOW_EPEER, "rank %u has gone (%s)", rank, status_of(status));
	twi_coll_break(coll, 1, TOW_EPEER, true);
}

void twi_coll_rank_lost(struct twi_ranks *ranks, uint32_t job_rank, int status)
{
	struct twi_list *pos, *next;

	ranks->slots[job_rank].lost = true;
	twi_list_for_each_safe (pos, next, &ranks->colls) {
		struct twi_coll_group *coll = twi_container_of(pos, struct twi_coll_group, link);

		for (uint32_t i = 0; i < coll->size; i++) {
			if (coll->members[i] == job_rank)
				rank_lost(coll, i, status);
		}
	}
	twi_coll_region_lost(ranks, job_rank);
	twi_coll_shrink_lost(ranks);
}

/* --- agreement --- */

static void challenge_rank(struct twi_coll_run *run, uint32_t rank, int status)
{
	struct twi_coll_word word = { .type = TWI_COLL_CALL,
				      .status = status,
				      .seq = run->seq,
				      .value = run->entry->signature };

	twi_coll_call_text(run, word.text, sizeof(word.text));
	twi_coll_say(run->coll, rank, &word);
}

void twi_coll_challenge(struct twi_coll_run *run, uint32_t rank)
{
	challenge_rank(run, rank, TOW_OK);
}

static void tell_mismatch(struct twi_coll_group *coll, const struct twi_coll_word *word,
			  const char *mine)
{
	twi_count(coll->engine->diag, TWI_C_coll_mismatches, 1);
	twi_error(TOW_EMISMATCH,
		  "ranks disagree about collective %llu of the group: rank %u: %.170s; rank %u: "
		  "%.170s",
		  (unsigned long long)word->seq, word->from, word->text, coll->rank, mine);
	twi_coll_break(coll, word->seq, TOW_EMISMATCH, true);
}

/* Compares the call of another rank with this rank's. */
static void compare_calls(struct twi_coll_run *run, const struct twi_coll_word *word)
{
	char mine[200];

	if (word->value == run->entry->signature && word->status != TOW_EMISMATCH)
		return;
	twi_coll_call_text(run, mine, sizeof(mine));
	tell_mismatch(run->coll, word, mine);
}

/* The run of a collective that is over. NULL: another call has used it since. */
static const struct twi_coll_run *past_run(struct twi_coll_group *coll, uint64_t seq)
{
	struct twi_list *pos, *next, *spare, *next_spare;

	twi_list_for_each_safe (pos, next, &coll->ages) {
		struct twi_coll_entry *entry = twi_container_of(pos, struct twi_coll_entry, age);

		twi_list_for_each_safe (spare, next_spare, &entry->spare) {
			struct twi_coll_run *run =
				twi_container_of(spare, struct twi_coll_run, link);

			if (run->seq == seq)
				return run;
		}
	}
	return NULL;
}

/* A rank's call differs from a collective that is over here, which did not need that rank. */
static void came_after(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	const struct twi_coll_run *run = past_run(coll, word->seq);
	char call[180] = "", mine[200];

	if (run != NULL)
		twi_coll_call_text(run, call, sizeof(call));
	snprintf(mine, sizeof(mine), "has finished %s%s", run != NULL ? "" : "its own", call);
	tell_mismatch(coll, word, mine);
}

static void on_call(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	struct twi_coll_run *run = twi_coll_run_of(coll, word->seq);
	struct twi_coll_sign *sign;

	if (coll->state == TWI_COLL_BROKEN)
		return;
	if (run != NULL) {
		compare_calls(run, word);
	} else if (word->seq >= coll->series.next_seq) {
		sign = &coll->signs[word->seq % TWI_COLL_SLOTS];
		sign->seq = word->seq;
		sign->signature = word->value;
		sign->rank = word->from;
		sign->bad = word->status == TOW_EMISMATCH;
		snprintf(sign->text, sizeof(sign->text), "%.*s", (int)sizeof(sign->text) - 1,
			 word->text);
	} else if (word->seq > 0 && coll->state == TWI_COLL_READY) {
		came_after(coll, word);
	}
}

static void on_sign_done(struct tow_op *op, const struct tow_result *result)
{
	struct twi_coll_io *io = twi_container_of(op, struct twi_coll_io, op);
	struct twi_coll_run *run = io->run;
	uint32_t before = (run->coll->rank + run->coll->size - 1) % run->coll->size;

	io->busy = false;
	run->busy--;
	if (run->state == TWI_COLL_FAILING) {
		twi_coll_run_poll(run);
	} else if (result->status < 0) {
		twi_coll_message_failed(run, op, result);
	} else if (op->kind == TWI_OP_SEND) {
		twi_coll_run_turn(run);
	} else if (run->signs[0] != run->entry->signature) {
		twi_coll_challenge(run, before);
		run->suspicion = TOW_EMISMATCH;
		run->suspect_ns = twi_engine_clock(run->coll->engine) + SUSPECT_NS;
		twi_coll_run_poll(run);
	} else {
		run->agreed = true;
		twi_coll_run_turn(run);
	}
}

static int sign_message(struct twi_coll_run *run, bool in)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_sign_done };
	struct twi_coll_group *coll = run->coll;
	struct twi_coll_io *io = in ? &run->sign_in : &run->sign_out;
	uint32_t with = (coll->rank + (in ? coll->size - 1 : 1)) % coll->size;
	const struct twi_slot *slot = &coll->ranks->slots[coll->members[with]];
	const struct twi_message message = { .kind = in ? TWI_OP_RECV : TWI_OP_SEND,
					     .space = TWI_SPACE_LINK,
					     .op = &io->op,
					     .data = &run->signs[in ? 0 : 1],
					     .bytes = sizeof(run->signs[0]),
					     .tag = twi_coll_tag(run, TWI_COLL_SIGN_CHAIN, 0) };
	struct tow_op *op;
	int status;

	if (slot->state != TWI_SLOT_UP)
		return twi_error(TOW_EPEER, "the connection to rank %u has gone", with);
	io->run = run;
	io->busy = true;
	run->busy++;
	coll->engine->coll_messages++;
	status = twi_message_start(slot->peer, &message, &options, &op);
	if (status < 0) {
		io->busy = false;
		run->busy--;
	}
	return status;
}

void twi_coll_sign(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;
	const struct twi_coll_sign *sign = &coll->signs[run->seq % TWI_COLL_SLOTS];
	int status;

	if (sign->seq == run->seq && run->seq > 0) {
		struct twi_coll_word word = { .from = sign->rank,
					      .status = sign->bad ? TOW_EMISMATCH : TOW_OK,
					      .seq = sign->seq,
					      .value = sign->signature };

		snprintf(word.text, sizeof(word.text), "%s", sign->text);
		compare_calls(run, &word);
		if (run->state == TWI_COLL_FAILING)
			return;
	}
	run->signs[1] = run->entry->signature;
	status = sign_message(run, true);
	if (status == TOW_OK)
		status = sign_message(run, false);
	if (status < 0)
		twi_coll_run_fail(run, status);
}

static uint32_t rank_of(const struct twi_coll_group *coll, const struct tow_peer *peer)
{
	for (uint32_t i = 0; i < coll->size; i++) {
		if (coll->ranks->slots[coll->members[i]].peer == peer)
			return i;
	}
	return coll->size;
}

static bool is_gone(int status)
{
	return status == TOW_EPEER || status == TOW_ECLOSED || status == TOW_EREFUSED;
}

int twi_coll_unreached(const struct twi_coll_group *coll, const struct tow_op *connect)
{
	const struct twi_slot *slot = connect->owner;
	const char *why = twi_failure_text(connect);
	int status = connect->status;
	uint32_t rank = 0;

	while (rank < coll->size && coll->members[rank] != slot->rank)
		rank++;
	if (is_gone(status) && !twi_require_said(why))
		return twi_error(TOW_EPEER, "rank %u has gone (%s): %s", rank, status_of(status),
				 why);
	return twi_error(status, "rank %u cannot be reached: %s", rank, why);
}

void twi_coll_message_failed(struct twi_coll_run *run, const struct tow_op *op,
			     const struct tow_result *result)
{
	struct twi_coll_group *coll = run->coll;
	uint32_t rank = rank_of(coll, result->peer);
	int status = result->status;

	if (status >= 0 || status == TOW_ETRUNCATED) {
		twi_error(TOW_EMISMATCH,
			  "rank %u and rank %u disagree about a message of %s: %llu bytes where "
			  "%llu were expected",
			  coll->rank, rank, twi_coll_kind_name(run->entry->call.kind),
			  (unsigned long long)result->bytes, (unsigned long long)op->bytes);
		snprintf(run->doubt, sizeof(run->doubt), "%s", tow_error_message());
		run->suspicion = TOW_EMISMATCH;
		run->suspect_ns = twi_engine_clock(coll->engine) + SUSPECT_NS;
		if (rank < coll->size)
			challenge_rank(run, rank, TOW_EMISMATCH);
		twi_coll_run_poll(run);
		return;
	}
	if (is_gone(status))
		status = twi_error(TOW_EPEER,
				   "rank %u has gone (%s), with a message of it under "
				   "way",
				   rank, status_of(result->status));
	else
		twi_error(status, "a message with rank %u failed: %s", rank,
			  tow_status_text(status));
	twi_coll_run_fail(run, status);
}

void twi_coll_suspicious(struct twi_coll_run *run)
{
	if (twi_engine_clock(run->coll->engine) < run->suspect_ns)
		return;
	twi_error(run->suspicion, "%s",
		  run->doubt[0] != '\0' ? run->doubt : "another rank has made a different call");
	twi_coll_run_fail(run, run->suspicion);
}

void twi_coll_heard(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	switch (word->type) {
	case TWI_COLL_CALL:
		on_call(coll, word);
		break;
	case TWI_COLL_BREAK:
		on_break(coll, word);
		break;
	case TWI_COLL_REGION:
		twi_coll_setup_heard(coll, word->from, (uint32_t)word->other, word->value,
				     word->status != 0);
		break;
	case TWI_COLL_LEAVE:
		on_leave(coll, word);
		break;
	case TWI_COLL_ASK:
	case TWI_COLL_ANSWER:
		twi_coll_late_heard(coll, word);
		break;
	case TWI_COLL_OF_BARRIER:
		break; /* heard already (coll_line.c) */
	default:
		twi_coll_shrink_heard(coll->ranks, coll, coll->members[word->from], word);
		break;
	}
}
