/*
 * test_watch_faults.c - watching memory where it is refused, fails in the middle, or is forked
 * away.
 *
 * Whatever fails: nothing stays registered or open, no thread that unmaps is left waiting, and
 * there is a reason to be read.
 */
#include "twt.h"

#include "fault.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <towline/towline.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/render.h"
#include "fake_registrar.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/user/latecache.h"
#include "transport/engine/runtime.h"

#define PAGE    ((uint64_t)4096)
#define SKIPPED 77

/* The nth ioctl or eventfd from now fails with that errno. */
static _Atomic int ioctl_left, ioctl_errno, eventfd_left;

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (atomic_load(&ioctl_left) > 0 && atomic_fetch_sub(&ioctl_left, 1) == 1) {
		errno = ioctl_errno;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

int eventfd(unsigned value, int flags)
{
	if (atomic_load(&eventfd_left) > 0 && atomic_fetch_sub(&eventfd_left, 1) == 1) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_eventfd2, value, flags);
}

static struct twi_diag *diag;
static struct twt_fake fake;

static struct twi_pool *make_pool(void)
{
	struct twi_pool_options options = { .bytes = 1 << 20,
					    .diag = diag,
					    .late_cache_bytes = 16 * PAGE,
					    .late_cache_entries = 2,
					    .late = &twi_latecache_ops };
	struct twi_pool *pool;

	memset(&fake, 0, sizeof(fake));
	if (twi_pool_create(&options, &pool) != TOW_OK ||
	    twi_pool_registrar_add(pool, &twt_fake_registrar, &fake) != TOW_OK)
		return NULL;
	return pool;
}

static char *map(uint64_t bytes)
{
	char *p = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, bytes);
	return p;
}

static int use(struct twi_pool *pool, const void *p, uint64_t bytes)
{
	const struct twi_region *region;
	int status = twi_pool_region_late(pool, p, bytes, TWI_SITE_NONE, &region);

	if (status == TOW_OK)
		twi_pool_region_release(pool, region);
	return status;
}

/* A life of the cache: misses, hits, an eviction, a neighbour, changes. The first failure. */
static int live(void)
{
	struct twi_pool *pool = make_pool();
	char *p = map(16 * PAGE), *q;
	int status = TOW_OK, each;

	if (pool == NULL)
		return TOW_ENOMEM;
	for (int i = 0; i < 4; i++) {
		each = use(pool, p + (uint64_t)(i % 3) * 4 * PAGE, PAGE);
		status = status ? status : each;
	}
	each = use(pool, p + 8 * PAGE + 100, 2 * PAGE);
	status = status ? status : each;
	q = mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	munmap(p + 9 * PAGE, PAGE);
	each = use(pool, p + 4 * PAGE, PAGE);
	status = status ? status : each;
	munmap(q, 2 * PAGE);
	twi_pool_destroy(pool);
	/* Not watched any more, by anybody: this would wait for ever. */
	munmap(p, 16 * PAGE);
	assert_int_equal(fake.known, 0);
	return status;
}

static void ioctl_fails(void **state)
{
	static const int errors[] = { ENOMEM, EINVAL, EAGAIN, EBUSY };
	int fds = twt_fd_count(), failures = 0, most = 0;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	assert_int_equal(live(), TOW_OK);
	for (int e = 0; e < 4; e++) {
		for (int nth = 1;; nth++) {
			int status;

			atomic_store(&ioctl_errno, errors[e]);
			atomic_store(&ioctl_left, nth);
			status = live();
			failures += status != TOW_OK;
			assert_true(status == TOW_OK || status == TOW_ENOTSUP ||
				    status == TOW_ENOMEM || status == TOW_EBUSY);
			assert_int_equal(twt_fd_count(), fds);
			most = nth > most ? nth : most;
			if (atomic_exchange(&ioctl_left, 0) > 0)
				break;
		}
	}
	assert_true(failures > 4 && most > 10);
	twi_diag_destroy(diag);
}

static void start_fails(void **state)
{
	int fds = twt_fd_count();
	struct twi_pool *pool;
	char *p = map(PAGE);

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	for (int what = 0; what < 2; what++) {
		pool = make_pool();
		assert_non_null(pool);
		if (what == 0)
			atomic_store(&eventfd_left, 1);
		else
			twt_fault_arm(TWT_PTHREAD_CREATE, 1);
#ifdef TWT_SANITIZED
		if (what == 1)
			atomic_store(&eventfd_left, 1);
#endif
		assert_int_equal(use(pool, p, PAGE), TOW_ENOTSUP);
		twt_fault_off();
		assert_non_null(strstr(tow_error_message(), "mend it"));
		/* It is not tried again for each use. */
		assert_int_equal(use(pool, p, PAGE), TOW_ENOTSUP);
		assert_int_equal(fake.known, 1);
		twi_pool_destroy(pool);
		assert_int_equal(twt_fd_count(), fds);
	}
	munmap(p, PAGE);
	twi_diag_destroy(diag);
}

#ifndef TWT_SANITIZED
static void calloc_fails(void **state)
{
	struct twi_pool_options options = { .bytes = 1 << 20 };
	int fds = twt_fd_count(), failures = 0;
	bool reached = true;

	(void)state;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	for (int nth = 1; reached; nth++) {
		struct twi_pool *pool = NULL;
		int status;

		twt_fault_arm(TWT_CALLOC, nth);
		status = twi_pool_create(&options, &pool);
		reached = twt_fault_off();
		failures += status != TOW_OK;
		twi_pool_destroy(pool);
		assert_int_equal(twt_fd_count(), fds);
	}
	assert_true(failures > 5);
	twi_diag_destroy(options.diag);
}
#endif

