/*
 * ops_name.h - what a rendezvous is called in XProf's tables: a name and a number.
 *
 *	bucket0_1                   the user's name
 *	all-reduce-2.25MiB_1        the user gave none: kind and size
 *	all-reduce-9KiB-3_combined_1        fused by the library, which calls it so
 *	x-all-reduce-4KiB_1, x-all-reduce-8KiB_1    the user's name has several kinds or sizes
 *
 * The number tells those apart that have the same name: what is under way at once, or is of other
 * groups. No name stands for two sizes.
 */
#ifndef TWI_OPS_NAME_H
#define TWI_OPS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/export/names.h"

#define TWI_RENDEZVOUS_MAX   4096u
#define TWI_RENDEZVOUS_BYTES 128 /* [a-zA-Z0-9_.-]+_<number> */

struct twi_op_named;

/* All zero is an empty one. */
struct twi_op_names {
	struct twi_names texts;     /* the user's, as they are shown */
	struct twi_op_named *named; /* by number of a text */
	struct twi_names bases;     /* names without their number */
	uint32_t *numbers;          /* how many each base has, by its number */
};

/* False without memory. At most TWI_RENDEZVOUS_MAX names can be made. */
bool twi_op_names_init(struct twi_op_names *names);
void twi_op_names_fini(struct twi_op_names *names);

/* A collective of kind and size has this name. All are seen before the first name is made. */
void twi_op_names_see(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes);

/* `user` NULL or "": it has no name. False without memory. */
bool twi_op_names_make(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes,
		       char out[TWI_RENDEZVOUS_BYTES]);

/* Of what is no collective: the text and a number. False without memory. */
bool twi_op_names_plain(struct twi_op_names *names, const char *text,
			char out[TWI_RENDEZVOUS_BYTES]);

#endif
