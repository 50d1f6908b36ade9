/*
 * test_stacks.c - threads are asked where they are, while they sleep, spin, block the signal, end
 * and begin: each one's stack has the call in which it is, and the program goes on undisturbed.
 */
#include "twt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/record/stacks.h"

#define SIGNAL (SIGRTMIN + 6)
#define CROWD  90 /* more than are told of */
#define KINDS  6
#define LEVELS 5
#ifdef __SANITIZE_THREAD__ /* calls handlers in some functions alone: most asks take 500 ms */
#define ROUNDS 3
#else
#define ROUNDS 200
#endif
#define ASKERS  3
#define SHORTLY 20000 /* us */

enum kind { SLEEPS, POLLS, READS, WAITS, SPINS, ON_OWN_STACK };

struct worker {
	enum kind kind;
	pthread_t thread;
	_Atomic pid_t tid;
	const void *_Atomic deepest; /* where its deepest call returns to */
	_Atomic bool over;
	int pipe[2];
	int got; /* by read: it is not interrupted */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
};

/* --- threads of a program --- */

static void wait_for_it(struct worker *w)
{
	pthread_mutex_lock(&w->mutex);
	while (!atomic_load(&w->over))
		pthread_cond_wait(&w->cond, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
}

static void read_it(struct worker *w)
{
	char byte;

	w->got = (int)read(w->pipe[0], &byte, 1);
}

static __attribute__((noinline)) void stay(struct worker *w)
{
	atomic_store(&w->deepest, __builtin_return_address(0));
	atomic_store(&w->tid, (pid_t)syscall(SYS_gettid));
	if (w->kind == READS)
		read_it(w);
	if (w->kind == WAITS)
		wait_for_it(w);
	while (!atomic_load(&w->over)) {
		if (w->kind == SLEEPS || w->kind == ON_OWN_STACK)
			usleep(SHORTLY);
		else if (w->kind == POLLS)
			poll(NULL, 0, SHORTLY / 1000);
	}
}

static __attribute__((noinline)) int go_down(struct worker *w, int levels)
{
	int more = levels > 0 ? go_down(w, levels - 1) : 0;

	if (levels == 0)
		stay(w);
	return more + 1; /* no tail call */
}

static void *work(void *arg)
{
	struct worker *w = arg;

	go_down(w, LEVELS);
	return NULL;
}

/* As runtimes with stacks of their own do: the handler has to run on another. */
static void *work_with_own_stack(void *arg)
{
	size_t bytes = (size_t)SIGSTKSZ + 65536;
	stack_t other = { .ss_sp = malloc(bytes), .ss_size = bytes };

	assert_non_null(other.ss_sp);
	assert_int_equal(sigaltstack(&other, NULL), 0);
	work(arg);
	other.ss_flags = SS_DISABLE;
	assert_int_equal(sigaltstack(&other, NULL), 0);
	free(other.ss_sp);
	return NULL;
}

static void start_worker(struct worker *w, enum kind kind)
{
	*w = (struct worker){ .kind = kind,
			      .mutex = PTHREAD_MUTEX_INITIALIZER,
			      .cond = PTHREAD_COND_INITIALIZER };
	assert_int_equal(pipe(w->pipe), 0);
	assert_int_equal(pthread_create(&w->thread, NULL,
					kind == ON_OWN_STACK ? work_with_own_stack : work, w),
			 0);
}

static void end_worker(struct worker *w)
{
	pthread_mutex_lock(&w->mutex);
	atomic_store(&w->over, true);
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->mutex);
	assert_int_equal(write(w->pipe[1], "x", 1), 1);
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	if (w->kind == READS)
		assert_int_equal(w->got, 1);
	close(w->pipe[0]);
	close(w->pipe[1]);
}

static const struct twi_stacks_thread *row_of(const struct twi_stacks *stacks, pid_t tid)
{
	for (size_t i = 0; i < stacks->count; i++) {
		if (stacks->rows[i].tid == tid)
			return &stacks->rows[i];
	}
	return NULL;
}

static bool has_frame(const struct twi_stacks_thread *row, const void *address)
{
	for (unsigned i = 0; i < row->depth; i++) {
		if (row->frames[i] == address)
			return true;
	}
	return false;
}

/* TSan calls handlers when the thread calls a function that it knows, and not within read. */
static bool is_late(enum kind kind)
{
#ifdef __SANITIZE_THREAD__
	return kind == SPINS || kind == READS;
#else
	(void)kind;
	return false;
#endif
}

static void check_worker(const struct twi_stacks *stacks, struct worker *w)
{
	const struct twi_stacks_thread *row = row_of(stacks, atomic_load(&w->tid));

	assert_non_null(row);
	if (is_late(w->kind))
		return;
	if (row->answer != TWI_STACKS_ANSWERED || !has_frame(row, atomic_load(&w->deepest)))
		fail_msg("kind %d: answer %d, %u frames, none of them %p", (int)w->kind,
			 (int)row->answer, row->depth, atomic_load(&w->deepest));
	assert_true(row->depth > LEVELS);
}

