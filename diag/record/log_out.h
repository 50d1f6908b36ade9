/*
 * log_out.h - where the log is shown while the program runs: a file, stderr, a callback.
 *
 *	twi_log --- ring of /v1/info
 *	   |
 *	   +--- rate (log_rate.h) --- outbox --- thread "tow-log" --- write, callback
 *
 * A thread that logs may hold the engine or a lock, and a terminal can be stopped for minutes. So a
 * line is only put into the outbox. A thread of this runtime's log shows it; the first line starts
 * that thread. The outbox is bounded: lines beyond it are counted, and the next line says how many.
 *
 * Closing shows the lines that are left. It gives up what the descriptor does not take within
 * CLOSE_NS. It waits for a callback, which must not run afterwards. A program that exits without
 * closing waits for up to EXIT_NS.
 */
#ifndef TWI_LOG_OUT_H
#define TWI_LOG_OUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "diag/record/diag.h"
#include "diag/record/log_rate.h"

#define TWI_LOG_OUTBOX 64

enum twi_log_where {
	TWI_LOG_NOWHERE,
	TWI_LOG_TERMINAL, /* stderr, while it is a terminal */
	TWI_LOG_STDERR,
	TWI_LOG_FILE
};

struct twi_log_out {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool running, closing;
	enum twi_log_where where;
	int fd; /* of the file; else -1 */
	tow_log_callback callback;
	void *user;
	_Atomic int64_t rank; /* -1: not known */
	struct twi_log_rate rate;
	uint64_t first, count; /* lines shown, lines ever put in */
	uint64_t lost;         /* lines lost since the last one that was put in */
	uint64_t close_ns;     /* when closing gives up */
	struct {
		uint64_t wall_ns;
		int level;
		char text[TWI_LOG_BYTES + 64];
	} lines[TWI_LOG_OUTBOX];
};

void twi_log_out_init(struct twi_log_out *out);
/* Shows the lines that are left, and ends the thread. */
void twi_log_out_fini(struct twi_log_out *out);

/* `where` is the knob log. TOW_OK; TOW_EINVAL, TOW_ESYSTEM naming a file that cannot be used. */
int twi_log_out_open(struct twi_log_out *out, const char *where, tow_log_callback callback,
		     void *user);

/* Puts in a clean line (words.h). Any thread may call; it blocks for a thread's start at most. */
void twi_log_out_put(struct twi_log_out *out, int level, const char *text, uint64_t now_ns);

#endif
