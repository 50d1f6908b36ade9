/*
 * group_barrier.h - the barriers of groups (tow_group_barrier), and what ranks tell each other of
 * those that cannot end.
 *
 * A barrier ends at a rank when it has heard, through others, of every rank. So a rank whose own
 * operation has ended early, by a deadline or a cancel, still passes on what it hears, and the
 * others go on:
 *
 *	RUNNING --deadline, cancel--> PARTED (no operation; passes on what it hears)
 *	   |                            |
 *	   +-------- heard of all ------+--> over: freed
 *	   +-- a rank has gone, a word -+--> over: the ranks that wait for this one are told
 */
#ifndef TWI_GROUP_BARRIER_H
#define TWI_GROUP_BARRIER_H

#include "transport/job/group.h"

/* The log of a group's barriers. Its users are the group and the barriers that are not over. */
struct twi_barrier_log {
	struct twi_series series;
	struct twi_ranks *ranks;
	struct twi_list running; /* barriers that are not over */
	uint64_t left_first;     /* the first that the rank left_rank, which has left, lacks */
	uint32_t users, left_rank;
	bool told;      /* the number is no other group's, so words on its barriers are clear */
	uint32_t asked; /* steps of rounds: whether the rank before has left (ask_left) */
	struct {
		uint64_t number;
		char *why;        /* NULL: no memory */
	} failed[TWI_STATE_PAST]; /* by number: words on barriers that have not begun here */
	const void *callers[TWI_STATE_PAST]; /* callers by seq */
	uint32_t members[];                  /* members of the series */
};

/* A barrier. Its owner is itself: it is freed when it is over and nothing of it is under way. */
struct twi_barrier {
	struct twi_list link;   /* on log->running, until the barrier is over */
	struct twi_list parted; /* on ranks->parted, without an operation of the user's */
	struct twi_ranks *ranks;
	struct tow_op *op;       /* the user's operation; NULL: ended */
	struct tow_op *inner[2]; /* under way: the send side, and the receive side */
	struct tow_peer *peers[2];
	bool connected; /* this round's peers are connected */
	bool dialed;    /* there was no connection to the rank that this round receives from */
	bool over;
	struct twi_barrier_log *log;
	uint64_t number;
	uint32_t round;
	int status; /* status of the first failure */
};

enum twi_barrier_says {
	TWI_BARRIER_FAILED,  /* it cannot end */
	TWI_BARRIER_MISSING, /* rank `from` has left and sends no more: what is missing stays so */
	TWI_BARRIER_FROM,    /* rank `from` has left: this one and those after it cannot end */
	TWI_BARRIER_ASKS,    /* asks whether rank `to` has left */
};

/* What ranks say of a barrier (coll/coll_line.h). */
struct twi_barrier_word {
	enum twi_barrier_says says;
	uint32_t ctx;
	uint32_t from, to; /* ranks of the group */
	uint64_t number;
	const char *why; /* of TWI_BARRIER_FAILED */
};

/* The engine is held in all of them. _of makes the log at the first call. NULL: no memory. */
struct twi_barrier_log *twi_barrier_log_of(struct tow_group *group);
void twi_barrier_log_drop(struct twi_barrier_log *log);
/* Ends all barriers that are not over, with the thread's message. */
void twi_barrier_log_abort(struct twi_barrier_log *log, int status);

/* The number of the group's next barrier at this rank. */
uint64_t twi_barrier_next(const struct tow_group *group);

/*
 * Of a barrier under way. deny: another rank is not there for it, as `why` says. before: the rank
 * that it receives from in this round. misses: the message of that rank has not come.
 */
void twi_barrier_deny(struct twi_barrier *barrier, const char *why);
uint32_t twi_barrier_before(const struct twi_barrier *barrier);
bool twi_barrier_misses(const struct twi_barrier *barrier);

/*
 * group_barrier_words.c: words of a rank of the job, also about groups that are closed here. left:
 * it has left, and lacks barrier `first` and those after it; 0: not said. heard: a word but
 * TWI_BARRIER_ASKS. asked: that word, about a group that this rank has closed.
 */
void twi_barrier_left(struct twi_ranks *ranks, uint32_t job_rank, uint32_t ctx, uint32_t from,
		      uint64_t first);
void twi_barrier_heard(struct twi_ranks *ranks, uint32_t job_rank,
		       const struct twi_barrier_word *word);
void twi_barrier_asked(struct twi_ranks *ranks, uint32_t job_rank,
		       const struct twi_barrier_word *word);
/* Why a barrier cannot even begin, as other ranks have said; false: it can. */
bool twi_barrier_denied(const struct twi_barrier_log *log, uint64_t number, char *out,
			size_t bytes);

/* Tests for a barrier under way. Returns its context (TWI_STATE_BARRIERS) and number. */
bool twi_barrier_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out);

#endif
