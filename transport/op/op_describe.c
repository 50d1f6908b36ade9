/*
 * op_describe.c - describes an operation in text.
 */
#include "transport/op/op_describe.h"

#include <stdio.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/channel.h"

void twi_op_describe(const struct tow_op *op, char *out, size_t room)
{
	char channel[TWI_LABEL_WORDS + sizeof(" in ")] = "", group[TWI_LABEL_WORDS];

	if (op->channel >= TWI_CHANNEL_GROUPS)
		snprintf(
			channel, sizeof(channel), " in %s",
			twi_label_words(op->engine->diag, op->channel - TWI_CHANNEL_GROUPS, group));
	else if (op->channel != 0)
		snprintf(channel, sizeof(channel), " on channel %u", op->channel);
	if (op->kind == TWI_OP_RECV && op->match.wild) /* op->tag is that of the message it meets */
		snprintf(out, room, "the receive of tags like %#llx%s",
			 (unsigned long long)op->match.tag, channel);
	else if (op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV)
		snprintf(out, room, "the %s of tag %#llx%s", op->ops->noun,
			 (unsigned long long)op->tag, channel);
	else
		snprintf(out, room, "the %s%s", op->ops->noun,
			 atomic_load_explicit(&op->held, memory_order_relaxed) == TWI_HELD_BEHIND
				 ? ", which waits behind other operations,"
				 : "");
}

int twi_op_timed_out(const struct tow_op *op, uint64_t waited_ns, const char *why)
{
	char what[TWI_OP_WORDS_MAX];

	twi_op_describe(op, what, sizeof(what));
	return twi_error(TOW_ETIMEDOUT, "tow_op_wait: %s is not done within %.6g s, and goes on%s",
			 what, (double)waited_ns / 1e9, why);
}
