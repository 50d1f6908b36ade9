/*
 * beside.h - cases of a test that only wait, side by side: each in a process of its own, a few at
 * once.
 *
 *	twt_beside(10, 4, try_plan);      try_plan(0) ... try_plan(9), at most four at a time
 *
 *	return twt_beside_tests(tests, 12, 1, 4);    of main(): cmocka's tests, in order begun
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

void twt_beside(size_t count, size_t most, void (*run)(size_t which));

/*
 * In place of cmocka_run_group_tests: `each` tests that follow each other are played by one
 * process, at most `most` processes at once. How many processes had a test that failed.
 */
int twt_beside_tests(const struct CMUnitTest *tests, size_t count, size_t each, size_t most);

#endif
