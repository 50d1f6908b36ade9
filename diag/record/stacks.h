/*
 * stacks.h - the stacks of the threads of this process, fetched by a signal that the user has named
 * (the knob stacks_signal).
 *
 *	asker --- signal, with a ticket ---> handler, in the thread: writes its frames
 *	asker <--------- slot of the ticket: answered ---------'
 *
 * All threads are asked at once and have TWI_STACKS_WAIT_NS together. A thread that has not
 * answered by then is reported without a stack, and its ticket is void if its handler runs later.
 * The signal is not sent to threads that block it, as the library's own threads do. Even without a
 * signal, the kernel reports each thread's state and what it sleeps in.
 *
 * The handler takes no lock and no memory. It unwinds by the tables of the modules, as a debugger
 * does. A system call that it interrupts goes on, except for those that the kernel never restarts
 * (poll, epoll_wait, nanosleep), which return EINTR to the program.
 */
#ifndef TWI_STACKS_H
#define TWI_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct twi_emit;

#define TWI_STACKS_THREADS 64u /* reported of one process; the main thread is the first */
#define TWI_STACKS_FRAMES  48u /* of one thread, the innermost first */
#define TWI_STACKS_WAIT_NS UINT64_C(500000000)

enum twi_stacks_answer {
	TWI_STACKS_OFF,      /* no signal has been named */
	TWI_STACKS_ANSWERED, /* its frames are here */
	TWI_STACKS_BLOCKED,  /* it blocks the signal */
	TWI_STACKS_SILENT,   /* it has not answered in time */
};

struct twi_stacks_thread {
	pid_t tid;
	char name[32];
	char state;      /* as in /proc: R runs, S sleeps, D waits and takes no signal */
	char kernel[64]; /* the kernel's function that it sleeps in; "": none, or not known */
	uint64_t cpu_ns; /* CPU time so far */
	enum twi_stacks_answer answer;
	unsigned depth;
	const void *frames[TWI_STACKS_FRAMES]; /* return addresses, but first where it was */
};

struct twi_stacks {
	int signal;      /* 0: none; then only the kernel's part is known */
	bool taken;      /* the program has since given the signal to a handler of its own */
	size_t count;    /* rows */
	size_t left_out; /* threads beyond TWI_STACKS_THREADS */
	struct twi_stacks_thread *rows;
};

/*
 * Lets this process be asked from now on. 0 means no signal, and does nothing. Runtimes of one
 * process share the handler. TOW_EINVAL: the number can have no handler, or another runtime has
 * named another number. TOW_EBUSY: the program handles the signal itself.
 */
int twi_stacks_allow(int signal);

/* Takes back one twi_stacks_allow that has returned TOW_OK for that signal, 0 included. */
void twi_stacks_forbid(int signal);

/*
 * Asks all threads, including the calling one. Blocks for TWI_STACKS_WAIT_NS at most, and for
 * callers that ask at the same time. TOW_OK: *out goes to twi_stacks_free; TOW_ENOMEM; TOW_ESYSTEM
 * without /proc.
 */
int twi_stacks_ask(struct twi_stacks *out);
void twi_stacks_free(struct twi_stacks *stacks);

/* /v1/stacks (stacks_report.c). */
void twi_stacks_describe(void *unused, struct twi_emit *e);

#endif
