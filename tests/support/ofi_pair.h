/*
 * ofi_pair.h - two processes joined by the ofi lane, for each provider of libfabric's that there
 * is. Builds upon pair.h; include twt.h first.
 *
 * Every scenario runs in a process of its own, so that libfabric is never carried over a fork.
 * TOW_TEST_OFI=PROVIDER tests that one alone, TOW_TEST_SCENARIO=NAME that scenario; a provider that
 * is not there is said and skipped.
 */
#ifndef TWT_OFI_PAIR_H
#define TWT_OFI_PAIR_H

#include "pair.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

#include "transport/engine.h"
#include "transport/ofi/ofi.h"
#include "transport/runtime.h"

#ifdef TWI_HAVE_OFI

#define POOL    (64 << 20)
#define MISSING 77
#define AT_ONCE 2 /* scenarios: each waits for libfabric to load */

static uint64_t seed;

static const char *provider;
static bool slow; /* sockets and udp: the same with less of it */

/* Which ways the scenario leaves. */
static struct {
	bool read, tagged;
	int prefers_tagged; /* -1: as it is */
} ways = { true, true, -1 };

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static inline void restrict_ways(struct tow_runtime *runtime)
{
	struct twi_lane *lane = twi_runtime_engine(runtime)->lanes[TWI_LANE_OFI];
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &twi_ofi_lane_of(lane)->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		port->reads = port->reads && ways.read;
		port->tagged = port->tagged && ways.tagged;
		if (ways.prefers_tagged >= 0)
			port->prefers_tagged = ways.prefers_tagged != 0;
	}
}

/* Ends a process where leaks are looked for, but not those of libfabric's net provider: it loses an
 * fi_info for each endpoint, and for each connection that it tries in vain. */
static inline void leave(int status)
{
	if (strcmp(provider, "net") == 0)
		_exit(status);
	exit(status);
}

/* The parent's runtime and endpoint; a provider that is not there ends the process. */
static inline void open_listener(struct twt_side *side)
{
	char address[TOW_ADDRESS_MAX];

	snprintf(address, sizeof(address), "ofi://%s", provider);
	side->runtime = twt_runtime(POOL);
	if (tow_endpoint_open(side->runtime, address, &side->endpoint) == TOW_ENOTSUP) {
		fprintf(stderr, "skipped: %s\n", tow_error_message());
		if (side->child > 0) {
			kill(side->child, SIGKILL);
			waitpid(side->child, NULL, 0);
		}
		_exit(MISSING);
	}
	restrict_ways(side->runtime);
}

/* As twt_pair, with the provider's address and the scenario's ways. */
static inline void open_pair(struct twt_side *side, int (*child)(struct twt_side *side, void *arg))
{
	char address[TOW_ADDRESS_MAX], where[TOW_ADDRESS_MAX];
	int fds[2];

	snprintf(address, sizeof(address), "ofi://%s", provider);
	if (pipe(fds) != 0 || (side->child = fork()) < 0)
		abort();
	if (side->child == 0) {
		int status;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[1]);
		if (read(fds[0], where, sizeof(where)) != (ssize_t)sizeof(where))
			_exit(99);
		close(fds[0]);
		side->runtime = twt_runtime(POOL);
		TWT_OK(tow_endpoint_open(side->runtime, address, &side->endpoint));
		restrict_ways(side->runtime);
		side->peer = twt_connect(side->endpoint, where);
		status = child(side, NULL);
		TWT_OK(tow_runtime_close(side->runtime));
		leave(status);
	}
	close(fds[0]);
	open_listener(side);
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	if (write(fds[1], where, sizeof(where)) != (ssize_t)sizeof(where))
		abort();
	close(fds[1]);
	side->peer = twt_accept(side->endpoint);
}

static inline void close_pair(struct twt_side *side)
{
	int how = twt_pair_end(side);

	assert_true(WIFEXITED(how));
	assert_int_equal(WEXITSTATUS(how), 0);
}

static inline int await(struct tow_op *op, struct tow_result *out)
{
	return twt_finish(op, out);
}

static inline void send_wait(struct twt_side *side, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(await(op, NULL));
}

static inline uint64_t recv_wait(struct twt_side *side, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(await(op, &result));
	return result.bytes;
}

/* Both sides go on when both are here. */
static inline void meet(struct twt_side *side)
{
	char word = 0;

	if (side->child != 0) {
		send_wait(side, &word, 1, 1ull << 60);
		recv_wait(side, &word, 1, 1ull << 60);
	} else {
		recv_wait(side, &word, 1, 1ull << 60);
		send_wait(side, &word, 1, 1ull << 60);
	}
}

struct ofi_scenario {
	const char *name;
	void (*run)(void);
	bool kills;
};

static const struct ofi_scenario *scenarios;
static size_t scenario_count;

/*
 * libfabric looks through all of the kernel's symbols, twice, when it is loaded: a third of the
 * time of a scenario. It is told that there are none.
 */
#ifndef TWT_SANITIZED
/* By its name in the library: stdio.h renames it where files have 64-bit offsets. */
__attribute__((visibility("default"))) FILE *twt_ofi_fopen(const char *path,
							   const char *mode) __asm__("fopen");

