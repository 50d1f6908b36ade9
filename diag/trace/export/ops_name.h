/*
 * ops_name.h - names a rendezvous for XProf's tables: a name and a number.
 *
 *	bucket0_1                   the user's name
 *	all-reduce-2.25MiB_1        without a user's name: kind and size
 *	all-reduce-9KiB-3_combined_1        fused by the library, with the library's name
 *	x-all-reduce-4KiB_1, x-all-reduce-8KiB_1    a user's name with several kinds or sizes
 *
 * The number separates equal names: of collectives under way at once, or of different groups. No
 * name stands for two sizes.
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

/* All zero is empty. */
struct twi_op_names {
	struct twi_names texts;     /* the user's, as they are shown */
	struct twi_op_named *named; /* by number of a text */
	struct twi_names bases;     /* names without their number */
	uint32_t *numbers;          /* how many there are of each base, by its number */
};

/* False: there is no memory. At most TWI_RENDEZVOUS_MAX names can be made. */
bool twi_op_names_init(struct twi_op_names *names);
void twi_op_names_fini(struct twi_op_names *names);

/* Records the name of a collective of this kind and size. Record all before making names. */
void twi_op_names_see(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes);

/* Makes a name. `user` NULL or "": the user gave none. False: there is no memory. */
bool twi_op_names_make(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes,
		       char out[TWI_RENDEZVOUS_BYTES]);

/* Makes a name of text and number for other operations. False: there is no memory. */
bool twi_op_names_plain(struct twi_op_names *names, const char *text,
			char out[TWI_RENDEZVOUS_BYTES]);

#endif
