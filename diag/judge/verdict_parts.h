/*
 * verdict_parts.h - what the files of the judge call in each other. See verdict.h.
 *
 *	verdict.c           findings: made, ordered, put into words
 *	verdict_forming.c   ranks that have not come to the job
 *	verdict_held.c      ranks that are stopped from outside and continued
 *	verdict_links.c     silent ranks, links, losses, buffers, credit
 *	verdict_dials.c     connections that cannot be made
 *	verdict_colls.c     ranks that call something else, or are missing
 *	verdict_shifted.c   ranks that are a call ahead or behind, unnoticed
 *	verdict_arrivals.c  which rank came last to a call, and how much of that is its own doing
 *	verdict_late.c      ranks that come late, and why
 *	verdict_pauses.c    ranks that seldom come late, but by much
 *	verdict_cpu.c       how long a rank wanted a CPU and had none
 *	verdict_waits.c     ranks that wait for each other by messages, or for an idle one
 *	verdict_flows.c     messages of other libraries, and ours: slow links, slow devices
 *	verdict_rails.c     a stream that is slower than the others of its connection
 *	verdict_rounds.c    whether messages go round
 *	verdict_credit.c    receivers whose senders run out of credit in bursts
 *	verdict_pool.c      pools that are too small
 *	verdict_bound.c     how long ranks are blocked; the rank that all others wait for
 */
#ifndef TWI_VERDICT_PARTS_H
#define TWI_VERDICT_PARTS_H

#include "diag/judge/verdict.h"

struct twi_judge {
	const struct twi_verdict_case *what;
	struct twi_verdict *out;
	bool receives_count; /* a rank that waits for a message is held up by another rank */
};

/* Returns the finding of the cause, and makes it if there is none. */
struct twi_verdict_finding *twi_judge_finding(struct twi_judge *judge, enum twi_cause cause,
					      double confidence);
