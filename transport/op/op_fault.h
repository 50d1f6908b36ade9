/*
 * op_fault.h - what is said of an operation whose payload lies in memory that cannot be read or
 * written: by the side whose memory it is, with address and range, and by the other one.
 */
#ifndef TWI_OP_FAULT_H
#define TWI_OP_FAULT_H

#include <stdint.h>

struct tow_op;

/*
 * This side's memory: the byte `from` of a message of `bytes` bytes is the first that may be bad.
 * Counted and logged. Sets the thread's message, and returns TOW_EFAULT.
 */
int twi_op_fault(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes, uint64_t from);

/* The other side's. */
int twi_op_fault_theirs(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes);

#endif
