/*
 * shm_link.h - the mappings of a link: two boxes (shm_ring.h) of its own, and the other side's
 * extents, which all links to that process have in common (shm_extent.h). Counted: views that are
 * out, and groups, hold it beyond its peer. The caller holds the engine.
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
	struct twi_shm_peer *peer; /* NULL: it has gone */
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
/* The next extent of the other side; `known`: all that the lane has mapped. */
int twi_shm_link_extent(struct twi_shm_link *shared, struct twi_list *known, int fd,
			uint64_t bytes);
/* A descriptor of the pool's extent to be given away: one that can only be read through, or not. */
int twi_shm_extent_fd(const struct twi_extent *extent, bool writable);

/* shm_window.c: the descriptor of the link's newest extent must be one to write through, and is
 * kept (*fd is -1 then) when this side writes, too. TOW_OK, TOW_EPROTOCOL. */
int twi_shm_window_take(struct twi_shm_peer *peer, int *fd);

#endif
