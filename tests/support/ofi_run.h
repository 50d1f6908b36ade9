/*
 * ofi_run.h - runs scenarios over every provider of libfabric's that there is; include twt.h first.
 *
 * Every scenario runs in a process of its own, so that libfabric is never carried over a fork.
 * TOW_TEST_OFI=PROVIDER tests that one alone, TOW_TEST_SCENARIO=NAME that scenario; a provider that
 * is not there is said and skipped.
 */
#ifndef TWT_OFI_RUN_H
#define TWT_OFI_RUN_H

#include "ofi_pair.h"

#include <dlfcn.h>
#include <errno.h>

#ifdef TWI_HAVE_OFI

#define AT_ONCE 2 /* scenarios: each waits for libfabric to load */

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
