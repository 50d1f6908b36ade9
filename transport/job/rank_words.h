/*
 * rank_words.h - carries control messages between the ranks of a job, in TWI_SPACE_LINK. Their
 * content is their users' (inquiry_line.c, coll/coll_line.c). Each kind has a tag and a bound of
 * how many are under way, so that none keeps another one back.
 *
 *	twi_rank_post   a message on its way out
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

enum twi_rank_words { TWI_WORDS_COLL, TWI_WORDS_INQUIRY, TWI_WORDS_KINDS };

struct twi_rank_post {
	struct tow_op op;
	struct twi_ranks *ranks;
	enum twi_rank_words kind;
	uint32_t bytes; /* of `out`, at most as many as were asked for; the rest is zero */
	uint8_t out[];
};

/*
 * A message of at most `room` bytes, which goes with twi_rank_post_send or _end. NULL: no memory,
 * the ranks are closing, or so many are under way that a rank must have asked without listening.
 */
struct twi_rank_post *twi_rank_post_make(struct twi_ranks *ranks, enum twi_rank_words kind,
					 uint32_t room);
/*
 * The same in two steps, for a message that must not fail for want of memory later: alloc, then
 * begin. Between the two it keeps nothing, and twi_rank_post_free frees it. begin, false: as above.
 */
struct twi_rank_post *twi_rank_post_alloc(uint32_t room);
bool twi_rank_post_begin(struct twi_rank_post *post, struct twi_ranks *ranks,
			 enum twi_rank_words kind);
void twi_rank_post_free(struct twi_rank_post *post);

/* False: it cannot be sent. */
bool twi_rank_post_send(struct twi_rank_post *post, struct tow_peer *peer);
/* It is not sent. */
void twi_rank_post_end(struct twi_rank_post *post);

struct twi_rank_ear {
	struct tow_op op;
	struct twi_ranks *ranks;
	struct tow_peer *peer;
	enum twi_rank_words kind;
	void *in;
	uint64_t room;
	/* A message has come, or an error. False: no more is heard. */
	bool (*heard)(struct twi_rank_ear *ear, const struct tow_result *result);
	/* Nothing is heard any more; may free it. status: that of the last, TOW_ECLOSED: the ranks
	 * are closing. */
	void (*over)(struct twi_rank_ear *ear, int status);
};

/* All but op is set. */
void twi_rank_ear_start(struct twi_rank_ear *ear);

#endif
