/*
 * op_fault.h - errors of operations whose payload is in memory that cannot be read or written. The
 * side that owns the memory reports its address and range; the other side reports less.
 */
#ifndef TWI_OP_FAULT_H
#define TWI_OP_FAULT_H

#include <stdint.h>

struct tow_op;

/*
 * The memory is this side's. Byte `from` of a message of `bytes` bytes is the first that may be
 * bad. Counts and logs the error, sets the thread's message, and returns TOW_EFAULT.
 */
int twi_op_fault(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes, uint64_t from);

/* The memory is the other side's. Sets the thread's message, and returns TOW_EFAULT. */
int twi_op_fault_theirs(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes);

#endif
