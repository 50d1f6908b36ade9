/* beside.c - cases of one program side by side, each in a process of its own. */
#include "beside.h"

static void twt_beside_case(void **state)
{
	const struct twt_beside *one = *state;

	one->run(one->which);
}

static pid_t twt_beside_start(void (*run)(size_t which), size_t which)
{
	struct twt_beside one = { run, which };
	const struct CMUnitTest test[] = { { "beside", twt_beside_case, NULL, NULL, &one } };
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	exit(cmocka_run_group_tests(test, NULL, NULL));
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

void twt_beside(size_t count, size_t most, void (*run)(size_t which))
{
	pid_t children[TWT_BESIDE_MAX] = { 0 };
	size_t running = 0;
	bool good = true;

	assert_true(count <= TWT_BESIDE_MAX);
	for (size_t i = 0; i < count; i++) {
		if (running == most) {
			good = twt_beside_reap(children, count) && good;
			running--;
		}
		children[i] = twt_beside_start(run, i);
		assert_true(children[i] > 0);
		running++;
	}
	for (; running > 0; running--)
		good = twt_beside_reap(children, count) && good;
	assert_true(good);
}
