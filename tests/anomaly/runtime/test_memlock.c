/*
 * test_memlock.c - a runtime where pinning or io_uring is not permitted: an ordinary user with 8
 * MiB of RLIMIT_MEMLOCK, and seccomp filters that refuse registrations or io_uring as containers
 * do.
 *
 * By default it works with what is to be had and says what is missing and what mends it; with
 * strict_premap, or with the knob poller set to io_uring, it refuses, and says the same. Each case
 * runs in a child of its own.
 */
#include "pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define POOL    (64 << 20)
#define SKIPPED 77

static int become_user(void)
{
	struct rlimit limit = { 8 << 20, 8 << 20 };

	if (geteuid() == 0 &&
	    (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
		return SKIPPED;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur > POOL)
		return SKIPPED;
	return 0;
}

#define REGISTER_UPDATE 16 /* IORING_REGISTER_BUFFERS_UPDATE: fills a slot of the buffer table */

/* System call `nr` fails with `err`; with `op` >= 0 only when its second argument is `op`. */
static int forbid(long nr, long op, unsigned err)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | (op < 0 ? BPF_JGE : BPF_JEQ) | BPF_K, op < 0 ? 0 : (unsigned)op,
			 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
		       ? 0
		       : SKIPPED;
}

static const char *poller = "auto"; /* of the runtimes that are opened, whatever TOW_POLLER says */

static int open_it(int64_t strict, struct tow_runtime **runtime)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.poller = poller;
	options.premap_memory_bytes = POOL;
	options.strict_premap = strict;
	options.stats = 0;
	return tow_runtime_open(&options, runtime);
}

