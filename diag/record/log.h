/*
 * log.h - the ring of log lines of one runtime, with the outbox that shows them elsewhere
 * (log_out.h). diag.h has the calls.
 */
#ifndef TWI_LOG_H
#define TWI_LOG_H

#include <pthread.h>
#include <stdint.h>

#include "diag/record/diag.h"
#include "diag/record/log_out.h"

struct twi_log {
	pthread_mutex_t lock; /* control path only: nothing on the data path logs */
	uint64_t count;       /* lines ever written; the last TWI_LOG_LINES are here */
	struct {
		uint64_t ns;
		int level;
		char text[TWI_LOG_BYTES];
	} lines[TWI_LOG_LINES];
	struct twi_log_out out;
};

struct twi_log *twi_log_create(void);
void twi_log_destroy(struct twi_log *log);

#endif
