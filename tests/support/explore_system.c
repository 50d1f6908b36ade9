/*
 * explore_system.c - the system's calls of explored threads: they sleep, wake and give way within
 * the explorer. See explore.h; the program is linked with --wrap for each of them. Outside of a run
 * they are the system's.
 */
#include "explore.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "explore_memory.h"
#include "explore_threads.h"

#define DESCRIPTORS 64u

static unsigned sent[DESCRIPTORS]; /* that nobody has received yet */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

/* Looks at the word and sleeps as one step: nobody can come between. */
static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	if ((op & FUTEX_CMD_MASK) == FUTEX_WAKE)
		return twt_explore_wake((uintptr_t)word, value);
	if (__atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST) == value)
		(void)twt_explore_sleep((uintptr_t)word, timeout != NULL);
	return 0;
}

static long barrier(int command)
{
	twt_explore_point("membarrier", 0, __builtin_return_address(0));
	if (command == MEMBARRIER_CMD_GLOBAL_EXPEDITED ||
	    command == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		twt_memory_fence_all();
	return 0;
}

long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list args;

	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (twt_explore_inside() && number == SYS_futex)
		return futex((_Atomic uint32_t *)arg[0], (int)arg[1], (uint32_t)arg[2],
			     (const struct timespec *)arg[3]);
	if (twt_explore_inside() && number == SYS_membarrier)
		return barrier((int)arg[0]);
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int __wrap_sched_yield(void)
{
	if (!twt_explore_inside())
		return __real_sched_yield();
	twt_explore_yield();
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t now;

	if (!twt_explore_inside())
		return __real_clock_gettime(clock, ts);
	now = twt_explore_now_ns();
	*ts = (struct timespec){ .tv_sec = (time_t)(now / 1000000000u),
				 .tv_nsec = (long)(now % 1000000000u) };
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!twt_explore_inside())
		return __real_nanosleep(time, left);
	twt_explore_yield();
	return 0;
}

/* The kernel orders what comes before a send and what comes behind its receipt: a full fence. */
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	if (!twt_explore_inside())
		return __real_send(fd, data, bytes, flags);
	twt_explore_point("sends", (uintptr_t)fd, __builtin_return_address(0));
	twt_memory_fence(twt_explore_self(), TWT_SEQ_CST);
	sent[(unsigned)fd % DESCRIPTORS]++;
	twt_explore_stored();
	(void)twt_explore_wake((uintptr_t)fd, 1);
	return (ssize_t)bytes;
}

void twt_explore_receive(int fd)
{
	twt_explore_point("receives", (uintptr_t)fd, __builtin_return_address(0));
	while (sent[(unsigned)fd % DESCRIPTORS] == 0)
		(void)twt_explore_sleep((uintptr_t)fd, false);
	sent[(unsigned)fd % DESCRIPTORS] = 0;
	twt_memory_fence(twt_explore_self(), TWT_SEQ_CST);
}

void twt_explore_system_begin(void)
{
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		sent[i] = 0;
}
