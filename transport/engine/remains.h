/*
 * remains.h - the pool of a closed runtime, which stays while its user has memory of it.
 *
 * A runtime of an ML framework frees its buffers when it likes: after it has closed Towline, or
 * while it does. So the memory of allocations stays mapped until the last of them is freed. All
 * else of the runtime ends when it is closed.
 *
 *	open: the pool frees memory by itself
 *	  | begin      from now on frees come here, one at a time; none is in the pool elsewhere
 *	  | end        counts the allocations that are left; 0: the pool goes, and that was all
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

/* Refuses calls with the runtime, except tow_free. Waits until no call is inside. */
void twi_remains_begin(struct twi_remains *remains, struct twi_pool *pool);

/*
 * Takes the pool. True: by the accounts of `diag` its user still has allocations. The pool is
 * detached and stays, and the log says so. False: pool and remains are gone. They are also gone if
 * begin was not called, or if remains is NULL since the runtime was never open.
 */
bool twi_remains_end(struct twi_remains *remains, struct twi_pool *pool, struct twi_diag *diag);

/* Called after end, when only the runtime's handle is left. It stays as long as the pool does. */
void twi_remains_settle(struct twi_remains *remains);

/* tow_free of a closed runtime: TOW_OK, TOW_EFOREIGN, TOW_EFREED, TOW_ECLOSED, TOW_EFORKED. */
int twi_remains_free(const struct twi_handle *runtime, void *memory);

#endif
