/*
 * window.h - access for collectives to a peer's pool memory in place: to read it, and to write it
 * where both sides allow that. Lanes whose peers share memory have it.
 *
 *	owner                               the other ranks of the host
 *	  expose(memory)                      |
 *	  (extent, offset), by a message ---> |  at(extent, offset)
 *	                                      |  reads, writes; then sets a flag of the owner
 *	  looks at the flag <---------------- |  wrote
 *
 * Validity. The owner's runtime maps its pool until the runtime closes, and the pages stay as long
 * as any process maps them. So an address stays valid until the last hold ends, even when the peer
 * is lost or closed or its process was killed. The bytes there have a meaning only by agreement of
 * both sides, through flags that both read.
 *
 * Without a hold an address ends with the peer. Any thread that drives the engine may find the peer
 * lost while another thread uses the memory. So a group takes one hold on each such peer when the
 * group is made. It releases the hold when nothing that it has started can touch the memory any
 * more:
 *
 *	hold = ops->hold(peer)      NULL: the peer is not up
 *	...                         peer lost: the executor is notified, and stops when it can
 *	ops->release(hold)          the peer may be gone long since
 *
 * Releases may come in any order, but before the lane closes: the close ends all holds that are
 * left. The caller holds the engine. Reading and writing the memory needs no engine.
 *
 * Sleeping. `wrote` wakes a peer that has marked itself as asleep (docs/shm.md). For that the
 * sleeper must look at its flags once more, between the flush of its lanes and its sleep. The lanes
 * do so in deadline_ns. Non-temporal stores are fenced (sfence) before the flag is written.
 */
#ifndef TWI_WINDOW_H
#define TWI_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct tow_peer;
struct twi_window_hold; /* private to the lane */

struct twi_window_ops {
	/* Returns whether the peer, which is one of this lane, is up. */
	bool (*up)(const struct tow_peer *peer);

	/*
	 * Returns whether both sides allow ranks of this host to write to each other's pools. False
	 * while the peer is not up.
	 */
	bool (*writable)(const struct tow_peer *peer);

	/*
	 * Announces to the peer our extent that holds [memory, +bytes), unless the peer knows it;
	 * `memory` must be pool memory. Writes the extent's number and the offset. Returns false if
	 * the memory is not of the pool, or cannot be announced now.
	 */
	bool (*expose)(struct tow_peer *peer, const void *memory, uint64_t bytes,
		       uint32_t *extent_out, uint64_t *offset_out);

	/*
	 * Returns where [offset, offset + bytes) of extent `extent` of the peer's pool lies in this
	 * process. With `write` the address is in a writable mapping. That mapping is made at the
	 * first use of an extent, and its page tables are filled, which takes some 0.2 ms for each
	 * MiB. Returns NULL on failure; *status_out is then
	 *
	 *	TOW_AGAIN      the extent has not been announced yet: try after the next progress
	 *	TOW_EPROTOCOL  the range lies outside, or there is no such extent
	 *	TOW_EPERM      the range may not be written, by this side's rules or the other's
	 *	TOW_ENOMEM     the range cannot be mapped
	 *	else           the peer is lost, with this status
	 */
	void *(*at)(struct tow_peer *peer, uint32_t extent, uint64_t offset, uint64_t bytes,
		    bool write, int *status_out);

	/* Keeps all windows of the peer, whatever happens to the peer. NULL: the peer is not up. */
	struct twi_window_hold *(*hold)(struct tow_peer *peer);
	void (*release)(struct twi_window_hold *hold);

	/* Wakes the peer, after flags in exposed memory were written that the peer may sleep on. */
	void (*wrote)(struct tow_peer *peer);

	/*
	 * Of two sides that each write a flag and read the other's, at least one sees the other's
	 * new one, if this side calls `barrier` in between, and the other one `wrote`. It is a
	 * system call, which is for what is rare.
	 */
	void (*barrier)(struct tow_peer *peer);
};

#endif
