/*
 * inquiry_held.h - when this process was held from outside: by SIGSTOP and SIGCONT, a debugger, a
 * freezer of control groups, a tool like cpulimit. No clock of its own tells that from sleep.
 *
 *	its thread   ~~ epoll_wait ~~|         |EINTR, tick, tick, ... (15 s), ~~ epoll_wait ~~
 *	process      runs            | is held | runs
 *
 * epoll_wait(2) is ended by EINTR when a thread goes on that was held in it, though no signal is
 * handled; and the library's own threads block all signals, so nothing else does that to them. So
 * it costs nothing until it happens. When it began is not known then; from the first time on the
 * thread ticks for a while, so that the next ones are measured.
 */
#ifndef TWI_INQUIRY_HELD_H
#define TWI_INQUIRY_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/judge/rank_state.h"

#define TWI_HELD_TICK_MS  10u
#define TWI_HELD_LEAST_MS 20u            /* what has to be missing of a tick that says nothing */
#define TWI_HELD_TICKS    15000000000ull /* since the last time, ns */

/* What has been seen, a row a second. The engine is held. */
struct twi_held_log {
	struct twi_held_row {
		uint64_t second; /* of the engine's clock, and 1; 0: nothing */
		struct twi_state_held held;
	} rows[TWI_STATE_HELD];
};

/* It went on at `to_ns`, and was held since `from_ns`; of length 0: since when is not known. */
void twi_held_note(struct twi_held_log *log, uint64_t from_ns, uint64_t to_ns);
void twi_held_tell(const struct twi_held_log *log, uint64_t now_ns, struct twi_rank_state *out);

/* Of the thread that watches; it alone uses this. */
struct twi_held_watch {
	int set;           /* of epoll, with the one descriptor that it waits for */
	uint64_t ticks_ns; /* until then it ticks */
};

/* 0, or an errno value. */
int twi_held_open(struct twi_held_watch *watch, int fd);
void twi_held_close(struct twi_held_watch *watch);

/* When the process was held. to_ns 0: it was not; from_ns as large: since when is not known. */
struct twi_held_time {
	uint64_t from_ns, to_ns; /* by twi_now_ns */
};

/*
 * Waits until the descriptor can be read, at most timeout_ms; -1: for ever. True: it can. Returns
 * early when the process was held meanwhile.
 */
bool twi_held_wait(struct twi_held_watch *watch, int timeout_ms, struct twi_held_time *out);

#endif
