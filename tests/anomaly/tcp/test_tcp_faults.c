/*
 * test_tcp_faults.c - calls of the tcp lane that fail, one by one: socket, bind, listen, connect,
 * accept4 (once, and for a while), setsockopt, malloc and calloc, while two runtimes connect,
 * exchange a message and close. Each failure has a status and a text, or is got over; nothing stays
 * open.
 */
#include "twt.h"

#include "fault_net.h"
#include "pair.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define SECOND 1000000000ull

static _Atomic int refuse_option = -1;
static _Atomic int options_set;

int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	atomic_fetch_add(&options_set, 1);
	if (level == IPPROTO_TCP && option == atomic_load(&refuse_option)) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, option, value, bytes);
}

static struct tow_runtime *runtimes[2];
static struct tow_endpoint *endpoints[2];

static uint64_t counter(struct tow_runtime *runtime, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(runtime)->diag, id);
}

static void open_both(const struct tow_options *options)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tow_runtime_open(options, &runtimes[i]), TOW_OK);
		endpoints[i] = NULL;
	}
}

/* What one says last needs the other to read it; a close that nobody answers waits a second. */
static void settle(void)
{
	uint64_t quiet = twi_now_ns(), until = quiet + SECOND / 10;

	while (twi_now_ns() < until && twi_now_ns() < quiet + SECOND / 500) {
		for (int i = 0; i < 2; i++) {
			if (tow_progress(runtimes[i]) == TOW_OK)
				quiet = twi_now_ns();
		}
	}
}

static void close_both(void)
{
	settle();
	/* The one that connected first: its BYEs find somebody who reads. */
	assert_int_equal(tow_runtime_close(runtimes[1]), TOW_OK);
	assert_int_equal(tow_runtime_close(runtimes[0]), TOW_OK);
}

static struct tow_options options_of(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 1 << 20;
	options.stats = 0;
	options.max_ops = 256;
	options.connect_timeout_ns = 20 * (int64_t)SECOND;
	options.background = 0;
	return options;
}

static int open_endpoint(int i)
{
	return tow_endpoint_open(runtimes[i], "tcp://127.0.0.1:0", &endpoints[i]);
}

/* Connects and sends a word; the first status that is not TOW_OK, with a text. */
static int talk(void)
{
	uint64_t out = 42, in = 0;
	struct tow_op *accept = NULL, *connect = NULL, *send, *recv;
	struct tow_peer *theirs, *ours;
	struct tow_result result;
	char where[TOW_ADDRESS_MAX];
	int status = TOW_OK;

	for (int i = 0; i < 2 && status == TOW_OK; i++)
		status = endpoints[i] != NULL ? TOW_OK : open_endpoint(i);
	if (status < 0)
		return status;
	assert_int_equal(tow_endpoint_address(endpoints[0], where, sizeof(where)), TOW_OK);
	status = tow_connect_start(endpoints[1], where, NULL, &connect);
	if (status < 0)
		return status;
	status = twt_finish_driving(connect, &result, runtimes, 2);
	if (status < 0)
		return status;
	ours = result.peer;
	assert_int_equal(tow_accept_start(endpoints[0], NULL, &accept), TOW_OK);
	status = twt_finish_driving(accept, &result, runtimes, 2);
	assert_int_equal(status, TOW_OK);
	theirs = result.peer;
	assert_int_equal(tow_recv_start(theirs, &in, 8, 1, NULL, &recv), TOW_OK);
	assert_int_equal(tow_send_start(ours, &out, 8, 1, NULL, &send), TOW_OK);
	/* A side without memory for a message that nobody has posted for yet ends the peer. */
	status = twt_finish_driving(send, NULL, runtimes, 2);
	if (status == TOW_OK)
		status = twt_finish_driving(recv, NULL, runtimes, 2);
	else
		twt_finish_driving(recv, NULL, runtimes, 2);
	assert_true(status < 0 || in == 42);
	assert_int_equal(tow_peer_close(ours), TOW_OK);
	assert_int_equal(tow_peer_close(theirs), TOW_OK);
	return status;
}

static void nth_of(enum twt_net_fault call, bool gets_over)
{
	struct tow_options options = options_of();
	int fds, reached = 1, n;

	open_both(&options);
	assert_int_equal(talk(), TOW_OK);
	close_both();
	fds = twt_fd_count();
	for (n = 1; n < 60 && reached; n++) {
		int status;

		open_both(&options);
		twt_net_fault_arm(call, n);
		status = talk();
		reached = twt_net_fault_off();
		if (status < 0) {
			assert_true(reached && !gets_over);
			assert_true(strlen(tow_error_message()) > 0);
			assert_int_equal(talk(), TOW_OK); /* and then it works */
		}
		close_both();
		assert_int_equal(twt_fd_count(), fds);
	}
	assert_false(reached);
	assert_true(n > 2); /* it was reached at least once */
}

