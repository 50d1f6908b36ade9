/*
 * test_shm.c - the shm lane between processes: views of a sender that dies, a peer that is stopped
 * and goes on, a system that forbids process_vm_readv, sleepers that must be woken, another job
 * key, and more processes than cores. (Messages, closing and death: test_messages.c, test_death.c.)
 */
#include "pair.h"

#include <errno.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define POOL  (64 << 20)
#define LARGE ((size_t)16 << 20)

static struct twi_diag *diag_of(struct twt_side *side)
{
	return twi_runtime_engine(side->runtime)->diag;
}

static int send_large(struct twt_side *side, void *arg)
{
	struct tow_op_options lends = TOW_OP_OPTIONS_INIT;
	void *memory;
	struct tow_op *op;
	uint64_t word;

	(void)arg;
	lends.flags = TOW_OP_LEND;
	TWT_OK(tow_alloc(side->runtime, LARGE, 0, &memory));
	twt_fill(memory, LARGE, 3);
	TWT_OK(tow_send_start(side->peer, memory, LARGE, 1, &lends, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(side->peer, &word, 8, 2, NULL, &op)); /* never comes */
	return twt_finish(op, NULL) == TOW_EPEER ? 0 : 1;
}

static void view_large(struct twt_side *side, struct tow_op **op_out, struct tow_result *result)
{
	TWT_OK(tow_recv_view_start(side->peer, 1, NULL, op_out));
	assert_int_equal(tow_op_wait(*op_out, 20 * TWT_SECOND), TOW_OK);
	result->size = sizeof(*result);
	TWT_OK(tow_op_result(*op_out, result));
	assert_int_equal(result->bytes, LARGE);
}

/* The sender is killed with its memory in view: the bytes stay until the view is given back. */
static void test_view_of_the_dead(void **state)
{
	struct tow_result result;
	struct twt_side side;
	struct tow_op *view, *recv;
	uint64_t word;
	int how;

	(void)state;
	twt_pair(&side, "shm://*", POOL, send_large, NULL);
	view_large(&side, &view, &result);
	kill(side.child, SIGKILL);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 9, NULL, &recv));
	assert_int_equal(twt_finish(recv, NULL), TOW_EPEER);
	assert_int_equal(twt_check(result.data, LARGE, 3), 0);
	TWT_OK(tow_peer_close(side.peer));
	assert_int_equal(twt_check(result.data, LARGE, 3), 0);
	TWT_OK(tow_view_release(view));
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how));
}

#define ROUNDS 200

