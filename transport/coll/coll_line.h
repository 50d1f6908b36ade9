/*
 * coll_line.h - words between ranks, beside the payload: failures, where memory is, who is where.
 *
 * Each connection of a job has one receive for them, from when it is there until it has gone; that
 * receive's end is also how the collectives hear that a rank has gone.
 *
 *	offset  0      4     8      12       16    24      32      40
 *	        | type | ctx | from | status | seq | value | other | text, up to 440 bytes |
 *
 * Little-endian. `from` is a rank of the group `ctx`, and must be the one at the connection's end.
 * A word of a group that this rank has not made yet waits, in a bounded list.
 */
#ifndef TWI_COLL_LINE_H
#define TWI_COLL_LINE_H

#include "transport/coll/coll_run.h"

#define TWI_COLL_WORD_HEAD 40u
#define TWI_COLL_WORD_TEXT TWI_COLL_WHY
#define TWI_COLL_WORD_MAX  (TWI_COLL_WORD_HEAD + TWI_COLL_WORD_TEXT)
#define TWI_COLL_EARLY_MAX 1024u

enum twi_coll_word_type {
	/* rank `from` has made the call `text` as `seq`, of signature `value`; status
	 * TOW_EMISMATCH: and a message of it was not as that expected */
	TWI_COLL_CALL = 1,
	TWI_COLL_BREAK,   /* `seq` has failed, and with it the group: status, text */
	TWI_COLL_REGION,  /* rank `from` has its region at extent `other`, offset `value` */
	TWI_COLL_ASK,     /* have you come to `seq`? */
	TWI_COLL_ANSWER,  /* value: the last seq that was begun; text: what it is */
	TWI_COLL_LEAVE,   /* rank `from` has closed the group; `seq` was its last */
	TWI_COLL_JOIN,    /* coll_shrink.c, for these: I have come; value: a number for the group */
	TWI_COLL_DECIDED, /* the members, part `other` of them, in text; value: the number */
	TWI_COLL_DELAYED, /* time is over: text */
	TWI_COLL_WORDS,   /* one more than the last */
};

struct twi_rank_post;

struct twi_coll_word {
	uint32_t type;
	uint32_t ctx, from;
	int32_t status;
	uint64_t seq, value, other;
	char text[TWI_COLL_WORD_TEXT + 1];
};

/* Sends a word of rank `from` of group `ctx` to a rank of the job, connecting first. Losses are not
 * told. */
void twi_coll_say_to(struct twi_ranks *ranks, uint32_t job_rank, uint32_t ctx, uint32_t from,
		     const struct twi_coll_word *word);

/* The same to a rank of the group. */
void twi_coll_say(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word);

/* The same to one that is connected, in a post with room for TWI_COLL_WORD_MAX, which it takes. */
void twi_coll_say_in(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word,
		     struct twi_rank_post *post);

/* To every rank of the group that is connected, and to both neighbours in any case. */
void twi_coll_say_all(struct twi_coll_group *coll, const struct twi_coll_word *word);

struct twi_coll_line;

/* A rank of the job is being connected; then its words are listened to. NULL: no memory. The engine
 * is held, as in all. */
struct twi_coll_line *twi_coll_line_make(struct twi_ranks *ranks, uint32_t job_rank,
					 struct tow_peer *peer);
void twi_coll_line_up(struct twi_coll_line *line);

/* The group is there: words that came before it are heard now. */
void twi_coll_line_group(struct twi_coll_group *coll);

/* The group goes: words about it that come from now on are for nobody. */
void twi_coll_line_group_end(struct twi_coll_group *coll);

/* The job's end: what is kept is freed. */
void twi_coll_lines_end(struct twi_ranks *ranks);

/* coll_fail.c: a word has come for the group. */
void twi_coll_heard(struct twi_coll_group *coll, const struct twi_coll_word *word);

/* coll_fail.c: compares calls with the neighbours; a message of this run was not as expected. */
void twi_coll_sign(struct twi_coll_run *run);
void twi_coll_challenge(struct twi_coll_run *run, uint32_t rank);
void twi_coll_message_failed(struct twi_coll_run *run, const struct tow_op *op,
			     const struct tow_result *result);

/* coll_fail.c: if nobody has found a mismatch in time, it fails with what is suspected. */
void twi_coll_suspicious(struct twi_coll_run *run);

/* coll_late.c: a question, or an answer. */
void twi_coll_late_heard(struct twi_coll_group *coll, const struct twi_coll_word *word);

/* coll_shrink.c: a word, which a group that is over hears, too; a rank has gone; the job's end. */
void twi_coll_shrink_heard(struct twi_ranks *ranks, struct twi_coll_group *coll, uint32_t job_rank,
			   const struct twi_coll_word *word);
void twi_coll_shrink_lost(struct twi_ranks *ranks);
void twi_coll_shrinks_end(struct twi_ranks *ranks);

/* coll_fail.c: a rank of the job has gone. */
void twi_coll_rank_lost(struct twi_ranks *ranks, uint32_t job_rank, int status);

#endif
