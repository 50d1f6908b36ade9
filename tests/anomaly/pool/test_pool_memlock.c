/*
 * test_pool_memlock.c - an ordinary user with 8 MiB of RLIMIT_MEMLOCK and a larger pool.
 *
 * It works, unpinned and unregistered, and says why and what mends it; strict it is an error that
 * says the same. Each case runs in a child, as nobody, with a real io_uring as its registrar.
 */
#include "twt.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"

#define POOL_BYTES ((uint64_t)16 << 20)
#define SKIPPED    77

static int ring_add(void *ctx, const struct twi_region *region)
{
	struct iovec iov = { region->base, region->bytes };
	int err = io_uring_register_buffers(ctx, &iov, 1);

	if (err < 0)
		return twi_error_errno(err == -ENOMEM ? TOW_ENOMEM : TOW_ESYSTEM, -err,
				       "io_uring_register_buffers");
	return TOW_OK;
}

static void ring_remove(void *ctx, const struct twi_region *region)
{
	(void)region;
	io_uring_unregister_buffers(ctx);
}

static const struct twi_registrar ring_registrar = { "io_uring", ring_add, ring_remove };

/* Drops to an ordinary user; 0, or the child's exit status. */
static int become_user(struct io_uring *ring)
{
	struct rlimit limit = { 8 << 20, 8 << 20 };

	if (geteuid() == 0 && (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) || setuid(65534)))
		return SKIPPED;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur > POOL_BYTES)
		return SKIPPED;
	return io_uring_queue_init(4, ring, 0) ? SKIPPED : 0;
}

static int works_unpinned(void)
{
	struct twi_pool_options options = { .bytes = POOL_BYTES };
	struct twi_pool_stats stats;
	struct io_uring ring;
	struct twi_pool *pool;
	int status = become_user(&ring);
	void *p;

	if (status != 0)
		return status;
	if (twi_diag_create(&options.diag) || twi_pool_create(&options, &pool))
		return 1;
	if (twi_pool_registrar_add(pool, &ring_registrar, &ring))
		return 2;
	twi_pool_stats(pool, &stats);
	if (stats.mlocked || stats.registered || twi_pool_registered(pool, &ring_registrar, &ring))
		return 3;
	if (twi_pool_alloc(pool, 1 << 20, 0, &p))
		return 4;
	memset(p, 1, 1 << 20);
	if (twi_pool_free(pool, p))
		return 5;
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
	io_uring_queue_exit(&ring);
	return 0;
}

static int strict_is_refused(void)
{
	struct twi_pool_options options = { .bytes = POOL_BYTES, .strict = true };
	struct io_uring ring;
	struct twi_pool *pool;
	int status = become_user(&ring);

	if (status != 0)
		return status;
	if (twi_diag_create(&options.diag))
		return 1;
	if (twi_pool_create(&options, &pool) != TOW_ENOMEM || pool != NULL)
		return 2;
	if (strstr(tow_error_message(), "RLIMIT_MEMLOCK is 8192 KiB") == NULL ||
	    strstr(tow_error_message(), "LimitMEMLOCK=infinity") == NULL)
		return 3;
	twi_diag_destroy(options.diag);
	io_uring_queue_exit(&ring);
	return 0;
}

static void in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void user_pool_works(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	skip();
#endif
	in_child(works_unpinned);
}

static void user_strict_pool_is_refused(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	skip();
#endif
	in_child(strict_is_refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user_pool_works),
		cmocka_unit_test(user_strict_pool_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
