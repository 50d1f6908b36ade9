/*
 * loop_nic.h - the loop lane as a NIC: a translation table of its own, and no way to payload of
 * large messages that is not in it.
 *
 *	send:    user's buffer --- in the table? ---> wire
 *	            `- no: staged by the lane: copy into a chunk of the pool, from there
 *	receive: wire ---> user's buffer, or a chunk, and a copy out of it
 *
 * It fills the table of a NIC that the lane has (loop.h), and is a registrar of the pool, as a
 * libfabric domain is. The registrations are checked for every piece of payload; an address that is
 * not among them is refused and the connection ends, as with a real one: so a registration that was
 * forgotten, or announced to nobody, cannot go unnoticed. The tap of a test sees every address that
 * the NIC is given, and can count for itself what was copied.
 */
#ifndef TWI_LOOP_NIC_H
#define TWI_LOOP_NIC_H

#include <stddef.h>
#include <stdint.h>

struct tow_op;
struct twi_engine;

/* Payload of `op` goes out of, or has come in at, memory. */
typedef void (*twi_loop_tap)(void *arg, const struct tow_op *op, const void *memory, size_t bytes);

/* From now on the lane is a NIC. TOW_OK, TOW_ENOMEM, or the pool's status. The engine is free. */
int twi_loop_nic_attach(struct twi_engine *engine, twi_loop_tap tap, void *arg);

/* Addresses that were refused so far. */
uint64_t twi_loop_nic_refused(struct twi_engine *engine);

#endif
