/*
 * coll_line.c - control messages between ranks. See coll_line.h.
 */
#include "transport/coll/coll_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_kept.h"
#include "transport/engine/engine.h"
#include "transport/job/group_barrier.h"
#include "transport/job/group_over.h"
#include "transport/job/rank_words.h"

#define CONNECT_NS 30000000000ull

/* The receive of one connection. */
struct twi_coll_line {
	struct twi_rank_ear ear;
	uint32_t rank;
	uint8_t in[TWI_COLL_WORD_MAX];
};

struct early {
	struct twi_list link;
	uint32_t rank; /* rank of the job that sent it */
	struct twi_coll_word word;
};

static uint32_t encode_word(uint32_t ctx, uint32_t from, const struct twi_coll_word *word,
			    uint8_t *out)
{
	size_t text = strnlen(word->text, TWI_COLL_WORD_TEXT);

	twi_put_le(out, word->type, 4);
	twi_put_le(out + 4, ctx, 4);
	twi_put_le(out + 8, from, 4);
	twi_put_le(out + 12, (uint32_t)word->status, 4);
	twi_put_le(out + 16, word->seq, 8);
	twi_put_le(out + 24, word->value, 8);
	twi_put_le(out + 32, word->other, 8);
	for (size_t i = 0; i < text; i++)
		out[TWI_COLL_WORD_HEAD + i] = (uint8_t)word->text[i];
	return TWI_COLL_WORD_HEAD + (uint32_t)text;
}

/* Other ranks' text goes into error messages, so only printable characters are kept. */
static bool decode_word(const uint8_t *in, uint64_t bytes, struct twi_coll_word *out)
{
	if (bytes < TWI_COLL_WORD_HEAD || bytes > TWI_COLL_WORD_MAX)
		return false;
	*out = (struct twi_coll_word){ .type = (uint32_t)twi_get_le(in, 4),
				       .ctx = (uint32_t)twi_get_le(in + 4, 4),
				       .from = (uint32_t)twi_get_le(in + 8, 4),
				       .status = (int32_t)twi_get_le(in + 12, 4),
				       .seq = twi_get_le(in + 16, 8),
				       .value = twi_get_le(in + 24, 8),
				       .other = twi_get_le(in + 32, 8) };
	for (uint64_t i = TWI_COLL_WORD_HEAD; i < bytes; i++)
		out->text[i - TWI_COLL_WORD_HEAD] =
			in[i] >= ' ' && in[i] < 0x7f ? (char)in[i] : '?';
	return out->type >= TWI_COLL_CALL && out->type < TWI_COLL_WORDS;
}

/* --- out --- */

static void on_connected(struct tow_op *op, const struct tow_result *result)
{
	struct twi_rank_post *post = result->user;

	tow_op_release(op);
	if (result->status == TOW_OK)
		twi_rank_post_send(post, result->peer);
	else
		twi_rank_post_end(post);
}

void twi_coll_say_to(struct twi_ranks *ranks, uint32_t job_rank, uint32_t ctx, uint32_t from,
		     const struct twi_coll_word *word)
{
	struct twi_rank_post *post = twi_rank_post_make(ranks, TWI_WORDS_COLL, TWI_COLL_WORD_MAX);
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	const struct twi_slot *slot;
	struct tow_op *op;

	if (post == NULL)
		return;
	post->bytes = encode_word(ctx, from, word, post->out);
	slot = &ranks->slots[job_rank];
	if (slot->state == TWI_SLOT_UP) {
		twi_rank_post_send(post, slot->peer);
		return;
	}
	options.timeout_ns = CONNECT_NS;
	options.done = on_connected;
	options.user = post;
	if (twi_ranks_connect(ranks, job_rank, TWI_SPACE_LINK, &options, &op) < 0)
		twi_rank_post_end(post);
}

