/*
 * op_options.h - checks the options of a start, and brings them to this library's size.
 */
#ifndef TWI_OP_OPTIONS_H
#define TWI_OP_OPTIONS_H

#include <towline/endpoint.h>
#include <towline/status.h>

#include "diag/base/sized.h"

struct twi_engine;

/* In `allowed`, beside flags: the call starts messages, whose options may name a channel. */
#define TWI_OP_ALLOW_CHANNEL (1ull << 63)

/*
 * The part of twi_op_options_with for unusual options, and for options of another size. `allowed`
 * has the flags that this call accepts, and TWI_OP_ALLOW_CHANNEL.
 */
int twi_op_options_adapt(const struct twi_engine *engine, const char *call, uint64_t allowed,
			 const struct tow_op_options **options_io, struct tow_op_options *known);

/*
 * Checks the options. Afterwards *options_io is NULL, or points to options of the library's size:
 * in `known` if the caller's have another size. TOW_EINVAL, also for flags beyond `allowed`, and
 * for a queue of another runtime than `engine`; TOW_ECLOSED for a closed queue. Usual options cost
 * a few loads from one cache line.
 *
 * TOW_OP_AT_ONCE is a permission and not an order, so a call may ignore it.
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

/* The same for a call that accepts no flag. */
static inline int twi_op_options_in(const struct twi_engine *engine, const char *call,
				    const struct tow_op_options **options_io,
				    struct tow_op_options *known)
{
	return twi_op_options_with(engine, call, 0, options_io, known);
}

/*
 * Where a start puts the operation's handle if the caller has given no address for it. If the
 * result goes to a queue, that is `unused`, since the caller does not need the handle. NULL: the
 * caller must give an address.
 */
static inline struct tow_op **twi_op_place(struct tow_op **op_out, struct tow_op **unused,
					   const struct tow_op_options *options)
{
	return op_out == NULL && options != NULL && options->queue != NULL ? unused : op_out;
}

#endif
