/*
 * view.c - receives whose memory the lane finds. See message.h.
 */
#include <towline/towline.h>

#include "diag/error.h"
#include "memreg/pool.h"
#include "transport/engine.h"
#include "transport/message.h"

static void free_room(struct tow_op *op)
{
	twi_pool_free(op->engine->pool, op->view_state);
}

int twi_view_room(struct tow_op *op, uint64_t bytes)
{
	void *memory;
	int status;

	/* A message of no bytes has a place too. */
	status = twi_pool_try(op->engine->pool, bytes > 0 ? bytes : 1, 64, &memory);
	if (status < 0)
		return twi_error(status,
				 "no room in the pool for a view of %llu bytes; raise "
				 "premap_memory_bytes",
				 (unsigned long long)bytes);
	op->data = memory;
	op->bytes = bytes;
	op->view_state = memory;
	op->view_release = free_room;
	return TOW_OK;
}

void twi_view_pass(struct tow_op *to, struct tow_op *from)
{
	to->data = from->data;
	to->moved = from->moved;
	to->view_state = from->view_state;
	to->view_release = from->view_release;
	from->view_release = NULL;
}

void twi_view_drop(struct tow_op *op)
{
	void (*release)(struct tow_op *) = op->view_release;

	op->view_release = NULL;
	if (release != NULL)
		release(op);
}