void twi_coll_say_barrier(struct twi_ranks *ranks, uint32_t job_rank,
			  const struct twi_barrier_word *in)
{
	struct twi_coll_word word = {
		.type = TWI_COLL_OF_BARRIER, .seq = in->number, .value = in->says, .other = in->to
	};

	if (in->why != NULL)
		snprintf(word.text, sizeof(word.text), "%.*s", (int)TWI_COLL_WORD_TEXT, in->why);
	twi_coll_say_to(ranks, job_rank, in->ctx, in->from, &word);
}

void twi_coll_say(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word)
{
	twi_coll_say_to(coll->ranks, coll->members[rank], coll->ctx, coll->rank, word);
}

void twi_coll_say_in(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word,
		     struct twi_rank_post *post)
{
	if (!twi_rank_post_begin(post, coll->ranks, TWI_WORDS_COLL)) {
		twi_rank_post_free(post);
		return;
	}
	post->bytes = encode_word(coll->ctx, coll->rank, word, post->out);
	twi_rank_post_send(post, coll->ranks->slots[coll->members[rank]].peer);
}

void twi_coll_say_all(struct twi_coll_group *coll, const struct twi_coll_word *word)
{
	const struct twi_ranks *ranks = coll->ranks;

	for (uint32_t i = 0; i < coll->size; i++) {
		bool beside =
			(coll->rank + 1) % coll->size == i || (i + 1) % coll->size == coll->rank;

		if (i == coll->rank)
			continue;
		if (beside || ranks->slots[coll->members[i]].state == TWI_SLOT_UP)
			twi_coll_say(coll, i, word);
	}
}

/* --- in --- */

static struct twi_coll_group *find_coll(struct twi_ranks *ranks, uint32_t ctx)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->colls) {
		struct twi_coll_group *coll = twi_container_of(pos, struct twi_coll_group, link);

		if (coll->ctx == ctx)
			return coll;
	}
	return NULL;
}

static void keep_early(struct twi_ranks *ranks, uint32_t rank, const struct twi_coll_word *word)
{
	struct early *early =
		ranks->early_count < TWI_COLL_EARLY_MAX ? malloc(sizeof(*early)) : NULL;

	if (early == NULL) {
		twi_log(ranks->engine->diag, 2,
			"collectives: a control message of rank %u for group %u, which does not "
			"exist here, is dropped",
			rank, word->ctx);
		return;
	}
	early->rank = rank;
	early->word = *word;
	ranks->early_count++;
	twi_list_push_back(&ranks->early, &early->link);
}

/* Hears a word on barriers, also one about a group that is closed here. */
static void hear_barrier(struct twi_ranks *ranks, uint32_t rank, const struct twi_coll_word *word,
			 bool closed)
{
	const struct twi_barrier_word barrier = { .says = (enum twi_barrier_says)word->value,
						  .ctx = word->ctx,
						  .from = word->from,
						  .to = (uint32_t)word->other,
						  .number = word->seq,
						  .why = word->text };

	if (word->type == TWI_COLL_LEAVE)
		twi_barrier_left(ranks, rank, word->ctx, word->from, word->value);
	else if (word->type == TWI_COLL_OF_BARRIER && word->value != TWI_BARRIER_ASKS)
		twi_barrier_heard(ranks, rank, &barrier);
	else if (word->type == TWI_COLL_OF_BARRIER && closed)
		twi_barrier_asked(ranks, rank, &barrier);
}

static void deliver_word(struct twi_coll_group *coll, uint32_t rank,
			 const struct twi_coll_word *word)
{
	if (word->from < coll->size && coll->members[word->from] == rank &&
	    word->from != coll->rank) {
		hear_barrier(coll->ranks, rank, word, coll->said_left);
		twi_coll_heard(coll, word);
	} else {
		twi_log(coll->engine->diag, 2,
			"collectives: rank %u of the job sends as rank %u of group %u, "
			"which it is not",
			rank, word->from, word->ctx);
	}
}

