/*
 * thread.h - starting the library's own threads.
 *
 * They block all signals: the user's handlers run on the user's threads.
 */
#ifndef TWI_THREAD_H
#define TWI_THREAD_H

#include <pthread.h>
#include <stddef.h>

#define TWI_THREAD_STACK_LEAST (1u << 20)

/*
 * Starts a thread that runs run(arg). name: at most 15 characters; NULL: the process's name.
 * stack_bytes: 0 is the system's default, but TWI_THREAD_STACK_LEAST at least. Returns 0 or an
 * errno value.
 */
int twi_thread_start(pthread_t *out, const char *name, size_t stack_bytes, void *(*run)(void *arg),
		     void *arg);

#endif
