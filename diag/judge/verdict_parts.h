/*
 * verdict_parts.h - what the files of the judge ask of each other. See verdict.h.
 *
 *	verdict.c        findings: made, ordered, put into words
 *	verdict_forming.c  ranks that have not come to the job
 *	verdict_held.c   ranks that are held from outside, and go on
 *	verdict_links.c  silent ranks, links, losses, buffers, credit
 *	verdict_dials.c  connections that do not come about
 *	verdict_colls.c  ranks that call something else, or are missing
 *	verdict_shifted.c  ranks that are a call ahead or behind, unnoticed
 *	verdict_arrivals.c  who came last to which call, and how much of that is its own doing
 *	verdict_late.c   ranks that come late, and what makes them
 *	verdict_pauses.c  ranks that come late seldom, by much
 *	verdict_cpu.c    how long they wanted a CPU and had none
 *	verdict_waits.c  ranks that wait for each other by messages, or for one that does nothing
 *	verdict_flows.c  messages of other libraries, and ours: slow links, slow devices
 *	verdict_rails.c  a stream that is slower than the others of its connection
 *	verdict_rounds.c whether messages go round
 *	verdict_credit.c  receivers to which much is sent at once, and which may hold little
 *	verdict_pool.c   pools that are too small
 *	verdict_bound.c  how much of the time ranks are blocked; who all others wait for
 */
#ifndef TWI_VERDICT_PARTS_H
#define TWI_VERDICT_PARTS_H

#include "diag/judge/verdict.h"

struct twi_judge {
	const struct twi_verdict_case *what;
	struct twi_verdict *out;
	bool receives_count; /* whoever waits for a message is held up by another rank */
};

/* The finding of the cause, made when it is new. */
struct twi_verdict_finding *twi_judge_finding(struct twi_judge *judge, enum twi_cause cause,
					      double confidence);
