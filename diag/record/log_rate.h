/*
 * log_rate.h - lets one line in ten seconds pass of lines that are alike. Pure: time is an
 * argument.
 *
 * Lines are alike if they differ only in numbers: "peer 10.0.0.3:4711 is gone" and "peer
 * 10.0.0.4:4712 is gone" have one cause. The table is bounded. While it is full of causes of the
 * last ten seconds, a line of a new cause is not shown either. So in ten seconds a cause has at
 * most one line, and all causes together have at most TWI_LOG_CAUSES.
 */
#ifndef TWI_LOG_RATE_H
#define TWI_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define TWI_LOG_CAUSES  64
#define TWI_LOG_RATE_NS 10000000000ull

struct twi_log_rate {
	struct {
		uint64_t cause; /* a hash of the text without its numbers; 0: free */
		uint64_t shown_ns;
		uint32_t left_out; /* lines not shown since then */
	} rows[TWI_LOG_CAUSES];
	uint64_t left_out; /* lines not shown that no line has reported yet */
};

/*
 * Whether the line is shown now. *left_out: how many lines like it were not shown since the last
 * one that was; they count as reported.
 */
bool twi_log_rate_pass(struct twi_log_rate *rate, const char *text, uint64_t now_ns,
		       uint32_t *left_out);

#endif
