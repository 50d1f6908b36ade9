/*
 * test_verdict.c - faults, planted for real in jobs of 3 and 4 processes, and healthy jobs:
 * from every rank the verdict names cause and culprit, and nothing else.
 *
 * TOW_TEST_VERDICTS=N plants each fault N times, and runs 5 N healthy jobs (20: the long version);
 * TOW_TEST_VERDICT_FAULT=n takes one fault alone. TOW_TEST_SEED replays sizes and victims.
 */
#include "twt.h"

#include "verdict_ask.h"

#include <sys/resource.h>

#define SKIPPED 77

static uint64_t seed;
static int repeats = 1;

/*
 * By itself: the jobs of the others are in its way, as it would be in theirs. A lateness of 25 ms
 * is lost among 40 processes on two CPUs, which are short of them in truth.
 */
static bool wants_quiet(enum twt_vj_fault fault)
{
	return fault == VJ_HOG || fault == VJ_BURST || fault == VJ_QUOTA || fault == VJ_SLOW;
}

/* How long the fault shows before somebody asks. */
static uint64_t settle_us(enum twt_vj_fault fault)
{
	switch (fault) {
	case VJ_DROPPED:
		return 3000000;
	case VJ_HEALTHY:
		return 200000;
	case VJ_HELD:
		return 2500000; /* it begins to measure with the second time */
	default:
		return 1200000;
	}
}

/* One job; 0: all verdicts are right, 1: not, 77: it cannot be had here. */
static int run_one(enum twt_vj_fault fault, uint64_t number, uint64_t *worst_ns)
{
	static struct twt_vj_asked asked[VJ_RANKS];
	struct twt_vj_job job = { .fault = fault, .seed = seed + number * 977 };
	unsigned who;
	int bad = 0;

	job.size = twt_vj_is_far(&job) ? 4 : 3 + (int)((number / 2 + fault) % 2);
	job.victim = (int)((number / 4 + fault) % (uint64_t)job.size);
	job.memory = !twt_vj_is_far(&job) && fault != VJ_BUFFERS && fault != VJ_CREDIT_OFI &&
		     (number + fault) % 2 == 0;
	who = (1u << job.size) - 1;
	if (fault == VJ_STOPPED)
		who &= ~(1u << job.victim);
	twt_vj_begin(&job);
	if (!twt_vj_reached(&job, fault == VJ_BUFFERS ? 1 : VJ_STEPS)) {
		int left = (job.world != 0 && kill(job.world, 0) != 0) ||
			   (fault == VJ_CREDIT_OFI && twt_vj_refused(&job));

		fprintf(stderr, "%s: the job has not come to its fault\n", twt_vj_names[fault]);
		twt_vj_end(&job);
		return left ? SKIPPED : 1;
	}
	if (!twt_vj_plant(&job)) {
		fprintf(stderr, "%s: there are no control groups to be had\n", twt_vj_names[fault]);
		twt_vj_end(&job);
		return SKIPPED;
	}
	if (fault == VJ_SLOW)
		usleep(4000000); /* as many seconds as a look back has, and more */
	else if (fault == VJ_LATE || wants_quiet(fault))
		twt_vj_reached(&job, VJ_STEPS + (fault == VJ_BURST ? 20 : 10));
	else
		usleep((useconds_t)settle_us(fault));
	twt_vj_ask(&job, who, "/v1/verdict", asked);
	for (int i = 0; i < job.size; i++) {
		if ((who >> i & 1) == 0)
			continue;
		*worst_ns = asked[i].took_ns > *worst_ns ? asked[i].took_ns : *worst_ns;
		bad |= !twt_vj_right(&job, i, &asked[i]);
	}
	if (!twt_vj_end(&job)) {
		fprintf(stderr, "%s: ranks did not end well\n", twt_vj_names[fault]);
		bad = 1;
	}
	return bad;
}

/* All repeats of one fault, in a process of its own, so that faults run side by side. */
static pid_t start(enum twt_vj_fault fault, int times)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		uint64_t worst = 0;
		int right = 0, how = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < times && how != SKIPPED; i++) {
			how = run_one(fault, (uint64_t)i, &worst);
			right += how == 0;
		}
		if (how != SKIPPED)
			printf("%s: %d of %d, slowest answer %.2f s\n", twt_vj_names[fault], right,
			       times, (double)worst / 1e9);
		fflush(stdout);
		_exit(how == SKIPPED ? SKIPPED : right == times ? 0 : 1);
	}
	assert_true(pid > 0);
	return pid;
}

static void fault_reap(enum twt_vj_fault fault, pid_t pid)
{
	int how;

	assert_int_equal(waitpid(pid, &how, 0), pid);
	if (WIFEXITED(how) && WEXITSTATUS(how) == SKIPPED)
		printf("%s: not run here\n", twt_vj_names[fault]);
	else if (how != 0)
		fail_msg("%s: verdicts were wrong", twt_vj_names[fault]);
}

static void test_faults(void **state)
{
	pid_t pids[VJ_FAULTS] = { 0 };

	(void)state;
	for (int fault = VJ_NEVER; fault < VJ_FAULTS; fault++)
		if (twt_case_drawn(seed, (size_t)fault) && !wants_quiet((enum twt_vj_fault)fault))
			pids[fault] = start((enum twt_vj_fault)fault, repeats);
	for (int fault = VJ_NEVER; fault < VJ_FAULTS; fault++)
		if (pids[fault] != 0)
			fault_reap((enum twt_vj_fault)fault, pids[fault]);
}

static void test_quiet(void **state)
{
	(void)state;
	for (int fault = VJ_NEVER; fault < VJ_FAULTS; fault++)
		if (twt_case_drawn(seed, (size_t)fault) && wants_quiet((enum twt_vj_fault)fault))
			fault_reap((enum twt_vj_fault)fault,
				   start((enum twt_vj_fault)fault, repeats));
}

static void test_healthy(void **state)
{
	(void)state;
	fault_reap(VJ_HEALTHY, start(VJ_HEALTHY, repeats > 1 ? 5 * repeats : 2));
}

static void test_one(void **state)
{
	enum twt_vj_fault fault =
		(enum twt_vj_fault)strtoul(getenv("TOW_TEST_VERDICT_FAULT"), NULL, 10);

	(void)state;
	assert_in_range(fault, 0, VJ_FAULTS - 1);
	fault_reap(fault, start(fault, repeats));
}

/*
 * What else runs on this machine is no fault of the job's: it goes first, where that is allowed.
 * Priorities count within a session where the kernel groups by sessions, so it has one of its own.
 */
static void go_first(void)
{
	int fd;

	setsid();
	setpriority(PRIO_PROCESS, 0, -10);
	fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "-10", 3) != 3)
		printf("with the priority of everybody\n");
	if (fd >= 0)
		close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_healthy),
	};
	const struct CMUnitTest one[] = { cmocka_unit_test(test_one) };
	const char *times = getenv("TOW_TEST_VERDICTS");

	seed = twt_seed();
	go_first();
	if (times != NULL)
		repeats = atoi(times) > 0 ? atoi(times) : 1;
	if (getenv("TOW_TEST_VERDICT_FAULT") != NULL)
		return cmocka_run_group_tests(one, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