static int echo(struct twt_side *side, void *arg)
{
	size_t bytes = *(size_t *)arg;
	uint8_t *memory = malloc(bytes + 1);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct tow_op *op;

		TWT_OK(tow_recv_start(side->peer, memory, bytes, 1, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
		if (twt_check(memory, bytes, i) != 0)
			return 1;
		TWT_OK(tow_send_start(side->peer, memory, bytes, 1, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
	free(memory);
	return 0;
}

static void one_echo(struct twt_side *side, uint8_t *memory, size_t bytes, uint64_t i)
{
	struct tow_op *send, *recv;

	twt_fill(memory, bytes, i);
	TWT_OK(tow_send_start(side->peer, memory, bytes, 1, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	memset(memory, 0, bytes);
	TWT_OK(tow_recv_start(side->peer, memory, bytes, 1, NULL, &recv));
	TWT_OK(twt_finish(recv, NULL));
	assert_int_equal(twt_check(memory, bytes, i), 0);
}

/* Stopped and continued at any moment, a peer loses nothing. */
static void test_stop_and_go(void **state)
{
	size_t bytes = 300000;
	uint8_t *memory = malloc(bytes);
	struct twt_side side;
	pid_t stopper;

	(void)state;
	twt_pair(&side, "shm://*", POOL, echo, &bytes);
	stopper = fork();
	if (stopper == 0) {
		for (int i = 0; i < 50; i++) {
			kill(side.child, SIGSTOP);
			usleep(2000);
			kill(side.child, SIGCONT);
			usleep(1000);
		}
		_exit(0);
	}
	for (uint64_t i = 0; i < ROUNDS; i++)
		one_echo(&side, memory, bytes, i);
	waitpid(stopper, NULL, 0);
	assert_int_equal(twt_pair_end(&side), 0);
	free(memory);
}

static int take_word(struct twt_side *side, void *arg)
{
	uint64_t word = 0;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_recv_start(side->peer, &word, 8, 2, NULL, &op));
	return twt_finish(op, NULL) == TOW_OK && word == 7 ? 0 : 1;
}

/* A message is taken back, a word sent, and all closed before the peer looks: it gets the word. */
static void test_taken_back_and_closed(void **state)
{
	struct twt_side side;
	uint64_t word = 7;
	struct tow_op *op;
	void *memory;
	int how;

	(void)state;
	twt_pair(&side, "shm://*", POOL, take_word, NULL);
	kill(side.child, SIGSTOP);
	assert_int_equal(waitpid(side.child, &how, WUNTRACED), side.child);
	TWT_OK(tow_alloc(side.runtime, LARGE, 0, &memory));
	TWT_OK(tow_send_start(side.peer, memory, LARGE, 1, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	TWT_OK(tow_send_start(side.peer, &word, 8, 2, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_runtime_close(side.runtime));
	kill(side.child, SIGCONT);
	assert_int_equal(waitpid(side.child, &how, 0), side.child);
	assert_int_equal(how, 0);
}

/* Both sides sleep between messages: each is woken by the other, for every kind of message. */
static void test_sleepers(void **state)
{
	static const size_t sizes[] = { 8, 5000, 100000 };

	(void)state;
	setenv("TOW_SPIN_NS", "0", 1);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		size_t bytes = sizes[k];
		uint8_t *memory = malloc(bytes);
		struct twt_side side;

		twt_pair(&side, "shm://*", POOL, echo, &bytes);
		for (uint64_t i = 0; i < ROUNDS; i++)
			one_echo(&side, memory, bytes, i);
		assert_true(twi_counter_sum(diag_of(&side), TWI_C_wait_sleeps) > 0);
		assert_int_equal(twt_pair_end(&side), 0);
		free(memory);
	}
	unsetenv("TOW_SPIN_NS");
}

/* From here on process_vm_readv of this process and its children fails with EPERM. */
static void forbid_reading(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
}

static int staged_echo(void)
{
	size_t bytes = 1000000;
	uint8_t *memory = malloc(bytes);
	struct twi_reason_sum staged, remote;
	struct twt_side side;

	forbid_reading();
	twt_pair(&side, "shm://*", POOL, echo, &bytes);
	for (uint64_t i = 0; i < ROUNDS; i++)
		one_echo(&side, memory, bytes, i);
	twi_reason_sum(diag_of(&side), TWI_R_unregistered_send, &staged);
	twi_reason_sum(diag_of(&side), TWI_R_remote_memory, &remote);
	free(memory);
	return staged.bytes == ROUNDS * bytes && remote.count == 0 && twt_pair_end(&side) == 0 ? 0
											       : 1;
}

/* Where the system forbids it, memory outside the pool is staged, and counted as that. */
static void test_forbidden(void **state)
{
	pid_t child = fork();
	int how;

	(void)state;
	if (child == 0)
		_exit(staged_echo());
	assert_int_equal(waitpid(child, &how, 0), child);
	if (WIFEXITED(how) && WEXITSTATUS(how) == 77)
		skip();
	assert_int_equal(how, 0);
}

static uint64_t refused_by(struct tow_runtime *runtime)
{
	return twi_counter_sum(twi_runtime_engine(runtime)->diag, TWI_C_handshakes_refused);
}

/* Members of different jobs do not meet, and both hear why. */
static void test_other_key(void **state)
{
	char where[TOW_ADDRESS_MAX];
	struct tow_endpoint *here, *there;
	struct tow_runtime *one, *two;
	struct tow_op *op;
	int status = TOW_ETIMEDOUT;

	(void)state;
	setenv("TOW_JOB_KEY", "a secret of the first job", 1);
	one = twt_runtime(1 << 20);
	setenv("TOW_JOB_KEY", "another secret altogether", 1);
	two = twt_runtime(1 << 20);
	unsetenv("TOW_JOB_KEY");
	TWT_OK(tow_endpoint_open(one, "shm://*", &here));
	TWT_OK(tow_endpoint_open(two, "shm://*", &there));
	TWT_OK(tow_endpoint_address(here, where, sizeof(where)));
	TWT_OK(tow_connect_start(there, where, NULL, &op));
	for (int i = 0; i < 2000 && status == TOW_ETIMEDOUT; i++) {
		(void)tow_progress(one);
		status = tow_op_wait(op, TWT_SECOND / 100);
	}
	assert_int_equal(status, TOW_EAUTH);
	TWT_OK(tow_op_release(op));
	/* The one that was connected to hears of it a moment later. */
	for (int i = 0; i < 2000 && refused_by(one) == 0; i++) {
		(void)tow_progress(one);
		usleep(1000);
	}
	assert_true(refused_by(one) > 0);
	TWT_OK(tow_runtime_close(one));
	TWT_OK(tow_runtime_close(two));
}

#define RANKS 4
#define TURNS 400

static void name_of(char *out, size_t room, int group, int rank)
{
	snprintf(out, room, "shm://crowd.%d.%d", group, rank);
}

/* Everybody has a peer to everybody: the lower rank connects. */
static void join_crowd(struct twt_side *side, struct tow_peer **peers, int group, int rank)
{
	char name[TOW_ADDRESS_MAX];

	for (int other = 0; other < rank; other++) {
		uint64_t word = 0;
		struct tow_peer *peer = twt_accept(side->endpoint);
		struct tow_op *op;

		TWT_OK(tow_recv_start(peer, &word, 8, 0, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
		peers[word] = peer;
	}
	for (int other = rank + 1; other < RANKS; other++) {
		uint64_t word = (uint64_t)rank;
		int status = TOW_EREFUSED;
		struct tow_result result;
		struct tow_op *op;

		name_of(name, sizeof(name), group, other);
		for (int i = 0; i < 1000 && status == TOW_EREFUSED; i++) {
			TWT_OK(tow_connect_start(side->endpoint, name, NULL, &op));
			status = twt_finish(op, &result);
			if (status == TOW_EREFUSED)
				usleep(10000);
		}
		if (status != TOW_OK)
			_exit(3);
		peers[other] = result.peer;
		TWT_OK(tow_send_start(peers[other], &word, 8, 0, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
}

static int one_of_crowd(int group, int rank)
{
	static uint8_t in[RANKS][50000], out[50000];
	struct tow_peer *peers[RANKS] = { NULL };
	struct twt_side side = { .runtime = twt_runtime(1 << 20) };
	char name[TOW_ADDRESS_MAX];

	name_of(name, sizeof(name), group, rank);
	TWT_OK(tow_endpoint_open(side.runtime, name, &side.endpoint));
	join_crowd(&side, peers, group, rank);
	for (uint64_t i = 0; i < TURNS; i++) {
		struct tow_op *ops[2][RANKS] = { { NULL } };
		size_t bytes = i % 10 == 0 ? sizeof(out) : 64;

		twt_fill(out, bytes, i);
		for (int k = 0; k < RANKS; k++) {
			if (k == rank)
				continue;
			TWT_OK(tow_recv_start(peers[k], in[k], bytes, 1, NULL, &ops[0][k]));
			TWT_OK(tow_send_start(peers[k], out, bytes, 1, NULL, &ops[1][k]));
		}
		for (int k = 0; k < RANKS; k++) {
			if (k == rank)
				continue;
			if (twt_finish(ops[0][k], NULL) != TOW_OK ||
			    twt_finish(ops[1][k], NULL) != TOW_OK ||
			    twt_check(in[k], bytes, i) != 0)
				return 1;
		}
	}
	TWT_OK(tow_runtime_close(side.runtime));
	return 0;
}

/* More processes than this machine is likely to have cores free: everybody gets there. */
static void test_crowd(void **state)
{
	pid_t ranks[RANKS];

	(void)state;
	for (int i = 0; i < RANKS; i++) {
		ranks[i] = fork();
		if (ranks[i] == 0) {
			alarm(60);
			_exit(one_of_crowd((int)getppid(), i));
		}
	}
	for (int i = 0; i < RANKS; i++) {
		int how;

		assert_int_equal(waitpid(ranks[i], &how, 0), ranks[i]);
		assert_int_equal(how, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_view_of_the_dead),
		cmocka_unit_test(test_stop_and_go),
		cmocka_unit_test(test_sleepers),
		cmocka_unit_test(test_forbidden),
		cmocka_unit_test(test_other_key),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_taken_back_and_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
