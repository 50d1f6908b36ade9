/*
 * test_tcp_sockets.c - what a tcp endpoint's sockets are: they come from the endpoint's own
 * address, also when a line is resumed; when there is no descriptor for one, both sides are told at
 * once; and what is known of one whose SYN nobody answers.
 */
#include "twt.h"

#include <sys/resource.h>

#include "duo.h"

#include "diag/judge/rank_state.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define USED_UP 6 /* a tag beside that of the traffic */

static const char *host; /* that the child's endpoint is bound to */

/* The library's thread may be at work, so the engine is held. */
static bool comes_from(struct twt_duo *duo, struct twi_tcp_peer *peer, unsigned line,
		       const char *text)
{
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);
	struct twi_tcp_address from;
	char address[TOW_ADDRESS_MAX];
	bool known;

	twi_engine_enter(engine);
	known = peer->lines[line].stream != NULL &&
		twi_tcp_remote(peer->lines[line].stream->fd, &from);
	twi_engine_leave(engine);
	if (!known)
		return false;
	twi_tcp_format(&from, address);
	return strncmp(address, text, strlen(text)) == 0;
}

static void break_lines(struct twt_duo *duo, struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);

	twi_engine_enter(engine);
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (peer->lines[i].stream != NULL)
			shutdown(peer->lines[i].stream->fd, SHUT_RDWR);
	}
	twi_engine_leave(engine);
}

static unsigned resumes_of(struct twt_duo *duo, struct twi_tcp_peer *peer, unsigned line)
{
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);
	unsigned resumes;

	twi_engine_enter(engine);
	resumes = (unsigned)peer->lines[line].resumes;
	twi_engine_leave(engine);
	return resumes;
}

/* A line that is dialed again has no connected stream for a while, long on a busy machine. */
static bool line_comes_from(struct twt_duo *duo, struct twi_tcp_peer *peer, unsigned line,
			    const char *text)
{
	for (int i = 0; i < 10000; i++) {
		if (comes_from(duo, peer, line, text))
			return true;
		tow_progress(duo->side.runtime);
		usleep(1000);
	}
	return false;
}

static void bind_child(struct twt_duo *duo)
{
	duo->address = host;
}

/* The last traffic keeps the peer open until the parent has seen every line dialed again. */
static int child_waits(struct twt_duo *duo)
{
	int wrong = 0;

	for (int i = 0; i < 3; i++)
		wrong += twt_duo_traffic(duo, 1 << 20, NULL);
	return wrong;
}

