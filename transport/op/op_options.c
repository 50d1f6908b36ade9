/*
 * op_options.c - checks the unusual options of a start. See op_options.h.
 */
#include "transport/op/op_options.h"

#include "diag/base/error.h"
#include "transport/op/queue.h"

int twi_op_options_adapt(const struct twi_engine *engine, const char *call, uint64_t allowed,
			 const struct tow_op_options **options_io, struct tow_op_options *known)
{
	int status = TWI_SIZED_IN(tow_op_options, call, *options_io, known);
	const struct tow_op_options *options = *options_io;

	if (status < 0)
		return status;
	if ((options->flags & ~(TOW_OP_AT_ONCE | TOW_OP_TRUNCATE | TOW_OP_LEND)) != 0)
		return twi_error(TOW_EINVAL, "%s: options->flags has unknown bits, %#llx", call,
				 (unsigned long long)options->flags);
	if ((options->flags & TOW_OP_TRUNCATE & ~allowed) != 0)
		return twi_error(TOW_EINVAL,
				 "%s: TOW_OP_TRUNCATE in options->flags is valid only for "
				 "receives",
				 call);
	if ((options->flags & TOW_OP_LEND & ~allowed) != 0)
		return twi_error(TOW_EINVAL,
				 "%s: TOW_OP_LEND in options->flags is valid only for sends, "
				 "replies and pieces of a stream",
				 call);
	if (options->result != NULL &&
	    twi_sized_check_out(TWI_SIZED_tow_result, call, options->result) < 0)
		return TOW_EINVAL;
	if (options->channel != NULL && (allowed & TWI_OP_ALLOW_CHANNEL) == 0)
		return twi_error(TOW_EINVAL,
				 "%s: options->channel is valid only for messages of one "
				 "peer",
				 call);
	return options->queue == NULL
		       ? TOW_OK
		       : twi_queue_check(options->queue, engine, options->done, call);
}
