/*
 * polled.c - see polled.h.
 */
#include "transport/op/polled.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/op_wait.h"

#define SPIN_NS     20000u    /* the most between two calls that follow each other directly */
#define BRIEF_NS    3000u     /* a thread cannot sleep in so short a time */
#define WORK_NS     200000u   /* from here on, the thread did work of its own */
#define WORK_SHARE  4u        /* such work is long from 1/WORK_SHARE of the blocked time on */
#define NAP_NS      2000000u  /* the most for a short sleep */
#define REST_NS     50000000u /* the most for the loss of a CPU, which looks like a sleep */
#define AWAKE_SHARE 2u /* a sleeping thread is on a CPU for less than 1/AWAKE_SHARE of the time */
#define ITSELF_NS   100000u /* an operation that ended so little before a call ended in it */
#define REST_CHECKS 16u
#define MARK_NS     100000000u /* the engine's logs have their own, longer intervals */

#define LONE_NS      20000u     /* polled in vain for so long, a thread yields its core */
#define RELUCTANT_NS 100000u    /* and sleeps where another one computes there */
#define SHARED_NS    1200u      /* in a yield this long another thread has had the core */
#define HOG_NS       500000u    /* in one this long, one that computes */
#define HOGGED_NS    1000000u   /* so long that is believed at first, and doubled each time, */
#define HOGGED_MAX   100000000u /* up to this; halved when a yield was shorter */

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Adds time in calls, or between two calls that follow each other directly. */
static void add_spun(struct twi_polled *polled, uint64_t ns)
{
	polled->spun_ns += ns;
	polled->blocked_ns += ns;
}

/* The time since the last reading in which the thread wanted a CPU and had none. */
static uint64_t take_queued(struct twi_polled *polled)
{
	uint64_t on_cpu_ns, queued_ns, before = polled->queued_ns;
	char tid[16];

	snprintf(tid, sizeof(tid), "%d", twi_self.tid);
	if (!twi_cpu_read(tid, &on_cpu_ns, &queued_ns))
		return 0;
	polled->queued_ns = queued_ns;
	return queued_ns - twi_min(before, queued_ns);
}

/*
 * How often the thread has slept since the last reading. The thread may also have slept in the
 * gaps that were too short to be looked at; those sleeps are not counted.
 */
static uint64_t take_sleeps(struct twi_polled *polled)
{
	struct rusage usage;
	uint64_t sleeps, brief = polled->brief;

	polled->brief = 0;
	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		return UINT64_MAX;
	sleeps = (uint64_t)usage.ru_nvcsw - polled->sleeps;
	polled->sleeps = (uint64_t)usage.ru_nvcsw;
	return sleeps <= 1 ? sleeps : sleeps - twi_min(sleeps - 1, brief);
}

/*
 * Notes a gap in which a thread may have slept on its descriptor. The outcome of this call, or of
 * the calls that follow it without another sleep, shows whether it did. A thread that had no CPU
 * for a while may not have slept.
 */
static bool note_fd_sleep(struct twi_polled *polled, uint64_t gap_ns, uint64_t awake_ns)
{
	uint64_t sleeps;

	if (!polled->rests)
		return false;
	if (gap_ns <= WORK_NS) {
		polled->brief++;
		return false;
	}
	polled->far = REST_CHECKS;
	sleeps = take_sleeps(polled);
	if (sleeps != 1) {
		if (sleeps > 1 || awake_ns * AWAKE_SHARE >= gap_ns)
			twi_polled_forget_sleep(polled);
		return false;
	}
	if (polled->slept_ns == 0)
		polled->away_ns = polled->last_ns;
	awake_ns += take_queued(polled);
	polled->rest_ns = gap_ns - twi_min(awake_ns, gap_ns);
	polled->slept_ns += polled->rest_ns;
	polled->woke_ns = polled->last_ns + gap_ns;
	return true;
}

/*
 * Adds the gap from the last call to `now`. A thread that computes in the gap is not blocked. If
 * the gap is long beside the time that the thread was blocked before, that time is dropped too: the
 * thread may have polled with nothing under way.
 */
