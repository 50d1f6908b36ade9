/*
 * stacks.h - where the threads of this process are: their stacks, fetched by a signal that the user
 * has named (the knob stacks_signal).
 *
 *	asker --- signal, with a ticket ---> handler, in the thread: writes its frames
 *	asker <--------- slot of the ticket: answered ---------'
 *
 * All threads are asked at once and have TWI_STACKS_WAIT_NS together. Who has not answered by then
 * is told without a stack; when his handler comes to run later, his ticket is void. The signal is
 * not sent to threads that block it, as those of the library do. Without a signal, too, the kernel
 * tells each thread's state and what it sleeps in.
 *
 * The handler takes no lock and no memory. It unwinds by the tables of the modules, as a debugger
 * does; a system call that it interrupts goes on, except for those that the kernel never restarts
 * (poll, epoll_wait, nanosleep), which return EINTR to the program.
 */
#ifndef TWI_STACKS_H
#define TWI_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct twi_emit;

#define TWI_STACKS_THREADS 64u /* told of one process; its main thread is the first */
#define TWI_STACKS_FRAMES  48u /* of one thread, from the innermost on */
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
	uint64_t cpu_ns; /* that it has had */
	enum twi_stacks_answer answer;
	unsigned depth;
	const void *frames[TWI_STACKS_FRAMES]; /* return addresses; the first is where it was */
};

struct twi_stacks {
	int signal;      /* 0: none; of it nothing but kernel's words is known */
	bool taken;      /* the program has since given the signal to a handler of its own */
	size_t count;    /* rows */
	size_t left_out; /* threads beyond TWI_STACKS_THREADS */
	struct twi_stacks_thread *rows;
};

/*
 * From now on this process can be asked; 0 means no signal, and does nothing. Runtimes of one
 * process share the handler. TOW_EINVAL for a number that can have none, or where another runtime
 * has named another; TOW_EBUSY: the program handles it itself.
 */
int twi_stacks_allow(int signal);

/* Takes back one twi_stacks_allow that has returned TOW_OK for that signal, 0 included. */
void twi_stacks_forbid(int signal);

/*
 * Asks all threads, the calling one among them. Blocks for TWI_STACKS_WAIT_NS at most, and for who
 * asks at the same time. TOW_OK: *out goes to twi_stacks_free; TOW_ENOMEM; TOW_ESYSTEM without
 * /proc.
 */
int twi_stacks_ask(struct twi_stacks *out);
void twi_stacks_free(struct twi_stacks *stacks);

/* /v1/stacks (stacks_report.c). */
void twi_stacks_describe(void *unused, struct twi_emit *e);

#endif
