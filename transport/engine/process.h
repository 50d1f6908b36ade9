/*
 * process.h - processes of this host whose end is to be known, though their sockets do not tell.
 *
 * A connection tells that the other process was killed when its last descriptor is closed. That
 * may be late, or never: a child that was forked holds it as well (data loaders are such
 * children), and what io_uring still had under way is ended by a thread of the kernel's, on a busy
 * machine after seconds. A descriptor of the process itself (pidfd_open(2)) tells when its last
 * thread is through, which the kernel may be long about, too. So /proc is asked as well: each
 * second, for a few processes in turn.
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
	int set; /* -1: there are none */
	uint32_t rings;
	uint32_t polls;  /* since somebody looked at the time */
	bool sleeping;   /* somebody was about to sleep */
	uint64_t due_ns; /* when /proc is asked again */
};

/* Who wants to know. All zero: watches nothing. */
struct twi_process_user {
	struct twi_list link; /* of the process */
	struct twi_watched *process;
	void (*ended)(struct twi_process_user *user); /* once; it watches nothing any more then */
};

void twi_processes_init(struct twi_engine *engine);

/* There are no users and no rings any more. */
void twi_processes_fini(struct twi_engine *engine);

/*
 * RUNS: `user`, whose `ended` is set, will be told when the process ends. GONE: it has ended.
 * UNKNOWN: nobody will tell, for it is this one, of another host or PID namespace, or the system
 * refuses a descriptor of it.
 */
enum twi_process twi_process_watch(struct twi_engine *engine, const struct twi_identity *identity,
				   struct twi_process_user *user);

/* Also of one that watches nothing. */
void twi_process_unwatch(struct twi_engine *engine, struct twi_process_user *user);

/* Another thread drives; a poll has come; a ring is gone. */
void twi_processes_arm(struct twi_engine *engine);
void twi_processes_completed(struct twi_engine *engine, uint64_t user_data);
void twi_processes_ring_gone(struct twi_engine *engine, unsigned index);

/* /proc is asked, if it is time for that, and those that were killed are told of. */
void twi_processes_look(struct twi_engine *engine);

/*
 * A poll is over. The time is looked at behind a sleep, and else now and then: that costs as much
 * as a poll of memory.
 */
static inline void twi_processes_polled(struct twi_engine *engine, struct twi_processes *processes)
{
	if (processes->set < 0 ||
	    (!processes->sleeping && ++processes->polls % TWI_PROCESSES_POLLS != 0))
		return;
	processes->sleeping = false;
	twi_processes_look(engine);
}

/* Somebody is going to sleep, until next_ns at the latest. When he is to wake up. */
static inline uint64_t twi_processes_sleep(struct twi_processes *processes, uint64_t next_ns)
{
	if (processes->set < 0)
		return next_ns;
	processes->sleeping = true;
	return next_ns < processes->due_ns ? next_ns : processes->due_ns;
}

#endif
