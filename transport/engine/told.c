/* told.c - measures the blocked time of the thread that is told of ends. See told.h. */
#include "transport/engine/told.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/held_count.h"

#define LOOKS   64u      /* that may be taken at once */
#define TRUST   64u      /* looks for which a thread counts as the one that waits */
#define NEAR    8u       /* ends that begin anew after a long one: that takes some 6 us */
#define LOOK_NS 1000000u /* time until one more look is allowed: a look takes some 15 us */
#define LONG_NS 300000u  /* with more time between two looks it may have woken for something else */
#define AGAIN   1000u    /* turns after which a thread that was woken runs */

/* Between two looks at a waiting thread: as long as since its start, within these bounds. */
#define PEEK_MIN_NS 4000000u
#define PEEK_MAX_NS 64000000u
#define PEEK_FOR_NS 2000000000u /* no looks at a thread that has started nothing for so long */

static void keep_value(_Atomic uint64_t *cell, uint64_t value)
{
	atomic_store_explicit(cell, value, memory_order_relaxed);
}

static uint64_t kept_value(const _Atomic uint64_t *cell)
{
	return atomic_load_explicit(cell, memory_order_relaxed);
}

static uint64_t ns_of(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* The clock of a thread's CPU time, with its number made as the kernel does (clock_getres(2)). */
static uint64_t cpu_of(int thread)
{
	return ns_of((clockid_t)(~(unsigned)thread << 3 | 6u));
}

/* How long a thread has been on a CPU, or has wanted one: it sleeps for the rest of its time. */
static uint64_t awake_of(int thread, uint64_t cpu_ns)
{
	char tid[16];
	uint64_t on_cpu_ns, queued_ns;

	snprintf(tid, sizeof(tid), "%d", thread);
	return twi_cpu_read(tid, &on_cpu_ns, &queued_ns) ? cpu_ns + queued_ns : cpu_ns;
}

void twi_told_base(struct twi_engine *engine)
{
	struct twi_told *told = &engine->told;
	struct rusage usage;

	if (twi_background_self(engine) ||
	    !atomic_load_explicit(&engine->backed, memory_order_relaxed) ||
	    getrusage(RUSAGE_THREAD, &usage) != 0)
		return;
	keep_value(&told->awake_ns, awake_of(twi_self.tid, ns_of(CLOCK_THREAD_CPUTIME_ID)));
	keep_value(&told->sleeps, (uint64_t)usage.ru_nvcsw);
	/* Read last: a thread that loses its CPU in here has not slept. */
	keep_value(&told->from_ns, twi_engine_clock(engine));
	atomic_store_explicit(&told->thread, twi_self.tid, memory_order_relaxed);
	atomic_store_explicit(&told->stale, false, memory_order_relaxed);
}

/* --- the library's own thread --- */

void twi_told_close(struct twi_told *told)
{
	if (told->opened)
		close(told->file);
	told->opened = false;
}

static bool open_status(struct twi_told *told, int thread)
{
	char path[64];

	if (told->opened && told->file_thread == thread)
		return true;
	twi_told_close(told);
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	told->file = twi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
	told->file_thread = thread;
	told->opened = told->file >= 0;
	return told->opened;
}

/* Reads the state of the thread from /proc. False: it is not there, or the thread has ended. */
static bool read_thread_state(struct twi_told *told, int thread, bool *asleep_out,
			      uint64_t *sleeps_out)
{
	static const char state[] = "\nState:\t", sleeps[] = "\nvoluntary_ctxt_switches:\t";
	char text[4096];
	const char *at;
	ssize_t n;

	if (!open_status(told, thread))
		return false;
	n = pread(told->file, text, sizeof(text) - 1, 0);
	if (n <= 0) {
		twi_told_close(told);
		return false;
	}
	text[n] = '\0';
	at = strstr(text, state);
	if (at == NULL)
		return false;
	*asleep_out = at[sizeof(state) - 1] == 'S';
	at = strstr(at, sleeps);
	if (at == NULL)
		return false;
	*sleeps_out = strtoull(at + sizeof(sleeps) - 1, NULL, 10);
	return true;
}

/* May there be one more look, without any thread noticing the cost? */
static bool may_look(struct twi_told *told, uint64_t now_ns)
{
	uint64_t more = (now_ns - twi_min(told->looked_ns, now_ns)) / LOOK_NS;

	if (more > 0) {
		told->looks = (uint32_t)twi_min(told->looks + more, (uint64_t)LOOKS);
		told->looked_ns = now_ns;
	}
	if (told->looks == 0)
		return false;
	told->looks--;
	return true;
}

static void count_one(_Atomic uint32_t *cell, uint32_t n)
{
	atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

void twi_told_coll(struct twi_told *told)
{
	count_one(&told->colls, 1);
}

void twi_told_end(struct twi_told *told)
{
	told->near--;
	atomic_store_explicit(&told->stale, true, memory_order_relaxed);
}

void twi_told_before(struct twi_engine *engine, struct twi_told_look *look)
{
	struct twi_told *told = &engine->told;
	int thread = atomic_load_explicit(&told->thread, memory_order_relaxed);

	look->thread = 0;
	if (thread == 0)
		return;
	look->now_ns = twi_engine_clock(engine);
	if (!may_look(told, look->now_ns) ||
	    !read_thread_state(told, thread, &look->asleep, &look->sleeps)) {
		count_one(&told->doubts, 1);
		atomic_store_explicit(&told->stale, true, memory_order_relaxed);
		return;
	}
	look->thread = thread;
	look->awake_ns = awake_of(thread, cpu_of(thread));
	told->near = NEAR;
}

static void add_blocked(struct twi_engine *engine, const struct twi_told_look *look,
			const struct twi_told_long *end, uint64_t slept_ns)
{
	struct twi_told *told = &engine->told;
	uint64_t ns = twi_min(slept_ns, end->took_ns);

	keep_value(&told->blocked_ns, kept_value(&told->blocked_ns) + ns);
	twi_held_count(engine, TWI_C_wait_ns, ns);
	if (twi_cpu_log_poll(&engine->cpu_log, look->thread, look->now_ns))
		twi_wait_log_mark(&engine->wait_log, engine->cpu_log.thread, &engine->step,
				  look->now_ns);
	twi_wait_log_note(&engine->wait_log, look->thread, (enum twi_waited)end->kind, end->peer,
			  ns);
}

/* How long a thread slept that has slept once since its start. */
static uint64_t slept_since_start(const struct twi_told *told, const struct twi_told_look *look)
{
	uint64_t since = look->now_ns - twi_min(kept_value(&told->from_ns), look->now_ns);
	uint64_t awake = look->awake_ns - twi_min(kept_value(&told->awake_ns), look->awake_ns);

	return since - twi_min(awake, since);
}

/*
 * The same for a thread that slept more often: the part of its last sleep since it was seen asleep.
 */
static uint64_t slept_since_peek(const struct twi_told *told, const struct twi_told_look *look)
{
	if (told->peek_thread != look->thread || told->peek_sleeps != look->sleeps ||
	    told->peek_ns < kept_value(&told->from_ns))
		return 0;
	return look->now_ns - twi_min(told->peek_ns, look->now_ns);
}

/* The thread sleeps on: for something else, if it is the one that waits for what it has started. */
static void note_asleep(struct twi_told *told, const struct twi_told_look *look)
{
	keep_value(&told->missed_ns, look->now_ns);
	if (atomic_load_explicit(&told->hears, memory_order_relaxed) == look->thread)
		return;
	if (told->awake == look->thread && told->trusted > 0)
		told->trusted--;
	else
		count_one(&told->doubts, 1);
}

/*
 * The thread was asleep, and was woken. If it slept once, all of that sleep was for this. If it
 * slept more often, its last sleep is known in part. That is not enough to say of a burst whether
 * it was waited for.
 */
static void note_woken(struct twi_engine *engine, const struct twi_told_look *look,
		       const struct twi_told_long *longest)
{
	struct twi_told *told = &engine->told;
	bool once = look->sleeps == kept_value(&told->sleeps) + 1;
	bool at_once = twi_engine_clock(engine) - look->now_ns <= LONG_NS;

	if (at_once)
		add_blocked(engine, look, longest,
			    once ? slept_since_start(told, look) : slept_since_peek(told, look));
	if (!at_once || !once)
		count_one(&told->doubts, 1);
	keep_value(&told->from_ns, look->now_ns);
	keep_value(&told->awake_ns, look->awake_ns);
	keep_value(&told->sleeps, look->sleeps);
}

void twi_told_after(struct twi_engine *engine, const struct twi_told_look *look,
		    const struct twi_told_long *longest)
{
	struct twi_told *told = &engine->told;
	bool asleep = false;
	uint64_t sleeps = 0;

	twi_assert_held(engine);
	if (look->thread == 0)
		return;
	if (look->asleep && !read_thread_state(told, look->thread, &asleep, &sleeps))
		count_one(&told->doubts, 1);
	else if (asleep && sleeps == look->sleeps)
		note_asleep(told, look);
	else if (look->asleep)
		note_woken(engine, look, longest);
	else if (atomic_load_explicit(&engine->watchers, memory_order_relaxed) > 0 &&
		 look->sleeps != kept_value(&told->sleeps))
		count_one(&told->doubts, 1); /* its tow_fd may have woken it just now */
	if (!asleep) {
		told->awake = look->thread;
		told->trusted = TRUST;
	}
	atomic_store_explicit(&told->stale, true, memory_order_relaxed);
}

static bool has_driven(const struct twi_engine *engine, uint64_t drives)
{
	return atomic_load_explicit(&engine->drives, memory_order_relaxed) != drives;
}

uint64_t twi_told_peek_in(const struct twi_engine *engine, uint64_t now_ns)
{
	const struct twi_told *told = &engine->told;
	uint64_t from_ns = kept_value(&told->from_ns);
	uint64_t since_ns = now_ns - twi_min(from_ns, now_ns);

	if (atomic_load_explicit(&told->thread, memory_order_relaxed) == 0 ||
	    since_ns >= PEEK_FOR_NS)
		return UINT64_MAX;
	return twi_min(twi_max(since_ns, (uint64_t)PEEK_MIN_NS), (uint64_t)PEEK_MAX_NS);
}

void twi_told_peek(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_told *told = &engine->told;
	int thread = atomic_load_explicit(&told->thread, memory_order_relaxed);
	bool asleep = false;
	uint64_t sleeps = 0;

	if (thread == 0 || !may_look(told, now_ns) ||
	    !read_thread_state(told, thread, &asleep, &sleeps))
		return;
	if (!asleep) {
		told->peek_thread = 0;
	} else if (told->peek_thread != thread || told->peek_sleeps != sleeps ||
		   told->peek_ns < kept_value(&told->from_ns)) {
		told->peek_thread = thread;
		told->peek_sleeps = sleeps;
		told->peek_ns = now_ns;
	}
}

void twi_told_missed(struct twi_engine *engine, uint64_t drives)
{
	struct twi_told *told = &engine->told;
	int thread = atomic_load_explicit(&told->thread, memory_order_relaxed);
	bool asleep;
	uint64_t sleeps, later;

	if (thread == 0 || has_driven(engine, drives) ||
	    !read_thread_state(told, thread, &asleep, &sleeps) || !asleep)
		return;
	/* Both threads were woken at once: the other may come a little later. */
	for (unsigned i = 0; i < AGAIN; i++)
		twi_pause_cpu();
	if (read_thread_state(told, thread, &asleep, &later) && asleep && later == sleeps &&
	    !has_driven(engine, drives))
		keep_value(&told->missed_ns, twi_now_ns());
}