static void test_sockets(void **state)
{
	(void)state;
	nth_of(TWT_SOCKET, false);
	nth_of(TWT_BIND, false);
	nth_of(TWT_LISTEN, false);
	nth_of(TWT_CONNECT, false);
}

static void test_accept(void **state)
{
	(void)state;
	nth_of(TWT_ACCEPT4, true);
}

#ifndef TWT_SANITIZED
static void test_memory(void **state)
{
	struct tow_options options = options_of();
	int reached = 1, failed = 0, n;

	(void)state;
	for (n = 1; n < 200 && reached; n++) {
		int status;

		open_both(&options);
		twt_net_fault_arm(TWT_MALLOC, n);
		status = talk();
		reached = twt_net_fault_off();
		if (status < 0) {
			failed++;
			assert_int_equal(talk(), TOW_OK);
		}
		close_both();
		reached = reached || status < 0;
	}
	assert_true(failed > 0);
	for (reached = 1, failed = 0, n = 1; n < 60 && reached; n++) {
		int status;

		open_both(&options);
		twt_fault_arm(TWT_CALLOC, n);
		status = talk();
		reached = twt_fault_off();
		if (status < 0) {
			failed++;
			assert_int_equal(talk(), TOW_OK);
		}
		close_both();
	}
	assert_true(failed > 0);
}
#endif

/* No descriptor is left for a while: who waits in the kernel's queue comes in when there is. */
static void test_no_descriptors(void **state)
{
	struct tow_options options = options_of();
	struct rlimit limit, low;
	char where[TOW_ADDRESS_MAX];
	struct tow_op *connect;
	int next;

	(void)state;
	open_both(&options);
	assert_int_equal(open_endpoint(0), TOW_OK);
	assert_int_equal(open_endpoint(1), TOW_OK);
	assert_int_equal(tow_endpoint_address(endpoints[0], where, sizeof(where)), TOW_OK);
	tow_progress(runtimes[0]);
	tow_progress(runtimes[1]);
	assert_int_equal(tow_connect_start(endpoints[1], where, NULL, &connect), TOW_OK);
	next = dup(0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (uint64_t until = twi_now_ns() + SECOND / 2; twi_now_ns() < until;) {
		tow_progress(runtimes[0]);
		tow_progress(runtimes[1]);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(twt_finish_driving(connect, NULL, runtimes, 2), TOW_OK);
	assert_true(counter(runtimes[0], TWI_C_accept_failures) > 1);
	/* It paused between them: half a second is 1 + 2 + ... + 64 ms, then every 100 ms. */
	assert_true(counter(runtimes[0], TWI_C_accept_failures) < 30);
	close_both();
}

struct found {
	int lines;
	const char *text;
};

static void count_line(void *arg, uint64_t ns, int level, const char *text)
{
	struct found *found = arg;

	(void)ns, (void)level;
	found->lines += strstr(text, found->text) != NULL;
}

/* A setting that the kernel refuses is said once, by its knob, and everything goes on. */
static void test_refused_options(void **state)
{
	static const struct {
		int option;
		const char *knob;
	} refused[] = { { TCP_CONGESTION, "congestion" },
			{ TCP_USER_TIMEOUT, "peer_timeout_ns" },
			{ TCP_KEEPIDLE, "heartbeat_ns" } };
	struct tow_options options = options_of();

	(void)state;
	options.congestion = "cubic";
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct found found = { .text = refused[i].knob };

		open_both(&options);
		atomic_store(&refuse_option, refused[i].option);
		assert_int_equal(talk(), TOW_OK);
		atomic_store(&refuse_option, -1);
		twi_log_read(twi_runtime_engine(runtimes[1])->diag, count_line, &found);
		assert_int_equal(found.lines, 1);
		close_both();
	}
	assert_true(atomic_load(&options_set) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sockets),        cmocka_unit_test(test_accept),
		cmocka_unit_test(test_no_descriptors), cmocka_unit_test(test_refused_options),
#ifndef TWT_SANITIZED
		cmocka_unit_test(test_memory),
#endif
	};

	if (getenv("TWT_ONLY") != NULL)
		cmocka_set_test_filter(getenv("TWT_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