/* Whether the rank is blamed for that cause, or for any. */
bool twi_judge_names(const struct twi_judge *judge, enum twi_cause cause, uint32_t rank);
bool twi_judge_blames(const struct twi_judge *judge, uint32_t rank);
/* Names a culprit with evidence; nothing when the rank is blamed already. */
void twi_judge_blame(struct twi_judge *judge, enum twi_cause cause, uint32_t rank,
		     double confidence, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void twi_judge_blame_link(struct twi_judge *judge, enum twi_cause cause, uint32_t from, uint32_t to,
			  double confidence, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* More evidence of a finding; nothing when there is none of that cause. */
void twi_judge_add(struct twi_judge *judge, enum twi_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
const struct twi_verdict_rank *twi_judge_rank(const struct twi_judge *judge, uint32_t rank);
/* What a rank calls there, of which the kind is known: all-reduce "MPI_Allreduce". */
#define TWI_JUDGE_KIND (TWI_STATE_CALL + 40u)
const char *twi_judge_kind(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
			   uint32_t ctx, const struct twi_state_past *past,
			   char room[TWI_JUDGE_KIND]);
/* group 2, with its label group 2 "dp"; of another library: communicator dp. */
#define TWI_JUDGE_GROUP (TWI_STATE_NAME + 24u)
const char *twi_judge_group(const struct twi_judge *judge, uint32_t ctx,
			    char room[TWI_JUDGE_GROUP]);
/* "collective 7 of group 2", "barrier 3 of group 0". */
#define TWI_JUDGE_CALL (TWI_JUDGE_GROUP + 40u)
const char *twi_judge_call(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			   char room[TWI_JUDGE_CALL]);
/* A duration for people. */
const char *twi_judge_time(uint64_t ns, char room[24]);

/* verdict_forming.c: who has not come, and how many. */
void twi_judge_forming(struct twi_judge *judge);
/* verdict_links.c: silent ranks, links, losses, buffers, credit. */
void twi_judge_silent(struct twi_judge *judge);
void twi_judge_links(struct twi_judge *judge);
void twi_judge_buffers(struct twi_judge *judge);
void twi_judge_credit(struct twi_judge *judge);
/*
 * verdict_dials.c: connections that ranks try in vain to make. All of those between ranks that
 * answer; those to `rank`, which does not: true, there is one; whether one from `at` to `rank`
 * takes long.
 */
void twi_judge_dials(struct twi_judge *judge);
bool twi_judge_dials_to(struct twi_judge *judge, uint32_t rank);
bool twi_judge_dials_long(const struct twi_verdict_rank *at, uint32_t rank);
/*
 * verdict_held.c: how often a rank's process was held from outside and went on, and for how long,
 * in the seconds from `from` to `to`, by its clock.
 */
struct twi_held {
	uint32_t times;
	uint64_t ns, window_ns; /* of what is known */
};
struct twi_held twi_judge_held(const struct twi_verdict_rank *rank, uint64_t from, uint64_t to);
double twi_held_share(const struct twi_held *held);
/* It was, in the last seconds: what messages to and from it took says nothing of their way. */
bool twi_judge_was_held(const struct twi_verdict_rank *rank);
/* Names those that were for much of the last seconds. */
void twi_judge_held_ranks(struct twi_judge *judge);
/* verdict_waits.c: who waits for whom by messages, after what collectives say. */
void twi_judge_waits(struct twi_judge *judge);
/* waits_graph.c: it waits for somebody itself. */
bool twi_judge_held_up(const struct twi_judge *judge, const struct twi_verdict_rank *rank);
/* verdict_colls.c: who disagrees, who is missing. */
void twi_judge_agreement(struct twi_judge *judge);
void twi_judge_missing(struct twi_judge *judge);
/* verdict_shifted.c: who has left out a call that looks like all others. */
void twi_judge_shifted(struct twi_judge *judge);
/* Whether somebody has been waiting for long, as far as is known. */
bool twi_judge_stuck(const struct twi_judge *judge);

/* Of one collective: who came last, unless not all ranks of the group are known to have come. */
struct twi_arrival {
	const struct twi_verdict_rank *last; /* NULL: not known */
	uint64_t seq, at_ns;                 /* by the asker's clock */
	uint64_t second_ns, error_ns;
	uint64_t delay_ns; /* later than all others, by its own doing */
	bool burst;        /* late, and all of that is the lateness of the call before */
};
#define TWI_JUDGE_ARRIVALS (TWI_STATE_PAST + TWI_STATE_HEADS)
#define TWI_JUDGE_LATE_NS  1000000u /* less than that is nothing */

/*
 * verdict_cpu.c: how much of the time from `from` to `to`, by its clock, or of what is known of it,
 * the rank wanted a CPU and had none. False: nothing is known.
 */
struct twi_starved {
	uint64_t window_ns; /* that is known */
	double waited;      /* of it, 0 to 1 */
	double own;         /* the same, without what other ranks of its host suffer as well */
	double slept;       /* of it, it neither had a CPU nor wanted one */
	bool ran_more;      /* it was on a CPU for half as long again as they were */
};
bool twi_judge_starved(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       uint64_t from, uint64_t to, struct twi_starved *out);
/*
 * Why it had none, where that was for `waited` of the time, 0 to 1: TWI_CAUSE_CPU, or, if its
 * control group's quota was the reason, TWI_CAUSE_THROTTLED. Words of the latter's evidence go to
 * `room`, else "".
 */
#define TWI_JUDGE_QUOTA 96u
enum twi_cause twi_judge_denied(const struct twi_verdict_rank *rank, double waited,
				char room[TWI_JUDGE_QUOTA]);
/* verdict_flows.c: whose link or device is slower than the others'; the same of our own links. */
void twi_judge_flows(struct twi_judge *judge);
void twi_judge_slow_links(struct twi_judge *judge);
/* verdict_rails.c: one of several ways between two ranks holds up what goes over all of them. */
void twi_judge_rails(struct twi_judge *judge);
/*
 * verdict_links.c: how much of the time between the looks something was on its way to `to`, and not
 * for what the other side has no room for; 0 where TCP does not say.
 */
double twi_judge_link_busy(const struct twi_verdict_rank *at, uint32_t to);
/* verdict_rounds.c: each rank passes messages on, in rounds of three and more. */
bool twi_judge_goes_round(const struct twi_judge *judge);
/* verdict_bound.c: of the last seconds, as many as a figure needs; NULL: it is not known. */
const struct twi_state_waited *twi_judge_waited(const struct twi_verdict_rank *rank);
/* How much of their time ranks are blocked; whom they wait for, if nobody is blamed yet. */
void twi_judge_bound(struct twi_judge *judge);
/* verdict_credit.c: whose senders have no credit again and again. */
void twi_judge_starved_sends(struct twi_judge *judge);
/* verdict_pool.c: who gets much memory from outside its pool; who stands still for want of room. */
void twi_judge_overflows(struct twi_judge *judge);
void twi_judge_roomless(struct twi_judge *judge);
/* verdict_late.c: who comes late; and what makes one late of which that is known. */
struct twi_lateness {
	const struct twi_verdict_rank *rank;
	uint64_t from_ns, to_ns; /* the asker's clock: when that was */
	bool once;               /* all of that time, and no other, */
	double lost;             /* or again and again: the share of it */
	double saves;            /* of the time, without it; 0: that is not known */
	double confidence;
	char how[TWI_FINDING_TEXT - 90];
};
void twi_judge_blame_late(struct twi_judge *judge, const struct twi_lateness *late);
void twi_judge_late(struct twi_judge *judge);
/* Of the last few seconds, newest first, but for the first two, which come with the set-up. */
uint32_t twi_judge_arrivals(const struct twi_judge *judge, uint32_t ctx,
			    struct twi_arrival out[TWI_JUDGE_ARRIVALS]);
/* The same of the bursts that took far longer than usual: TWI_STATE_LONGS at most. */
uint32_t twi_judge_long_arrivals(const struct twi_judge *judge, uint32_t ctx,
				 struct twi_arrival out[TWI_JUDGE_ARRIVALS]);
/* verdict_pauses.c: one rank is late seldom, by much each time. True: it is blamed. */
bool twi_judge_pauses(struct twi_judge *judge, uint32_t ctx);
/* Calls `found` once for each group that anybody knows. */
void twi_judge_groups(struct twi_judge *judge, void (*found)(struct twi_judge *, uint32_t ctx));
/* The median time from one call to the next, as far as it is known. */
uint64_t twi_judge_usual(const struct twi_state_group *group);

/* The group that a context is of. */
static inline uint32_t twi_ctx_group(uint32_t ctx)
{
	return ctx & ~TWI_STATE_BARRIERS;
}

/* What is counted there. */
static inline const char *twi_ctx_word(uint32_t ctx)
{
	return (ctx & TWI_STATE_BARRIERS) != 0 ? "barrier" : "collective";
}

static inline uint64_t twi_since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static inline const struct twi_state_group *twi_group_at(const struct twi_verdict_rank *rank,
							 uint32_t ctx)
{
	return twi_rank_state_group(rank->last, ctx);
}

#endif