static bool has_ended(const struct twi_ranks *ranks, uint32_t ctx)
{
	return ctx < TWI_COLL_CTX_MAX && (ranks->ended[ctx / 64] >> ctx % 64 & 1) != 0;
}

static void deliver_to_ended(struct twi_ranks *ranks, uint32_t rank,
			     const struct twi_coll_word *word)
{
	/* A rank that has left or failed reads no memory of this rank any more. */
	if (word->type == TWI_COLL_LEAVE || word->type == TWI_COLL_BREAK)
		twi_coll_region_left(ranks, word->ctx, rank);
	hear_barrier(ranks, rank, word, true);
	twi_coll_shrink_heard(ranks, NULL, rank, word);
}

static void route_word(struct twi_ranks *ranks, uint32_t rank, const struct twi_coll_word *word)
{
	struct twi_coll_group *coll = find_coll(ranks, word->ctx);

	if (coll != NULL)
		deliver_word(coll, rank, word);
	else if (has_ended(ranks, word->ctx))
		deliver_to_ended(ranks, rank, word);
	else
		keep_early(ranks, rank, word);
}

static bool on_heard(struct twi_rank_ear *ear, const struct tow_result *result)
{
	struct twi_coll_line *line = twi_container_of(ear, struct twi_coll_line, ear);
	struct twi_coll_word word;

	if (result->status < 0)
		return false;
	if (decode_word(line->in, result->bytes, &word))
		route_word(ear->ranks, line->rank, &word);
	return true;
}

static void on_receive_end(struct twi_rank_ear *ear, int status)
{
	struct twi_coll_line *line = twi_container_of(ear, struct twi_coll_line, ear);
	struct twi_ranks *ranks = ear->ranks;
	uint32_t rank = line->rank;

	free(line);
	if (!ranks->closing)
		twi_coll_rank_lost(ranks, rank, status);
}

struct twi_coll_line *twi_coll_line_make(struct twi_ranks *ranks, uint32_t job_rank,
					 struct tow_peer *peer)
{
	struct twi_coll_line *line = calloc(1, sizeof(*line));

	if (line == NULL) {
		twi_log(ranks->engine->diag, 1, "no memory to listen to rank %u", job_rank);
		return NULL;
	}
	line->rank = job_rank;
	line->ear = (struct twi_rank_ear){ .ranks = ranks,
					   .peer = peer,
					   .in = line->in,
					   .room = sizeof(line->in),
					   .kind = TWI_WORDS_COLL,
					   .heard = on_heard,
					   .over = on_receive_end };
	return line;
}

void twi_coll_line_up(struct twi_coll_line *line)
{
	twi_rank_ear_start(&line->ear);
}

void twi_coll_line_group(struct twi_coll_group *coll)
{
	struct twi_ranks *ranks = coll->ranks;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &ranks->early) {
		struct early *early = twi_container_of(pos, struct early, link);

		if (early->word.ctx != coll->ctx)
			continue;
		twi_list_remove(&early->link);
		ranks->early_count--;
		deliver_word(coll, early->rank, &early->word);
		free(early);
	}
}

void twi_coll_line_group_end(struct twi_coll_group *coll)
{
	struct twi_ranks *ranks = coll->ranks;
	struct twi_list *pos, *next;

	ranks->ended[coll->ctx / 64] |= 1ull << coll->ctx % 64;
	twi_group_over(ranks, coll->ctx, TWI_OVER_COLLS, coll->members, coll->size);
	twi_list_for_each_safe (pos, next, &ranks->early) {
		struct early *early = twi_container_of(pos, struct early, link);

		if (early->word.ctx != coll->ctx)
			continue;
		twi_list_remove(&early->link);
		ranks->early_count--;
		free(early);
	}
}

void twi_coll_lines_end(struct twi_ranks *ranks)
{
	struct twi_list *pos;

	while ((pos = twi_list_first(&ranks->early)) != NULL) {
		twi_list_remove(pos);
		free(twi_container_of(pos, struct early, link));
	}
}
