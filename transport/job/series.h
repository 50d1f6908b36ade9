/*
 * series.h - the calls that all ranks of a group make in one order, as each rank records them.
 *
 * A group's collectives are one series. Its barriers (tow_group_barrier) are another one, with
 * numbers of its own. Each rank records its progress in each series. Other ranks read the record to
 * find why the job does not go on (inquiry/inquiry.h), and so does the flight recorder. The engine
 * is held for all of it.
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

/* The thread that begins a collective. */
struct twi_series_caller {
	uint32_t thread;     /* mark of the thread; 0: nothing is known */
	uint32_t heard;      /* number of collectives whose end it has learnt so far */
	uint32_t doubts;     /* times when it is not known whether it was blocked */
	uint64_t blocked_ns; /* how long it has been blocked so far, for any reason */
	uint64_t at_ns;      /* time of these values: when it began a burst */
};

/* A caller has waited if it was blocked for at least this time and this part, 1/25, of the time. */
#define TWI_SERIES_BLOCKED_NS   500000u
#define TWI_SERIES_BLOCKED_PART 25u

struct twi_series {
	struct twi_list link; /* on engine->series */
	uint32_t ctx;         /* number of the group; for barriers with TWI_STATE_BARRIERS */
	uint32_t rank, size;
	const uint32_t *members; /* ranks of the members in the job */
	uint32_t in_flight;
	uint64_t next_seq;   /* number of the next call, from 1 */
	uint64_t finished;   /* collectives: all up to this have ended; barriers: the last ended */
	int broken;          /* status of the failure; 0: not broken */
	uint64_t broken_seq; /* number of the call that failed */
	const char *why;     /* reason as text; "": none */
	struct twi_state_past past[TWI_STATE_PAST]; /* the last calls, by seq */
	bool waited;                     /* a thread was waiting when the last call ended */
	struct twi_series_caller caller; /* caller of the burst under way, or of the last burst */
	uint32_t guessed;    /* head_count at the last head for which only `waited` is known */
	uint64_t idle_ns;    /* since when no call is under way */
	uint64_t gap_ns;     /* the longest time without a call; it decays */
	uint32_t head_count; /* number of all heads; the last are kept */
	struct twi_state_head heads[TWI_STATE_HEADS];
	struct twi_state_head burst; /* the burst under way, or the last one */
	uint64_t usual_ns;           /* average time from the end of a burst to that of the next */
	struct twi_series_long longs[TWI_STATE_LONGS]; /* in no order; burst.seq 0: unused */
};

/* A burst that takes less than this, with the time before it, is never a long one. */
#define TWI_SERIES_LONG_NS 20000000u
/* How long a long burst is kept, if no longer ones come. */
#define TWI_SERIES_KEEP_NS 15000000000u

/* series.c: keeps the burst that has ended as a long one. */
void twi_series_keep_long(struct twi_series *series, uint64_t took_ns, uint64_t now_ns);
/* Copies the kept long bursts, newest first. Returns their number. */
uint32_t twi_series_longs(const struct twi_series *series,
			  struct twi_state_head out[TWI_STATE_LONGS]);

static inline struct twi_state_past *twi_series_past(struct twi_series *series, uint64_t seq)
{
	return &series->past[seq % TWI_STATE_PAST];
}

/*
 * Tests whether the caller has waited in the previous burst. A caller that learns itself of the
 * ends of its calls has measured its blocked time since that burst began. For any other it is only
 * known whether some thread was waiting.
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

/*
 * True when the previous burst began so recently that no caller can have waited in it. The caller's
 * times are not needed then.
 */
static inline bool twi_series_is_brief(const struct twi_series *series, uint64_t start_ns)
{
	return series->in_flight > 0 ||
	       start_ns - twi_min(series->burst.start_ns, start_ns) < TWI_SERIES_BLOCKED_NS;
}

/*
 * Begins the next call, whose caller arrived at start_ns. The call becomes the head of a burst if
 * the time without any call was long compared with the usual time between bursts. `caller` is not
 * read, and may be NULL, where the previous burst was brief.
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
 * A burst has ended. Its time runs from the end of the previous burst. All ranks come to the end of
 * a burst together, so this time is the same at all of them. So all ranks keep the same bursts,
 * whichever rank was late.
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

/* Ends a call. waited: a thread is waiting meanwhile. */
static inline void twi_series_leave(struct twi_series *series, uint64_t now_ns, bool waited)
{
	twi_assert_hot(series->in_flight > 0);
	if (--series->in_flight > 0)
		return;
	twi_series_time(series, now_ns);
	series->idle_ns = now_ns;
	series->waited = waited;
}

/* True when the blocked time of the caller is known for each head that is kept. */
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
