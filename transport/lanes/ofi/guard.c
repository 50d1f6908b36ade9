/*
 * guard.c - runs calls of libfabric in a sealed thread. See guard.h.
 */
#include "transport/lanes/ofi/guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <internal/base.h>

#include "diag/base/error.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* glibc's own two signals, below SIGRTMIN: cancellation and setuid in all threads need them. */
#define LIBC_FIRST 32
#define LIBC_LAST  33

/* Base addresses of mapped libraries. */
struct library_bases {
	uintptr_t *base;
	size_t count, room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct library_bases guarded_libraries; /* libfabric, and what it loaded; under the lock */
static const char *_Atomic weak;

struct run {
	int (*call)(void *arg);
	void *arg;
	int status;
	int refused; /* errno of the filter; 0: the call has run */
	char message[TWI_ERROR_BYTES];
};

/*
 * Allows every system call except rt_sigaction with an action to set. The kernel determines once
 * which system calls a filter always allows, so those cost the thread next to nothing. Without
 * CAP_SYS_ADMIN the thread must give up gaining privileges by an exec, which it does not do.
 */
static int seal_thread(void)
{
#ifdef THIS_ARCH
#define LOAD(at)          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), yes, no)
#define ANSWER(k)         BPF_STMT(BPF_RET | BPF_K, (uint32_t)(k))
#define ARGUMENT(i)       (offsetof(struct seccomp_data, args) + 8 * (i)) /* little-endian */
	struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, arch)),
		EQUAL(THIS_ARCH, 0, 10),
		LOAD(offsetof(struct seccomp_data, nr)),
		EQUAL(__NR_rt_sigaction, 0, 8),
		LOAD(ARGUMENT(0)),
		EQUAL(LIBC_FIRST, 6, 0),
		EQUAL(LIBC_LAST, 5, 0),
		LOAD(ARGUMENT(1)), /* the action to set; NULL: only a query */
		EQUAL(0, 0, 2),
		LOAD(ARGUMENT(1) + 4),
		EQUAL(0, 1, 0),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SECCOMP_RET_ALLOW),
	};
#undef LOAD
#undef EQUAL
#undef ANSWER
#undef ARGUMENT
	struct sock_fprog program = { twi_array_count(code), code };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return 0;
	if (errno != EACCES)
		return errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : errno;
#else
	return ENOSYS;
#endif
}

static void *run_sealed(void *arg)
{
	struct run *run = arg;

	run->refused = seal_thread();
	if (run->refused != 0)
		return NULL;
	run->status = run->call(run->arg);
	if (run->status < 0)
		snprintf(run->message, sizeof(run->message), "%s", tow_error_message());
	return NULL;
}

/*
 * Runs the call in a thread with all signals blocked. Returns false if the thread could not be
 * created or sealed.
 */
static bool in_sealed_thread(struct run *run)
{
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, run_sealed, run);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err == 0)
		pthread_join(thread, NULL);
	else
		run->refused = err;
	return run->refused == 0;
}

static bool has_base(const struct library_bases *bases, uintptr_t base)
{
	for (size_t i = 0; i < bases->count; i++) {
		if (bases->base[i] == base)
			return true;
	}
	return false;
}

static int add_base(struct library_bases *bases, uintptr_t base)
{
	if (bases->count == bases->room) {
		size_t room = twi_max(2 * bases->room, (size_t)64);
		uintptr_t *grown = reallocarray(bases->base, room, sizeof(*grown));

		if (grown == NULL)
			return twi_error(TOW_ENOMEM, "no memory for the names of libraries");
		bases->base = grown;
		bases->room = room;
	}
	bases->base[bases->count++] = base;
	return TOW_OK;
}

static int add_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)bytes;
	return add_base(arg, info->dlpi_addr);
}

/* Adds libraries that were loaded since `before` to `guarded_libraries`. */
static int add_new(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct library_bases *before = arg;

	(void)bytes;
	if (has_base(before, info->dlpi_addr) || has_base(&guarded_libraries, info->dlpi_addr))
		return 0;
	return add_base(&guarded_libraries, info->dlpi_addr);
}

static bool is_theirs(const struct sigaction *action)
{
	Dl_info found;

	/* sa_handler and sa_sigaction share one address */
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
	       dladdr((const void *)(uintptr_t)action->sa_handler, &found) != 0 &&
	       has_base(&guarded_libraries, (uintptr_t)found.dli_fbase);
}

/*
 * Restores actions that have become handlers of these libraries. The program may set an action
 * between the query and the change; that action is then set again.
 */
static void put_back(const struct sigaction before[NSIG])
{
	struct sigaction now;

	for (int sig = 1; sig < NSIG; sig++) {
		if (sigaction(sig, NULL, &now) != 0 || !is_theirs(&now) ||
		    now.sa_handler == before[sig].sa_handler)
			continue;
		if (sigaction(sig, &before[sig], &now) == 0 && !is_theirs(&now))
			sigaction(sig, &now, NULL);
	}
}

/* Runs the call without a seal: in this thread, with its signals blocked. */
static void run_watched(struct run *run, const struct library_bases *loaded)
{
	struct sigaction before[NSIG] = { 0 };
	sigset_t all, mask;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, NULL, &before[sig]);
	run->status = run->call(run->arg);
	if (run->status < 0)
		snprintf(run->message, sizeof(run->message), "%s", tow_error_message());
	dl_iterate_phdr(add_new, (void *)(uintptr_t)loaded);
	put_back(before);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

int twi_ofi_guarded(int (*call)(void *arg), void *arg)
{
	struct run run = { .call = call, .arg = arg };
	struct library_bases loaded = { NULL, 0, 0 };

	pthread_mutex_lock(&lock);
	run.status = dl_iterate_phdr(add_object, &loaded);
	if (run.status == TOW_OK) {
		if (in_sealed_thread(&run)) {
			dl_iterate_phdr(add_new, &loaded);
		} else {
			atomic_store_explicit(&weak, strerrordesc_np(run.refused),
					      memory_order_relaxed);
			run_watched(&run, &loaded);
		}
	}
	pthread_mutex_unlock(&lock);
	free(loaded.base);
	return run.status < 0 && run.message[0] != '\0' ? twi_error(run.status, "%s", run.message)
							: run.status;
}

void twi_ofi_guard_library(const void *function)
{
	Dl_info found;

	if (dladdr(function, &found) != 0 &&
	    !has_base(&guarded_libraries, (uintptr_t)found.dli_fbase))
		add_base(&guarded_libraries, (uintptr_t)found.dli_fbase);
}

const char *twi_ofi_guard_weak(void)
{
	return atomic_load_explicit(&weak, memory_order_relaxed);
}
