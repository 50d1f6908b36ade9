/*
 * window.h - the pool memory of a peer where it lies, to be read, and where both sides allow it to
 * be written: what collectives have of a lane whose peers share memory.
 *
 *	owner                               the other ranks of the host
 *	  expose(memory)                      |
 *	  (extent, offset), by a message ---> |  at(extent, offset)
 *	                                      |  reads, writes; then a word that the owner reads
 *	  looks at the word <---------------- |  wrote
 *
 * What these addresses are worth. The owner's runtime maps its pool until it closes, and the pages
 * stay as long as anybody maps them: an address stays valid until the last hold ends, also when the
 * peer is lost, or has closed, or its process was killed. What stands there means something only by
 * agreement of the two, in words that they both look at.
 *
 * Without a hold it ends with the peer, which any thread that drives the engine may find lost while
 * another one is at the memory. So a group takes one hold on each such peer when it is made, and
 * gives it back when nothing that it has started can touch the memory any more:
 *
 *	hold = ops->hold(peer)      NULL: the peer is not up
 *	...                         lost: the executor is told, and stops when it can
 *	ops->release(hold)          the peer may be gone since long
 *
 * Releases may come in any order, but before the lane closes: it ends all that are left. The caller
 * holds the engine; reading and writing the memory needs no engine.
 *
 * Sleeping. `wrote` wakes a peer that has said that it sleeps (docs/shm.md). For that to be safe
 * the sleeper looks at its words once more between the flush of its lanes and its sleep, as the
 * lanes do in deadline_ns. Stores around the cache are fenced (sfence) before the word.
 */
#ifndef TWI_WINDOW_H
#define TWI_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct tow_peer;
struct twi_window_hold; /* the lane's own */

struct twi_window_ops {
	/* Is the peer, which is one of this lane, up? */
	bool (*up)(const struct tow_peer *peer);

	/* May ranks of this host write to each other's pools, as both sides say? False: not up. */
	bool (*writable)(const struct tow_peer *peer);

	/*
	 * Makes sure that the peer hears of our extent that holds [memory, +bytes), which must be
	 * pool memory; writes its number and the offset. False: it is no pool memory, or it cannot
	 * be announced now.
	 */
	bool (*expose)(struct tow_peer *peer, const void *memory, uint64_t bytes,
		       uint32_t *extent_out, uint64_t *offset_out);

	/*
	 * Where [offset, offset + bytes) of extent `extent` of the peer's pool is in this process.
	 * With `write` through a mapping that can be written: it is made at the first use in an
	 * extent, and its page tables are filled, which takes some 0.2 ms for each MiB. NULL, and
	 * *status_out is
	 *
	 *	TOW_AGAIN      the extent has not been announced yet: try after the next progress
	 *	TOW_EPROTOCOL  it lies outside, or there is no such extent
	 *	TOW_EPERM      it may not be written, here or there
	 *	TOW_ENOMEM     it cannot be mapped
	 *	else           the peer is lost, by this
	 */
	void *(*at)(struct tow_peer *peer, uint32_t extent, uint64_t offset, uint64_t bytes,
		    bool write, int *status_out);

	/* Keeps all windows of the peer, whatever becomes of it. NULL: it is not up. */
	struct twi_window_hold *(*hold)(struct tow_peer *peer);
	void (*release)(struct twi_window_hold *hold);

	/* After words in exposed memory were written that the peer may sleep on: wakes it. */
	void (*wrote)(struct tow_peer *peer);
};

#endif
