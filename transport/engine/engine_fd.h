/*
 * engine_fd.h - the descriptor that tow_fd gives a thread.
 *
 *	epoll fd --+-- the ring's eventfd: the kernel signals every completion and all deferred
 *	           |   work, other threads what they have armed or completed
 *	           +-- a timerfd: deadlines of operations and lanes, device copies that are polled
 *
 * The thread that gives the engine back sets the timer to the earliest deadline. The timer is only
 * ever moved to an earlier time: one that fires too soon costs a tow_progress that finds nothing.
 * So operations that come and go cost no system call, and no deadline is missed.
 */
#ifndef TWI_ENGINE_FD_H
#define TWI_ENGINE_FD_H

#include <stdbool.h>
#include <stdint.h>

struct twi_engine;
struct twi_ring;

struct twi_fd {
	bool open;
	int epoll_fd, timer_fd;
	uint64_t at_ns; /* what the timer is set to; UINT64_MAX: not set */
};

/*
 * Returns the calling thread's descriptor; the first call opens it. The engine is held, its ring
 * bound. TOW_OK or TOW_ESYSTEM.
 */
int twi_fd_open(struct twi_engine *engine, int *fd_out);

/* The ring is going away: closes its descriptor. */
void twi_fd_close(struct twi_engine *engine, unsigned index);

/* Forgets what has fired, as its thread is about to look. */
void twi_fd_clear(struct twi_engine *engine, struct twi_ring *ring);

/* Sets the timers to the next deadline. The engine is held. */
void twi_fd_set(struct twi_engine *engine);

#endif
