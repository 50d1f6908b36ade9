/*
 * test_ofi_guard.c - a library that takes every signal leaves the program's actions alone when it
 * is loaded and called under the guard: every signal, with the default action, ignored, with a
 * handler and with one that takes siginfo; sealed, and where seccomp or threads are not to be had.
 *
 * Each case runs in a child of its own, for a library is loaded once.
 */
#include "twt.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "transport/lanes/ofi/fabric.h"
#include "transport/lanes/ofi/guard.h"

#define SKIPPED 77

enum manner { SEALED, NO_FILTER, NO_THREAD };

static void *module;
static void *(*call_in)(const char *name);

static void *in_module(const char *name)
{
	return dlsym(module, name);
}

/* What runs under the guard. */
static int load(void *arg)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char path[512];

	(void)arg;
	snprintf(path, sizeof(path), "%s/tests/libfake_hijack.so", build != NULL ? build : ".");
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	call_in = in_module;
	return module != NULL ? TOW_OK : twi_error(TOW_ENOTSUP, "%s", dlerror());
}

static int again(void *arg)
{
	union {
		void *found;
		void (*call)(void);
	} symbol = { .found = call_in("hijack_again") };

	(void)arg;
	symbol.call();
	return TOW_OK;
}

/* A failure comes with its message, from whichever thread it is told. */
static int fails(void *arg)
{
	again(arg);
	return twi_error(TOW_EBUSY, "the adapter is in use");
}

static unsigned refused(void)
{
	union {
		void *found;
		unsigned (*call)(void);
	} symbol = { .found = call_in("hijack_refused") };

	return symbol.call();
}

static void plain(int sig)
{
	(void)sig;
}

static void detailed(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
}

/* The four kinds of actions, each signal another one, by turns. */
static struct sigaction action_of(int sig, int turn)
{
	struct sigaction action = { 0 };

	sigemptyset(&action.sa_mask);
	switch ((sig + turn) % 4) {
	case 0:
		action.sa_handler = SIG_DFL;
		break;
	case 1:
		action.sa_handler = SIG_IGN;
		break;
	case 2:
		action.sa_handler = plain;
		action.sa_flags = SA_RESTART;
		break;
	default:
		action.sa_sigaction = detailed;
		action.sa_flags = SA_SIGINFO | SA_ONSTACK;
		sigaddset(&action.sa_mask, SIGUSR1);
		break;
	}
	return action;
}

static int can_be_set(int sig)
{
	return sig != SIGKILL && sig != SIGSTOP && (sig < 32 || sig > 33);
}

/* 0: all are as they were set. */
static int compare(int turn)
{
	struct sigaction wanted, now;
	int wrong = 0;

	for (int sig = 1; sig < NSIG; sig++) {
		if (!can_be_set(sig))
			continue;
		wanted = action_of(sig, turn);
		if (sigaction(sig, NULL, &now) != 0 || now.sa_handler != wanted.sa_handler ||
		    (now.sa_flags & (SA_SIGINFO | SA_RESTART | SA_ONSTACK)) != wanted.sa_flags ||
		    sigismember(&now.sa_mask, SIGUSR1) != sigismember(&wanted.sa_mask, SIGUSR1)) {
			printf("turn %d: signal %d has another action\n", turn, sig);
			wrong++;
		}
	}
	return wrong;
}

static void set_all(int turn)
{
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction action = action_of(sig, turn);

		if (can_be_set(sig) && sigaction(sig, &action, NULL) != 0)
			abort();
	}
}

/* Filters can be had no more. */
static int forbid_filters(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
		       ? 0
		       : SKIPPED;
}

static _Atomic int no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	union {
		void *found;
		int (*call)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	} real = { .found = dlsym(RTLD_NEXT, "pthread_create") };

	return atomic_load(&no_threads) ? EAGAIN : real.call(thread, attr, start, arg);
}

static int keeps_all(enum manner manner)
{
	int wrong = 0;

	if (manner == NO_FILTER && forbid_filters() != 0)
		return SKIPPED;
	atomic_store(&no_threads, manner == NO_THREAD);
	set_all(0);
	if (twi_ofi_guarded(load, NULL) != TOW_OK)
		return printf("%s\n", tow_error_message()), 1;
	wrong += compare(0);
	for (int turn = 0; turn < 4; turn++) {
		set_all(turn);
		if (twi_ofi_guarded(again, NULL) != TOW_OK)
			return 2;
		wrong += compare(turn);
		if (twi_ofi_guarded(fails, NULL) != TOW_EBUSY ||
		    strcmp(tow_error_message(), "the adapter is in use") != 0)
			return 3;
		wrong += compare(turn);
	}
	/* That it was refused, and not put back, is what leaves no window. */
	if (manner == SEALED && (refused() == 0 || twi_ofi_guard_weak() != NULL))
		return 4;
	if (manner != SEALED && (twi_ofi_guard_weak() == NULL))
		return 5;
	return wrong == 0 ? 0 : 6;
}

