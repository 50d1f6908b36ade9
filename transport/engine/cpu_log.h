/*
 * cpu_log.h - how long the waiting thread has been on a CPU, and how long it has wanted one: a few
 * points in the last seconds. With them verdict_cpu.c finds later why a rank came late.
 *
 * The kernel counts these times (schedstat). It is asked at the beginning of a wait, at most four
 * times a second. A thread that polls is followed only where no thread waits, as a helper of the
 * program may poll for ever. If a thread is denied CPUs, the log also has the time for which its
 * control groups were throttled. For other threads that time is read seldom, since reading it costs
 * more.
 */
#ifndef TWI_CPU_LOG_H
#define TWI_CPU_LOG_H

#include <stdbool.h>

#include "diag/judge/rank_state.h"

#define TWI_CPU_LOG_STEP 250000000ull   /* between two points, ns */
#define TWI_CPU_LOG_KEEP 2000000000ull  /* a thread that has not waited for so long is replaced */
#define TWI_CPU_LOG_LONG 12000000000ull /* the same, where the other thread only polls */

/* The engine is held. */
struct twi_cpu_log {
	int thread;            /* the thread that is followed; 0: none has waited yet */
	bool polls;            /* it has never waited */
	uint64_t seen_ns;      /* when it last began to wait, or polled */
	uint64_t next_ns;      /* when another point is due */
	uint64_t throttled_ns; /* when the throttled time of the control groups was last read */
	uint32_t last;         /* points so far; points[] is a ring */
	struct twi_state_cpu points[TWI_STATE_CPUS];
	struct twi_cpu_throttled {
		bool known;
		uint64_t ns;
	} throttled[TWI_STATE_CPUS]; /* of the same points */
};

/* Reads the times of a thread of this process. False: the kernel does not give them. */
bool twi_cpu_read(const char *tid, uint64_t *on_cpu_ns, uint64_t *run_queue_ns);

/* Adds a point of a thread that polls, or waits, if that is the one to follow. */
void twi_cpu_log_point(struct twi_cpu_log *log, int thread, bool polls, uint64_t now_ns);

/* The thread begins to wait. True: a point was due. */
static inline bool twi_cpu_log_wait(struct twi_cpu_log *log, int thread, uint64_t now_ns)
{
	if (log->thread == thread)
		log->seen_ns = now_ns;
	if (__builtin_expect(now_ns < log->next_ns, 1))
		return false;
	twi_cpu_log_point(log, thread, false, now_ns);
	return true;
}

/* The same for a thread that polls. */
static inline bool twi_cpu_log_poll(struct twi_cpu_log *log, int thread, uint64_t now_ns)
{
	if (log->thread == thread)
		log->seen_ns = now_ns;
	if (now_ns < log->next_ns)
		return false;
	twi_cpu_log_point(log, thread, true, now_ns);
	return true;
}

/* Writes the points, oldest first. */
void twi_cpu_log_tell(const struct twi_cpu_log *log, struct twi_rank_state *out);

#endif
