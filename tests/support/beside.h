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

void twt_beside(size_t count, size_t most, void (*run)(size_t which));

#endif
