/*
 * beside.h - cases of a test that only wait, side by side: each in a process of its own, a few at
 * once.
 *
 *	twt_beside(10, 4, try_plan);      try_plan(0) ... try_plan(9), at most four at a time
 *
 * In each process the case is a cmocka test, so that assertions work; what fails there fails here.
 */
#ifndef TWT_BESIDE_H
#define TWT_BESIDE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "twt.h"

#define TWT_BESIDE_MAX 64

struct twt_beside {
	void (*run)(size_t which);
	size_t which;
};

static inline void twt_beside_case(void **state)
{
	const struct twt_beside *one = *state;

	one->run(one->which);
}

static inline pid_t twt_beside_start(void (*run)(size_t which), size_t which)
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
static inline bool twt_beside_reap(pid_t *children, size_t count)
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

static inline void twt_beside(size_t count, size_t most, void (*run)(size_t which))
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

#endif