static void check_source(const char *bound, const char *listening, const char *from)
{
	struct twi_tcp_peer *peer;
	struct twt_duo duo;

	twt_duo_init(&duo);
	duo.address = listening;
	duo.prepare = bind_child;
	duo.parent.bulk_streams = duo.child.bulk_streams = 2;
	host = bound;
	twt_duo_open(&duo, child_waits);
	peer = (struct twi_tcp_peer *)(void *)duo.side.peer;
	assert_int_equal(peer->line_count, 3);
	for (unsigned i = 0; i < peer->line_count; i++)
		assert_true(comes_from(&duo, peer, i, from));
	assert_int_equal(twt_duo_traffic(&duo, 1 << 20, NULL), 0);
	/* and when they are dialed again */
	break_lines(&duo, peer);
	assert_int_equal(twt_duo_traffic(&duo, 1 << 20, NULL), 0);
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (resumes_of(&duo, peer, i) > 0)
			assert_true(line_comes_from(&duo, peer, i, from));
	}
	assert_true(resumes_of(&duo, peer, 0) > 0);
	assert_int_equal(twt_duo_traffic(&duo, 1 << 20, NULL), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

static void test_source_address(void **state)
{
	(void)state;
	check_source("tcp://127.0.0.2:0", "tcp://127.0.0.1:0", "tcp://127.0.0.2:");
	check_source("tcp://[::1]:0", "tcp://[::1]:0", "tcp://[::1]:");
	/* a wildcard: the kernel's choice, as before */
	check_source("tcp://0.0.0.0:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:");
	/* not an address to reach the host's loopback by */
	check_source("tcp://[::1]:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:");
}

/* All descriptors but `left` are used up. */
static void use_up(int left)
{
	struct rlimit limit;
	int fd, highest = 0;

	do {
		fd = dup(0);
		highest = fd > highest ? fd : highest;
	} while (fd >= 0 && fd < 400);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)highest + 1;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (dup(0) >= 0)
		;
	for (int i = 0; i < left; i++)
		close(highest - i);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

/* The connecting side has none: the start says so, or the operation, when a bulk stream fails. */
static int child_without(struct twt_duo *duo)
{
	char where[TOW_ADDRESS_MAX];
	int status, wrong = 0;

	/* The first address: the parent's endpoint takes more than one peer. */
	snprintf(where, sizeof(where), "%s", duo->side.peer->address);
	for (int left = 0; left < 2; left++) {
		struct tow_op *op = NULL;
		uint64_t start = now_ns();

		use_up(left);
		status = tow_connect_start(duo->side.endpoint, where, NULL, &op);
		if (status == TOW_OK)
			status = tow_op_wait(op, 20 * TWT_SECOND);
		if (status != TOW_EBUSY || strstr(tow_error_message(), "ulimit -n") == NULL ||
		    now_ns() - start > 3 * TWT_SECOND) {
			fprintf(stderr, "%d left: %s: %s\n", left, tow_status_name(status),
				tow_error_message());
			wrong = 1;
		}
		if (op != NULL)
			tow_op_release(op);
	}
	return wrong + twt_duo_traffic(duo, 1 << 20, NULL);
}

static void test_connector_without_descriptors(void **state)
{
	struct twt_duo duo;
	struct tow_op *op;

	(void)state;
	twt_duo_init(&duo);
	twt_duo_open(&duo, child_without);
	TWT_OK(tow_accept_start(duo.side.endpoint, NULL, &op));
	assert_int_equal(twt_duo_traffic(&duo, 1 << 20, NULL), 0);
	tow_op_cancel(op);
	tow_op_release(op);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* Connects to a parent that has no descriptor left. */
static int child_turned_away(struct twt_duo *duo)
{
	char where[TOW_ADDRESS_MAX];
	int status, wrong = 0;
	struct tow_op *op;
	uint64_t start;

	snprintf(where, sizeof(where), "%s", duo->side.peer->address);
	TWT_OK(tow_recv_start(duo->side.peer, NULL, 0, USED_UP, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	start = now_ns();
	TWT_OK(tow_connect_start(duo->side.endpoint, where, NULL, &op));
	status = tow_op_wait(op, 20 * TWT_SECOND);
	if (status != TOW_EREFUSED || strstr(tow_error_message(), "ulimit -n") == NULL ||
	    now_ns() - start > 5 * TWT_SECOND) {
		fprintf(stderr, "%s: %s, %llu ms\n", tow_status_name(status), tow_error_message(),
			(unsigned long long)((now_ns() - start) / 1000000));
		wrong = 1;
	}
	tow_op_release(op);
	return wrong + twt_duo_traffic(duo, 1 << 20, NULL);
}

static void test_acceptor_without_descriptors(void **state)
{
	struct rlimit limit;
	struct twt_duo duo;
	struct tow_op *op;
	char *info;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	twt_duo_init(&duo);
	twt_duo_open(&duo, child_turned_away);
	TWT_OK(tow_accept_start(duo.side.endpoint, NULL, &op));
	use_up(0);
	TWT_OK(tow_send_start(duo.side.peer, NULL, 0, USED_UP, NULL, NULL));
	assert_int_equal(twt_duo_traffic(&duo, 1 << 20, NULL), 0);
	assert_int_equal(tow_op_test(op), TOW_AGAIN); /* who was turned away is not its peer */
	TWT_OK(tow_stats_get(duo.side.runtime, "/v1/info", &info));
	assert_non_null(strstr(info, "ulimit -n"));
	tow_stats_release(info);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	tow_op_cancel(op);
	tow_op_release(op);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* A socket that listens and has no room for one more connection: its SYNs go unanswered. */
static int full_listener(int fds[4], char where[TOW_ADDRESS_MAX])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);

	for (int i = 0; i < 4; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i > 0 ? SOCK_NONBLOCK : 0),
				0);
	if (bind(fds[0], (struct sockaddr *)&at, bytes) != 0 || listen(fds[0], 0) != 0 ||
	    getsockname(fds[0], (struct sockaddr *)&at, &bytes) != 0)
		return -1;
	for (int i = 1; i < 4; i++)
		(void)!connect(fds[i], (struct sockaddr *)&at, bytes);
	snprintf(where, TOW_ADDRESS_MAX, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static void test_unanswered(void **state)
{
	struct tow_options options = twt_duo_options();
	struct twi_state_dial dial = { 0 };
	char where[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_op *op;
	int fds[4];

	(void)state;
	assert_int_equal(full_listener(fds, where), 0);
	options.connect_timeout_ns = 3 * (int64_t)TWT_SECOND;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_connect_start(endpoint, where, NULL, &op));
	engine = twi_runtime_engine(runtime);
	for (int i = 0; i < 2500 && dial.syns == 0; i++) {
		tow_progress(runtime);
		usleep(1000);
		dial = (struct twi_state_dial){ 0 };
		twi_engine_enter(engine);
		twi_connect_measure(op, &dial);
		twi_engine_leave(engine);
	}
	assert_true(dial.syns > 0);
	assert_true(dial.syn_ns > 0);
	assert_string_equal(dial.address, where);
	/* What is left when it has failed. */
	assert_int_equal(tow_op_wait(op, 20 * TWT_SECOND), TOW_EDEADLINE);
	assert_int_equal(op->moved, ETIMEDOUT);
	tow_op_release(op);
	/* Nobody listens there any more. */
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	TWT_OK(tow_connect_start(endpoint, where, NULL, &op));
	assert_int_equal(tow_op_wait(op, 20 * TWT_SECOND), TOW_EREFUSED);
	assert_int_equal(op->moved, ECONNREFUSED);
	tow_op_release(op);
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_source_address),
		cmocka_unit_test(test_connector_without_descriptors),
		cmocka_unit_test(test_acceptor_without_descriptors),
		cmocka_unit_test(test_unanswered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
