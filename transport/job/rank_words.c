/*
 * rank_words.c - sends and receives control messages between ranks; rank_words.h has the concept.
 */
#include "transport/job/rank_words.h"

#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/op/message.h"

/* For each kind: its tag, how long a message may take, and how many may be under way. */
static const struct {
	uint64_t tag, timeout_ns;
	uint32_t posts_min, posts_each; /* in all, and for each rank */
} kinds[TWI_WORDS_KINDS] = {
	/* The group number in the tag is that of no group, so no collective has this tag. */
	[TWI_WORDS_COLL] = { 1ull << 63 | (uint64_t)TWI_COLL_CTX_MAX << 48, 30000000000ull, 1024,
			     16 },
	/*
	 * Tags of collectives have bit 63, and those of greetings bit 62 and others. The clocks'
	 * tag is 0.
	 */
	[TWI_WORDS_INQUIRY] = { 1ull << 62, 5000000000ull, 64, 4 },
};

static int start_words(struct tow_peer *peer, struct tow_op *op, const struct twi_message *message,
		       uint64_t timeout_ns, tow_op_callback done)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = timeout_ns, .done = done, .user = NULL
	};

	return twi_message_start(peer, message, &options, &op);
}

struct twi_rank_post *twi_rank_post_make(struct twi_ranks *ranks, enum twi_rank_words kind,
					 uint32_t room)
{
	struct twi_rank_post *post = twi_rank_post_alloc(room);

	if (post == NULL || twi_rank_post_begin(post, ranks, kind))
		return post;
	free(post);
	return NULL;
}

struct twi_rank_post *twi_rank_post_alloc(uint32_t room)
{
	return calloc(1, sizeof(struct twi_rank_post) + room);
}

bool twi_rank_post_begin(struct twi_rank_post *post, struct twi_ranks *ranks,
			 enum twi_rank_words kind)
{
	uint64_t most = kinds[kind].posts_min + (uint64_t)kinds[kind].posts_each * ranks->size;

	twi_assert_held(ranks->engine);
	if (ranks->closing || ranks->posts[kind] >= most)
		return false;
	post->ranks = ranks;
	post->kind = kind;
	ranks->posts[kind]++;
	twi_ranks_use(ranks);
	return true;
}

void twi_rank_post_free(struct twi_rank_post *post)
{
	free(post);
}

void twi_rank_post_end(struct twi_rank_post *post)
{
	struct twi_ranks *ranks = post->ranks;

	twi_assert_held(ranks->engine);
	ranks->posts[post->kind]--;
	free(post);
	twi_ranks_drop(ranks);
}

static void on_posted(struct tow_op *op, const struct tow_result *result)
{
	(void)result;
	twi_rank_post_end(twi_container_of(op, struct twi_rank_post, op));
}

bool twi_rank_post_send(struct twi_rank_post *post, struct tow_peer *peer)
{
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .space = TWI_SPACE_LINK,
					     .op = &post->op,
					     .data = post->out,
					     .bytes = post->bytes,
					     .tag = kinds[post->kind].tag };

	twi_assert_held(post->ranks->engine);
	if (start_words(peer, &post->op, &message, kinds[post->kind].timeout_ns, on_posted) >= 0)
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

static void listen_ear(struct twi_rank_ear *ear);

static void on_word(struct tow_op *op, const struct tow_result *result)
{
	struct twi_rank_ear *ear = twi_container_of(op, struct twi_rank_ear, op);

	if (ear->heard(ear, result))
		listen_ear(ear);
	else
		end_ear(ear, result->status);
}

static void listen_ear(struct twi_rank_ear *ear)
{
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .space = TWI_SPACE_LINK,
					     .op = &ear->op,
					     .data = ear->in,
					     .bytes = ear->room,
					     .tag = kinds[ear->kind].tag };
	int status = TOW_ECLOSED;

	if (!ear->ranks->closing)
		status = start_words(ear->peer, &ear->op, &message, TOW_FOREVER, on_word);

	if (status < 0)
		end_ear(ear, status);
}

void twi_rank_ear_start(struct twi_rank_ear *ear)
{
	twi_assert_held(ear->ranks->engine);
	twi_ranks_use(ear->ranks);
	listen_ear(ear);
}
