/*
 * test_deadlines.c - the descriptor of tow_fd fires for what is due though nothing comes: deadlines
 * of operations, whoever started them, and of handshakes, copies of a device that is polled; and
 * 60,000 operations end, none early.
 */
#include "pair.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "twt.h"

#define MANY 60000

static struct tow_runtime *runtime;
static struct tow_endpoint *endpoint;
static struct tow_peer *from, *to;

static int open_it(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *dial;
	struct tow_result result;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.background = 0; /* it would do the work before this thread can */
	options.connect_timeout_ns = 300000000;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	TWT_OK(tow_accept_start(endpoint, NULL, &accept));
	TWT_OK(tow_connect_start(endpoint, address, NULL, &dial));
	assert_int_equal(twt_finish(dial, &result), TOW_OK);
	from = result.peer;
	assert_int_equal(twt_finish(accept, &result), TOW_OK);
	to = result.peer;
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	TWT_OK(tow_runtime_close(runtime));
	return 0;
}

static void count(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	++*(unsigned *)result->user;
}

/* An event loop: calls only when the descriptor says so; a silence of 10 s is a failure. */
static void serve(int fd, const unsigned *done, unsigned want)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	while (*done < want) {
		assert_int_equal(poll(&poller, 1, 10000), 1);
		while (tow_progress(runtime) == TOW_OK)
			;
	}
}

static void start_recv(uint64_t tag, uint64_t timeout_ns, unsigned *done, struct tow_op **op)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	static uint64_t room;

	options.timeout_ns = timeout_ns;
	options.done = count;
	options.user = done;
	TWT_OK(tow_recv_start(to, &room, sizeof(room), tag, &options, op));
}

static void expired(struct tow_op *op)
{
	assert_int_equal(tow_op_test(op), TOW_EDEADLINE);
	TWT_OK(tow_op_release(op));
}

static void test_own_deadline(void **state)
{
	struct tow_op *late, *soon;
	unsigned done = 0;
	int fd;

	(void)state;
	TWT_OK(tow_fd(runtime, &fd));
	start_recv(1, 1500000000, &done, &late); /* a busy machine may stand still for a while */
	start_recv(2, 30000000, &done, &soon);   /* sooner than what the timer was set to */
	serve(fd, &done, 1);
	expired(soon);
	assert_int_equal(tow_op_test(late), TOW_AGAIN);
	serve(fd, &done, 2);
	expired(late);
}

static unsigned others_done;
static struct tow_op *others_op;

static void *start_elsewhere(void *arg)
{
	(void)arg;
	start_recv(3, 50000000, &others_done, &others_op);
	return NULL;
}

static void test_deadline_of_another_thread(void **state)
{
	pthread_t other;
	int fd;

	(void)state;
	TWT_OK(tow_fd(runtime, &fd));
	assert_int_equal(pthread_create(&other, NULL, start_elsewhere, NULL), 0);
	pthread_join(other, NULL);
	serve(fd, &others_done, 1);
	expired(others_op);
}

/* A handshake that never comes to its end, as nobody answers at the other side. */
static void test_deadline_of_a_lane(void **state)
{
	struct sockaddr_in silent = { .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	socklen_t bytes = sizeof(silent);
	char address[TOW_ADDRESS_MAX];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	unsigned done = 0;
	struct tow_op *op;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)(void *)&silent, bytes), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)(void *)&silent, &bytes), 0);
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ntohs(silent.sin_port));
	TWT_OK(tow_fd(runtime, &fd));
	options.done = count;
	options.user = &done;
	TWT_OK(tow_connect_start(endpoint, address, &options, &op));
	serve(fd, &done, 1);
	assert_int_equal(tow_op_test(op), TOW_EDEADLINE); /* by connect_timeout_ns */
	TWT_OK(tow_op_release(op));
	close(listener);
}

/* Copies whose device must be asked whether they have ended (the plugin's are, the second time). */
static void test_polled_copies(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_device_memory *memory;
	struct tow_device *device;
	char spec[600];
	unsigned done = 0;
	struct tow_op *op;
	void *host;
	int fd;

	(void)state;
	snprintf(spec, sizeof(spec), "pjrt:%s/tests/libfake_pjrt.so", getenv("TOW_TEST_BUILD"));
	TWT_OK(tow_fd(runtime, &fd));
	TWT_OK(tow_device_open(runtime, spec, &device));
	TWT_OK(tow_device_alloc(device, 4096, &memory));
	TWT_OK(tow_alloc(runtime, 4096, 0, &host));
	options.done = count;
	options.user = &done;
	for (unsigned i = 1; i <= 20; i++) {
		TWT_OK(tow_device_copy_start(device, TOW_TO_DEVICE, memory, 0, host, 4096, &options,
					     &op));
		serve(fd, &done, i);
		assert_true(tow_op_test(op) >= 0);
		TWT_OK(tow_op_release(op));
	}
	TWT_OK(tow_free(runtime, host));
	TWT_OK(tow_device_free(memory));
	TWT_OK(tow_device_close(device));
}

