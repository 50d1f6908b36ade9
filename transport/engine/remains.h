/*
 * remains.h - the pool of a runtime that was closed, as long as its user has memory of it.
 *
 * A runtime of an ML framework frees its buffers when it likes: after it has closed Towline, or
 * while it does. So the memory of allocations stays mapped until the last of them is freed; all
 * else of the runtime ends when it is closed.
 *
 *	open: frees are the pool's own affair
 *	  | begin      from now on they come here, one at a time; none is inside the pool elsewhere
 *	  | end        how many allocations there still are; 0: the pool goes, and that was all
 *	  | settle     nothing else of the runtime is left, so the last free may take the handle
 *	  v
 *	the last twi_remains_free unmaps the pool and makes the runtime's handle a husk
 */
#ifndef TWI_REMAINS_H
#define TWI_REMAINS_H

#include <stdbool.h>
#include <stdint.h>

struct twi_diag;
struct twi_handle;
struct twi_pool;
struct twi_remains;

/* Made when a runtime is opened, so that closing needs no memory. TOW_OK, TOW_ENOMEM. */
int twi_remains_create(struct twi_handle *runtime, struct twi_remains **out);

/* Calls with the runtime are refused, but for tow_free. Waits until none is inside. */
void twi_remains_begin(struct twi_remains *remains, struct twi_pool *pool);

/*
 * Takes the pool. True when its user, by the accounts of `diag`, has allocations still: the pool is
 * detached and here to stay, and the log has said so. False: pool and remains are gone. So they are
 * where begin was not called, or remains is NULL, since the runtime was never open.
 */
bool twi_remains_end(struct twi_remains *remains, struct twi_pool *pool, struct twi_diag *diag);

/* After end, when the runtime is no more than its handle: that one stays, too, or is a husk. */
void twi_remains_settle(struct twi_remains *remains);

/* tow_free of a closed runtime: TOW_OK, TOW_EFOREIGN, TOW_EFREED, TOW_ECLOSED, TOW_EFORKED. */
int twi_remains_free(const struct twi_handle *runtime, void *memory);

#endif
