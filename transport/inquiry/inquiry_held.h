/*
 * inquiry_held.h - finds when this process was held from outside.
 *
 * A process is held by SIGSTOP and SIGCONT, a debugger, the freezer of a control group, or a tool
 * like cpulimit. No clock of the process tells that from sleep.
 *
 *	its thread   ~~ epoll_wait ~~|         |EINTR, tick, tick, ... (15 s), ~~ epoll_wait ~~
 *	process      runs            | is held | runs
 *
 * When a held thread goes on, epoll_wait(2) ends with EINTR although no signal is handled. The
 * library's own threads block all signals, so nothing else ends it so. Detection costs nothing
 * until a hold happens. Its begin is not known then. After the first hold the thread ticks for a
 * while, so that the next ones are measured.
 */
#ifndef TWI_INQUIRY_HELD_H
#define TWI_INQUIRY_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/judge/rank_state.h"

#define TWI_HELD_TICK_MS  10u
#define TWI_HELD_LEAST_MS 20u            /* least delay of a tick without EINTR that is a hold */
#define TWI_HELD_TICKS    15000000000ull /* ticking time after the last hold, ns */

/* The holds that were found, a row for each second. The engine is held. */
struct twi_held_log {
	struct twi_held_row {
		uint64_t second; /* second of the engine's clock, plus 1; 0: no row */
		struct twi_state_held held;
	} rows[TWI_STATE_HELD];
};

/*
 * Records that the process was held from `from_ns` to `to_ns`. Equal times: the begin is not known.
 */
void twi_held_note(struct twi_held_log *log, uint64_t from_ns, uint64_t to_ns);
void twi_held_tell(const struct twi_held_log *log, uint64_t now_ns, struct twi_rank_state *out);

/* The state of the thread that watches, which alone uses it. */
struct twi_held_watch {
	int set;           /* the epoll instance, with the one descriptor to wait for */
	uint64_t ticks_ns; /* the thread ticks until then */
};

/* 0, or an errno value. */
int twi_held_open(struct twi_held_watch *watch, int fd);
void twi_held_close(struct twi_held_watch *watch);

/*
 * A hold of the process. to_ns 0: there was none. from_ns equal to to_ns: the begin is not known.
 */
struct twi_held_time {
	uint64_t from_ns, to_ns; /* by twi_now_ns */
};

/*
 * Waits until the descriptor can be read, at most timeout_ms; -1: for ever. True: it can. A hold
 * ends the wait early.
 */
bool twi_held_wait(struct twi_held_watch *watch, int timeout_ms, struct twi_held_time *out);

#endif
