/*
 * one_thread.c - linked into the unit tests that say that they have one thread, and that are not
 * run with TSan for that reason: a second one ends the test (--wrap of the linker).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *arg), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *arg), void *arg)
{
	(void)thread;
	(void)attributes;
	(void)run;
	(void)arg;
	fputs("This test makes a thread: name it in threaded_tests (tests/meson.build), so that "
	      "TSan "
	      "runs it.\n",
	      stderr);
	abort();
}
