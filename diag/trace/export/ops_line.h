/*
 * ops_line.h - lays times that overlap on a line, as ops one after another.
 *
 *	call A  |====|           calls of a batch   send A, recv A   |====|
 *	call B  |=========|      begin at once      send B, recv B   |
 *	                                            send-done B            |===|
 *
 *	wait A  |==============| two threads wait   send-done A      |==|
 *	wait B     |=====|                          recv-done B          |====|
 *	                                            recv-done A                |====|
 *
 * At each moment, the line belongs to the time that ends first. So a `send` begins where its call
 * does, but takes no time if the line belongs to another. A `recv-done` ends where its wait does.
 *
 * If no thread waited for a collective, its end stands behind the piece that the line shows then. A
 * thread in another wait could not have asked earlier.
 *
 * All covered time stays covered, and counts once, so the slack is exact. The stall of a collective
 * is its share of this time. All shares together are what the program lost.
 */
#ifndef TWI_OPS_LINE_H
#define TWI_OPS_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/export/ops.h"

enum twi_op_time_kind {
	TWI_OP_TIME_CALL,   /* a start call */
	TWI_OP_TIME_WAITED, /* a wait for a collective that is not its last */
	TWI_OP_TIME_OTHER,  /* a wait for another operation, which sends */
	TWI_OP_TIME_OTHERS, /* a wait for another operation, which receives */
	TWI_OP_TIME_LAST,   /* the last wait for a collective */
	TWI_OP_TIME_OVER,   /* the end of a collective that no thread waited for: a point */
};

struct twi_op_time {
	uint64_t start_ns, end_ns;
	uint32_t rendezvous;
	uint8_t kind;
	struct twi_op_said *said; /* of the collective; NULL: it belongs to none */
};

/*
 * Lays times on the rank's line, as its ops, and sorts them in place. A collective's call must be
 * over before its first wait begins. TOW_OK or TOW_ENOMEM.
 */
int twi_ops_line(struct twi_op_time *times, size_t count, struct twi_ops_rank *rank);

#endif
