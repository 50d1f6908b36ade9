/*
 * test_fork_memory.c - a process forks while it sends memory that it has registered, memory that
 * was registered late, and pool memory: every call of the child says TOW_EFORKED, what the child
 * writes is its own, and what the parent writes afterwards is what arrives.
 *
 * (After a fork, private pages are shared until somebody writes. If the parent's write moved it to
 * a new page, the pinned one would go on being sent.)
 */
#include "twt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define SECOND 1000000000ull
#define BYTES  (768u << 10)
#define FORKS  12

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_endpoint *here, *there;
static struct tow_peer *from, *to;
static uint8_t *own, *late; /* registered; registered at its first use */
static void *pool, *in;
static uint64_t handle;

static void *map(void)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX];
	struct tow_result result;

	(void)state;
	options.premap_memory_bytes = 16 << 20;
	options.zerocopy = "always";
	options.stats = 0;
	options.max_ops = 64;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	assert_int_equal(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &there), TOW_OK);
	assert_int_equal(tow_endpoint_address(there, address, sizeof(address)), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(here, address, NULL, &connect), TOW_OK);
	assert_int_equal(twt_finish(connect, &result), TOW_OK);
	from = result.peer;
	assert_int_equal(twt_finish(accept, &result), TOW_OK);
	to = result.peer;
	own = map();
	late = map();
	assert_int_equal(tow_alloc(runtime, BYTES, 0, &pool), TOW_OK);
	assert_int_equal(tow_alloc(runtime, BYTES, 0, &in), TOW_OK);
	assert_int_equal(tow_mem_register(runtime, own, BYTES, &handle), TOW_OK);
	return 0;
}

