/*
 * inquiry_line.c - the messages of an inquiry between ranks. See inquiry.h.
 *
 * Each connection has one receive for them. A rank answers at once, from a state that it makes anew
 * at most once in 50 ms. So frequent requests cost it a message each, and no more.
 */
#include <stdlib.h>

#include <internal/base.h>

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/wire/feature.h"

enum word { WORD_ASK = 1, WORD_STATE, WORD_WHO, WORD_NEWS, WORD_GONE };

/* When the ranks close, the peer may go before this file learns of it. */
struct tow_peer *twi_inquiry_line_peer(const struct twi_inquiry_line *line)
{
	const struct twi_slot *slot = &line->ear.ranks->slots[line->rank];

	twi_assert_held(line->ear.ranks->engine);
	return slot->state == TWI_SLOT_UP && slot->peer == line->ear.peer ? line->ear.peer : NULL;
}

/* Makes a message of a head, and at most `bytes` behind it. */
static struct twi_rank_post *make_post(struct twi_inquiry_line *line, uint32_t bytes)
{
	struct twi_ranks *ranks = line->ear.ranks;

	if (twi_inquiry_line_peer(line) == NULL || ranks->engine->inquiry == NULL)
		return NULL;
	return twi_rank_post_make(ranks, TWI_WORDS_INQUIRY, TWI_INQUIRY_HEAD + bytes);
}

static bool send_post(struct twi_inquiry_line *line, struct twi_rank_post *post, enum word word,
		      uint32_t round, uint32_t sample, uint32_t bytes)
{
	post->bytes = TWI_INQUIRY_HEAD + bytes;
	twi_put_le(post->out, word, 4);
	twi_put_le(post->out + 4, round, 4);
	twi_put_le(post->out + 8, sample, 4);
	twi_put_le(post->out + 16, twi_engine_clock(line->ear.ranks->engine), 8);
	return twi_rank_post_send(post, line->ear.peer);
}

bool twi_inquiry_ask(struct twi_inquiry_line *line, uint32_t round, uint32_t sample)
{
	struct twi_rank_post *post = make_post(line, 0);

	twi_assert_held(line->ear.ranks->engine);
	return post != NULL && send_post(line, post, WORD_ASK, round, sample, 0);
}

/* A rank of an older version ignores it, as handle_message does with unknown messages. */
bool twi_inquiry_tell(struct twi_inquiry_line *line, const struct twi_inquiry_news *news)
{
	struct twi_rank_post *post = make_post(line, TWI_INQUIRY_NEWS);

	twi_assert_held(line->ear.ranks->engine);
	if (post == NULL)
		return false;
	twi_inquiry_news_write(news, post->out + TWI_INQUIRY_HEAD);
	return send_post(line, post, WORD_NEWS, 0, 0, TWI_INQUIRY_NEWS);
}

bool twi_inquiry_tell_gone(struct twi_inquiry_line *line, const struct twi_inquiry_gone *gone)
{
	struct twi_rank_post *post = make_post(line, TWI_INQUIRY_GONE);

	twi_assert_held(line->ear.ranks->engine);
	return post != NULL &&
	       send_post(line, post, WORD_GONE, 0, 0,
			 twi_inquiry_gone_write(gone, post->out + TWI_INQUIRY_HEAD));
}

size_t twi_inquiry_unread_gone(const struct twi_inquiry_line *line)
{
	const struct tow_op *op = &line->ear.op;

	if (line->ear.peer == NULL || op->stage != TWI_STAGE_COMPLETING || op->status < 0 ||
	    op->result_bytes <= TWI_INQUIRY_HEAD || op->result_bytes > sizeof(line->in) ||
	    twi_get_le(line->in, 4) != WORD_GONE)
		return 0;
	return op->result_bytes - TWI_INQUIRY_HEAD;
}

/*
 * Encodes one of the newest forms. A state that does not fit goes without what matters least. 0: it
 * does not fit even so.
 */
