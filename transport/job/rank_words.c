/*
 * rank_words.c - see rank_words.h.
 */
#include "transport/job/rank_words.h"

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/op/message.h"

static int start(struct tow_peer *peer, enum twi_op_kind kind, struct tow_op *op,
		 const struct twi_rank_words *words, tow_op_callback done)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = words->timeout_ns, .done = done, .user = NULL
	};
	const struct twi_message message = { .kind = kind,
					     .space = TWI_SPACE_LINK,
					     .op = op,
					     .data = words->data,
					     .bytes = words->bytes,
					     .tag = words->tag };

	return twi_message_start(peer, &message, &options, &op);
}

void twi_rank_post_begin(struct twi_rank_post *post, struct twi_ranks *ranks)
{
	twi_assert_held(ranks->engine);
	post->ranks = ranks;
	twi_ranks_use(ranks);
}

void twi_rank_post_end(struct twi_rank_post *post)
{
	struct twi_ranks *ranks = post->ranks;

	twi_assert_held(post->ranks->engine);
	post->over(post);
	twi_ranks_drop(ranks);
}

static void on_posted(struct tow_op *op, const struct tow_result *result)
{
	(void)result;
	twi_rank_post_end(twi_container_of(op, struct twi_rank_post, op));
}

bool twi_rank_post_send(struct twi_rank_post *post, struct tow_peer *peer,
			const struct twi_rank_words *words)
{
	twi_assert_held(post->ranks->engine);
	if (start(peer, TWI_OP_SEND, &post->op, words, on_posted) >= 0)
		return true;
	twi_rank_post_end(post);
	return false;
}

static void end_ear(struct twi_rank_ear *ear, int status)
{
	struct twi_ranks *ranks = ear->ranks;

	ear->over(ear, status);
	twi_ranks_drop(ranks);
}

static void listen(struct twi_rank_ear *ear);

static void on_word(struct tow_op *op, const struct tow_result *result)
{
	struct twi_rank_ear *ear = twi_container_of(op, struct twi_rank_ear, op);

	if (ear->heard(ear, result))
		listen(ear);
	else
		end_ear(ear, result->status);
}

static void listen(struct twi_rank_ear *ear)
{
	const struct twi_rank_words words = { ear->in, ear->room, ear->tag, TOW_FOREVER };
	int status = ear->ranks->closing ? TOW_ECLOSED
					 : start(ear->peer, TWI_OP_RECV, &ear->op, &words, on_word);

	if (status < 0)
		end_ear(ear, status);
}

void twi_rank_ear_start(struct twi_rank_ear *ear)
{
	twi_assert_held(ear->ranks->engine);
	twi_ranks_use(ear->ranks);
	listen(ear);
}