FILE *twt_ofi_fopen(const char *path, const char *mode)
{
	union {
		void *found;
		FILE *(*call)(const char *path, const char *mode);
	} real = { .found = dlsym(RTLD_NEXT, "fopen") };

	if (strcmp(path, "/proc/kallsyms") == 0) {
		errno = ENOENT;
		return NULL;
	}
	return real.call(path, mode);
}
#endif

/* The process of a scenario; 0: it is left out. */
static inline pid_t start_one(size_t which)
{
	pid_t child;

	/*
	 * A process that is killed while it holds a lock in libfabric's shared memory leaves the
	 * others turning in fi_cq_read for ever (1.17): there is nothing that we could test.
	 */
	if (strcmp(provider, "shm") == 0 && scenarios[which].kills)
		return 0;
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(100);
		setenv("TOW_PEER_TIMEOUT_NS", "3s", 1);
		setenv("TOW_HEARTBEAT_NS", "300ms", 1);
		scenarios[which].run();
		leave(0);
	}
	return child;
}

/* 0: passed; MISSING: the provider is not there; anything else has been said. */
static inline int judge_one(size_t which, int how)
{
	if (WIFEXITED(how) && (WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == MISSING))
		return WEXITSTATUS(how);
	printf("%s: %s: %s %d\n", provider, scenarios[which].name,
	       WIFSIGNALED(how) ? "signal" : "exit",
	       WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
	return 1;
}

static unsigned present;

struct ofi_running {
	size_t which;
	pid_t child; /* 0: none */
	uint64_t start_ns;
};

/* Waits for one of them to end; what judge_one says. */
static inline int end_one(struct ofi_running *running)
{
	for (;;) {
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct ofi_running *one = &running[i];
			int how = 0, rc;

			if (one->child == 0 || waitpid(one->child, &how, WNOHANG) != one->child)
				continue;
			one->child = 0;
			rc = judge_one(one->which, how);
			if (rc != MISSING)
				printf("%s: %s: %s, %llu ms\n", provider,
				       scenarios[one->which].name, rc == 0 ? "good" : "BAD",
				       (unsigned long long)(now_ns() - one->start_ns) / 1000000);
			return rc;
		}
		usleep(1000);
	}
}

static inline void start_next(struct ofi_running *running, size_t which)
{
	while (running->child != 0)
		running++;
	*running = (struct ofi_running){ which, start_one(which), now_ns() };
	if (running->child == 0)
		printf("%s: %s: left out: its locks outlive their holder\n", provider,
		       scenarios[which].name);
}

static inline size_t count_running(const struct ofi_running *running)
{
	size_t count = 0;

	for (size_t i = 0; i < AT_ONCE; i++)
		count += running[i].child != 0;
	return count;
}

/* The first scenario alone, for it finds out whether the provider is there; the others together. */
static inline void run_provider(const char *name, bool is_slow)
{
	const char *only = getenv("TOW_TEST_OFI"), *scenario = getenv("TOW_TEST_SCENARIO");
	struct ofi_running running[AT_ONCE] = { 0 };
	unsigned failures = 0;
	bool first = true;

	if (only != NULL && strcmp(only, name) != 0)
		return;
	provider = name;
	slow = is_slow;
	for (size_t i = 0; i < scenario_count; i++) {
		if (scenario != NULL && strcmp(scenario, scenarios[i].name) != 0)
			continue;
		if (count_running(running) == AT_ONCE)
			failures += end_one(running) != 0;
		start_next(running, i);
		if (first && count_running(running) > 0) {
			int rc = end_one(running);

			if (rc == MISSING) {
				printf("%s: not here\n", name);
				return;
			}
			failures += rc != 0;
			first = false;
		}
	}
	while (count_running(running) > 0)
		failures += end_one(running) != 0;
	present++;
	assert_int_equal(failures, 0);
}

static inline void net(void **state)
{
	(void)state;
	run_provider("net", false);
}

static inline void tcp(void **state)
{
	(void)state;
	run_provider("tcp;ofi_rxm", false);
}

static inline void shm(void **state)
{
	(void)state;
	run_provider("shm", false);
}

static inline void sockets(void **state)
{
	(void)state;
	run_provider("sockets", true);
}

static inline void udp(void **state)
{
	(void)state;
	run_provider("udp;ofi_rxd", true);
}

/* Runs the table over every provider; what a test program returns. */
static inline int ofi_main(const struct ofi_scenario *table, size_t count)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net),     cmocka_unit_test(tcp), cmocka_unit_test(shm),
		cmocka_unit_test(sockets), cmocka_unit_test(udp),
	};
	int failed;

	scenarios = table;
	scenario_count = count;
	seed = twt_seed();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (failed == 0 && present == 0) {
		printf("skipped: libfabric has none of these providers here\n");
		return 77;
	}
	return failed;
}

#else

#define ofi_main(table, count) (printf("skipped: %s\n", TWI_OFI_OFF), 77)

#endif
#endif
