/*
 * coll_line.h - control messages between ranks: about failures, the location of memory, and
 * progress.
 *
 * Each connection of a job has one receive for them, from when it is up until it has gone. The end
 * of that receive is also how the collectives learn that a rank has gone.
 *
 *	offset  0      4     8      12       16    24      32      40
 *	        | type | ctx | from | status | seq | value | other | text, up to 440 bytes |
 *
 * Little-endian. `from` is a rank of the group `ctx`, and must be the one at the connection's end.
 * A message for a group that this rank has not made yet waits in a bounded list.
 */
#ifndef TWI_COLL_LINE_H
#define TWI_COLL_LINE_H

#include "transport/coll/coll_run.h"

#define TWI_COLL_WORD_HEAD 40u
#define TWI_COLL_WORD_TEXT TWI_COLL_WHY
#define TWI_COLL_WORD_MAX  (TWI_COLL_WORD_HEAD + TWI_COLL_WORD_TEXT)
#define TWI_COLL_EARLY_MAX 1024u

enum twi_coll_word_type {
	/* rank `from` has made the call `text` as `seq`, of signature `value`. Status
	 * TOW_EMISMATCH: it also received a message that is not the one it expected */
	TWI_COLL_CALL = 1,
	TWI_COLL_BREAK, /* `seq` has failed with `status`, and the group with it; `text` says why */
	/* rank `from` has its region at extent `other`, offset `value`; status 1: it may write */
	TWI_COLL_REGION,
	TWI_COLL_ASK,    /* asks whether the receiver has come to `seq` */
	TWI_COLL_ANSWER, /* `value`: the last seq that was begun; `text`: its call */
	/* rank `from` has closed the group; `seq` was its last; `value`: the first barrier of
	 * group.h that it has not started, 0 where it does not say */
	TWI_COLL_LEAVE,
	/* coll_shrink.c, as the next two: the rank has come; `value`: a number for the group */
	TWI_COLL_JOIN,
	TWI_COLL_DECIDED, /* `text`: part `other` of the members; `value`: the number */
	TWI_COLL_DELAYED, /* the deadline has passed; `text` says which ranks are missing */
	/* of barrier `seq` of the group; `value`: what (enum twi_barrier_says); `other`: the rank
	 * that is asked */
	TWI_COLL_OF_BARRIER,
	TWI_COLL_WORDS, /* one more than the last */
};

struct twi_barrier_word;
struct twi_rank_post;

struct twi_coll_word {
	uint32_t type;
	uint32_t ctx, from;
	int32_t status;
	uint64_t seq, value, other;
	char text[TWI_COLL_WORD_TEXT + 1];
};

/* Sends a control message of rank `from` of group `ctx` to a rank of the job, and connects first. A
 * lost message is not reported. */
void twi_coll_say_to(struct twi_ranks *ranks, uint32_t job_rank, uint32_t ctx, uint32_t from,
		     const struct twi_coll_word *word);

/* Sends a word on a barrier (twi_coll_hooks). */
void twi_coll_say_barrier(struct twi_ranks *ranks, uint32_t job_rank,
			  const struct twi_barrier_word *word);

/* Sends it to a rank of the group. */
void twi_coll_say(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word);

/* Sends it to a connected rank, in a post with room for TWI_COLL_WORD_MAX, which it takes. */
void twi_coll_say_in(struct twi_coll_group *coll, uint32_t rank, const struct twi_coll_word *word,
		     struct twi_rank_post *post);

/* Sends it to every connected rank of the group, and to both neighbours in any case. */
void twi_coll_say_all(struct twi_coll_group *coll, const struct twi_coll_word *word);

struct twi_coll_line;

/* make: for a rank of the job that is being connected. NULL: no memory. up: starts to receive its
 * control messages. The engine is held, as in all calls. */
struct twi_coll_line *twi_coll_line_make(struct twi_ranks *ranks, uint32_t job_rank,
					 struct tow_peer *peer);
void twi_coll_line_up(struct twi_coll_line *line);

/* The group exists now: delivers the messages that came before it. */
void twi_coll_line_group(struct twi_coll_group *coll);

/* The group ends: messages about it that come from now on have no receiver. */
void twi_coll_line_group_end(struct twi_coll_group *coll);

/* The job ends: frees the messages that are kept. */
void twi_coll_lines_end(struct twi_ranks *ranks);

/* coll_fail.c: handles a control message for the group. */
void twi_coll_heard(struct twi_coll_group *coll, const struct twi_coll_word *word);

/*
 * coll_fail.c. sign: exchanges signatures with the neighbours. challenge: sends this rank's call to
 * a rank that may have made another. message_failed: handles a message of the run that has failed,
 * or was not as expected.
 */
void twi_coll_sign(struct twi_coll_run *run);
void twi_coll_challenge(struct twi_coll_run *run, uint32_t rank);
void twi_coll_message_failed(struct twi_coll_run *run, const struct tow_op *op,
			     const struct tow_result *result);

/* coll_fail.c: fails the run with its suspicion, if no rank has found a mismatch in time. */
void twi_coll_suspicious(struct twi_coll_run *run);

/* coll_late.c: handles a question, or an answer. */
void twi_coll_late_heard(struct twi_coll_group *coll, const struct twi_coll_word *word);

/*
 * coll_shrink.c. heard: handles a message, also for a group that is over. up: there is a connection
 * to another rank. lost: a rank has gone. end: the job ends.
 */
void twi_coll_shrink_heard(struct twi_ranks *ranks, struct twi_coll_group *coll, uint32_t job_rank,
			   const struct twi_coll_word *word);
void twi_coll_shrink_up(struct twi_ranks *ranks);
void twi_coll_shrink_lost(struct twi_ranks *ranks);
void twi_coll_shrinks_end(struct twi_ranks *ranks);

/* coll_fail.c: a rank of the job has gone. */
void twi_coll_rank_lost(struct twi_ranks *ranks, uint32_t job_rank, int status);

#endif