static size_t encode_long(uint32_t features, struct twi_rank_state *state, uint8_t *out)
{
	bool held = (features & TWI_FEATURE_BIT(state_held)) != 0;
	enum twi_state_form form = held ? TWI_STATE_FORM_HELD : TWI_STATE_FORM_LONGS;
	uint32_t streams = state->stream_count;
	size_t bytes = twi_rank_state_encode(state, form, out, TWI_STATE_BYTES);

	if (bytes == 0) {
		state->stream_count = 0;
		bytes = twi_rank_state_encode(state, form, out, TWI_STATE_BYTES);
		if (bytes == 0 && held)
			bytes = twi_rank_state_encode(state, TWI_STATE_FORM_LONGS, out,
						      TWI_STATE_BYTES);
		state->stream_count = streams;
	}
	return bytes;
}

/* Encodes in a form that the other side reads, and that fits its receive. */
static uint32_t encode_for(uint32_t features, struct twi_rank_state *state, uint8_t *out)
{
	enum twi_state_form form = TWI_STATE_FORM_BARE;
	size_t room = TWI_STATE_BARE, bytes;

	if ((features & TWI_FEATURE_BIT(state_longs)) != 0) {
		bytes = encode_long(features, state, out);
		if (bytes > 0)
			return (uint32_t)bytes;
	}
	if ((features & TWI_FEATURE_BIT(state_waits)) != 0) {
		form = TWI_STATE_FORM_WAITED;
		room = TWI_STATE_BYTES;
	} else if ((features & TWI_FEATURE_BIT(state_messages)) != 0) {
		form = TWI_STATE_FORM_MESSAGES;
		room = TWI_STATE_BYTES;
	} else if ((features & TWI_FEATURE_BIT(state_heads)) != 0) {
		form = TWI_STATE_FORM_HEADS;
		room = TWI_STATE_BYTES;
	} else if ((features & TWI_FEATURE_BIT(foreign_groups)) != 0) {
		form = TWI_STATE_FORM_NAMED;
		room = TWI_STATE_NAMED;
	}
	return (uint32_t)twi_rank_state_encode(state, form, out, room);
}

static void answer_inquiry(struct twi_inquiry_line *line, uint32_t round, uint32_t sample)
{
	struct twi_inquiry *inquiry = line->ear.ranks->engine->inquiry;
	struct twi_rank_post *post = make_post(line, TWI_STATE_BYTES);
	uint8_t *out = post != NULL ? post->out + TWI_INQUIRY_HEAD : NULL;
	uint32_t bytes = 0;

	if (post == NULL)
		return;
	if (line->rank < line->ear.ranks->rank)
		inquiry->lower_ns = twi_engine_clock(inquiry->engine);
	if (twi_inquiry_self(inquiry) != NULL)
		bytes = encode_for(line->ear.peer->features, inquiry->own, out);
	if (bytes == 0)
		twi_rank_post_end(post);
	else
		send_post(line, post, WORD_STATE, round, sample, bytes);
}

static void send_identity(struct twi_inquiry_line *line)
{
	const struct twi_identity *self = &line->ear.ranks->engine->self;
	struct twi_rank_post *post = make_post(line, 32);

	if (post == NULL)
		return;
	twi_put_le(post->out + TWI_INQUIRY_HEAD, self->boot, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 8, self->pid_namespace, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 16, self->pid, 8);
	twi_put_le(post->out + TWI_INQUIRY_HEAD + 24, self->pid_start, 8);
	send_post(line, post, WORD_WHO, 0, 0, 32);
}

