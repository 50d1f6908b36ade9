/*
 * op_options.h - the options that a start was given, as this library knows them.
 */
#ifndef TWI_OP_OPTIONS_H
#define TWI_OP_OPTIONS_H

#include <towline/endpoint.h>
#include <towline/status.h>

#include "diag/base/sized.h"

/* Out of line: options of another size, and those that ask for what is not built yet. */
int twi_op_options_adapt(const char *call, const struct tow_op_options **options_io,
			 struct tow_op_options *known);

/*
 * Afterwards *options_io is NULL or points to options of the library's size, in `known` where the
 * caller's have another. TOW_EINVAL; TOW_ENOTSUP for members whose meaning is decided and not built
 * yet. Usual options cost a few loads of one cache line.
 *
 * TOW_OP_AT_ONCE is a leave, not an order: whoever does not look at it is right.
 */
static inline int twi_op_options_in(const char *call, const struct tow_op_options **options_io,
				    struct tow_op_options *known)
{
	const struct tow_op_options *options = *options_io;

	if (twi_likely(options == NULL || (options->size == sizeof(*options) &&
					   (options->flags & ~(uint64_t)TOW_OP_AT_ONCE) == 0 &&
					   options->channel == NULL && options->queue == NULL)))
		return TOW_OK;
	return twi_op_options_adapt(call, options_io, known);
}

#endif
