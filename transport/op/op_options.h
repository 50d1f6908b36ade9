/*
 * op_options.h - the options that a start was given, as this library knows them.
 */
#ifndef TWI_OP_OPTIONS_H
#define TWI_OP_OPTIONS_H

#include <towline/endpoint.h>
#include <towline/status.h>

#include "diag/base/sized.h"

struct twi_engine;

/* In `allowed`, beside flags: the call is of messages, which may be a channel's. */
#define TWI_OP_ALLOW_CHANNEL (1ull << 63)

/*
 * Out of line: options of another size, and those that ask for what is not usual, of which
 * `allowed` has the flags that this call knows, and TWI_OP_ALLOW_CHANNEL.
 */
int twi_op_options_adapt(const struct twi_engine *engine, const char *call, uint64_t allowed,
			 const struct tow_op_options **options_io, struct tow_op_options *known);

/*
 * Afterwards *options_io is NULL or points to options of the library's size, in `known` where the
 * caller's have another. TOW_EINVAL, also for flags beyond `allowed`, and for a queue of another
 * runtime than `engine`; TOW_ECLOSED for a closed queue. Usual options cost a few loads of one
 * cache line.
 *
 * TOW_OP_AT_ONCE is a leave, not an order: whoever does not look at it is right.
 */
static inline int twi_op_options_with(const struct twi_engine *engine, const char *call,
				      uint64_t allowed, const struct tow_op_options **options_io,
				      struct tow_op_options *known)
{
	const struct tow_op_options *options = *options_io;

	if (twi_likely(options == NULL || (options->size == sizeof(*options) &&
					   (options->flags & ~(uint64_t)TOW_OP_AT_ONCE) == 0 &&
					   options->channel == NULL && options->queue == NULL &&
					   (options->result == NULL ||
					    options->result->size == sizeof(*options->result)))))
		return TOW_OK;
	return twi_op_options_adapt(engine, call, allowed, options_io, known);
}

/* The same for what knows no flag. */
static inline int twi_op_options_in(const struct twi_engine *engine, const char *call,
				    const struct tow_op_options **options_io,
				    struct tow_op_options *known)
{
	return twi_op_options_with(engine, call, 0, options_io, known);
}

/*
 * Where a start that was given no place for the operation puts it: in `unused` where the result
 * goes to a queue, for then nobody needs it. NULL: the caller must say where.
 */
static inline struct tow_op **twi_op_place(struct tow_op **op_out, struct tow_op **unused,
					   const struct tow_op_options *options)
{
	return op_out == NULL && options != NULL && options->queue != NULL ? unused : op_out;
}

#endif
