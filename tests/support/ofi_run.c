/* ofi_run.c - scenarios over every provider. */
#include "ofi_run.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "beside.h"

#ifdef TWI_HAVE_OFI

#define AT_ONCE   2 /* scenarios: each waits for libfabric to load */
#define PROVIDERS 3 /* at once, each in a process of its own */

static const struct twt_ofi_scenario *scenarios;
static size_t scenario_count;
static _Atomic unsigned *present; /* providers, counted by all processes */

struct ofi_running {
	size_t which;
	pid_t child; /* 0: none */
	uint64_t start_ns;
};

/* The process of a scenario; 0: it is left out. */
static pid_t start_one(size_t which)
{
	pid_t child;

	/*
	 * A process that is killed while it holds a lock in libfabric's shared memory leaves the
	 * others turning in fi_cq_read for ever (1.17): there is nothing that we could test.
	 */
	if (strcmp(twt_ofi.provider, "shm") == 0 && scenarios[which].kills)
		return 0;
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(100);
		/* Who is killed is found dead soon; a busy machine keeps others silent. */
		setenv("TOW_PEER_TIMEOUT_NS", scenarios[which].kills ? "3s" : "20s", 1);
		setenv("TOW_HEARTBEAT_NS", "300ms", 1);
		scenarios[which].run();
		twt_ofi_leave(0);
	}
	return child;
}

/* 0: passed; TWT_OFI_MISSING: the provider is not there; anything else has been said. */
static int judge_one(size_t which, int how)
{
	if (WIFEXITED(how) && (WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == TWT_OFI_MISSING))
		return WEXITSTATUS(how);
	printf("%s: %s: %s %d\n", twt_ofi.provider, scenarios[which].name,
	       WIFSIGNALED(how) ? "signal" : "exit",
	       WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
	return 1;
}

/* Waits for one of them to end; what judge_one says. */
static int end_one(struct ofi_running *running)
{
	for (;;) {
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct ofi_running *one = &running[i];
			int how = 0, rc;

			if (one->child == 0 || waitpid(one->child, &how, WNOHANG) != one->child)
				continue;
			one->child = 0;
			rc = judge_one(one->which, how);
			if (rc != TWT_OFI_MISSING)
				printf("%s: %s: %s, %llu ms\n", twt_ofi.provider,
				       scenarios[one->which].name, rc == 0 ? "good" : "BAD",
				       (unsigned long long)(twt_ofi_now_ns() - one->start_ns) /
					       1000000);
			return rc;
		}
		usleep(1000);
	}
}

static void start_next(struct ofi_running *running, size_t which)
{
	while (running->child != 0)
		running++;
	*running = (struct ofi_running){ which, start_one(which), twt_ofi_now_ns() };
	if (running->child == 0)
		printf("%s: %s: left out: its locks outlive their holder\n", twt_ofi.provider,
		       scenarios[which].name);
}

static size_t count_running(const struct ofi_running *running)
{
	size_t count = 0;

	for (size_t i = 0; i < AT_ONCE; i++)
		count += running[i].child != 0;
	return count;
}

/* The first scenario alone, for it finds out whether the provider is there; the others together. */
static void run_provider(const char *name, bool is_slow)
{
	const char *only = getenv("TOW_TEST_OFI"), *scenario = getenv("TOW_TEST_SCENARIO");
	struct ofi_running running[AT_ONCE] = { 0 };
	unsigned failures = 0;
	bool first = true;

	if (only != NULL && strcmp(only, name) != 0)
		return;
	twt_ofi.provider = name;
	twt_ofi.slow = is_slow;
	for (size_t i = 0; i < scenario_count; i++) {
		if (scenario != NULL && strcmp(scenario, scenarios[i].name) != 0)
			continue;
		if (count_running(running) == AT_ONCE)
			failures += end_one(running) != 0;
		start_next(running, i);
		if (first && count_running(running) > 0) {
			int rc = end_one(running);

			if (rc == TWT_OFI_MISSING) {
				printf("%s: not here\n", name);
				return;
			}
			failures += rc != 0;
			first = false;
		}
	}
	while (count_running(running) > 0)
		failures += end_one(running) != 0;
	atomic_fetch_add(present, 1);
	assert_int_equal(failures, 0);
}

static void net(void **state)
{
	(void)state;
	run_provider("net", false);
}

static void tcp(void **state)
{
	(void)state;
	run_provider("tcp;ofi_rxm", false);
}

static void shm(void **state)
{
	(void)state;
	run_provider("shm", false);
}

static void sockets(void **state)
{
	(void)state;
	run_provider("sockets", true);
}

static void udp(void **state)
{
	(void)state;
	run_provider("udp;ofi_rxd", true);
}

int twt_ofi_main(const struct twt_ofi_scenario *table, size_t count)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net),     cmocka_unit_test(tcp), cmocka_unit_test(shm),
		cmocka_unit_test(sockets), cmocka_unit_test(udp),
	};
	int failed;

	scenarios = table;
	scenario_count = count;
	twt_ofi.seed = twt_seed();
	present = mmap(NULL, sizeof(*present), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (present == MAP_FAILED) {
		perror("memory for a count");
		return 1;
	}
	failed = twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, PROVIDERS);
	if (failed == 0 && atomic_load(present) == 0) {
		printf("skipped: libfabric has none of these providers here\n");
		return 77;
	}
	return failed;
}

#endif
