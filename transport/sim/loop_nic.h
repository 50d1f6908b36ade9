/*
 * loop_nic.h - the loop lane as a NIC: it has a translation table, and reaches the payload of large
 * messages only through that.
 *
 *	send:    user's buffer --- in the table? ---> wire
 *	            `- no: staged by the lane: copy into a chunk of the pool, from there
 *	receive: wire ---> user's buffer, or a chunk, and a copy out of it
 *
 * This code fills the lane's NIC table (loop.h), and is a registrar of the pool, as a libfabric
 * domain is. It checks the registration of every piece of payload. It refuses an address that is
 * not registered, and the connection ends, as with a real NIC. So a registration that was
 * forgotten, or announced to no registrar, is always noticed. A test's tap sees every address that
 * the NIC gets, and can count itself what was copied.
 */
#ifndef TWI_LOOP_NIC_H
#define TWI_LOOP_NIC_H

#include <stddef.h>
#include <stdint.h>

struct tow_op;
struct twi_engine;

/* Payload of `op` leaves from `memory`, or has arrived there. */
typedef void (*twi_loop_tap)(void *arg, const struct tow_op *op, const void *memory, size_t bytes);

/* Makes the lane a NIC. TOW_OK, TOW_ENOMEM, or the pool's status. The engine is not held. */
int twi_loop_nic_attach(struct twi_engine *engine, twi_loop_tap tap, void *arg);

/* How many addresses were refused so far. */
uint64_t twi_loop_nic_refused(struct twi_engine *engine);

#endif
