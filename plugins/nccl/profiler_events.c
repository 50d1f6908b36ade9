/*
 * profiler_events.c - handles NCCL's events, which begin, change and stop in any order
 * (profiler.h).
 */
#include "plugins/nccl/profiler.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBER_BITS 36
#define ROW_BITS    12
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)
#define ROW_MASK    ((UINT64_C(1) << ROW_BITS) - 1)

/* --- handles --- */

struct handle_parts {
	enum twp_kind kind;
	uint32_t comm, row;
	uint64_t number;
};

static void *handle_make(enum twp_kind kind, const struct twp_comm *comm, uint32_t row,
			 uint64_t number)
{
	return (void *)(uintptr_t)((uint64_t)kind << (NUMBER_BITS + 2 * ROW_BITS) |
				   (uint64_t)comm->row << (NUMBER_BITS + ROW_BITS) |
				   (uint64_t)row << NUMBER_BITS | (number & NUMBER_MASK));
}

static struct handle_parts handle_read(const void *handle)
{
	uint64_t value = (uint64_t)(uintptr_t)handle;

	return (struct handle_parts){
		.kind = (enum twp_kind)(value >> (NUMBER_BITS + 2 * ROW_BITS)),
		.comm = (uint32_t)(value >> (NUMBER_BITS + ROW_BITS) & ROW_MASK),
		.row = (uint32_t)(value >> NUMBER_BITS & ROW_MASK),
		.number = value & NUMBER_MASK,
	};
}

/* The call that a handle names. NULL: it names none, or one that is long over. */
static struct twp_coll *coll_at(struct twp_comm *comm, uint32_t row, uint64_t number)
{
	struct twp_coll *coll = row < TWP_COLLS ? &comm->colls[row] : NULL;

	return coll != NULL && number != 0 && (coll->number & NUMBER_MASK) == number ? coll : NULL;
}

static struct twp_part *part_in(struct twp_comm *comm, uint32_t row)
{
	return &comm->chunks[row / TWP_CHUNK][row % TWP_CHUNK];
}

static struct twp_part *part_at(struct twp_comm *comm, const struct handle_parts *of)
{
	struct twp_part *part = of->row < comm->part_count ? part_in(comm, of->row) : NULL;

	return part != NULL && of->number != 0 && (part->number & NUMBER_MASK) == of->number &&
			       part->kind == of->kind
		       ? part
		       : NULL;
}

/* --- parts --- */

/* NULL: there is no room, and the event is counted as dropped. */
static struct twp_part *part_take(struct twp_comm *comm, enum twp_kind kind, uint32_t *row_out)
{
	uint32_t row = comm->free_part - 1;
	struct twp_part *part;

	if (comm->free_part == 0) {
		struct twp_part **chunk = &comm->chunks[comm->part_count / TWP_CHUNK];

		row = comm->part_count;
		if (row < TWP_PARTS && *chunk == NULL)
			*chunk = calloc(TWP_CHUNK, sizeof(**chunk));
		if (row == TWP_PARTS || *chunk == NULL) {
			comm->dropped++;
			return NULL;
		}
		comm->part_count++;
		part = part_in(comm, row);
	} else {
		part = part_in(comm, row);
		comm->free_part = part->next_free;
	}
	*part = (struct twp_part){ .number = ++comm->last_number, .kind = kind };
	part->start_ns = part->since_ns = tow_foreign_clock();
	*row_out = row;
	return part;
}

static void part_give(struct twp_comm *comm, struct twp_part *part, uint32_t row)
{
	part->number = 0;
	part->next_free = comm->free_part;
	comm->free_part = row + 1;
}

void twp_parts_reset(struct twp_comm *comm)
{
	comm->part_count = comm->free_part = 0;
	for (size_t i = 0; i < TWP_PARTS / TWP_CHUNK; i++)
		if (comm->chunks[i] != NULL)
			memset(comm->chunks[i], 0, TWP_CHUNK * sizeof(*comm->chunks[i]));
}

/* Makes the part belong to the call that `parent` names, if it names one. */
static void part_of_coll(struct twp_comm *comm, struct twp_part *part, const void *parent)
{
	struct handle_parts of = handle_read(parent);
	struct twp_coll *coll = coll_at(comm, of.row, of.number);

	if (coll == NULL || of.kind != TWP_COLL || of.comm != comm->row)
		return;
	part->coll = of.number;
	part->coll_row = of.row;
	coll->under_way++;
	coll->parts++;
}