/* A thread of the program sets actions all the while, and finds what it has set. */
static atomic_int stop, lost;

static void *set_and_look(void *arg)
{
	struct sigaction now, set = { 0 };

	for (unsigned i = 0; !atomic_load(&stop); i++) {
		set.sa_handler = i % 2 == 0 ? plain : SIG_IGN;
		sigaction(SIGTERM, &set, NULL);
		sigaction(SIGTERM, NULL, &now);
		if (now.sa_handler != set.sa_handler)
			atomic_fetch_add(&lost, 1);
	}
	return arg;
}

static int beside_another(enum manner manner)
{
	pthread_t thread;

	(void)manner;
	if (twi_ofi_guarded(load, NULL) != TOW_OK)
		return 1;
	if (pthread_create(&thread, NULL, set_and_look, NULL) != 0)
		return 2;
	for (int i = 0; i < 300; i++) {
		if (twi_ofi_guarded(again, NULL) != TOW_OK)
			return 3;
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	return atomic_load(&lost) == 0 ? 0 : 4;
}

static int mask_of(pthread_t thread)
{
	sigset_t mask;
	int count = 0;

	(void)thread;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int sig = 1; sig < NSIG; sig++)
		count += sigismember(&mask, sig) == 1;
	return count;
}

/* Afterwards the caller's own thread is as it was: it may set actions, and has no filter. */
static int caller_is_free(enum manner manner)
{
	struct sigaction mine = { .sa_handler = plain };

	if (manner == NO_FILTER && forbid_filters() != 0)
		return SKIPPED;
	atomic_store(&no_threads, manner == NO_THREAD);
	if (twi_ofi_guarded(load, NULL) != TOW_OK || mask_of(pthread_self()) != 0)
		return 1;
	if (sigaction(SIGTERM, &mine, NULL) != 0)
		return 2;
	if (manner == SEALED && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
		return 3;
	return 0;
}

static void in_child(int (*run)(enum manner), enum manner manner)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int result = run(manner);

		fflush(stdout);
		_exit(result);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED) {
		printf("seccomp is not to be had here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void sealed(void **state)
{
	(void)state;
	in_child(keeps_all, SEALED);
	in_child(caller_is_free, SEALED);
}

static void without_filters(void **state)
{
	(void)state;
	in_child(keeps_all, NO_FILTER);
	in_child(caller_is_free, NO_FILTER);
}

static void without_threads(void **state)
{
	(void)state;
	in_child(keeps_all, NO_THREAD);
	in_child(caller_is_free, NO_THREAD);
}

static void other_threads_lose_nothing(void **state)
{
	(void)state;
	in_child(beside_another, SEALED);
}

static void make_file(const char *folder, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fclose(file);
}

static void drop_file(const char *folder, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(unlink(path), 0);
}

/* What tow:// asks for instead of loading libfabric. */
static void devices(void **state)
{
	static const char *const no[] = { "null", "hfi", "nvme0" };
	static const char *const yes[] = { "hfi1_0", "cxi0", "ipath", "kgni0",
					   "infiniband/uverbs0" };
	char folder[] = "/tmp/towline-dev-XXXXXX", sub[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(sub, sizeof(sub), "%s/infiniband", folder);
	assert_false(twi_ofi_device_there("/no/such/folder"));
	assert_false(twi_ofi_device_there(folder));
	assert_int_equal(mkdir(sub, 0700), 0);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		make_file(folder, no[i]);
	make_file(sub, "rdma_cm"); /* the module is loaded, and there is no device */
	assert_false(twi_ofi_device_there(folder));
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		make_file(folder, yes[i]);
		assert_true(twi_ofi_device_there(folder));
		drop_file(folder, yes[i]);
		assert_false(twi_ofi_device_there(folder));
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		drop_file(folder, no[i]);
	drop_file(sub, "rdma_cm");
	assert_int_equal(rmdir(sub), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices),
		cmocka_unit_test(sealed),
		cmocka_unit_test(without_filters),
		cmocka_unit_test(without_threads),
		cmocka_unit_test(other_threads_lose_nothing),
	};

#ifdef TWT_TSAN
	printf("TSan keeps actions that the kernel has refused: no test of ours\n");
	return SKIPPED;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
