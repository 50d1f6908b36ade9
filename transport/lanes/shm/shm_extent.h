/*
 * shm_extent.h - the extents of other processes' pools: each is mapped once, however many
 * connections name it, to be read, and once more, at the first use, to be written. What is the same
 * is told by the file behind the descriptor, not by what a peer says. The caller holds the engine.
 */
#ifndef TWI_SHM_EXTENT_H
#define TWI_SHM_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

struct twi_shm_extent {
	struct twi_list link; /* on lane->extents */
	uint64_t device, inode, bytes;
	unsigned refs; /* of links */
	void *base;    /* to be read */
	void *window;  /* to be written; NULL: not yet */
	int window_fd; /* of which the window is to be made; -1: of nothing, or it is there */
};

/* Checks and maps a descriptor from the other side, which stays the caller's. */
int twi_shm_map(int fd, uint64_t bytes, bool writable, void **out);

/*
 * The extent behind `fd`, of `bytes`, among those `known` or new there. TOW_OK; TOW_EPROTOCOL;
 * TOW_ENOMEM; TOW_EPERM.
 */
int twi_shm_extent_get(struct twi_list *known, int fd, uint64_t bytes, struct twi_shm_extent **out);
void twi_shm_extent_put(struct twi_shm_extent *extent);

/* Makes the window, if it is not there. As twi_shm_map. */
int twi_shm_extent_open(struct twi_shm_extent *extent);

#endif
