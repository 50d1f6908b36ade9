/*
 * inquiry_line.c - words of an inquiry between ranks. See inquiry.h.
 *
 * Each connection has one receive for them. A rank that is asked answers at once, from a state that
 * is made at most once in 50 ms, so asking often costs it a message each, and no more.
 */
#include <stdlib.h>

#include <internal/base.h>

#include "diag/diag.h"
#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/group.h"
#include "transport/inquiry.h"
#include "transport/message.h"

/* Collectives' words have bit 63; the clocks' tag is 0. */
#define TAG        (1ull << 62)
#define POST_NS    5000000000ull
#define POSTS_MIN  64u /* on their way at once, and for each connection: */
#define POSTS_EACH 4u

enum word { WORD_ASK = 1, WORD_STATE, WORD_WHO };

struct post {
	struct tow_op op;
	struct twi_inquiry *inquiry;
	struct twi_ranks *ranks;
	uint8_t out[];
};

static void end_post(struct post *post)
{
	struct twi_ranks *ranks = post->ranks;

	post->inquiry->posts--;
	free(post);
	twi_ranks_drop(ranks);
}

static void on_posted(struct tow_op *op, const struct tow_result *result)
{
	(void)result;
	end_post(twi_container_of(op, struct post, op));
}

/* Once the ranks hang up, the peer may go before this file hears of it. */
struct tow_peer *twi_inquiry_line_peer(const struct twi_inquiry_line *line)
{
	const struct twi_slot *slot = &line->ranks->slots[line->rank];

	return slot->state == TWI_SLOT_UP && slot->peer == line->peer ? line->peer : NULL;
}

static struct post *take_post(struct twi_inquiry_line *line, size_t bytes)
{
	struct twi_inquiry *inquiry = line->ranks->engine->inquiry;
	struct post *post;

	if (twi_inquiry_line_peer(line) == NULL || line->ranks->closing || inquiry == NULL ||
	    inquiry->posts >= POSTS_MIN + (uint64_t)POSTS_EACH * line->ranks->size)
		return NULL;
	post = calloc(1, sizeof(*post) + bytes);
	if (post == NULL)
		return NULL;
	post->inquiry = inquiry;
	post->ranks = line->ranks;
	inquiry->posts++;
	twi_ranks_use(line->ranks);
	return post;
}

static bool send_post(struct twi_inquiry_line *line, struct post *post, enum word word,
		      uint32_t round, uint32_t sample, size_t bytes)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = POST_NS, .done = on_posted, .user = NULL
	};
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .space = TWI_SPACE_LINK,
					     .op = &post->op,
					     .data = post->out,
					     .bytes = TWI_INQUIRY_HEAD + bytes,
					     .tag = TAG };
	struct tow_op *op;

	twi_put_le(post->out, word, 4);
	twi_put_le(post->out + 4, round, 4);
	twi_put_le(post->out + 8, sample, 4);
	twi_put_le(post->out + 16, twi_engine_clock(line->ranks->engine), 8);
	if (twi_message_start(line->peer, &message, &options, &op) >= 0)
		return true;
	end_post(post);
	return false;
}

bool twi_inquiry_ask(struct twi_inquiry_line *line, uint32_t round, uint32_t sample)
{
	struct post *post = take_post(line, TWI_INQUIRY_HEAD);

	return post != NULL && send_post(line, post, WORD_ASK, round, sample, 0);
}

static void answer(struct twi_inquiry_line *line, uint32_t round, uint32_t sample)
{
	struct twi_inquiry *inquiry = line->ranks->engine->inquiry;
	struct post *post = take_post(line, TWI_INQUIRY_HEAD + TWI_STATE_BYTES);
	size_t bytes = 0;

	if (post == NULL)
		return;
	if (twi_inquiry_self(inquiry) != NULL)
		bytes = twi_rank_state_encode(inquiry->own, post->out + TWI_INQUIRY_HEAD,
					      TWI_STATE_BYTES);
	if (bytes == 0)
		end_post(post);
	else
		send_post(line, post, WORD_STATE, round, sample, bytes);
}

