/*
 * op_describe.h - describes an operation in text, for messages while it is in flight.
 *
 * It reads only members that the start has set for good, as another thread may end the operation
 * meanwhile.
 */
#ifndef TWI_OP_DESCRIBE_H
#define TWI_OP_DESCRIBE_H

#include <stddef.h>

#include "transport/op/op.h"

#define TWI_OP_WORDS_MAX 152 /* enough for any operation */

/* Writes "the receive of tag 0x7 on channel 3" or the like. */
void twi_op_describe(const struct tow_op *op, char *out, size_t room);

/*
 * Sets the message of a wait that has timed out while the operation goes on, and returns
 * TOW_ETIMEDOUT. `why` is empty, or is appended, and begins with its own separator.
 */
int twi_op_timed_out(const struct tow_op *op, uint64_t waited_ns, const char *why);

#endif