/* --- the tests --- */

static void each_is_where_it_is(void **state)
{
	const enum kind kinds[KINDS] = { SLEEPS, POLLS, READS, WAITS, SPINS, ON_OWN_STACK };
	struct worker workers[KINDS];
	struct twi_stacks stacks;

	(void)state;
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	for (size_t i = 0; i < KINDS; i++)
		start_worker(&workers[i], kinds[i]);
	for (size_t i = 0; i < KINDS; i++) {
		while (atomic_load(&workers[i].tid) == 0)
			usleep(100);
	}
	for (int round = 0; round < (ROUNDS < 20 ? ROUNDS : 20); round++) {
		assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
		assert_int_equal(stacks.signal, SIGNAL);
		assert_false(stacks.taken);
		assert_int_equal(stacks.rows[0].tid, getpid());
		assert_int_equal(stacks.rows[0].answer, TWI_STACKS_ANSWERED);
		for (size_t i = 0; i < KINDS; i++)
			check_worker(&stacks, &workers[i]);
		twi_stacks_free(&stacks);
	}
	for (size_t i = 0; i < KINDS; i++)
		end_worker(&workers[i]);
	twi_stacks_forbid(SIGNAL);
}

static void *block_it(void *arg)
{
	struct worker *w = arg;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	return work(w);
}

/* The signal does not stay pending with who blocks it: it would end the process later. */
static void who_blocks_is_not_sent_to(void **state)
{
	struct worker w = { .kind = SLEEPS,
			    .mutex = PTHREAD_MUTEX_INITIALIZER,
			    .cond = PTHREAD_COND_INITIALIZER };
	const struct twi_stacks_thread *row;
	struct twi_stacks stacks;

	(void)state;
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	assert_int_equal(pipe(w.pipe), 0);
	assert_int_equal(pthread_create(&w.thread, NULL, block_it, &w), 0);
	while (atomic_load(&w.tid) == 0)
		usleep(100);
	assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
	row = row_of(&stacks, atomic_load(&w.tid));
	assert_non_null(row);
	assert_int_equal(row->answer, TWI_STACKS_BLOCKED);
	assert_int_equal(row->depth, 0);
	assert_true(row->state == 'S' || row->state == 'R' || row->state == 'D');
	twi_stacks_free(&stacks);
	end_worker(&w);
	twi_stacks_forbid(SIGNAL);
}

/* A parent of vfork takes no signal until its child is through. */
static void *wait_for_vfork(void *arg)
{
	struct worker *w = arg;
	pid_t child;
	char byte;

	atomic_store(&w->tid, (pid_t)syscall(SYS_gettid));
	child = vfork();
	if (child == 0) {
		syscall(SYS_read, w->pipe[0], &byte, 1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	atomic_store(&w->over, true);
	return NULL;
}

static void who_is_silent_is_told_without(void **state)
{
	struct worker w = { .kind = SLEEPS };
	const struct twi_stacks_thread *row;
	struct twi_stacks stacks;

	(void)state;
#ifdef TWT_SANITIZED
	skip(); /* they make another call of vfork */
#endif
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	assert_int_equal(pipe(w.pipe), 0);
	assert_int_equal(pthread_create(&w.thread, NULL, wait_for_vfork, &w), 0);
	while (atomic_load(&w.tid) == 0)
		usleep(100);
	usleep(SHORTLY);
	for (int round = 0; round < 2; round++) { /* the ticket of the first is void by then */
		assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
		row = row_of(&stacks, atomic_load(&w.tid));
		assert_non_null(row);
		assert_int_equal(row->answer, TWI_STACKS_SILENT);
		assert_int_equal(stacks.rows[0].answer, TWI_STACKS_ANSWERED);
		twi_stacks_free(&stacks);
	}
	assert_int_equal(write(w.pipe[1], "x", 1), 1);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_true(atomic_load(&w.over));
	twi_stacks_forbid(SIGNAL);
	close(w.pipe[0]);
	close(w.pipe[1]);
}

/* Threads begin and end all the time, several ask, and one calls what is restarted. */
static _Atomic bool stop;

static void *come_and_go(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop)) {
		start_worker(w, READS);
		end_worker(w);
	}
	return NULL;
}

static void *ask_often(void *arg)
{
	struct twi_stacks stacks;

	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
		assert_true(stacks.count > 0 && stacks.count <= TWI_STACKS_THREADS);
		twi_stacks_free(&stacks);
	}
	return arg;
}

