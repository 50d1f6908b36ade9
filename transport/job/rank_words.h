/*
 * rank_words.h - carries control messages between the ranks of a job, in TWI_SPACE_LINK.
 *
 * Their users define the content (inquiry_line.c, coll/coll_line.c). Each kind has a tag of its
 * own, and a bound of how many are under way, so that no kind delays another.
 *
 *	twi_rank_post   a message on its way out
 *	twi_rank_ear    the receive of one connection, repeated until the connection has gone
 *
 * Both are users of the ranks, and so keep them, until they end. The engine is held in all calls.
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
	uint32_t bytes; /* used bytes of `out`, at most `room`; the rest is zero */
	uint8_t out[];
};

/*
 * Makes a message of at most `room` bytes. twi_rank_post_send or _end ends it. NULL: there is no
 * memory, the ranks are closing, or too many are under way. The latter happens when a rank asks
 * without receiving.
 */
struct twi_rank_post *twi_rank_post_make(struct twi_ranks *ranks, enum twi_rank_words kind,
					 uint32_t room);
/*
 * Does the same in two steps, for a message that must not fail for want of memory later: alloc,
 * then begin. Before begin the message holds nothing, and twi_rank_post_free frees it. begin
 * returns false where make returns NULL.
 */
struct twi_rank_post *twi_rank_post_alloc(uint32_t room);
bool twi_rank_post_begin(struct twi_rank_post *post, struct twi_ranks *ranks,
			 enum twi_rank_words kind);
void twi_rank_post_free(struct twi_rank_post *post);

/* Sends the message. False: it cannot be sent, and has ended. */
bool twi_rank_post_send(struct twi_rank_post *post, struct tow_peer *peer);
/* Ends a message that is not sent. */
void twi_rank_post_end(struct twi_rank_post *post);

struct twi_rank_ear {
	struct tow_op op;
	struct twi_ranks *ranks;
	struct tow_peer *peer;
	enum twi_rank_words kind;
	void *in;
	uint64_t room;
	/* A message has arrived, or an error. False: nothing more is received. */
	bool (*heard)(struct twi_rank_ear *ear, const struct tow_result *result);
	/*
	 * The receive has ended; may free the struct. status: that of the last receive, or
	 * TOW_ECLOSED: the ranks are closing.
	 */
	void (*over)(struct twi_rank_ear *ear, int status);
};

/* Starts the receive. The caller has set all members but op. */
void twi_rank_ear_start(struct twi_rank_ear *ear);

#endif
