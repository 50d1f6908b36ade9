/*
 * loop_nic.h - the loop lane as a NIC: a translation table of its own, and no way to payload of
 * large messages that is not in it.
 *
 *	send:    user's buffer --- in the table? ---> wire
 *	            `- no: staged by the lane: copy into a chunk of the pool, from there
 *	receive: wire ---> user's buffer, or a chunk, and a copy out of it
 *
 * It is a registrar of the pool, as a libfabric domain is. The table is checked for every piece of
 * payload; an address that is not in it is refused and the connection ends, as with a real one: so
 * a registration that was forgotten, or announced to nobody, cannot go unnoticed. The tap of a test
 * sees every address that the NIC is given, and can count for itself what was copied.
 */
#ifndef TWI_LOOP_NIC_H
#define TWI_LOOP_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct tow_op;
struct twi_bulk_out;
struct twi_engine;
struct twi_loop_lane;
struct twi_loop_nic;

/* Payload of `op` goes out of, or has come in at, memory. */
typedef void (*twi_loop_tap)(void *arg, const struct tow_op *op, const void *memory, size_t bytes);

/* From now on the lane is a NIC. TOW_OK, TOW_ENOMEM, or the pool's status. The engine is free. */
int twi_loop_nic_attach(struct twi_engine *engine, twi_loop_tap tap, void *arg);

/* Addresses that were refused so far. */
uint64_t twi_loop_nic_refused(struct twi_engine *engine);

/* For the lane; nic may be NULL, then nothing happens. */
void twi_loop_nic_close(struct twi_engine *engine, struct twi_loop_nic *nic);

enum twi_nic { TWI_NIC_GO, TWI_NIC_WAIT, TWI_NIC_REFUSED };

/*
 * Payload of `out` is about to be written, of which there is `room` for. Where it must be staged it
 * is copied now, as much as fits, and out says so; the chunk is to be released after the write.
 */
enum twi_nic twi_loop_nic_out(struct twi_engine *engine, struct twi_loop_nic *nic,
			      struct twi_bulk_out *out, size_t room, void **chunk_out);

/* n bytes at `from` have come for op, whose memory begins at `to`. */
enum twi_nic twi_loop_nic_in(struct twi_engine *engine, struct twi_loop_nic *nic,
			     const struct tow_op *op, void *to, const void *from, size_t *n);

#endif