static unsigned early;

static void never_early(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	early += result->status == TOW_EDEADLINE &&
		 result->latency_ns < (uint64_t)(uintptr_t)result->user;
}

static void test_many(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op **ops = calloc(MANY, sizeof(struct tow_op *));
	uint64_t random = twt_seed(), room;
	unsigned taken = 0;

	(void)state;
	options.done = never_early;
	for (unsigned i = 0; i < MANY; i++) {
		options.timeout_ns = 1000000000 + twt_random_below(&random, 1000000000);
		options.user = (void *)(uintptr_t)options.timeout_ns;
		TWT_OK(tow_recv_start(to, &room, sizeof(room), 100 + i, &options, &ops[i]));
	}
	for (unsigned i = 0; i < MANY; i += 7) { /* some go before their time, from anywhere */
		TWT_OK(tow_op_cancel(ops[i]));
		taken += tow_op_test(ops[i]) == TOW_ECANCELED;
	}
	assert_int_equal(taken, (MANY + 6) / 7);
	for (unsigned i = 0; i < MANY; i++) {
		int status = tow_op_wait(ops[i], 20 * TWT_SECOND);

		assert_int_equal(status, i % 7 == 0 ? TOW_ECANCELED : TOW_EDEADLINE);
		TWT_OK(tow_op_release(ops[i]));
	}
	assert_int_equal(early, 0);
	free(ops);
}

/* The table gives every row again, and refuses one too many, by name. */
static void test_all_rows(void **state)
{
	struct tow_op **ops = calloc(65537, sizeof(struct tow_op *));
	uint64_t room;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		unsigned count = 0;
		int status;

		do
			status = tow_recv_start(to, &room, sizeof(room), 1, NULL, &ops[count]);
		while (status == TOW_OK && ++count <= 65536);
		assert_int_equal(status, TOW_EBUSY);
		assert_non_null(strstr(tow_error_message(), "max_ops"));
		assert_int_equal(count, 65536);
		for (unsigned i = 0; i < count; i++) {
			TWT_OK(tow_op_cancel(ops[i]));
			TWT_OK(tow_op_release(ops[i]));
			assert_int_equal(tow_op_release(ops[i]), TOW_EINVAL);
		}
	}
	free(ops);
}

/* What is started without a handle: a failure is counted, and nothing stays behind. */
static void test_forgotten(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t room, value = 9;
	unsigned done = 0;
	struct tow_op *op;
	char *text;

	(void)state;
	assert_int_equal(tow_recv_start(to, &room, sizeof(room), 1, NULL, NULL), TOW_EINVAL);
	options.done = count;
	options.user = &done;
	TWT_OK(tow_recv_start(to, &room, sizeof(room), 1, &options, NULL));
	TWT_OK(tow_send_start(from, &value, sizeof(value), 1, NULL, NULL));
	TWT_OK(tow_recv_start(to, &room, sizeof(room), 2, NULL, &op));
	TWT_OK(tow_send_start(from, &value, sizeof(value), 2, NULL, NULL));
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
	assert_int_equal(done, 1);
	options.timeout_ns = 1000000;
	TWT_OK(tow_recv_start(to, &room, sizeof(room), 3, &options, NULL));
	for (int i = 0; i < 10000 && done < 2; i++) {
		usleep(1000);
		tow_progress(runtime);
	}
	assert_int_equal(done, 2);
	TWT_OK(tow_stats_get(runtime, "/v1/info", &text));
	assert_non_null(strstr(text, "was started without a handle and failed"));
	tow_stats_release(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_deadline),
		cmocka_unit_test(test_deadline_of_another_thread),
		cmocka_unit_test(test_deadline_of_a_lane),
		cmocka_unit_test(test_polled_copies),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_all_rows),
		cmocka_unit_test(test_forgotten),
	};

	return cmocka_run_group_tests(tests, open_it, close_it);
}
