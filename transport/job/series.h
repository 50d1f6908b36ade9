/*
 * series.h - the calls that all ranks of a group make in one order: its collectives; and its
 * barriers (tow_group_barrier), which are counted by themselves. Each rank writes down how far it
 * is in each series: for others, which ask why the job does not go on (inquiry/inquiry.h), and for
 * the flight recorder. The engine is held for all of it.
 */
#ifndef TWI_SERIES_H
#define TWI_SERIES_H

#include <internal/base.h>
#include <internal/list.h>

#include "diag/judge/rank_state.h"

/* A burst of calls that took far longer than usual, with the time before it. */
struct twi_series_long {
	struct twi_state_head burst;
	uint64_t took_ns, ended_ns;
};

/* Who begins a collective. */
struct twi_series_caller {
	uint32_t thread;     /* its mark; 0: nothing is known */
	uint32_t heard;      /* collectives of whose ends it has heard so far */
	uint32_t doubts;     /* times when it is not known whether it was blocked */
	uint64_t blocked_ns; /* for so long it has been blocked so far, by whatever */
	uint64_t at_ns;      /* when it said so: as it began a burst */
};

/* To have been blocked for less, or a smaller part of the time, is not to have waited. */
#define TWI_SERIES_BLOCKED_NS   500000u
#define TWI_SERIES_BLOCKED_PART 25u

struct twi_series {
	struct twi_list link; /* of engine->series */
	uint32_t ctx;         /* the group's number; of its barriers with TWI_STATE_BARRIERS */
	uint32_t rank, size;
	const uint32_t *members; /* their ranks in the job */
	uint32_t in_flight;
	uint64_t next_seq;   /* of the next call, from 1 */
	uint64_t finished;   /* collectives: all up to this one are over; barriers: the last is */
	int broken;          /* how; 0: it is whole */
	uint64_t broken_seq; /* at which it broke */
	const char *why;     /* in words; "": none */
	struct twi_state_past past[TWI_STATE_PAST]; /* the last ones, by seq */
	bool waited;                     /* a thread was in a wait until none was under way */
	struct twi_series_caller caller; /* of the burst under way, or the last */
	uint32_t guessed;    /* heads so far, when nothing better was known of one than `waited` */
	uint64_t idle_ns;    /* since when none is under way */
	uint64_t gap_ns;     /* the longest time without any, as it fades */
	uint32_t head_count; /* in all; the last ones are kept */
	struct twi_state_head heads[TWI_STATE_HEADS];
	struct twi_state_head burst; /* the one under way, or the last */
	uint64_t usual_ns;           /* from the end of one to that of the next, on average */
	struct twi_series_long longs[TWI_STATE_LONGS]; /* in no order; burst.seq 0: none */
};

/* A burst with the time before it that takes less than this is none that takes long. */
#define TWI_SERIES_LONG_NS 20000000u
/* For so long it is kept, if no longer ones come. */
#define TWI_SERIES_KEEP_NS 15000000000u

/* series.c: the burst that is over took long. */
void twi_series_keep_long(struct twi_series *series, uint64_t took_ns, uint64_t now_ns);
/* Those that are kept, newest first; how many. */
uint32_t twi_series_longs(const struct twi_series *series,
			  struct twi_state_head out[TWI_STATE_LONGS]);

static inline struct twi_state_past *twi_series_past(struct twi_series *series, uint64_t seq)
{
	return &series->past[seq % TWI_STATE_PAST];
}

/*
 * Whether its caller has waited in the burst before. Where that hears of its ends itself it is
 * known for how long it was blocked since that began; else only whether any thread was in a wait.
 */
static inline bool twi_series_waited(const struct twi_series *series,
				     const struct twi_series_caller *caller, uint64_t start_ns,
				     bool *known_out)
{
	uint64_t blocked = caller->blocked_ns - series->caller.blocked_ns;
	uint64_t since = start_ns - twi_min(series->caller.at_ns, start_ns);

	*known_out =
		series->idle_ns == 0 ||
		(caller->thread != 0 && caller->thread == series->caller.thread &&
		 caller->heard != series->caller.heard && caller->doubts == series->caller.doubts);
	if (series->idle_ns == 0 || !*known_out)
		return series->waited;
	return blocked >= twi_max((uint64_t)TWI_SERIES_BLOCKED_NS, since / TWI_SERIES_BLOCKED_PART);
}

/* The burst before began so lately that nobody can have waited in it: who calls is not asked. */
static inline bool twi_series_is_brief(const struct twi_series *series, uint64_t start_ns)
{
	return series->in_flight > 0 ||
	       start_ns - twi_min(series->burst.start_ns, start_ns) < TWI_SERIES_BLOCKED_NS;
}

/*
 * The next call begins; start_ns: when its caller came. It is kept as the first of a burst when
 * none was under way for long, as compared with what is usual between bursts. `caller` is not read
 * where the one before was brief; it may be NULL then.
 */
static inline void twi_series_enter(struct twi_series *series, uint64_t seq, uint64_t start_ns,
				    const struct twi_series_caller *caller)
{
	uint64_t gap = start_ns - twi_min(series->idle_ns, start_ns);
	bool waited = false, known = true, brief = twi_series_is_brief(series, start_ns);

	if (series->in_flight++ > 0)
		return;
	if (!brief) {
		waited = twi_series_waited(series, caller, start_ns, &known);
		series->caller = *caller;
		series->caller.at_ns = start_ns;
	}
	series->burst = (struct twi_state_head){ seq, start_ns, series->idle_ns, waited };
	if (gap >= series->gap_ns / 4) {
		series->heads[series->head_count++ % TWI_STATE_HEADS] = series->burst;
		if (!known)
			series->guessed = series->head_count;
	}
	series->gap_ns -= series->gap_ns / 16;
	if (series->idle_ns != 0)
		series->gap_ns = twi_max(series->gap_ns, gap);
}

/*
 * A burst is over. From the end of the one before it takes as long at one rank as at any other, as
 * all of them come to its end; so all keep the same ones, whoever was late.
 */
static inline void twi_series_time(struct twi_series *series, uint64_t now_ns)
{
	uint64_t took = now_ns - twi_min(series->idle_ns, now_ns), most = 2 * series->usual_ns;

	if (series->idle_ns == 0)
		return;
	if (took >= TWI_SERIES_LONG_NS && took >= most && most > 0)
		twi_series_keep_long(series, took, now_ns);
	if (most > 0)
		took = twi_min(took, most);
	series->usual_ns = most == 0 ? took : series->usual_ns - series->usual_ns / 8 + took / 8;
}

/* One is over; waited: a thread is in a wait meanwhile. */
static inline void twi_series_leave(struct twi_series *series, uint64_t now_ns, bool waited)
{
	twi_assert_hot(series->in_flight > 0);
	if (--series->in_flight > 0)
		return;
	twi_series_time(series, now_ns);
	series->idle_ns = now_ns;
	series->waited = waited;
}

/* Of each burst that is kept it is known for how long its caller was blocked in the one before. */
static inline bool twi_series_measured(const struct twi_series *series)
{
	return series->head_count > 0 &&
	       (series->guessed == 0 || series->head_count - series->guessed >= TWI_STATE_HEADS);
}

static inline bool twi_series_is_barriers(const struct twi_series *series)
{
	return (series->ctx & TWI_STATE_BARRIERS) != 0;
}

#endif
