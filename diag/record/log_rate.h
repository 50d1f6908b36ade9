/*
 * log_rate.h - of lines that are alike one in ten seconds is shown. Pure: time is an argument.
 *
 * Lines are alike when they differ in numbers alone: "peer 10.0.0.3:4711 is gone" and "peer
 * 10.0.0.4:4712 is gone" have one cause. The table is bounded: while it is full of causes of the
 * last ten seconds a new one is not shown either. So no cause brings more than a line in ten
 * seconds, and all of them no more than TWI_LOG_CAUSES.
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
		uint32_t left_out; /* since then */
	} rows[TWI_LOG_CAUSES];
	uint64_t left_out; /* in all, that no line has told of */
};

/*
 * Whether the line is shown now. *left_out: how many that are alike were not, since the last one
 * that was; they count as told of.
 */
bool twi_log_rate_pass(struct twi_log_rate *rate, const char *text, uint64_t now_ns,
		       uint32_t *left_out);

#endif
