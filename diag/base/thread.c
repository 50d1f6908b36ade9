/* thread.c - see thread.h. */
#include "diag/base/thread.h"

#include <signal.h>

#include <internal/base.h>

/* The default comes from `ulimit -s` or from the program, and may be too small for callbacks. */
static size_t usual_stack(const pthread_attr_t *attr)
{
	size_t bytes = 0;

	(void)pthread_attr_getstacksize(attr, &bytes);
	return twi_max(bytes, (size_t)TWI_THREAD_STACK_LEAST);
}

int twi_thread_start(pthread_t *out, const char *name, size_t stack_bytes, void *(*run)(void *arg),
		     void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int err;

	pthread_attr_init(&attr);
	if (stack_bytes == 0)
		stack_bytes = usual_stack(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(out, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err == 0 && name != NULL)
		pthread_setname_np(*out, name);
	return err;
}