static void add_gap(struct twi_polled *polled, uint64_t now)
{
	uint64_t gap_ns = now - polled->last_ns, cpu_ns, awake_ns;

	if (gap_ns <= SPIN_NS) {
		polled->brief += polled->rests && gap_ns > BRIEF_NS;
		add_spun(polled, gap_ns);
		return;
	}
	cpu_ns = thread_cpu_ns();
	awake_ns = cpu_ns - polled->cpu_ns;
	awake_ns -= twi_min(awake_ns, polled->spun_ns);
	polled->cpu_ns = cpu_ns;
	polled->spun_ns = 0;
	if (note_fd_sleep(polled, gap_ns, awake_ns))
		return;
	if (gap_ns <= NAP_NS && awake_ns * AWAKE_SHARE < gap_ns)
		polled->blocked_ns += gap_ns;
	else if (gap_ns > WORK_NS && gap_ns * WORK_SHARE >= polled->blocked_ns &&
		 (gap_ns > REST_NS || awake_ns * AWAKE_SHARE >= gap_ns))
		polled->blocked_ns = 0;
}

void twi_polled_again(struct twi_engine *engine, struct twi_polled *polled)
{
	uint64_t now = twi_engine_clock(engine);

	polled->slow = polled->rests || now - polled->last_ns > SPIN_NS;
	twi_handoff_learn(&engine->handoff, TWI_LEFT_VAIN, polled->last_ns, now);
	add_gap(polled, now);
	polled->last_ns = now;
	polled->apart = true;
}

/*
 * The engine's logs follow this thread, unless they follow another one. A thread that has learned
 * of no operation's end only drives for others.
 */
static void mark_logs(struct twi_engine *engine, struct twi_polled *polled, uint64_t now)
{
	polled->mark_ns = now + MARK_NS;
	if (!twi_engine_try_enter(engine))
		return;
	if (twi_cpu_log_poll(&engine->cpu_log, twi_self.tid, now))
		twi_wait_log_mark(&engine->wait_log, engine->cpu_log.thread, &engine->step, now);
	twi_engine_leave(engine);
}

/*
 * Adds the time of a call, which was also spent for an end to come. While calls follow each other
 * directly, the clock is read once for a call and the gap before it. For the first pair that takes
 * long, it is not known which of the two took the time.
 */
static void add_call(struct twi_polled *polled, uint64_t ns)
{
	if (polled->apart || ns <= SPIN_NS)
		add_spun(polled, ns);
	polled->slow |= ns > SPIN_NS;
	polled->apart = false;
}

/* The thread may sleep on a descriptor from now on: forgets what it has done before. */
static bool begin_rest(struct twi_polled *polled)
{
	if (polled->far == 0)
		return false;
	polled->far--;
	take_sleeps(polled);
	take_queued(polled);
	polled->cpu_ns = thread_cpu_ns();
	polled->spun_ns = 0;
	return true;
}

/* The kernel adds its slack, 50 us by default. */
static void sleep_shortly(struct twi_polled *polled)
{
	TWI_UNCANCELED;
	const struct timespec moment = { .tv_nsec = 1 };

	nanosleep(&moment, NULL);
	polled->sleeps++; /* that was no sleep between two calls */
}

/* How long a thread polls in vain before it gives its core away. */
static uint64_t spin_time(const struct twi_polled *polled, bool hogged)
{
	if (polled->shared)
		return 0;
	return hogged ? RELUCTANT_NS : LONE_NS;
}

static void note_hog(struct twi_polled *polled, uint64_t now, bool hogged)
{
	if (!hogged) {
		polled->hogged_for_ns /= 2;
		return;
	}
	polled->hogged_for_ns = twi_min(polled->hogged_for_ns * 2, (uint64_t)HOGGED_MAX);
	polled->hogged_for_ns = twi_max(polled->hogged_for_ns, (uint64_t)HOGGED_NS);
	polled->hogged_ns = now + polled->hogged_for_ns;
}

/*
 * The thread may be on the core that the other side needs, as where there are more ranks than
 * cores. So it yields: from time to time while nobody else wants the core, else with every call but
 * the first. A program that computes would have the core for a whole slice of the scheduler's time
 * then. So the thread sleeps for a moment instead: a thread that is woken gets the core sooner. One
 * that does something between its calls is left alone. Returns the time.
 */
