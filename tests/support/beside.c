/* beside.c - cases of one program side by side, each in a process of its own. */
#include "beside.h"

static void twt_beside_case(void **state)
{
	const struct twt_beside *one = *state;

	one->run(one->which);
}

/* Plays them in a process of its own. */
static pid_t twt_beside_start(const struct CMUnitTest *tests, size_t count)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	exit(_cmocka_run_group_tests("beside", tests, count, NULL, NULL) != 0);
}

/* Waits for one of the children; true: it went well. */
static bool twt_beside_reap(pid_t *children, size_t count)
{
	for (;;) {
		for (size_t i = 0; i < count; i++) {
			int how = 0;

			if (children[i] <= 0 || waitpid(children[i], &how, WNOHANG) != children[i])
				continue;
			children[i] = 0;
			if (how != 0)
				printf("case %zu ended with 0x%x\n", i, (unsigned)how);
			return how == 0;
		}
		usleep(2000);
	}
}

int twt_beside_tests(const struct CMUnitTest *tests, size_t count, size_t each, size_t most)
{
	pid_t children[TWT_BESIDE_MAX] = { 0 };
	size_t processes = (count + each - 1) / each, running = 0;
	int failed = 0;

	if (processes > TWT_BESIDE_MAX) {
		printf("%zu processes are more than %d\n", processes, TWT_BESIDE_MAX);
		return 1;
	}
	for (size_t i = 0; i < processes; i++) {
		size_t first = i * each;

		if (running == most) {
			failed += !twt_beside_reap(children, processes);
			running--;
		}
		children[i] = twt_beside_start(tests + first,
					       count - first < each ? count - first : each);
		if (children[i] > 0)
			running++;
		else
			failed++;
	}
	for (; running > 0; running--)
		failed += !twt_beside_reap(children, processes);
	return failed;
}

void twt_beside(size_t count, size_t most, void (*run)(size_t which))
{
	struct twt_beside cases[TWT_BESIDE_MAX];
	struct CMUnitTest tests[TWT_BESIDE_MAX];

	assert_true(count <= TWT_BESIDE_MAX);
	for (size_t i = 0; i < count; i++) {
		cases[i] = (struct twt_beside){ run, i };
		tests[i] = (struct CMUnitTest){ "beside", twt_beside_case, NULL, NULL, &cases[i] };
	}
	cmocka_set_test_filter(NULL); /* it has chosen this test, whose cases have other names */
	assert_int_equal(twt_beside_tests(tests, count, 1, most), 0);
}
