/*
 * test_death.c - peers that die, stop, or were never Towline: kill -9 at a random moment, SIGSTOP,
 * garbage and silence on the port. The other side gets its statuses in time and loses nothing.
 *
 * TOW_KILL_ROUNDS sets how often a side is killed (40 here; 200 is the acceptance run),
 * TOW_TEST_SEED replays the moments.
 */
#include "twt.h"

#include "beside.h"
#include "pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define POOL     (8 << 20)
#define IN_TURN  24
#define LARGEST  (1 << 20)
#define DEADLINE (10 * TWT_SECOND)

static uint64_t seed;
static const char *lane_at = "tcp://127.0.0.1:0"; /* the lane under test */

/* Both sides: messages of all sizes both ways, for ever. */
static size_t size_of(uint64_t i)
{
	return i % 5 == 0 ? LARGEST : i % 5 == 1 ? 20000 : i % 5 == 2 ? 0 : 64;
}

static int stream(struct twt_side *side, void *arg)
{
	struct tow_op *ops[2 * IN_TURN];
	void *out, *in;

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, LARGEST, 0, &out));
	TWT_OK(tow_alloc(side->runtime, LARGEST, 0, &in));
	memset(out, 1, LARGEST);
	for (;;) {
		for (uint64_t i = 0; i < IN_TURN; i++) {
			TWT_OK(tow_recv_start(side->peer, in, LARGEST, i, NULL, &ops[2 * i]));
			TWT_OK(tow_send_start(side->peer, out, size_of(i), i, NULL,
					      &ops[2 * i + 1]));
		}
		for (int i = 0; i < 2 * IN_TURN; i++) {
			int status = twt_finish(ops[i], NULL);

			if (status != TOW_OK)
				return 1;
		}
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

/* Drives the parent's side until the connection breaks; every operation must end in time. */
static void survive(struct twt_side *side, uint64_t kill_at_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *ops[2 * IN_TURN];
	uint64_t killed_ns = 0;
	int broken = 0;
	void *out, *in;

	options.timeout_ns = DEADLINE;
	TWT_OK(tow_alloc(side->runtime, LARGEST, 0, &out));
	TWT_OK(tow_alloc(side->runtime, LARGEST, 0, &in));
	memset(out, 2, LARGEST);
	while (!broken) {
		for (uint64_t i = 0; i < IN_TURN; i++) {
			TWT_OK(tow_recv_start(side->peer, in, LARGEST, i, &options, &ops[2 * i]));
			TWT_OK(tow_send_start(side->peer, out, size_of(i), i, &options,
					      &ops[2 * i + 1]));
		}
		for (int i = 0; i < 2 * IN_TURN; i++) {
			while (killed_ns == 0 && tow_op_test(ops[i]) == TOW_AGAIN) {
				if (now_ns() >= kill_at_ns) {
					kill(side->child, SIGKILL);
					killed_ns = now_ns();
				}
			}
			int status = twt_finish(ops[i], NULL);

			if (status == TOW_EPEER)
				broken = 1;
			else if (status != TOW_OK)
				fail_msg("operation %d ended with %s, %lld ms after the kill", i,
					 tow_status_name(status),
					 killed_ns == 0
						 ? -1ll
						 : (long long)(now_ns() - killed_ns) / 1000000);
		}
		if (killed_ns == 0 && now_ns() >= kill_at_ns) {
			kill(side->child, SIGKILL);
			killed_ns = now_ns();
		}
	}
	assert_true(killed_ns != 0 && now_ns() - killed_ns < DEADLINE);
	TWT_OK(tow_free(side->runtime, out));
	TWT_OK(tow_free(side->runtime, in));
}

static void one_killing(uint64_t *random)
{
	struct twi_pool_stats stats;
	struct twt_side side;
	int how;

	twt_pair(&side, lane_at, POOL, stream, NULL);
	survive(&side, now_ns() + twt_random_below(random, 20000000));
	TWT_OK(tow_peer_close(side.peer));
	twi_pool_stats(twi_runtime_engine(side.runtime)->pool, &stats);
	/* Whichever thread has sent zero-copy, this or the library's, only that one hears of it. */
	for (int i = 0; i < 2000 && stats.leased > 0; i++) {
		usleep(1000);
		tow_progress(side.runtime);
		twi_pool_stats(twi_runtime_engine(side.runtime)->pool, &stats);
	}
	assert_int_equal(stats.allocated, twi_runtime_engine(side.runtime)->staging.bytes);
	assert_int_equal(stats.leased, 0);
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

/* That a side is dead is seen after a fifth of a second: so long each killing waits. */
#define KILLERS 5

static void kill_some(size_t which)
{
	const char *text = getenv("TOW_KILL_ROUNDS");
	int rounds = ((text != NULL ? atoi(text) : 40) + KILLERS - 1) / KILLERS, fds;
	uint64_t random = seed + which;

	one_killing(&random); /* what is made once stays: count after it */
	fds = twt_fd_count();
	for (int i = 0; i < rounds; i++)
		one_killing(&random);
	assert_int_equal(twt_fd_count(), fds);
	printf("%d sides killed\n", rounds);
}

static void test_kill(void **state)
{
	(void)state;
	twt_beside(KILLERS, KILLERS, kill_some);
}

/* A host that has stopped answering: deadlines end what is in flight. */
static void test_stopped(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct twt_side side;
	struct tow_op *send, *recv;
	uint64_t word = 0, start;
	void *big;

	(void)state;
	options.timeout_ns = TWT_SECOND / 5;
	twt_pair(&side, lane_at, POOL, stream, NULL);
	TWT_OK(tow_alloc(side.runtime, LARGEST, 0, &big));
	kill(side.child, SIGSTOP);
	start = now_ns();
	TWT_OK(tow_send_start(side.peer, big, LARGEST, 777, &options, &send));
	TWT_OK(tow_recv_start(side.peer, &word, 8, 777, &options, &recv));
	assert_int_equal(twt_finish(send, NULL), TOW_EDEADLINE);
	assert_int_equal(twt_finish(recv, NULL), TOW_EDEADLINE);
	assert_true(now_ns() - start < TWT_SECOND);
	kill(side.child, SIGKILL);
	kill(side.child, SIGCONT);
	twt_pair_end(&side);
}

static int raw_connect(const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

static int say_hello(struct twt_side *side, void *arg)
{
	uint64_t word = 42;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_send_start(side->peer, &word, 8, 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(side->peer, &word, 8, 1, NULL, &op));
	if (twt_finish(op, NULL) == TOW_OK)
		return 0;
	fprintf(stderr, "no answer: %s\n", tow_error_message());
	return 1;
}

#define STRANGERS 300

/* Garbage, half handshakes and silence on the port: members go on, strangers are bounded. */
static void test_strangers(void **state)
{
	uint64_t random = seed, word = 0;
	char where[TOW_ADDRESS_MAX];
	int fds[STRANGERS];
	struct twt_side side;
	struct tow_op *op;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, say_hello, NULL);
	TWT_OK(tow_endpoint_address(side.endpoint, where, sizeof(where)));
	for (int i = 0; i < STRANGERS; i++) {
		uint8_t noise[200];

		fds[i] = raw_connect(where);
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)twt_random(&random);
		if (i % 3 != 0) /* a third says nothing at all */
			send(fds[i], noise, i % 3 == 1 ? 40 : sizeof(noise), MSG_NOSIGNAL);
		tow_progress(side.runtime);
	}
	TWT_OK(tow_recv_start(side.peer, &word, 8, 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(word, 42);
	TWT_OK(tow_send_start(side.peer, &word, 8, 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	assert_true(twi_counter_sum(twi_runtime_engine(side.runtime)->diag,
				    TWI_C_handshakes_refused) > 0);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* Nobody there, a peer that never answers: the connect says which. */
static void test_connect_fails(void **state)
{
	struct tow_runtime *runtime = twt_runtime(POOL);
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(in);
	struct tow_endpoint *endpoint;
	char where[TOW_ADDRESS_MAX];
	struct tow_op *op;
	int fd;

	(void)state;
	options.timeout_ns = TWT_SECOND / 10;
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &bytes), 0);
	snprintf(where, sizeof(where), "tcp://127.0.0.1:%u", ntohs(in.sin_port));
	TWT_OK(tow_connect_start(endpoint, where, &options, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EREFUSED);
	assert_int_equal(listen(fd, 1), 0); /* it takes the connection and never says anything */
	TWT_OK(tow_connect_start(endpoint, where, &options, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	TWT_OK(tow_connect_start(endpoint, where, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	close(fd);
	assert_int_equal(tow_connect_start(endpoint, "tcp://127.0.0.1", NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_connect_start(endpoint, "tcp://127.0.0.1:99999", NULL, &op),
			 TOW_EINVAL);
	assert_int_equal(tow_connect_start(endpoint, "udp://127.0.0.1:1", NULL, &op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "udp://"));
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tcp_tests[] = {
		cmocka_unit_test(test_connect_fails),
		cmocka_unit_test(test_strangers),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_kill),
	};
	int failed;

	seed = twt_seed();
	failed = cmocka_run_group_tests_name("tcp alone", tcp_tests, NULL, NULL);
	failed += cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
	lane_at = "shm://*";
	failed += cmocka_run_group_tests_name("shm", tests, NULL, NULL);
	return failed;
}
