/*
 * rank_words.h - messages of the library's own between the ranks of a job, in TWI_SPACE_LINK: what
 * carries them. What they say is their users' (inquiry_line.c, coll/coll_line.c), each with a tag.
 *
 *	twi_rank_post   a message on its way out; embedded in what has its bytes
 *	twi_rank_ear    the receive of one connection, again and again until that has gone
 *
 * Both are users of the ranks, and so keep them, until they are over. The engine is held in all.
 */
#ifndef TWI_RANK_WORDS_H
#define TWI_RANK_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/op/op.h"

struct twi_ranks;

struct twi_rank_post {
	struct tow_op op;
	struct twi_ranks *ranks;
	void (*over)(struct twi_rank_post *post); /* once, however it ended; may free it */
};

struct twi_rank_words {
	void *data; /* stays until the post is over */
	uint64_t bytes, tag, timeout_ns;
};

/* `over` is set, and is called from now on. */
void twi_rank_post_begin(struct twi_rank_post *post, struct twi_ranks *ranks);
/* False: it cannot be sent, and is over. */
bool twi_rank_post_send(struct twi_rank_post *post, struct tow_peer *peer,
			const struct twi_rank_words *words);
/* It is not sent. */
void twi_rank_post_end(struct twi_rank_post *post);

struct twi_rank_ear {
	struct tow_op op;
	struct twi_ranks *ranks;
	struct tow_peer *peer;
	void *in;
	uint64_t room, tag;
	/* A message has come, or an error. False: no more is heard. */
	bool (*heard)(struct twi_rank_ear *ear, const struct tow_result *result);
	/* Nothing is heard any more; may free it. status: that of the last, TOW_ECLOSED: the ranks
	 * are closing. */
	void (*over)(struct twi_rank_ear *ear, int status);
};

/* All but op is set. */
void twi_rank_ear_start(struct twi_rank_ear *ear);

#endif
