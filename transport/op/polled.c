/*
 * polled.c - see polled.h.
 */
#include "transport/op/polled.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <internal/base.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/op_wait.h"

#define SPIN_NS   20000u  /* to the next call, with no more than a look at something between them */
#define BRIEF_NS  3000u   /* too short a time to sleep in */
#define WORK_NS   200000u /* the thread did something of its own */
#define WORK      4u      /* and that is long where it is one of so many parts */
#define NAP_NS    2000000u  /* it slept for a moment */
#define REST_NS   50000000u /* others had its CPU, or it did what cannot be told from that */
#define AWAKE     2u        /* who sleeps is on a CPU for less than one of so many parts of it */
#define ITSELF_NS 100000u   /* an operation that ended so long before a call was ended by it */
#define FAR       16u
#define MARK_NS   100000000u /* the logs of the engine have their own, longer times */

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Of calls, or between two that follow each other. */
static void add_spun(struct twi_polled *polled, uint64_t ns)
{
	polled->spun_ns += ns;
	polled->blocked_ns += ns;
}

/* For how long the thread wanted a CPU and had none since that was read last. */
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
 * How often the thread has slept since that was read last, not counting times that were too short
 * to be looked at, in which it may have slept as well.
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
 * Of a thread that sleeps on a descriptor: what comes of this call, or of those that follow it
 * without another sleep, tells whether it did. One that had no CPU for a while may not have slept.
 */
static bool note_rest(struct twi_polled *polled, uint64_t gap_ns, uint64_t awake_ns)
{
	uint64_t sleeps;

	if (!polled->rests)
		return false;
	if (gap_ns <= WORK_NS) {
		polled->brief++;
		return false;
	}
	polled->far = FAR;
	sleeps = take_sleeps(polled);
	if (sleeps != 1) {
		if (sleeps > 1 || awake_ns * AWAKE >= gap_ns)
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
 * From the last call to `now`. Who computes meanwhile is not blocked; nor was he before that, where
 * it is long beside what he was blocked for: he may have polled with nothing under way.
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
	if (note_rest(polled, gap_ns, awake_ns))
		return;
	if (gap_ns <= NAP_NS && awake_ns * AWAKE < gap_ns)
		polled->blocked_ns += gap_ns;
	else if (gap_ns > WORK_NS && gap_ns * WORK >= polled->blocked_ns &&
		 (gap_ns > REST_NS || awake_ns * AWAKE >= gap_ns))
		polled->blocked_ns = 0;
}

void twi_polled_again(struct twi_engine *engine, struct twi_polled *polled)
{
	uint64_t now = twi_engine_clock(engine);

	polled->slow = polled->rests || now - polled->last_ns > SPIN_NS;
	add_gap(polled, now);
	polled->last_ns = now;
	polled->apart = true;
}

/*
 * The engine's logs follow the thread, unless they follow another. Who has heard of no operation's
 * end drives for others alone.
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
 * What the call did was for what is to come, too. While calls follow each other at once the clock
 * is read once for both, the call and what was before it; of the first that takes long it is not
 * known which of the two did.
 */
static void add_call(struct twi_polled *polled, uint64_t ns)
{
	if (polled->apart || ns <= SPIN_NS)
		add_spun(polled, ns);
	polled->slow |= ns > SPIN_NS;
	polled->apart = false;
}

/* A thread that may sleep on a descriptor now: what it has done before counts for nothing. */
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

void twi_polled_vain(struct twi_engine *engine)
{
	struct twi_polled *polled = twi_polled_mine();
	uint64_t now;

	if (engine->virtual_clock || polled == NULL)
		return;
	now = twi_engine_clock(engine);
	if (polled->last_ns != 0)
		add_call(polled, now - polled->last_ns);
	else if (polled->rests && begin_rest(polled))
		now = twi_engine_clock(engine); /* who has lost its CPU meanwhile has not slept */
	polled->last_ns = now;
	if (twi_unlikely(now >= polled->mark_ns) && polled->heard)
		mark_logs(engine, polled, now);
}

/* Of its peer the address alone is kept: it may have gone. */
void twi_op_note_wait(const struct tow_op *op, uint64_t ns)
{
	if (ns < TWI_WAIT_LOG_LEAST)
		return;
	twi_count(op->engine->diag, TWI_C_wait_ns, ns);
	twi_wait_log_note(&op->engine->wait_log, twi_self.tid, (enum twi_waited)op->ops->wait_kind,
			  op->peer, ns);
}

/*
 * The call that follows a sleep ended the operation, or brought other news: one message of several,
 * or the end itself where tow_progress drives. What was started after that sleep is none of it. A
 * thread that nobody stands in for ends its operations itself, whatever it has slept for.
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

/* Until the operation's end, which may have been before the last call. */
void twi_polled_count(const struct tow_op *op, struct twi_polled *polled)
{
	uint64_t end_ns = op->start_ns + op->latency_ns, blocked_ns;

	if (slept_for(polled, op, end_ns)) /* of before its start no more than the last */
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