static int tear_down(void **state)
{
	int status = TOW_EBUSY;

	(void)state;
	for (int i = 0; i < 1000 && status == TOW_EBUSY; i++) {
		status = tow_mem_deregister(runtime, handle);
		tow_progress(runtime);
		usleep(status == TOW_EBUSY ? 1000 : 0);
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(tow_free(runtime, pool), TOW_OK);
	assert_int_equal(tow_free(runtime, in), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	munmap(own, BYTES);
	munmap(late, BYTES);
	return 0;
}

static void message(void *out, int seed)
{
	struct tow_op *send, *recv;

	memset(out, seed, BYTES);
	memset(in, 0, BYTES);
	assert_int_equal(tow_recv_start(to, in, BYTES, 1, NULL, &recv), TOW_OK);
	assert_int_equal(tow_send_start(from, out, BYTES, 1, NULL, &send), TOW_OK);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	assert_int_equal(twt_finish(recv, NULL), TOW_OK);
	assert_memory_equal(in, out, BYTES);
}

#define FORKED(call)                                                                               \
	do {                                                                                       \
		if ((call) != TOW_EFORKED) {                                                       \
			fprintf(stderr, "in the child: %s\n", #call);                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Every call that takes a runtime, endpoint, peer or operation; then it writes and stays. */
static void child(struct tow_op *op, int seed, int fd)
{
	struct tow_result result = { .size = sizeof(result) };
	char *text, byte = 0;
	struct tow_endpoint *endpoint;
	struct tow_op *other;
	uint64_t word;
	void *memory;

	FORKED(tow_alloc(runtime, 64, 0, &memory));
	FORKED(tow_free(runtime, pool));
	FORKED(tow_mem_register(runtime, late, BYTES, &word));
	FORKED(tow_mem_deregister(runtime, handle));
	FORKED(tow_runtime_seal(runtime));
	FORKED(tow_progress(runtime));
	FORKED(tow_flush(runtime));
	FORKED(tow_fd(runtime, &(int){ 0 }));
	FORKED(tow_stats_get(runtime, "/v1/peers", &text));
	FORKED(tow_endpoint_open(runtime, "loop://child", &endpoint));
	FORKED(tow_endpoint_close(here));
	FORKED(tow_accept_start(there, NULL, &other));
	FORKED(tow_connect_start(here, "tcp://127.0.0.1:9", NULL, &other));
	FORKED(tow_send_start(from, own, BYTES, 1, NULL, &other));
	FORKED(tow_recv_start(to, own, BYTES, 1, NULL, &other));
	FORKED(tow_op_test(op));
	FORKED(tow_op_wait(op, 0));
	FORKED(tow_op_result(op, &result));
	FORKED(tow_op_cancel(op));
	FORKED(tow_op_release(op));
	FORKED(tow_peer_close(from));
	FORKED(tow_runtime_close(runtime));
	memset(own, ~seed, BYTES);
	memset(late, ~seed, BYTES);
	if (write(fd, &byte, 1) != 1)
		_exit(2);
	pause(); /* until it is ended: its pages stay shared as long */
	_exit(3);
}

/* A large receive is open, and one message is on its way, while the process forks. */
static void fork_once(void *out, int seed)
{
	struct tow_op *send, *recv, *open;
	int fds[2], how;
	char byte;
	pid_t pid;

	memset(out, seed, BYTES);
	memset(in, 0, BYTES);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(tow_recv_start(to, &byte, 1, 77, NULL, &open), TOW_OK);
	assert_int_equal(tow_recv_start(to, in, BYTES, 1, NULL, &recv), TOW_OK);
	assert_int_equal(tow_send_start(from, out, BYTES, 1, NULL, &send), TOW_OK);
	for (int i = 0; i < seed % 7; i++)
		tow_progress(runtime);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(open, seed, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1); /* it has been through all of them */
	close(fds[0]);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	assert_int_equal(twt_finish(recv, NULL), TOW_OK);
	assert_memory_equal(in, out, BYTES);
	message(own, seed + 1);
	message(late, seed + 2);
	message(pool, seed + 3);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_true(WIFSIGNALED(how));
	message(own, seed + 4);
	message(late, seed + 5);
	assert_int_equal(tow_op_cancel(open), TOW_OK);
	assert_int_equal(twt_finish(open, NULL), TOW_ECANCELED);
}

static void test_fork(void **state)
{
	uint64_t fixed;

	(void)state;
	message(own, 1);
	message(late, 2);
	fixed = twi_counter_sum(engine->diag, TWI_C_fixed_sends);
	assert_true(fixed > 0);
	for (int i = 0; i < FORKS; i++)
		fork_once(i % 3 == 0 ? own : i % 3 == 1 ? late : pool, 10 * i);
	assert_true(twi_counter_sum(engine->diag, TWI_C_fixed_sends) > fixed);
}

static _Atomic bool over;

static void *traffic(void *arg)
{
	int rounds = 0;

	for (; !atomic_load(&over); rounds++) {
		message(own, rounds * 3);
		message(late, rounds * 3 + 1);
		message(pool, rounds * 3 + 2);
	}
	*(int *)arg = rounds;
	return NULL;
}

/* The same while another thread sends all the time. */
static void test_fork_in_traffic(void **state)
{
	struct tow_op *open;
	pthread_t thread;
	int rounds = 0;
	char byte;

	(void)state;
	atomic_store(&over, false);
	assert_int_equal(tow_recv_start(to, &byte, 1, 77, NULL, &open), TOW_OK);
	assert_int_equal(pthread_create(&thread, NULL, traffic, &rounds), 0);
	for (int i = 0; i < FORKS; i++) {
		int fds[2], how;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child(open, i, fds[1]);
		close(fds[1]);
		assert_int_equal(read(fds[0], &byte, 1), 1);
		close(fds[0]);
		usleep(5000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &how, 0), pid);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	assert_true(rounds > 0);
	assert_int_equal(tow_op_cancel(open), TOW_OK);
	assert_int_equal(twt_finish(open, NULL), TOW_ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fork, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_fork_in_traffic, set_up, tear_down),
	};

	alarm(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