static void threads_come_and_go(void **state)
{
	pthread_t askers[ASKERS], others[ASKERS];
	struct worker workers[ASKERS];

	(void)state;
	atomic_store(&stop, false);
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	for (int i = 0; i < ASKERS; i++) {
		assert_int_equal(pthread_create(&askers[i], NULL, ask_often, NULL), 0);
		assert_int_equal(pthread_create(&others[i], NULL, come_and_go, &workers[i]), 0);
	}
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_join(askers[i], NULL), 0);
	atomic_store(&stop, true);
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_join(others[i], NULL), 0);
	twi_stacks_forbid(SIGNAL);
}

static void of_a_crowd_some_are_left_out(void **state)
{
	static struct worker workers[CROWD];
	struct twi_stacks stacks;
	unsigned answered = 0;

	(void)state;
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	for (size_t i = 0; i < CROWD; i++)
		start_worker(&workers[i], WAITS);
	for (size_t i = 0; i < CROWD; i++) {
		while (atomic_load(&workers[i].tid) == 0)
			usleep(100);
	}
	assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
	assert_int_equal(stacks.count, TWI_STACKS_THREADS);
	assert_true(stacks.left_out >= CROWD + 1 - TWI_STACKS_THREADS);
	assert_int_equal(stacks.rows[0].tid, getpid());
	for (size_t i = 0; i < stacks.count; i++)
		answered += stacks.rows[i].answer == TWI_STACKS_ANSWERED;
	assert_true(answered >= TWI_STACKS_THREADS - 2); /* TSan has a thread of its own */
	twi_stacks_free(&stacks);
	for (size_t i = 0; i < CROWD; i++)
		end_worker(&workers[i]);
	twi_stacks_forbid(SIGNAL);
}

static void on_program(int number)
{
	(void)number;
}

static void the_signal_is_given_and_taken(void **state)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	const struct sigaction theirs = { .sa_handler = on_program };
	struct sigaction now;
	struct twi_stacks stacks;

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		assert_int_equal(twi_stacks_allow(faults[i]), TOW_EINVAL);
	assert_int_equal(twi_stacks_allow(SIGKILL), TOW_EINVAL);
	assert_int_equal(twi_stacks_allow(32), TOW_EINVAL); /* the C library's own */
	assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
	assert_int_equal(stacks.signal, 0);
	assert_int_equal(stacks.rows[0].answer, TWI_STACKS_OFF);
	twi_stacks_free(&stacks);

	assert_int_equal(sigaction(SIGNAL, &theirs, NULL), 0);
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_EBUSY);
	assert_int_equal(twi_stacks_allow(0), TOW_OK);
	signal(SIGNAL, SIG_DFL);
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK); /* another runtime */
	assert_int_equal(twi_stacks_allow(SIGUSR1), TOW_EINVAL);
	assert_int_equal(sigaction(SIGNAL, &theirs, NULL), 0);
	assert_int_equal(twi_stacks_ask(&stacks), TOW_OK);
	assert_true(stacks.taken);
	assert_int_equal(stacks.rows[0].answer, TWI_STACKS_OFF);
	twi_stacks_free(&stacks);
	twi_stacks_forbid(SIGNAL);
	twi_stacks_forbid(SIGNAL);
	assert_int_equal(sigaction(SIGNAL, NULL, &now), 0);
	assert_true(now.sa_handler == on_program); /* what is theirs stays */

	signal(SIGNAL, SIG_IGN);
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	assert_int_equal(raise(SIGNAL), 0); /* of somebody else: nothing comes of it */
	twi_stacks_forbid(SIGNAL);
	assert_int_equal(sigaction(SIGNAL, NULL, &now), 0);
	assert_true(now.sa_handler == SIG_IGN);
	signal(SIGNAL, SIG_DFL);
}

static void a_child_is_not_asked(void **state)
{
	struct sigaction now;
	struct twi_stacks stacks;
	pid_t child;
	int how;

	(void)state;
	assert_int_equal(twi_stacks_allow(SIGNAL), TOW_OK);
	child = fork();
	if (child == 0) {
		bool fine = sigaction(SIGNAL, NULL, &now) == 0 && now.sa_handler == SIG_DFL;

		fine = fine && twi_stacks_ask(&stacks) == TOW_OK && stacks.signal == 0;
		twi_stacks_free(&stacks);
		twi_stacks_forbid(SIGNAL); /* of its copy of the runtime */
		fine = fine && twi_stacks_allow(SIGUSR2) == TOW_OK;
		fine = fine && twi_stacks_ask(&stacks) == TOW_OK &&
		       stacks.rows[0].answer == TWI_STACKS_ANSWERED;
		twi_stacks_free(&stacks);
		_exit(fine ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &how, 0), child);
	assert_int_equal(how, 0);
	twi_stacks_forbid(SIGNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_where_it_is),
		cmocka_unit_test(who_blocks_is_not_sent_to),
		cmocka_unit_test(who_is_silent_is_told_without),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(of_a_crowd_some_are_left_out),
		cmocka_unit_test(the_signal_is_given_and_taken),
		cmocka_unit_test(a_child_is_not_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