static void say_who(struct twi_inquiry_line *line)
{
	const struct twi_identity *self = &line->ranks->engine->inquiry->self;
	struct post *post = take_post(line, TWI_INQUIRY_HEAD + 32);

	if (post == NULL)
		return;
	twi_put_le(post->out + TWI_INQUIRY_HEAD, self->boot, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 8, self->pid_namespace, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 16, self->pid, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 24, self->pid_start, 8);
	send_post(line, post, WORD_WHO, 0, 0, 32);
}

static void hear(struct twi_inquiry_line *line, uint64_t bytes)
{
	const uint8_t *in = line->in, *body = in + TWI_INQUIRY_HEAD;
	uint32_t round, sample;

	if (bytes < TWI_INQUIRY_HEAD || bytes > sizeof(line->in))
		return;
	round = (uint32_t)twi_get_le(in + 4, 4);
	sample = (uint32_t)twi_get_le(in + 8, 4);
	switch (twi_get_le(in, 4)) {
	case WORD_ASK:
		answer(line, round, sample);
		break;
	case WORD_STATE:
		twi_inquiry_heard(line->ranks->engine->inquiry, line, round, sample,
				  twi_get_le(in + 16, 8), body, bytes - TWI_INQUIRY_HEAD);
		break;
	case WORD_WHO:
		if (bytes != TWI_INQUIRY_HEAD + 32)
			break;
		line->identity =
			(struct twi_identity){ twi_get_le(body, 8), twi_get_le(body + 8, 8),
					       twi_get_le(body + 16, 8), twi_get_le(body + 24, 8) };
		line->known = true;
		break;
	default: /* of a newer version: not for us */
		break;
	}
}

static void listen(struct twi_inquiry_line *line);

/* The line stays for what is known of the process; its ranks may go now. */
static void end_line(struct twi_inquiry_line *line)
{
	line->peer = NULL;
	line->hears = false;
	twi_ranks_drop(line->ranks);
}

static void on_word(struct tow_op *op, const struct tow_result *result)
{
	struct twi_inquiry_line *line = twi_container_of(op, struct twi_inquiry_line, op);

	if (result->status < 0 && result->status != TOW_ETRUNCATED) {
		end_line(line);
		return;
	}
	if (result->status == TOW_OK)
		hear(line, result->bytes);
	listen(line);
}

static void listen(struct twi_inquiry_line *line)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_word, .user = NULL
	};
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .space = TWI_SPACE_LINK,
					     .op = &line->op,
					     .data = line->in,
					     .bytes = sizeof(line->in),
					     .tag = TAG };
	struct tow_op *op;

	line->hears = true;
	if (line->ranks->closing || line->ranks->engine->inquiry == NULL ||
	    twi_message_start(line->peer, &message, &options, &op) < 0)
		end_line(line);
}

struct twi_inquiry_line *twi_inquiry_line_of(struct twi_inquiry *inquiry, uint32_t rank)
{
	struct twi_inquiry_line *found = NULL;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &inquiry->lines) {
		struct twi_inquiry_line *line =
			twi_container_of(pos, struct twi_inquiry_line, link);

		if (line->rank == rank && (found == NULL || found->peer == NULL))
			found = line;
	}
	return found;
}

void twi_inquiry_line_up(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer)
{
	struct twi_inquiry *inquiry = ranks->engine->inquiry;
	struct twi_inquiry_line *line;

	if (inquiry == NULL)
		return;
	line = calloc(1, sizeof(*line));
	if (line == NULL) {
		twi_log(ranks->engine->diag, 2, "no memory to ask rank %u how it is", rank);
		return;
	}
	line->ranks = ranks;
	line->rank = rank;
	line->peer = peer;
	twi_list_push_back(&inquiry->lines, &line->link);
	twi_ranks_use(ranks);
	listen(line);
	if (line->hears)
		say_who(line);
}

void twi_inquiry_ranks_end(struct twi_ranks *ranks)
{
	struct twi_inquiry *inquiry = ranks->engine->inquiry;
	struct twi_list *pos, *next;

	if (inquiry == NULL)
		return;
	twi_engine_enter(ranks->engine); /* ranks of a join that failed are freed without it */
	twi_list_for_each_safe (pos, next, &inquiry->lines) {
		struct twi_inquiry_line *line =
			twi_container_of(pos, struct twi_inquiry_line, link);

		if (line->ranks != ranks)
			continue;
		twi_inquiry_forget(inquiry, line);
		twi_list_remove(&line->link);
		free(line);
	}
	twi_engine_leave(ranks->engine);
}