static uint64_t give_core(const struct twi_engine *engine, struct twi_polled *polled, uint64_t now)
{
	bool again = polled->last_ns != 0 && now - polled->vain_ns <= SPIN_NS;
	bool hogged = now < polled->hogged_ns;
	uint64_t since_ns = now, given_ns;

	polled->vain_ns = now;
	if (!again)
		polled->give_ns = now + spin_time(polled, hogged);
	if (!again || now < polled->give_ns)
		return now;
	if (hogged)
		sleep_shortly(polled);
	else
		sched_yield();
	now = twi_engine_clock(engine);
	given_ns = now - since_ns;
	if (!hogged)
		note_hog(polled, now, given_ns >= HOG_NS);
	polled->shared = !hogged && given_ns >= SHARED_NS && given_ns < HOG_NS;
	polled->give_ns = now + spin_time(polled, hogged);
	polled->blocked_ns += given_ns;
	polled->vain_ns = now;
	return now;
}

void twi_polled_vain(struct twi_engine *engine, bool drives)
{
	struct twi_polled *polled = twi_polled_mine();
	uint64_t now;

	if (engine->virtual_clock || polled == NULL)
		return;
	now = twi_engine_clock(engine);
	if (drives)
		twi_handoff_back(&engine->handoff, now);
	if (polled->last_ns != 0) {
		if (now - polled->last_ns <= SPIN_NS)
			twi_handoff_learn(&engine->handoff, TWI_LEFT_VAIN, now, now);
		add_call(polled, now - polled->last_ns);
	} else if (polled->rests && begin_rest(polled)) {
		now = twi_engine_clock(engine); /* a lost CPU is no sleep */
	}
	now = give_core(engine, polled, now);
	polled->last_ns = now;
	if (twi_unlikely(now >= polled->mark_ns) && polled->heard)
		mark_logs(engine, polled, now);
}

/* The log keeps the peer only as an address to compare: the peer may have been freed. */
void twi_op_note_wait(const struct tow_op *op, uint64_t ns)
{
	if (ns < TWI_WAIT_LOG_LEAST)
		return;
	twi_count(op->engine->diag, TWI_C_wait_ns, ns);
	twi_wait_log_note(&op->engine->wait_log, twi_self.tid, (enum twi_waited)op->ops->wait_kind,
			  op->peer, ns);
}

/*
 * Whether the thread has slept for the operation. It has if the call after the sleep ended the
 * operation, or brought other news: one message of several, or the end itself where tow_progress
 * drives. An operation that was started after the sleep is no reason for it. Without the library's
 * thread (`backed`), the thread ends its operations itself, so its sleep was not for them.
 */
static bool slept_for(const struct twi_polled *polled, const struct tow_op *op, uint64_t end_ns)
{
	const struct twi_engine *engine = op->engine;
	bool woken = polled->news || (polled->apart && polled->woke_ns == polled->last_ns);

	return polled->slept_ns > 0 && woken && op->start_ns < polled->woke_ns &&
	       end_ns + ITSELF_NS >= polled->woke_ns &&
	       atomic_load_explicit(&engine->backed, memory_order_relaxed) &&
	       atomic_load_explicit(&engine->told.missed_ns, memory_order_relaxed) <=
		       polled->away_ns;
}

/* Counts the blocked time up to the operation's end, which may have been before the last call. */
void twi_polled_count(const struct tow_op *op, struct twi_polled *polled)
{
	uint64_t end_ns = op->start_ns + op->latency_ns, blocked_ns;

	if (slept_for(polled, op, end_ns)) /* of sleeps before its start, only the last counts */
		polled->blocked_ns +=
			polled->away_ns >= op->start_ns ? polled->slept_ns : polled->rest_ns;
	if (end_ns > polled->last_ns)
		add_call(polled, end_ns - polled->last_ns);
	blocked_ns = twi_min(polled->blocked_ns, op->latency_ns);
	twi_polled_reset(polled);
	polled->heard = true;
	twi_op_blocked_ns += blocked_ns;
	twi_op_note_wait(op, blocked_ns);
}