/* Whether the rank is blamed for that cause; for any cause. */
bool twi_judge_names(const struct twi_judge *judge, enum twi_cause cause, uint32_t rank);
bool twi_judge_blames(const struct twi_judge *judge, uint32_t rank);
/* Names a culprit, with evidence. Does nothing if the rank is blamed already. */
void twi_judge_blame(struct twi_judge *judge, enum twi_cause cause, uint32_t rank,
		     double confidence, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void twi_judge_blame_link(struct twi_judge *judge, enum twi_cause cause, uint32_t from, uint32_t to,
			  double confidence, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* Adds evidence to the finding of the cause. Does nothing if there is none. */
void twi_judge_add(struct twi_judge *judge, enum twi_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
const struct twi_verdict_rank *twi_judge_rank(const struct twi_judge *judge, uint32_t rank);
/* Name of a rank's call for people: its kind, and the user's name: all-reduce "MPI_Allreduce". */
#define TWI_JUDGE_KIND (TWI_STATE_CALL + 40u)
const char *twi_judge_kind(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
			   uint32_t ctx, const struct twi_state_past *past,
			   char room[TWI_JUDGE_KIND]);
/* Name of a group: group 2; with a label, group 2 "dp"; of another library, communicator dp. */
#define TWI_JUDGE_GROUP (TWI_STATE_NAME + 24u)
const char *twi_judge_group(const struct twi_judge *judge, uint32_t ctx,
			    char room[TWI_JUDGE_GROUP]);
/* "collective 7 of group 2", "barrier 3 of group 0". */
#define TWI_JUDGE_CALL (TWI_JUDGE_GROUP + 40u)
const char *twi_judge_call(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			   char room[TWI_JUDGE_CALL]);
/* A duration for people: "250 ms", "1.5 s". */
const char *twi_judge_time(uint64_t ns, char room[24]);

/* verdict_forming.c: which ranks have not come, and how many. */
void twi_judge_forming(struct twi_judge *judge);
/* verdict_links.c: silent ranks, links, losses, buffers, credit. */
void twi_judge_silent(struct twi_judge *judge);
void twi_judge_links(struct twi_judge *judge);
void twi_judge_buffers(struct twi_judge *judge);
void twi_judge_credit(struct twi_judge *judge);
/*
 * verdict_dials.c: connections that ranks try to make in vain. The first function judges those
 * between ranks that answer. The second judges those to `rank`, which does not answer; true: there
 * is one. The third: whether a connection from `at` to `rank` takes long.
 */
void twi_judge_dials(struct twi_judge *judge);
bool twi_judge_dials_to(struct twi_judge *judge, uint32_t rank);
bool twi_judge_dials_long(const struct twi_verdict_rank *at, uint32_t rank);
/*
 * verdict_held.c: how often the process of a rank was stopped from outside and continued, and for
 * how long. `from` and `to` are times of the clock of the rank.
 */
struct twi_held {
	uint32_t times;
	uint64_t ns, window_ns; /* window_ns: the part of the time that is known */
};
struct twi_held twi_judge_held(const struct twi_verdict_rank *rank, uint64_t from, uint64_t to);
double twi_held_share(const struct twi_held *held);
/*
 * Whether the process was held in the last seconds. If it was, the times of messages to and from
 * the rank say nothing about the path.
 */
bool twi_judge_was_held(const struct twi_verdict_rank *rank);
/* Names the ranks that were held for much of the last seconds. */
void twi_judge_held_ranks(struct twi_judge *judge);
/* verdict_waits.c: which rank waits for which by messages; runs after the collectives. */
void twi_judge_waits(struct twi_judge *judge);
/* waits_graph.c: the rank itself waits for another rank. */
bool twi_judge_held_up(const struct twi_judge *judge, const struct twi_verdict_rank *rank);
/* verdict_colls.c: which ranks disagree; which are missing. */
void twi_judge_agreement(struct twi_judge *judge);
void twi_judge_missing(struct twi_judge *judge);
/* verdict_shifted.c: which rank has left out a call that looks like all others. */
void twi_judge_shifted(struct twi_judge *judge);
/* Whether a rank has been waiting for long, as far as is known. */
bool twi_judge_stuck(const struct twi_judge *judge);

/* The last arrival at one collective. */
struct twi_arrival {
	const struct twi_verdict_rank *last; /* NULL: not known of all ranks of the group */
	uint64_t seq, at_ns;                 /* by the asker's clock */
	uint64_t second_ns, error_ns;
	uint64_t delay_ns; /* after all other ranks, and by the own doing of `last` */
	bool burst;        /* late, but next to nothing of that is new or its own doing */
};
#define TWI_JUDGE_ARRIVALS (TWI_STATE_PAST + TWI_STATE_HEADS)
#define TWI_JUDGE_LATE_NS  1000000u /* a shorter delay counts for nothing */

/*
 * verdict_cpu.c: for how much of the time from `from` to `to`, by its clock, the rank wanted a CPU
 * and had none. Only a part of that time may be known. False: nothing is known.
 */
struct twi_starved {
	uint64_t window_ns; /* the known part */
	double waited;      /* share of the window, 0 to 1 */
	double own;         /* the same, without what other ranks of its host suffer as well */
	double slept;       /* share of the window in which it neither had a CPU nor wanted one */
	bool ran_more;      /* its time on CPUs was more than 1.5 times that of the others */
};
bool twi_judge_starved(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       uint64_t from, uint64_t to, struct twi_starved *out);
/*
 * Why the rank had no CPU for the share `waited` of the time, 0 to 1. TWI_CAUSE_THROTTLED: the
 * quota of its control group was used up; `room` gets text for the evidence. TWI_CAUSE_CPU: any
 * other reason; `room` gets "".
 */
#define TWI_JUDGE_QUOTA 96u
enum twi_cause twi_judge_denied(const struct twi_verdict_rank *rank, double waited,
				char room[TWI_JUDGE_QUOTA]);
/* verdict_flows.c: links or devices that are slower than others; the same for our own links. */
void twi_judge_flows(struct twi_judge *judge);
void twi_judge_slow_links(struct twi_judge *judge);
/* verdict_rails.c: one of several paths between two ranks holds up what goes over all of them. */
void twi_judge_rails(struct twi_judge *judge);
/*
 * verdict_links.c: for how much of the time between the looks data was on its way to `to`. Time in
 * which the other side had no room does not count. 0 if TCP does not say.
 */
double twi_judge_link_busy(const struct twi_verdict_rank *at, uint32_t to);
/* verdict_rounds.c: each rank passes messages on, in rounds of three ranks or more. */
bool twi_judge_goes_round(const struct twi_judge *judge);
/* verdict_bound.c: waits of the last seconds, as many as a figure needs; NULL: not known. */
const struct twi_state_waited *twi_judge_waited(const struct twi_verdict_rank *rank);
/* For how much of their time ranks are blocked, and, if no rank is blamed yet, by which rank. */
void twi_judge_bound(struct twi_judge *judge);
/* verdict_credit.c: receivers whose senders have no credit again and again. */
void twi_judge_starved_sends(struct twi_judge *judge);
/* verdict_pool.c: ranks that get much memory from outside their pool; ranks that wait for room. */
void twi_judge_overflows(struct twi_judge *judge);
void twi_judge_roomless(struct twi_judge *judge);
/* verdict_late.c: ranks that come late; the reason for the lateness of one that is known. */
struct twi_lateness {
	const struct twi_verdict_rank *rank;
	uint64_t from_ns, to_ns; /* when that was, by the clock of the asker */
	bool once;               /* it was late once, for the whole of that time */
	double lost;             /* else: the share of that time that was lost */
	double saves;            /* share of the time saved without the lateness; 0: not known */
	double confidence;
	char how[TWI_FINDING_TEXT - 90];
};
void twi_judge_blame_late(struct twi_judge *judge, const struct twi_lateness *late);
void twi_judge_late(struct twi_judge *judge);
/*
 * Arrivals of the last seconds, newest first. The first two calls of a group are left out, because
 * they belong to its set-up.
 */
uint32_t twi_judge_arrivals(const struct twi_judge *judge, uint32_t ctx,
			    struct twi_arrival out[TWI_JUDGE_ARRIVALS]);
/* The same for bursts that took far longer than usual: TWI_STATE_LONGS at most. */
uint32_t twi_judge_long_arrivals(const struct twi_judge *judge, uint32_t ctx,
				 struct twi_arrival out[TWI_JUDGE_ARRIVALS]);
/* verdict_pauses.c: one rank is seldom late, but by much each time. True: it is blamed. */
bool twi_judge_pauses(struct twi_judge *judge, uint32_t ctx);
/* Calls `found` once for each group that any rank knows. */
void twi_judge_groups(struct twi_judge *judge, void (*found)(struct twi_judge *, uint32_t ctx));
/* The median time from one call to the next, as far as it is known. */
uint64_t twi_judge_usual(const struct twi_state_group *group);

/* The group of a context. */
static inline uint32_t twi_ctx_group(uint32_t ctx)
{
	return ctx & ~TWI_STATE_BARRIERS;
}

/* The word for a call of the context. */
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
