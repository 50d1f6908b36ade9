/*
 * test_group_faults.c - the Nth call fails while a job of two comes together: a store's server and
 * its clients, then whole groups. Either it works all the same, or it fails with a status that says
 * so; nothing is left open, and the next try works.
 */
#include "twt.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include <towline/towline.h>

#include "beside.h"
#include "fault_net.h"

/* A side whose call has failed may leave the other waiting until then; they meet in 10 ms. */
#ifdef TWT_SANITIZED
#define MEET_NS 700000000u
#else
#define MEET_NS 400000000u
#endif

struct side {
	struct tow_runtime *runtime;
	pthread_t thread;
	int64_t rank;
	int status;
	uint64_t timeout_ns;
};

static char store[64];

/* One rank's open, barrier and close. */
static void *go(void *arg)
{
	struct side *side = arg;
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	struct tow_group *group;

	options.rank = side->rank;
	options.world_size = 2;
	options.store = store;
	options.timeout_ns = side->timeout_ns;
	side->status = tow_group_open(side->runtime, &options, &group);
	if (side->status < 0)
		return NULL;
	side->status = tow_group_barrier(group, side->timeout_ns);
	tow_group_close(group);
	return NULL;
}

static void open_sides(struct side sides[2])
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	for (int i = 0; i < 2; i++) {
		sides[i] = (struct side){ .rank = i };
		assert_int_equal(tow_runtime_open(&options, &sides[i].runtime), TOW_OK);
	}
}

/*
 * A port that is ours for the whole run: bound without listening, so that nobody else is given it,
 * while rank 0 may listen there.
 */
static void reserve_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(store, sizeof(store), "127.0.0.1:%u", ntohs(at.sin_port));
}

/* A job of the two: rank 1 in a thread, rank 0 here. */
static void meet(struct side sides[2], uint64_t timeout_ns)
{
	sides[0].timeout_ns = sides[1].timeout_ns = timeout_ns;
	assert_int_equal(pthread_create(&sides[1].thread, NULL, go, &sides[1]), 0);
	go(&sides[0]);
	pthread_join(sides[1].thread, NULL);
}

static void expect_well(struct side sides[2])
{
	meet(sides, 30000000000u);
	if (sides[0].status != TOW_OK || sides[1].status != TOW_OK)
		fail_msg("%s, %s: %s", tow_status_name(sides[0].status),
			 tow_status_name(sides[1].status), tow_error_message());
}

static bool is_legal(int status)
{
	return status == TOW_OK || status == TOW_ESYSTEM || status == TOW_ENOMEM ||
	       status == TOW_EDEADLINE || status == TOW_EPEER || status == TOW_EREFUSED ||
	       status == TOW_EBUSY || status == TOW_EPERM ||
	       status == TOW_ENOTSUP; /* of tow://, when no lane was left */
}

static void judge(struct side sides[2], const char *call, int nth)
{
	for (int i = 0; i < 2; i++) {
		if (!is_legal(sides[i].status))
			fail_msg("%s %d: rank %d ends with %s: %s", call, nth, i,
				 tow_status_name(sides[i].status), tow_error_message());
	}
}

/* Open sockets: rings and their eventfds come and go with threads, these must not. */
static int socket_count(void)
{
	char path[64], target[64];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target) - 1);
		count += length > 7 && strncmp(target, "socket:", 7) == 0;
	}
	return count;
}

/* Each call of each kind in turn, until there is none left. */
static void calls(void **state)
{
	static const struct {
		enum twt_net_fault call;
		const char *name;
	} rows[] = {
		{ TWT_SOCKET, "socket" },   { TWT_BIND, "bind" },       { TWT_LISTEN, "listen" },
		{ TWT_CONNECT, "connect" }, { TWT_ACCEPT4, "accept4" }, { TWT_EVENTFD, "eventfd" },
	};
	struct side sides[2];
	int met = 0;

	(void)state;
	reserve_port();
	open_sides(sides);
	expect_well(sides);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int sockets = socket_count(), nth;

		for (nth = 1; nth < 40; nth++) {
			twt_net_fault_arm(rows[i].call, nth);
			meet(sides, MEET_NS);
			if (!twt_net_fault_off())
				break;
			met++;
			judge(sides, rows[i].name, nth);
		}
		assert_true(nth < 40);
		expect_well(sides);
		/* Connections of groups are closed a moment later, by whoever drives. */
		for (int wait = 0; wait < 200 && socket_count() > sockets; wait++) {
			tow_progress(sides[0].runtime);
			tow_progress(sides[1].runtime);
			usleep(10000);
		}
		assert_true(socket_count() <= sockets);
	}
	assert_true(met >= 10);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tow_runtime_close(sides[i].runtime), TOW_OK);
}

#ifndef TWT_SANITIZED
static void memory(void **state)
{
	struct side sides[2];
	int nth, met = 0;

	(void)state;
	reserve_port();
	open_sides(sides);
	expect_well(sides);
	for (nth = 1; nth < 200; nth++) {
		twt_fault_arm(TWT_CALLOC, nth);
		meet(sides, MEET_NS);
		if (!twt_fault_off())
			break;
		met++;
		judge(sides, "calloc", nth);
	}
	assert_true(nth < 200 && met > 5);
	for (nth = 1; nth < 20; nth++) {
		twt_fault_arm(TWT_PTHREAD_CREATE, nth);
		/* The first is the test's own, for rank 1. */
		if (nth > 1)
			meet(sides, MEET_NS);
		if (nth > 1 && !twt_fault_off())
			break;
		judge(sides, "pthread_create", nth);
	}
	twt_fault_off();
	expect_well(sides);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tow_runtime_close(sides[i].runtime), TOW_OK);
}
#else
static void memory(void **state)
{
	(void)state;
	print_message("sanitizers keep calloc and pthread_create for themselves\n");
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls),
		cmocka_unit_test(memory),
	};

	/* Each fault costs the other rank its deadline. */
	return twt_beside_tests(tests, 2, 1, 2);
}
