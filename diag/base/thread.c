/* thread.c - see thread.h. */
#include "diag/base/thread.h"

#include <signal.h>

int twi_thread_start(pthread_t *out, const char *name, size_t stack_bytes, void *(*run)(void *arg),
		     void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int err;

	pthread_attr_init(&attr);
	if (stack_bytes != 0)
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
