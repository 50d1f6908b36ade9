/*
 * process.h - detects the end of processes of this host, where their sockets do not show it.
 *
 * A connection shows the end of a killed process when its last descriptor is closed. That may be
 * late, or never. A forked child holds the descriptor as well (data loaders are such children).
 * What io_uring still had under way is ended by a thread of the kernel, on a busy machine after
 * seconds. A descriptor of the process itself (pidfd_open(2)) shows when its last thread has ended,
 * which may take the kernel long, too. So /proc is read as well: each second, for a few processes
 * in turn.
 *
 *	user ---+
 *	user ---+--- process: pidfd ---+
 *	user ------- process: pidfd ---+--- one epoll set --- a poll in the ring of the driver
 *
 * The engine is held in all calls.
 */
#ifndef TWI_PROCESS_H
#define TWI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

#include "diag/base/identity.h"

struct twi_engine;
struct twi_watched;

#define TWI_PROCESSES_POLLS 256u

/* Part of the engine. */
struct twi_processes {
	struct twi_list known;
	int set; /* the epoll set; -1: none */
	uint32_t rings;
	uint32_t polls;  /* polls so far; one in TWI_PROCESSES_POLLS reads the clock */
	bool sleeping;   /* a thread was about to sleep */
	uint64_t due_ns; /* when /proc is read again */
};

/* A user that is told when a process ends. All zero: it watches nothing. */
struct twi_process_user {
	struct twi_list link; /* on the list of the process */
	struct twi_watched *process;
	void (*ended)(struct twi_process_user *user); /* called once; it watches nothing then */
};

void twi_processes_init(struct twi_engine *engine);

/* The users and the rings must be gone. */
void twi_processes_fini(struct twi_engine *engine);

/*
 * Watches a process for `user`, whose `ended` is set. RUNS: `ended` will be called when the process
 * ends. GONE: the process has ended. UNKNOWN: `ended` will not be called. Then the process is this
 * one, is on another host or in another PID namespace, or the system refuses a descriptor of it.
 */
enum twi_process twi_process_watch(struct twi_engine *engine, const struct twi_identity *identity,
				   struct twi_process_user *user);

/* Ends the watch; legal for a user that watches nothing. */
void twi_process_unwatch(struct twi_engine *engine, struct twi_process_user *user);

/* arm: another thread drives. completed: a poll has completed. ring_gone: a ring is gone. */
void twi_processes_arm(struct twi_engine *engine);
void twi_processes_completed(struct twi_engine *engine, uint64_t user_data);
void twi_processes_ring_gone(struct twi_engine *engine, unsigned index);

/* Reads /proc if it is time for that, and tells the users of killed processes. */
void twi_processes_look(struct twi_engine *engine);

/*
 * A poll is over. The clock is read after a sleep, and else now and then, as a reading costs as
 * much as a poll of memory.
 */
static inline void twi_processes_polled(struct twi_engine *engine, struct twi_processes *processes)
{
	if (processes->set < 0 ||
	    (!processes->sleeping && ++processes->polls % TWI_PROCESSES_POLLS != 0))
		return;
	processes->sleeping = false;
	twi_processes_look(engine);
}

/* A thread is about to sleep, until next_ns at the latest. Returns when it must wake up. */
static inline uint64_t twi_processes_sleep(struct twi_processes *processes, uint64_t next_ns)
{
	if (processes->set < 0)
		return next_ns;
	processes->sleeping = true;
	return next_ns < processes->due_ns ? next_ns : processes->due_ns;
}

#endif
