/*
 * cpu_log.h - how long the thread that waits has been on a CPU, and has wanted one: a few points in
 * the last seconds, so that who asks later why a rank came late (verdict_cpu.c) is told of the
 * time in which it did.
 *
 * The kernel counts (schedstat); it is asked at the beginning of a wait, at most four times a
 * second. A thread that polls is followed where none waits: a program's helper may do so for
 * ever. Of a thread that is denied CPUs there is written down, too, for how long its control
 * groups have been kept off them; of others seldom, since to read that costs more.
 */
#ifndef TWI_CPU_LOG_H
#define TWI_CPU_LOG_H

#include <stdbool.h>

#include "diag/judge/rank_state.h"

#define TWI_CPU_LOG_STEP 250000000ull   /* between two points, ns */
#define TWI_CPU_LOG_KEEP 2000000000ull  /* without a wait another thread takes its place */
#define TWI_CPU_LOG_LONG 12000000000ull /* the same, of one that waited, to one that polls */

/* The engine is held. */
struct twi_cpu_log {
	int thread;            /* whose points these are; 0: none has waited yet */
	bool polls;            /* it has never waited */
	uint64_t seen_ns;      /* when it began to wait, or polled, last */
	uint64_t next_ns;      /* when another point is due */
	uint64_t throttled_ns; /* when it was read last what the control groups were denied */
	uint32_t last;         /* points so far; they are in a ring */
	struct twi_state_cpu points[TWI_STATE_CPUS];
	struct twi_cpu_throttled {
		bool known;
		uint64_t ns;
	} throttled[TWI_STATE_CPUS]; /* at the same times */
};

/* Of a thread of this process. False: the kernel does not say. */
bool twi_cpu_read(const char *tid, uint64_t *on_cpu_ns, uint64_t *run_queue_ns);

/* Of a thread that polls, or waits. */
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

/* The same of one that polls. */
static inline bool twi_cpu_log_poll(struct twi_cpu_log *log, int thread, uint64_t now_ns)
{
	if (log->thread == thread)
		log->seen_ns = now_ns;
	if (now_ns < log->next_ns)
		return false;
	twi_cpu_log_point(log, thread, true, now_ns);
	return true;
}

/* Its points, oldest first. */
void twi_cpu_log_tell(const struct twi_cpu_log *log, struct twi_rank_state *out);

#endif
