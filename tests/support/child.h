/*
 * child.h - a part of a test in a process of its own, which may crash, change what a process has,
 * or must begin without what the test has done before.
 */
#ifndef TWT_CHILD_H
#define TWT_CHILD_H

#include <stdbool.h>

/*
 * Forks, calls `run` there, and ends with its result. Returns the status of waitpid(2). A child
 * that takes longer than limit_s is ended by SIGALRM.
 */
int twt_child(unsigned limit_s, int (*run)(const void *arg), const void *arg);

#define TWT_CHILD_ABSENT 2 /* what the child needs is not here */

/* The same for a child that plays `name`. True: it ended with 0. False: ABSENT. All else fails. */
bool twt_child_plays(const char *name, unsigned limit_s, int (*run)(const void *arg),
		     const void *arg);

#endif
