/*
 * inquiry_gone.c - tells ranks which rank was lost first.
 *
 * A rank fails because another one has gone, and its program ends. Then a third rank fails that
 * waits for it. That rank may have no connection to the first one, so its message names the first
 * one, too.
 *
 *	rank 1 leaves    rank 2: its receive from 1 fails    rank 3: its receive from 2 fails
 *	                   |  GONE 1  --------------------->   "rank 2 is gone: its process has
 *	                   |  its program ends                 ended; before that it had failed for
 *	                                                       rank 1: ... closed the connection"
 *
 *	offset  0      4          8
 *	        | rank | reserved | the reason as text |     behind the head of inquiry.h
 *
 * GONE is sent once for each lost rank, and only where an operation fails for it: ranks go at the
 * end of every job. Its only use is the text in a message.
 */
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"

#define FRESH_NS 60000000000ull /* a program needs time to end; later failures have other causes */

uint32_t twi_inquiry_gone_write(const struct twi_inquiry_gone *gone, uint8_t out[TWI_INQUIRY_GONE])
{
	size_t bytes = strnlen(gone->why, TWI_INQUIRY_WHY);

	memset(out, 0, TWI_INQUIRY_GONE);
	twi_put_le(out, gone->rank, 4);
	for (size_t i = 0; i < bytes; i++)
		out[8 + i] = (uint8_t)gone->why[i];
	return 8 + (uint32_t)bytes;
}

bool twi_inquiry_gone_read(const uint8_t *in, size_t bytes, uint32_t ranks,
			   struct twi_inquiry_gone *out)
{
	size_t text = bytes < 8 ? 0 : twi_min(bytes - 8, TWI_INQUIRY_WHY - 1);

	*out = (struct twi_inquiry_gone){ 0 };
	if (text == 0 || twi_get_le(in, 4) >= ranks)
		return false;
	out->rank = (uint32_t)twi_get_le(in, 4);
	for (size_t i = 0; i < text; i++)
		out->why[i] = in[8 + i] >= ' ' && in[8 + i] < 0x7f ? (char)in[8 + i] : '?';
	return true;
}

void twi_inquiry_gone_heard(struct twi_inquiry_line *line, const uint8_t *in, size_t bytes)
{
	const struct twi_ranks *ranks = line->ear.ranks;
	struct twi_inquiry_gone gone;

	twi_assert_held(ranks->engine);
	if (!twi_inquiry_gone_read(in, bytes, ranks->size, &gone) || gone.rank == ranks->rank)
		return;
	gone.at_ns = twi_engine_clock(ranks->engine);
	line->gone = gone;
}

static void on_gone_due(struct tow_op *op, const struct tow_result *result)
{
	struct twi_inquiry *inquiry = twi_container_of(op, struct twi_inquiry, gone_op);
	struct twi_list *pos, *next;

	(void)result;
	inquiry->gone_due = false;
	twi_list_for_each_safe (pos, next, &inquiry->lines) {
		struct twi_inquiry_line *line =
			twi_container_of(pos, struct twi_inquiry_line, link);

		if (!line->missed && line->rank != inquiry->gone.rank)
			twi_inquiry_tell_gone(line, &inquiry->gone);
	}
}

static const struct twi_op_ops gone_ops = { .kind = TWI_OP_CALL,
					    .noun = "timer",
					    .span = TWI_SPAN_CALL };

/*
 * Sends the report in a callback, as a lane is busy here. The callback runs before the engine is
 * released. So the report goes before the thread that drives, and waits for the operation, learns
 * of the failure and may exit. A thread for which another one drives may exit sooner: then other
 * ranks learn nothing.
 */
static void schedule_gone(struct twi_inquiry *inquiry)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_gone_due };

	if (inquiry->gone_due)
		return; /* the due report sends the newest content */
	twi_op_embed(&inquiry->gone_op, inquiry->engine, &gone_ops, &options);
	inquiry->gone_due = true;
	twi_op_complete(&inquiry->gone_op, TOW_OK, 0);
}

void twi_inquiry_suffered(const struct tow_op *op, char *text, size_t room)
{
	struct twi_inquiry *inquiry = op->engine->inquiry;
	uint64_t now = twi_engine_clock(op->engine);
	struct twi_inquiry_gone first;
	struct twi_inquiry_line *line;
	size_t used = strlen(text);

	twi_assert_held(op->engine);
	line = inquiry == NULL ? NULL : twi_inquiry_line_of(inquiry, (uint32_t)op->peer->job_rank);
	if (line == NULL || (line->ear.peer != NULL && line->ear.peer != op->peer))
		return;
	if (twi_inquiry_unread_gone(line) > 0)
		twi_inquiry_gone_heard(line, line->in + TWI_INQUIRY_HEAD,
				       twi_inquiry_unread_gone(line));
	first = (struct twi_inquiry_gone){ .rank = line->rank };
	snprintf(first.why, sizeof(first.why), "%.*s", (int)sizeof(first.why) - 1, text);
	if (line->gone.why[0] != '\0' && now - line->gone.at_ns < FRESH_NS) {
		first = line->gone;
		snprintf(text + used, room - used, "; before that it had failed for rank %u: %s",
			 first.rank, first.why);
	}
	if (line->missed)
		return;
	line->missed = true;
	inquiry->gone = first;
	schedule_gone(inquiry);
}

void twi_inquiry_gone_close(struct twi_inquiry *inquiry)
{
	twi_engine_enter(inquiry->engine);
	if (inquiry->gone_due)
		twi_list_remove(&inquiry->gone_op.link);
	inquiry->gone_due = false;
	twi_engine_leave(inquiry->engine);
}
