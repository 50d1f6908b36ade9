/*
 * fault.h - makes the Nth call of a libc function fail, in the whole test program.
 *
 *   twt_fault_arm(TWT_MMAP, 3);   the third mmap from now fails, once
 *   ... run what is tested ...
 *   hit = twt_fault_off();        true: it was reached, so try a larger N
 *
 * The program that includes this defines the functions itself, so that the calls of the library
 * linked into it come here first; ours then make the system call. Include it in exactly one file of
 * a program. Sanitizers need calloc and pthread_create for themselves: with one of them
 * (TWT_SANITIZED) TWT_CALLOC and TWT_PTHREAD_CREATE never fail.
 */
#ifndef TWT_FAULT_H
#define TWT_FAULT_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "twt.h"

enum twt_fault {
	TWT_MMAP,
	TWT_MEMFD_CREATE,
	TWT_FTRUNCATE,
	TWT_MADVISE,
	TWT_MLOCK,
	TWT_MBIND,
	TWT_CALLOC,
	TWT_PTHREAD_CREATE,
	TWT_FAULTS
};

static _Atomic int twt_fault_call = TWT_FAULTS;
static _Atomic int twt_fault_left;
static _Atomic int twt_fault_errno;

/* Set: a memfd of huge pages is one of base pages, so that their path runs where there are none. */
static _Atomic bool twt_fault_pretend_hugetlb;

/* Each madvise takes this long, in milliseconds. */
static _Atomic int twt_fault_madvise_ms;

/* The nth (1 is the next) call fails with the errno that is usual for it. */
static inline void twt_fault_arm(enum twt_fault call, int nth)
{
	static const int usual[TWT_FAULTS] = { ENOMEM, EMFILE, ENOSPC, ENOMEM,
					       EPERM,  EPERM,  ENOMEM, EAGAIN };

	atomic_store(&twt_fault_errno, usual[call]);
	atomic_store(&twt_fault_left, nth);
	atomic_store(&twt_fault_call, call);
}

/* As twt_fault_arm, with another errno. */
static inline void twt_fault_arm_errno(enum twt_fault call, int nth, int err)
{
	twt_fault_arm(call, nth);
	atomic_store(&twt_fault_errno, err);
}

/* Disarms; was the armed call reached? */
static inline bool twt_fault_off(void)
{
	atomic_store(&twt_fault_call, TWT_FAULTS);
	return atomic_load(&twt_fault_left) <= 0;
}

/* Must this call fail? */
static inline bool twt_fault_now(enum twt_fault call)
{
	return atomic_load(&twt_fault_call) == (int)call &&
	       atomic_fetch_sub(&twt_fault_left, 1) == 1;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (twt_fault_now(TWT_MMAP)) {
		errno = twt_fault_errno;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

int memfd_create(const char *name, unsigned flags)
{
	if (twt_fault_now(TWT_MEMFD_CREATE)) {
		errno = twt_fault_errno;
		return -1;
	}
	if (atomic_load(&twt_fault_pretend_hugetlb) && (flags & MFD_HUGETLB))
		flags &= ~(MFD_HUGETLB | 63u << 26);
	return (int)syscall(SYS_memfd_create, name, flags);
}

int ftruncate(int fd, off_t bytes)
{
	if (twt_fault_now(TWT_FTRUNCATE)) {
		errno = twt_fault_errno;
		return -1;
	}
	return (int)syscall(SYS_ftruncate, fd, bytes);
}

int madvise(void *at, size_t bytes, int advice)
{
	if (twt_fault_now(TWT_MADVISE)) {
		errno = twt_fault_errno;
		return -1;
	}
	if (atomic_load(&twt_fault_madvise_ms)) {
		struct timespec time = { 0, atomic_load(&twt_fault_madvise_ms) * 1000000l };

		nanosleep(&time, NULL);
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Whether a call by its number fails, with errno set: a program's own. NULL: none does. */
static bool (*twt_fault_syscall)(long number);

/*
 * libc has no mbind, so it is called by its number. The other functions here come by, too. Six
 * arguments are read, also where a call has fewer: nobody uses those, but clang's ASan sees it.
 */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	static long (*_Atomic real)(long, ...);
	union {
		void *found;
		long (*call)(long, ...);
	} next = { .call = atomic_load(&real) };
	long argument[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_mbind && twt_fault_now(TWT_MBIND)) {
		errno = twt_fault_errno;
		return -1;
	}
	if (twt_fault_syscall != NULL && twt_fault_syscall(number))
		return -1;
	if (next.call == NULL) {
		next.found = dlsym(RTLD_NEXT, "syscall");
		atomic_store(&real, next.call);
	}
	return next.call(number, argument[0], argument[1], argument[2], argument[3], argument[4],
			 argument[5]);
}

int mlock2(const void *at, size_t bytes, unsigned flags)
{
	if (twt_fault_now(TWT_MLOCK)) {
		errno = twt_fault_errno;
		return -1;
	}
	return (int)syscall(SYS_mlock2, at, bytes, flags);
}

int mlock(const void *at, size_t bytes)
{
	if (twt_fault_now(TWT_MLOCK)) {
		errno = twt_fault_errno;
		return -1;
	}
	return (int)syscall(SYS_mlock, at, bytes);
}

#ifndef TWT_SANITIZED
extern void *__libc_calloc(size_t count, size_t bytes);
/* There in a program that links jemalloc, whose free would not know a block of libc's. */
extern void *mallocx(size_t bytes, int flags) __attribute__((weak));
#define TWT_MALLOCX_ZERO 0x40

void *calloc(size_t count, size_t bytes)
{
	if (twt_fault_now(TWT_CALLOC)) {
		errno = twt_fault_errno;
		return NULL;
	}
	if (mallocx != NULL) {
		size_t total;

		if (__builtin_mul_overflow(count, bytes, &total))
			return NULL;
		return mallocx(total ? total : 1, TWT_MALLOCX_ZERO);
	}
	return __libc_calloc(count, bytes);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	/* A union, since ISO C has no cast from what dlsym returns to a function. */
	union {
		void *found;
		int (*call)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	} real;

	if (twt_fault_now(TWT_PTHREAD_CREATE))
		return twt_fault_errno;
	real.found = dlsym(RTLD_NEXT, "pthread_create");
	return real.call(thread, attr, run, arg);
}
#endif

#endif
