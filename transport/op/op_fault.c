/*
 * op_fault.c - see op_fault.h.
 */
#include "transport/op/op_fault.h"

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/parts.h"
#include "transport/op/reach.h"

/* The most that is moved at once: the bad byte is no further off than this. */
#define STEP_BYTES (1u << 20)

static const char *lane_of(const struct tow_op *op)
{
	return twi_lane_name(op->peer->lane->ops->id);
}

int twi_op_fault(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes, uint64_t from)
{
	uint64_t most = twi_min(bytes - from, (uint64_t)STEP_BYTES), good, run = bytes;
	bool write = op->kind == TWI_OP_RECV;
	const uint8_t *memory = twi_op_at(op, 0, &run), *bad;

	bad = twi_op_at(op, from, &most);
	good = twi_reach(bad, most, write);
	bad += good < most ? good : 0;
	twi_error(TOW_EFAULT,
		  "peer %s (%s): message of rpc id %llu, %llu bytes at %p to %p%s: the memory from "
		  "%p on cannot be %s: it is unmapped, protected, or beyond the end of its file",
		  op->peer->address, lane_of(op), (unsigned long long)rpc_id,
		  (unsigned long long)bytes, (const void *)memory, (const void *)(memory + run),
		  run < bytes ? ", the first of its parts" : "", (const void *)bad,
		  write ? "written" : "read");
	twi_log(op->engine->diag, 2, "%s", tow_error_message());
	twi_count(op->engine->diag, TWI_C_memory_faults, 1);
	return TOW_EFAULT;
}

int twi_op_fault_theirs(const struct tow_op *op, uint64_t rpc_id, uint64_t bytes)
{
	return twi_error(TOW_EFAULT,
			 "peer %s (%s) cannot %s the memory of its %s: message of rpc id %llu, "
			 "%llu bytes",
			 op->peer->address, lane_of(op), op->kind == TWI_OP_RECV ? "read" : "write",
			 op->kind == TWI_OP_RECV ? "send" : "receive", (unsigned long long)rpc_id,
			 (unsigned long long)bytes);
}
