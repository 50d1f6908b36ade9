/*
 * ops_line.h - times that overlap, as ops one after another.
 *
 *	call A  |====|           calls of a batch   send A, recv A   |====|
 *	call B  |=========|      begin at once      send B, recv B   |
 *	                                            send-done B            |===|
 *
 *	wait A  |==============| two threads wait   send-done A      |==|
 *	wait B     |=====|                          recv-done B          |====|
 *	                                            recv-done A                |====|
 *
 * At each time the op has it that ends first. So a `send` begins where its call does (without any
 * length where another has that time) and a `recv-done` ends where its wait does. Of a collective
 * that was over before somebody asked it stands at the end of what the line shows then: a thread
 * that waits for another one could not have asked before. All time that was covered is covered
 * still, and once: slack is what it is. The stall of a collective is its own share of the time: the
 * shares of all make up what the program lost.
 */
#ifndef TWI_OPS_LINE_H
#define TWI_OPS_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/export/ops.h"

enum twi_op_time_kind {
	TWI_OP_TIME_CALL,   /* a start call */
	TWI_OP_TIME_WAITED, /* a wait for a collective that is not its last */
	TWI_OP_TIME_OTHER,  /* a wait for something else that was sent */
	TWI_OP_TIME_OTHERS, /* a wait for something else that was to come */
	TWI_OP_TIME_LAST,   /* the last wait for a collective */
	TWI_OP_TIME_OVER,   /* the end of a collective that nobody waited for: no length */
};

struct twi_op_time {
	uint64_t start_ns, end_ns;
	uint32_t rendezvous;
	uint8_t kind;
	struct twi_op_said *said; /* of the collective; NULL: it is none's */
};

/*
 * Lays times on the rank's line, as its ops; TOW_OK or TOW_ENOMEM. They are sorted in place. A
 * collective's call is over before its first wait begins.
 */
int twi_ops_line(struct twi_op_time *times, size_t count, struct twi_ops_rank *rank);

#endif
