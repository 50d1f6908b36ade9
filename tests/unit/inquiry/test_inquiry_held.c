/*
 * test_inquiry_held.c - a process that is held from outside sees it: rows by the second, and a real
 * one, which is stopped and continued. A runtime that is closed awaits a handler of SIGQUIT that is
 * held in the middle.
 */
#include "twt.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/runtime.h>
#include <towline/status.h>

#include "diag/base/thread.h"
#include "transport/inquiry/inquiry_held.h"

#define SECOND_NS 1000000000ull
#define MS_NS     1000000ull

static struct twi_held_log held_log;
static struct twi_rank_state told;

static void test_rows(void **state)
{
	(void)state;
	twi_held_tell(&held_log, 7 * SECOND_NS, &told);
	assert_int_equal(told.held_count, 0);
	/* In the middle of a second, over its end, and of unknown length. */
	twi_held_note(&held_log, 100 * SECOND_NS + 200 * MS_NS, 100 * SECOND_NS + 500 * MS_NS);
	twi_held_note(&held_log, 101 * SECOND_NS + 900 * MS_NS, 103 * SECOND_NS + 50 * MS_NS);
	twi_held_note(&held_log, 103 * SECOND_NS + 60 * MS_NS, 103 * SECOND_NS + 60 * MS_NS);
	twi_held_tell(&held_log, 104 * SECOND_NS + 1, &told);
	assert_int_equal(told.held_count, 5);
	assert_int_equal(told.held[0].times + told.held[0].ms, 0);
	assert_int_equal(told.held[1].times, 2);
	assert_int_equal(told.held[1].ms, 50);
	assert_int_equal(told.held[2].times, 0);
	assert_int_equal(told.held[2].ms, 1000);
	assert_int_equal(told.held[3].ms, 100);
	assert_int_equal(told.held[4].times, 1);
	assert_int_equal(told.held[4].ms, 300);
	/* Rows are used again, and old ones are not told. */
	twi_held_tell(&held_log, 200 * SECOND_NS, &told);
	assert_int_equal(told.held_count, 0);
	twi_held_note(&held_log, 0, 119 * SECOND_NS + 10 * MS_NS);
	twi_held_tell(&held_log, 119 * SECOND_NS + 20 * MS_NS, &told);
	assert_int_equal(told.held_count, TWI_STATE_HELD);
	assert_int_equal(told.held[0].ms, 10);
	assert_int_equal(told.held[0].times, 1);
	assert_int_equal(told.held[15].ms, 1000);
	assert_int_equal(told.held[15].times, 0);
}

/* Shared with the child. */
struct seen {
	_Atomic uint32_t begun, times, known;
	_Atomic uint64_t ns;
};

static int event_fd;

static void *watch_main(void *arg)
{
	struct seen *seen = arg;
	struct twi_held_watch watch;
	struct twi_held_time held;
	bool ready = false;

	if (twi_held_open(&watch, event_fd) != 0)
		_exit(1);
	seen->begun = 1;
	while (!ready) {
		ready = twi_held_wait(&watch, 20000, &held);
		seen->ns += held.to_ns - twi_min(held.from_ns, held.to_ns);
		seen->known += held.to_ns > held.from_ns;
		seen->times += held.to_ns != 0;
	}
	twi_held_close(&watch);
	return NULL;
}

static void child_main(struct seen *seen)
{
	pthread_t thread;

	alarm(30);
	if (twi_thread_start(&thread, NULL, 0, watch_main, seen) != 0)
		_exit(1);
	pthread_join(thread, NULL);
	_exit(0);
}

static void hold(pid_t pid, unsigned ms)
{
	int how;

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
	usleep(ms * 1000);
	kill(pid, SIGCONT);
}

static bool soon(const _Atomic uint32_t *value, uint32_t wanted)
{
	for (unsigned i = 0; i < 10000 && *value < wanted; i++)
		usleep(1000);
	return *value >= wanted;
}

static void test_stopped(void **state)
{
	struct seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t one = 1;
	pid_t pid;
	int how;

	(void)state;
	assert_true(seen != MAP_FAILED);
	event_fd = eventfd(0, EFD_CLOEXEC);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child_main(seen);
	assert_true(soon(&seen->begun, 1));
	usleep(50000); /* it sleeps; that it runs for so long is none of it */
	assert_int_equal(seen->times, 0);
	hold(pid, 50);
	assert_true(soon(&seen->times, 1));
	assert_int_equal(seen->known, 0);
	usleep(100000);
	hold(pid, 200);
	assert_true(soon(&seen->times, 2));
	assert_int_equal(seen->known, 1);
	/* Less by a tick, or by what the machine was busy with something else. */
	assert_in_range(seen->ns, 50 * MS_NS, 10 * SECOND_NS);
	assert_int_equal(write(event_fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
	close(event_fd);
	munmap(seen, sizeof(*seen));
}

/* --- the handler of SIGQUIT --- */

static _Atomic bool holds_writes; /* of the thread that gets the signal */
static _Atomic int held_fd;       /* to which the handler is about to write; 0: none */
static _Thread_local volatile sig_atomic_t is_signaled;

ssize_t write(int fd, const void *from, size_t bytes)
{
	if (is_signaled) {
		atomic_store(&held_fd, fd);
		while (atomic_load(&holds_writes))
			;
	}
	return (ssize_t)syscall(SYS_write, fd, from, bytes);
}

static void *signaled_main(void *arg)
{
	(void)arg;
	is_signaled = true;
	raise(SIGQUIT);
	is_signaled = false;
	return NULL;
}

static void *close_main(void *arg)
{
	return tow_runtime_close(arg) == TOW_OK ? arg : NULL;
}

/*
 * The descriptor to which the handler writes stays this runtime's until it has written. `forever`:
 * the handler is held for longer than the close waits: it ends, and the descriptor stays open.
 */
static void close_beside_handler(bool forever)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	pthread_t signaled, closing;
	void *closed = NULL;

	atomic_store(&held_fd, 0);
	options.premap_memory_bytes = 1 << 20;
	options.huge_pages = 0;
	options.stats = 0;
	options.verdict_on_sigquit = 1;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	atomic_store(&holds_writes, true);
	assert_int_equal(pthread_create(&signaled, NULL, signaled_main, NULL), 0);
	for (int i = 0; i < 10000 && atomic_load(&held_fd) == 0; i++)
		usleep(1000);
	assert_true(atomic_load(&held_fd) > 0);
	assert_int_equal(pthread_create(&closing, NULL, close_main, runtime), 0);
	for (int i = 0; i < 300; i++) {
		assert_true(fcntl(atomic_load(&held_fd), F_GETFD) >= 0);
		usleep(1000);
	}
	if (forever)
		pthread_join(closing, &closed);
	assert_true(!forever || fcntl(atomic_load(&held_fd), F_GETFD) >= 0);
	atomic_store(&holds_writes, false);
	pthread_join(signaled, NULL);
	if (!forever)
		pthread_join(closing, &closed);
	assert_ptr_equal(closed, runtime);
	assert_int_equal(fcntl(atomic_load(&held_fd), F_GETFD) >= 0, forever);
}

static void test_close_awaits_handler(void **state)
{
	(void)state;
	close_beside_handler(false);
}

static void test_close_leaves_handler(void **state)
{
	(void)state;
	close_beside_handler(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_close_awaits_handler),
		cmocka_unit_test(test_close_leaves_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