/* Runs it in a child, which may not take longer than 20 s; its exit status. */
static int in_child(int (*run)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		alarm(20);
		_exit(run());
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* As a container without userfaultfd: nothing is cached, and /v1/info says what mends it. */
static int refused(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct twi_pool *pool;
	struct twi_emit e;
	uint64_t handle;
	char *p = map(PAGE);

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return SKIPPED;
	if (twi_diag_create(&diag) || (pool = make_pool()) == NULL)
		return 1;
	twi_emit_init(&e);
	if (twi_registry_render(diag, "/v1/info", &e) ||
	    strstr(e.text, "\"watched\":false") == NULL ||
	    strstr(e.text, "userfaultfd: EPERM") == NULL || strstr(e.text, "seccomp") == NULL)
		return 2;
	twi_emit_fini(&e);
	if (use(pool, p, PAGE) != TOW_ENOTSUP || strstr(tow_error_message(), "seccomp") == NULL)
		return 3;
	if (fake.known != 1 || twi_latecache_of(pool)->watch.running)
		return 4;
	/* What is registered by hand needs no watching. */
	if (twi_pool_register(pool, p, PAGE, TWI_SITE_NONE, &handle) ||
	    use(pool, p, PAGE) != TOW_OK || twi_pool_deregister(pool, handle))
		return 5;
	twi_pool_destroy(pool);
	twi_diag_destroy(diag);
	return 0;
}

static void userfaultfd_refused(void **state)
{
	int status = in_child(refused);

	(void)state;
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

/* The child changes its copy of watched memory; that concerns nobody. */
static int child_of_fork(struct twi_pool *pool, char *p, int hold_fd)
{
	char byte;

	alarm(20);
	if (fcntl(twi_latecache_of(pool)->watch.fd, F_GETFD) != -1)
		return 1;
	if (p[0] != 1 || munmap(p, PAGE) || madvise(p + PAGE, PAGE, MADV_DONTNEED) || p[PAGE] != 0)
		return 2;
	/* Stays till the parent has closed everything. */
	(void)!read(hold_fd, &byte, 1);
	return 0;
}

static int fork_and_close(void)
{
	int hold[2], status;
	struct twi_pool *pool;
	char *p = map(4 * PAGE);
	pid_t child;

	if (twi_diag_create(&diag) || (pool = make_pool()) == NULL || pipe2(hold, O_CLOEXEC))
		return 1;
	if (use(pool, p, 4 * PAGE) != TOW_OK)
		return SKIPPED;
	child = fork();
	if (child == 0) {
		close(hold[1]);
		_exit(child_of_fork(pool, p, hold[0]));
	}
	p[0] = 2;
	if (twi_pool_region_acquire(pool, p, 4 * PAGE) == NULL || fake.known != 2)
		return 2;
	/* With the child still there: neither this nor the unmapping may wait for it. */
	twi_pool_destroy(pool);
	if (munmap(p, 4 * PAGE) || fake.known != 0)
		return 3;
	close(hold[1]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 4;
	twi_diag_destroy(diag);
	return WEXITSTATUS(status) ? 10 + WEXITSTATUS(status) : 0;
}

static void fork_with_watched_memory(void **state)
{
	int status = in_child(fork_and_close);

	(void)state;
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

/* The public calls, and what a forked child gets from them. Simulated: nobody pins, so that it
 * runs where io_uring does not. */
static int public_calls(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	char *p = map(4 * PAGE);
	uint64_t handle = 7, second;
	void *in_pool;
	int status;
	pid_t child;

	options.premap_memory_bytes = 2 << 20;
	options.stats = 0;
	if (twi_runtime_open_sim(&options, &runtime) != TOW_OK)
		return 7;
	if (tow_mem_register(NULL, p, PAGE, &handle) != TOW_EINVAL || handle != 0)
		return 1;
	if (tow_mem_register(runtime, p, PAGE, NULL) != TOW_EINVAL)
		return 2;
	if (tow_mem_register(runtime, p, 0, &handle) != TOW_EINVAL ||
	    tow_alloc(runtime, PAGE, 0, &in_pool) != TOW_OK ||
	    tow_mem_register(runtime, in_pool, PAGE, &handle) != TOW_EINVAL)
		return 3;
	if (tow_mem_register(runtime, p, 4 * PAGE, &handle) != TOW_OK || handle == 0)
		return 8;
	child = fork();
	if (child == 0) {
		if (tow_mem_register(runtime, p, PAGE, &second) != TOW_EFORKED || second != 0)
			_exit(1);
		_exit(tow_mem_deregister(runtime, handle) != TOW_EFORKED);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 4;
	if (tow_mem_deregister(runtime, handle) != TOW_OK ||
	    tow_mem_deregister(runtime, handle) != TOW_EFREED ||
	    tow_mem_deregister(runtime, 0) != TOW_EINVAL ||
	    tow_mem_deregister(NULL, handle) != TOW_EINVAL)
		return 5;
	return tow_runtime_close(runtime) == TOW_OK ? 0 : 6;
}

static void the_public_calls(void **state)
{
	(void)state;
	assert_int_equal(in_child(public_calls), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ioctl_fails),         cmocka_unit_test(start_fails),
#ifndef TWT_SANITIZED
		cmocka_unit_test(calloc_fails),
#endif
		cmocka_unit_test(userfaultfd_refused), cmocka_unit_test(fork_with_watched_memory),
		cmocka_unit_test(the_public_calls),
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);

	if (fd < 0) {
		printf("skipped: userfaultfd is refused here\n");
		return SKIPPED;
	}
	close(fd);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
