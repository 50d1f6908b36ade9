/*
 * shm_link.h - the mappings of a link: its two shared segments (shm_ring.h) and the other side's
 * extents.
 *
 * All links to one process share the mappings of its extents (shm_extent.h). A link is counted:
 * views that are still in use, and groups, hold it beyond its peer. The caller holds the engine.
 */
#ifndef TWI_SHM_LINK_H
#define TWI_SHM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

#include "memreg/pool/pool.h"
#include "transport/lanes/shm/shm_extent.h"
#include "transport/lanes/shm/shm_ring.h"

struct twi_shm_lane;
struct twi_shm_peer;

struct twi_shm_link {
	struct twi_list link;      /* on lane->links */
	struct twi_shm_peer *peer; /* NULL: the peer no longer exists */
	unsigned refs;
	void *mine, *theirs;
	uint64_t mine_bytes, theirs_bytes;
	uint32_t extent_count;
	struct twi_shm_extent *extents[TWI_EXTENTS_MAX];
	uint64_t extent_bytes[TWI_EXTENTS_MAX];
};

int twi_shm_link_create(struct twi_shm_lane *lane, const struct twi_shm_shape *shape,
			struct twi_shm_link **out, int *fd_out);
void twi_shm_link_release(struct twi_shm_link *shared);
/* Adds the next extent of the other side. `known` lists all extents that the lane has mapped. */
int twi_shm_link_extent(struct twi_shm_link *shared, struct twi_list *known, int fd,
			uint64_t bytes);
/* Returns a new descriptor of the pool's extent, to send away: read-only, or `writable`. */
int twi_shm_extent_fd(const struct twi_extent *extent, bool writable);

/*
 * shm_window.c: checks that the descriptor of the link's newest extent is writable. Keeps the
 * descriptor, and sets *fd to -1, if this side writes, too. Returns TOW_OK or TOW_EPROTOCOL.
 */
int twi_shm_window_take(struct twi_shm_peer *peer, int *fd);

#endif
