/*
 * cancel.h - keeps pthread_cancel from ending a thread inside the library. The thread would end
 * with the engine held, or leave its wait on the lists of the engine.
 *
 * A function that may reach a cancellation point of libc (pthreads(7)) begins with TWI_UNCANCELED.
 * A request that comes meanwhile waits for the thread's next cancellation point behind the call.
 * The two changes of the state cost 11 ns. So the calls that move small messages do not have it:
 * their system calls do, which take longer. The test scenario/canceled finds a function that lacks
 * it.
 */
#ifndef TWI_CANCEL_H
#define TWI_CANCEL_H

#include <pthread.h>

static inline int twi_cancel_defer(void)
{
	int state = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void twi_cancel_restore(const int *state)
{
	(void)pthread_setcancelstate(*state, NULL);
}

/* A declaration: until the end of its block. */
#define TWI_UNCANCELED                                                                             \
	const int twi_cancel_state __attribute__((unused, cleanup(twi_cancel_restore))) =          \
		twi_cancel_defer()

#endif