/* A message of each kind, on a lane, through a runtime that connects to itself. */
static int talk_on(struct tow_runtime *runtime, const char *address)
{
	struct tow_endpoint *one, *two;
	struct tow_op *accept, *connect, *send, *recv;
	char where[TOW_ADDRESS_MAX];
	struct tow_result here, there;
	void *out, *in;

	TWT_OK(tow_endpoint_open(runtime, address, &one));
	TWT_OK(tow_endpoint_open(runtime, address, &two));
	TWT_OK(tow_endpoint_address(two, where, sizeof(where)));
	TWT_OK(tow_accept_start(two, NULL, &accept));
	TWT_OK(tow_connect_start(one, where, NULL, &connect));
	TWT_OK(twt_finish(connect, &here));
	TWT_OK(twt_finish(accept, &there));
	TWT_OK(tow_alloc(runtime, 1 << 20, 0, &out));
	TWT_OK(tow_alloc(runtime, 1 << 20, 0, &in));
	for (size_t bytes = 8; bytes <= 1 << 20; bytes <<= 17) {
		twt_fill(out, bytes, bytes);
		TWT_OK(tow_recv_start(there.peer, in, bytes, 1, NULL, &recv));
		TWT_OK(tow_send_start(here.peer, out, bytes, 1, NULL, &send));
		TWT_OK(twt_finish(send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		if (twt_check(in, bytes, bytes) != 0)
			return 1;
	}
	return 0;
}

static int talk(struct tow_runtime *runtime)
{
	return talk_on(runtime, "tcp://127.0.0.1:0");
}

static int says(struct tow_runtime *runtime, const char *path, const char *what)
{
	char *text;
	int found;

	TWT_OK(tow_stats_get(runtime, path, &text));
	found = strstr(text, what) != NULL;
	if (!found)
		fprintf(stderr, "%s does not say \"%s\":\n%s\n", path, what, text);
	tow_stats_release(text);
	return found;
}

static int says_quietly(struct tow_runtime *runtime, const char *path, const char *what)
{
	char *text;
	int found;

	TWT_OK(tow_stats_get(runtime, path, &text));
	found = strstr(text, what) != NULL;
	tow_stats_release(text);
	return found;
}

/* Works, and /v1/pool says what is missing (`why`) and how it is mended (`mend`). */
static int works_and_says(const char *why, const char *mend)
{
	struct tow_runtime *runtime;
	int status;

	TWT_OK(open_it(0, &runtime));
	status = talk(runtime);
	if (status == 0 && !(says(runtime, "/v1/pool", why) && says(runtime, "/v1/pool", mend) &&
			     says(runtime, "/v1/info", "\"pool_registered\":false")))
		status = 2;
	TWT_OK(tow_runtime_close(runtime));
	return status;
}

static int refuses(int64_t strict, int first, int second, const char *mend)
{
	struct tow_runtime *runtime;
	int status = open_it(strict, &runtime);

	if ((status != first && status != second) || runtime != NULL)
		return 3;
	if (strstr(tow_error_message(), mend) == NULL) {
		fprintf(stderr, "the message does not say \"%s\": %s\n", mend, tow_error_message());
		return 4;
	}
	return 0;
}

/* Nothing can be pinned: registering does not say that it was. */
static int refuses_to_register(struct tow_runtime *runtime, size_t bytes, const char *limit)
{
	uint64_t handle = 1;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int status;

	if (memory == MAP_FAILED)
		return 1;
	status = tow_mem_register(runtime, memory, bytes, &handle);
	if ((status != TOW_ENOMEM && status != TOW_EPERM) || handle != 0) {
		fprintf(stderr, "register of %zu bytes: %s\n", bytes, tow_status_name(status));
		return 2;
	}
	if (strstr(tow_error_message(), limit) == NULL ||
	    strstr(tow_error_message(), "LimitMEMLOCK=infinity") == NULL) {
		fprintf(stderr, "register does not say \"%s\": %s\n", limit, tow_error_message());
		return 3;
	}
	munmap(memory, bytes);
	return 0;
}

/* The pool is too large to be pinned; or it was pinned, and the memory is too large beside it. */
static int register_as_user(int64_t pool)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	int status = become_user();
	struct tow_runtime *runtime;

	if (status != 0)
		return status;
	options.premap_memory_bytes = pool;
	options.stats = 0;
	TWT_OK(tow_runtime_open(&options, &runtime));
	status = refuses_to_register(runtime, 32 << 20, "RLIMIT_MEMLOCK is 8192 KiB");
	if (status == 0 && pool == POOL)
		status = refuses_to_register(runtime, 4096, "RLIMIT_MEMLOCK is 8192 KiB");
	TWT_OK(tow_runtime_close(runtime));
	return status;
}

static int register_beside_no_pool(void)
{
	return register_as_user(POOL);
}

static int register_beside_a_pool(void)
{
	return register_as_user(1 << 20);
}

static int user(void)
{
	int status = become_user();

	return status != 0 ? status : works_and_says("RLIMIT_MEMLOCK", "LimitMEMLOCK=infinity");
}

static int user_strict(void)
{
	int status = become_user();

	return status != 0 ? status : refuses(1, TOW_ENOMEM, TOW_EPERM, "LimitMEMLOCK=infinity");
}

static int no_registration(void)
{
	int status = forbid(SYS_io_uring_register, REGISTER_UPDATE, ENOMEM);

	return status != 0 ? status : works_and_says("cannot pin", "LimitMEMLOCK=infinity");
}

static int no_registration_strict(void)
{
	int status = forbid(SYS_io_uring_register, REGISTER_UPDATE, ENOMEM);

	return status != 0 ? status : refuses(1, TOW_ENOMEM, TOW_EPERM, "LimitMEMLOCK=infinity");
}

/* What each page says of a runtime that epoll moves, and why it does. */
static int says_epoll(struct tow_runtime *runtime, const char *why)
{
	return says(runtime, "/v1/pool", why) && says(runtime, "/v1/info", why) &&
	       says(runtime, "/v1/peers", why) &&
	       says(runtime, "/v1/peers", "\"poller\":\"epoll\"") &&
	       says(runtime, "/v1/info", "\"poller\":\"epoll\"") &&
	       says(runtime, "/v1/info", "\"pool_registered\":false") &&
	       says(runtime, "/v1/pool", "\"pinned_bytes\":0") &&
	       !says_quietly(runtime, "/v1/pool", "\"registered\":true");
}

/* Everything works without a ring of the kernel's: every lane of this host, and tow_fd. */
static int works_by_epoll(const char *why)
{
	struct tow_runtime *runtime;
	struct pollfd fd = { .events = POLLIN };
	int status;

	TWT_OK(open_it(0, &runtime));
	status = talk(runtime) + talk_on(runtime, "shm://") + talk_on(runtime, "tow://");
	if (status == 0 && !says_epoll(runtime, why))
		status = 2;
	TWT_OK(tow_fd(runtime, &fd.fd));
	if (poll(&fd, 1, 0) < 0)
		status = 5;
	TWT_OK(tow_runtime_close(runtime));
	return status;
}

static int no_uring(void)
{
	int status = forbid(SYS_io_uring_setup, -1, EPERM);

	return status != 0 ? status : works_by_epoll("kernel.io_uring_disabled=0");
}

/* A kernel that was built without it. */
static int no_such_call(void)
{
	int status = forbid(SYS_io_uring_setup, -1, ENOSYS);

	return status != 0 ? status : works_by_epoll("this kernel has no usable io_uring");
}

static int by_knob(void)
{
	poller = "epoll";
	return works_by_epoll("poller=epoll");
}

static int no_uring_strict(void)
{
	int status = forbid(SYS_io_uring_setup, -1, EPERM);

	return status != 0 ? status
			   : refuses(1, TOW_ENOTSUP, TOW_ENOTSUP, "kernel.io_uring_disabled=0");
}

static int no_uring_by_knob(void)
{
	int status = forbid(SYS_io_uring_setup, -1, EPERM);

	poller = "io_uring";
	return status != 0 ? status
			   : refuses(0, TOW_EPERM, TOW_EPERM, "kernel.io_uring_disabled=0");
}

static int no_such_poller(void)
{
	poller = "kqueue";
	return refuses(0, TOW_EINVAL, TOW_EINVAL, "auto, io_uring, epoll");
}

/* The process is shut in after it has opened: threads that come later do without io_uring. */
static void *progress_once(void *arg)
{
	int status = tow_progress(arg);

	return (void *)(intptr_t)(status < 0 && status != TOW_AGAIN);
}

static int refused_later(void)
{
	struct tow_runtime *runtime;
	pthread_t thread;
	void *failed;
	int status;

	TWT_OK(open_it(0, &runtime));
	status = forbid(SYS_io_uring_setup, -1, EPERM);
	if (status == 0)
		status = talk(runtime);
	if (status == 0 && pthread_create(&thread, NULL, progress_once, runtime) != 0)
		status = 6;
	if (status == 0) {
		pthread_join(thread, &failed);
		status = failed != NULL ? 7 : talk(runtime);
	}
	if (status == 0 && !(says(runtime, "/v1/info", "\"poller\":\"io_uring\"") &&
			     says(runtime, "/v1/info", "\"poller\":\"epoll\"")))
		status = 2;
	TWT_OK(tow_runtime_close(runtime));
	return status;
}

/* A function may not be cast to the void * that cmocka hands on. */
struct body {
	int (*run)(void);
};

static void in_child(void **state)
{
	const struct body *body = *state;
	int how;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		_exit(body->run());
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_true(WIFEXITED(how));
	if (WEXITSTATUS(how) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void)
{
#define CASE(name)                                                                                 \
	{                                                                                          \
#name, in_child, NULL, NULL, &(struct body)                                        \
		{                                                                                  \
			name                                                                       \
		}                                                                                  \
	}
	const struct CMUnitTest tests[] = {
		CASE(user),
		CASE(user_strict),
		CASE(no_registration),
		CASE(no_registration_strict),
		CASE(no_uring),
		CASE(no_such_call),
		CASE(by_knob),
		CASE(no_uring_strict),
		CASE(no_uring_by_knob),
		CASE(no_such_poller),
		CASE(refused_later),
		CASE(register_beside_no_pool),
		CASE(register_beside_a_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
