/*
 * shm_extent.h - the mappings of extents of other processes' pools.
 *
 * Each extent is mapped once for reading, however many connections name it, and once more for
 * writing, at the first use. The file behind the descriptor identifies an extent, not the peer's
 * message. The caller holds the engine.
 */
#ifndef TWI_SHM_EXTENT_H
#define TWI_SHM_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

struct twi_shm_extent {
	struct twi_list link; /* on lane->extents */
	uint64_t device, inode, bytes;
	uint64_t filled_bytes; /* of both mappings, counted in the process's total */
	unsigned refs;         /* number of links */
	void *base;            /* read-only mapping */
	void *window;          /* writable mapping; NULL: not made yet */
	int window_fd;         /* for making `window`; -1: not writable, or already made */
};

/* Checks and maps a descriptor of the other side. The descriptor remains the caller's. */
int twi_shm_map(int fd, uint64_t bytes, bool writable, void **out);

/*
 * Returns the extent behind `fd`, of `bytes`, from the list `known`, or adds a new one to the list.
 * TOW_OK; TOW_EPROTOCOL; TOW_ENOMEM; TOW_EPERM.
 */
int twi_shm_extent_get(struct twi_list *known, int fd, uint64_t bytes, struct twi_shm_extent **out);
void twi_shm_extent_put(struct twi_shm_extent *extent);

/* Makes the writable mapping, if there is none yet. Fails as twi_shm_map does. */
int twi_shm_extent_open(struct twi_shm_extent *extent);

#endif