/* --- start --- */

static void *start_coll(struct twp_comm *comm, const struct nccl_event_descriptor *what, bool p2p)
{
	struct twp_coll *coll = p2p ? twp_coll_begin_p2p(comm) : twp_coll_begin(comm, what);

	return coll == NULL
		       ? NULL
		       : handle_make(TWP_COLL, comm, (uint32_t)(coll - comm->colls), coll->number);
}

static void *start_op(struct twp_comm *comm, const struct nccl_event_descriptor *what)
{
	struct twp_part *part;
	uint32_t row;

	if (what->op.peer < 0 || (uint32_t)what->op.peer >= comm->ranks ||
	    (uint32_t)what->op.peer == comm->rank)
		return NULL;
	part = part_take(comm, TWP_OP, &row);
	if (part == NULL)
		return NULL;
	part->peer = (uint32_t)what->op.peer;
	part->sends = what->op.sends != 0;
	part_of_coll(comm, part, what->parent);
	return handle_make(TWP_OP, comm, row, part->number);
}

/* A step copies what it needs from its operation, because the operation may stop first. */
static void *start_step(struct twp_comm *comm, const struct handle_parts *of)
{
	struct twp_part *op = part_at(comm, of), *part;
	struct twp_part kept;
	uint32_t row;

	if (op == NULL || op->kind != TWP_OP)
		return NULL;
	kept = *op;
	part = part_take(comm, TWP_STEP, &row);
	if (part == NULL)
		return NULL;
	part->peer = kept.peer;
	part->sends = kept.sends;
	part->coll = kept.coll;
	part->coll_row = kept.coll_row;
	return handle_make(TWP_STEP, comm, row, part->number);
}

static void *start_kernel(struct twp_comm *comm, const struct nccl_event_descriptor *what)
{
	struct twp_coll *coll;
	struct twp_part *part;
	uint32_t row;

	comm->kernels_told = true;
	part = part_take(comm, TWP_KERNEL, &row);
	if (part == NULL)
		return NULL;
	part_of_coll(comm, part, what->parent);
	coll = coll_at(comm, part->coll_row, part->coll);
	if (coll != NULL)
		twp_coll_enter(comm, coll);
	return handle_make(TWP_KERNEL, comm, row, part->number);
}

static void *start_in(struct twp_comm *comm, uint64_t type,
		      const struct nccl_event_descriptor *what)
{
	switch (type) {
	case NCCL_EVENT_COLL:
		return start_coll(comm, what, false);
	case NCCL_EVENT_P2P:
		return start_coll(comm, what, true);
	case NCCL_EVENT_PROXY_OP:
		return start_op(comm, what);
	case NCCL_EVENT_KERNEL:
		return start_kernel(comm, what);
	default:
		return NULL;
	}
}

enum nccl_result twp_start(void *context, void **event, uint64_t type,
			   const struct nccl_event_descriptor *what)
{
	struct handle_parts of;
	struct twp_comm *comm;

	if (event == NULL || what == NULL)
		return NCCL_INVALID_ARGUMENT;
	*event = NULL;
	/* The operation is another process's: its context and parent are invalid pointers here. */
	if (type == NCCL_EVENT_PROXY_OP && what->op.pid != getpid())
		return NCCL_SUCCESS;
	if (type != NCCL_EVENT_PROXY_STEP) {
		comm = twp_comm_of(context);
		if (comm == NULL)
			return NCCL_SUCCESS;
		*event = start_in(comm, type, what);
	} else {
		of = handle_read(what->parent);
		comm = of.kind == TWP_OP ? twp_comm_take(of.comm, 0) : NULL;
		if (comm == NULL)
			return NCCL_SUCCESS;
		*event = start_step(comm, &of);
	}
	twp_comm_give(comm);
	return NCCL_SUCCESS;
}

/* --- states --- */

