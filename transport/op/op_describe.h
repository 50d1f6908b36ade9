/*
 * op_describe.h - an operation in words, for messages about it while it is in flight.
 *
 * Only members that its start has set for good are read, as another thread may end it meanwhile.
 */
#ifndef TWI_OP_DESCRIBE_H
#define TWI_OP_DESCRIBE_H

#include <stddef.h>

#include "transport/op/op.h"

#define TWI_OP_WORDS_MAX 152 /* room that is enough for any */

/* Writes "the receive of tag 0x7 on channel 3" or the like. */
void twi_op_describe(const struct tow_op *op, char *out, size_t room);

/*
 * Sets the message of a wait whose time is over, while the operation goes on, and returns
 * TOW_ETIMEDOUT. `why` is empty, or stands behind the rest with a separator of its own.
 */
int twi_op_timed_out(const struct tow_op *op, uint64_t waited_ns, const char *why);

#endif