static void handle_message(struct twi_inquiry_line *line, uint64_t bytes)
{
	const uint8_t *in = line->in, *body = in + TWI_INQUIRY_HEAD;
	uint32_t round, sample;

	if (bytes < TWI_INQUIRY_HEAD || bytes > sizeof(line->in))
		return;
	round = (uint32_t)twi_get_le(in + 4, 4);
	sample = (uint32_t)twi_get_le(in + 8, 4);
	switch (twi_get_le(in, 4)) {
	case WORD_ASK:
		answer_inquiry(line, round, sample);
		break;
	case WORD_STATE:
		twi_inquiry_heard(line->ear.ranks->engine->inquiry, line, round, sample,
				  twi_get_le(in + 16, 8), body, bytes - TWI_INQUIRY_HEAD);
		break;
	case WORD_WHO:
		if (bytes != TWI_INQUIRY_HEAD + 32)
			break;
		line->identity = (struct twi_identity){ .boot = twi_get_le(body, 8),
							.pid_namespace = twi_get_le(body + 8, 8),
							.pid = twi_get_le(body + 16, 8),
							.pid_start = twi_get_le(body + 24, 8) };
		line->known = true;
		break;
	case WORD_NEWS:
		twi_inquiry_news_heard(line->ear.ranks->engine->inquiry, line->rank, body,
				       bytes - TWI_INQUIRY_HEAD);
		break;
	case WORD_GONE:
		twi_inquiry_gone_heard(line, body, bytes - TWI_INQUIRY_HEAD);
		break;
	default: /* a message of a newer version */
		break;
	}
}

static bool on_heard(struct twi_rank_ear *ear, const struct tow_result *result)
{
	if (result->status == TOW_OK)
		handle_message(twi_container_of(ear, struct twi_inquiry_line, ear), result->bytes);
	return (result->status >= 0 || result->status == TOW_ETRUNCATED) &&
	       ear->ranks->engine->inquiry != NULL;
}

/* The line stays, as it identifies the process. Its ranks may go now. */
static void on_receive_ended(struct twi_rank_ear *ear, int status)
{
	(void)status;
	ear->peer = NULL;
}

struct twi_inquiry_line *twi_inquiry_line_of(struct twi_inquiry *inquiry, uint32_t rank)
{
	struct twi_inquiry_line *found = NULL;
	struct twi_list *pos, *next;

	twi_assert_held(inquiry->engine);
	twi_list_for_each_safe (pos, next, &inquiry->lines) {
		struct twi_inquiry_line *line =
			twi_container_of(pos, struct twi_inquiry_line, link);

		if (line->rank == rank && (found == NULL || found->ear.peer == NULL))
			found = line;
	}
	return found;
}

static int rank_up(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer)
{
	struct twi_inquiry *inquiry = ranks->engine->inquiry;
	struct twi_inquiry_line *line;

	twi_assert_held(ranks->engine);
	if (inquiry == NULL)
		return TOW_OK;
	line = calloc(1, sizeof(*line));
	if (line == NULL) {
		twi_log(ranks->engine->diag, 2, "no memory to ask rank %u for its state", rank);
		return TOW_OK; /* the job does not need it */
	}
	line->rank = rank;
	line->ear = (struct twi_rank_ear){ .ranks = ranks,
					   .peer = peer,
					   .in = line->in,
					   .room = sizeof(line->in),
					   .kind = TWI_WORDS_INQUIRY,
					   .heard = on_heard,
					   .over = on_receive_ended };
	twi_list_push_back(&inquiry->lines, &line->link);
	twi_rank_ear_start(&line->ear);
	if (line->ear.peer != NULL)
		send_identity(line);
	twi_inquiry_thread_want(ranks->engine);
	return TOW_OK;
}

static void ranks_end(struct twi_ranks *ranks)
{
	struct twi_inquiry *inquiry = ranks->engine->inquiry;
	struct twi_list *pos, *next;

	if (inquiry == NULL)
		return;
	twi_engine_enter(ranks->engine); /* a failed join frees its ranks without the engine */
	twi_list_for_each_safe (pos, next, &inquiry->lines) {
		struct twi_inquiry_line *line =
			twi_container_of(pos, struct twi_inquiry_line, link);

		if (line->ear.ranks != ranks)
			continue;
		twi_inquiry_forget(inquiry, line);
		twi_list_remove(&line->link);
		free(line);
	}
	twi_engine_leave(ranks->engine);
}

const struct twi_rank_hooks twi_inquiry_rank_hooks = { .up = rank_up, .end = ranks_end };