/* Adds the time in the state that ends now. */
static void step_leave(struct twp_part *part, uint64_t now_ns)
{
	uint64_t ns = now_ns > part->since_ns ? now_ns - part->since_ns : 0;

	if (part->state == NCCL_STATE_SEND_GPU_WAIT || part->state == NCCL_STATE_RECV_GPU_WAIT)
		part->device_ns += ns;
	else if (part->state == NCCL_STATE_SEND_PEER_WAIT)
		part->peer_ns += ns;
	else if (part->state != 0)
		part->wire_ns += ns;
	part->since_ns = now_ns;
}

static bool is_step_state(int state, bool sends)
{
	if (sends)
		return state == NCCL_STATE_SEND_GPU_WAIT || state == NCCL_STATE_SEND_WAIT ||
		       state == NCCL_STATE_SEND_PEER_WAIT;
	return state == NCCL_STATE_RECV_WAIT || state == NCCL_STATE_RECV_FLUSH_WAIT ||
	       state == NCCL_STATE_RECV_GPU_WAIT;
}

/* NCCL reports SEND_PEER_WAIT each time that it polls. A repeated state changes nothing. */
static void step_change(struct twp_comm *comm, struct twp_part *part, int state,
			const union nccl_state_arguments *arguments)
{
	struct twp_coll *coll = coll_at(comm, part->coll_row, part->coll);

	if (part->state == state || !is_step_state(state, part->sends))
		return;
	step_leave(part, tow_foreign_clock());
	/* A rank's first bytes come from its own device, so the device has begun. */
	if (part->state == NCCL_STATE_SEND_GPU_WAIT && coll != NULL)
		twp_coll_enter(comm, coll);
	part->state = state;
	if (arguments != NULL && state != NCCL_STATE_SEND_GPU_WAIT &&
	    state != NCCL_STATE_RECV_WAIT && state != NCCL_STATE_SEND_PEER_WAIT)
		part->bytes = arguments->step_bytes;
}

enum nccl_result twp_state(void *event, int state, const union nccl_state_arguments *arguments)
{
	struct handle_parts of = handle_read(event);
	struct twp_comm *comm = of.kind == TWP_STEP ? twp_comm_take(of.comm, 0) : NULL;
	struct twp_part *part;

	if (comm == NULL)
		return NCCL_SUCCESS;
	part = part_at(comm, &of);
	if (part != NULL)
		step_change(comm, part, state, arguments);
	twp_comm_give(comm);
	return NCCL_SUCCESS;
}

/* --- stop --- */

static void stop_step(struct twp_comm *comm, struct twp_part *part)
{
	struct tow_foreign_message message = TOW_FOREIGN_MESSAGE_INIT;
	const struct twp_coll *coll = coll_at(comm, part->coll_row, part->coll);

	step_leave(part, tow_foreign_clock());
	message.seq = coll != NULL ? coll->seq : 0;
	message.bytes = part->bytes;
	message.start_ns = part->start_ns;
	message.end_ns = part->since_ns;
	message.device_ns = part->device_ns;
	message.peer_ns = part->peer_ns;
	message.wire_ns = part->wire_ns;
	message.peer = part->peer;
	message.sends = part->sends;
	tow_foreign_message(comm->group, &message);
}

static void stop_part(struct twp_comm *comm, const struct handle_parts *of)
{
	struct twp_part *part = part_at(comm, of);
	struct twp_coll *coll;

	if (part == NULL)
		return;
	coll = coll_at(comm, part->coll_row, part->coll);
	if (part->kind == TWP_STEP) {
		stop_step(comm, part);
	} else if (coll != NULL) {
		coll->under_way--;
		coll->ran |= part->kind == TWP_KERNEL;
		twp_coll_settle(comm, coll);
	}
	part_give(comm, part, of->row);
}

static void stop_coll(struct twp_comm *comm, const struct handle_parts *of)
{
	struct twp_coll *coll = coll_at(comm, of->row, of->number);

	if (coll == NULL || coll->stopped)
		return;
	coll->stopped = true;
	twp_coll_settle(comm, coll);
}

enum nccl_result twp_stop(void *event)
{
	struct handle_parts of = handle_read(event);
	struct twp_comm *comm = of.kind != TWP_NONE ? twp_comm_take(of.comm, 0) : NULL;

	if (comm == NULL)
		return NCCL_SUCCESS;
	if (of.kind == TWP_COLL)
		stop_coll(comm, &of);
	else
		stop_part(comm, &of);
	twp_comm_give(comm);
	return NCCL_SUCCESS;
}
