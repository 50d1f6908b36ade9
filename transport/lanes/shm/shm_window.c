/*
 * shm_window.c - windows into a peer's pool, for collectives. See shm_window.h.
 *
 * To be read, an extent is in the lane's own mapping, which is read-only. To be written, it is
 * mapped once more, from the descriptor that came with its announcement; that descriptor is then
 * closed. So a runtime without collectives has no writable mapping that a stray write could hit. A
 * runtime with collectives keeps at most TWI_EXTENTS_MAX descriptors for each process.
 */
#include "transport/lanes/shm/shm_window.h"

#include <fcntl.h>

#include "diag/base/error.h"
#include "transport/lanes/shm/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static struct twi_shm_peer *shm_peer(const struct tow_peer *peer)
{
	return (struct twi_shm_peer *)(uintptr_t)peer;
}

static bool window_up(const struct tow_peer *peer)
{
	return shm_peer(peer)->stage == TWI_SHM_UP;
}

static bool window_writable(const struct tow_peer *peer)
{
	return window_up(peer) && shm_peer(peer)->writable;
}

static bool window_expose(struct tow_peer *base, const void *memory, uint64_t bytes,
			  uint32_t *extent_out, uint64_t *offset_out)
{
	const struct twi_extent *extent = twi_pool_find(base->engine->pool, memory, bytes);
	struct twi_shm_peer *peer = shm_peer(base);

	if (extent == NULL || !window_up(base))
		return false;
	if (extent->slot >= peer->announced && !twi_shm_announce(peer, extent->slot))
		return false;
	*extent_out = extent->slot;
	*offset_out = (uint64_t)((uintptr_t)memory - (uintptr_t)extent->base);
	return true;
}

int twi_shm_window_take(struct twi_shm_peer *peer, int *fd)
{
	struct twi_shm_link *shared = peer->shared;
	struct twi_shm_extent *extent;
	int flags = fcntl(*fd, F_GETFL), seals = fcntl(*fd, F_GET_SEALS);

	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s: its pool was to be written, and its descriptor of "
				 "extent %u is not",
				 peer->base.address, shared->extent_count - 1);
	if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s: its pool was to be written, and its extent %u is sealed "
				 "against it",
				 peer->base.address, shared->extent_count - 1);
	extent = shared->extents[shared->extent_count - 1];
	if (!peer->writable || extent->window != NULL || extent->window_fd >= 0)
		return TOW_OK;
	extent->window_fd = *fd;
	*fd = -1;
	return TOW_OK;
}

/* Finds an extent. A message may name it before its announcement on the socket has been read. */
static int find_extent(struct twi_shm_peer *peer, uint32_t extent)
{
	int status;

	if (extent >= TWI_EXTENTS_MAX)
		return twi_error(TOW_EPROTOCOL, "peer %s: a window into extent %u, of at most %u",
				 peer->base.address, extent, TWI_EXTENTS_MAX);
	if (extent < peer->shared->extent_count)
		return TOW_OK;
	status = twi_shm_socket_read(peer);
	if (status < 0 && status != TOW_EPEER) { /* the poll reports the socket's end */
		twi_shm_socket_failed(peer, status);
		return status;
	}
	return extent < peer->shared->extent_count ? TOW_OK : TOW_AGAIN;
}

static int find_window(struct twi_shm_peer *peer, uint32_t extent, uint64_t offset, uint64_t bytes,
		       bool write)
{
	struct twi_shm_link *shared = peer->shared;
	int status = find_extent(peer, extent);
	uint64_t limit;

	if (status != TOW_OK) /* TOW_AGAIN, too */
		return status;
	limit = shared->extent_bytes[extent];
	if (offset > limit || bytes > limit - offset)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s: a window of %llu bytes at %llu of extent %u, which has "
				 "%llu",
				 peer->base.address, (unsigned long long)bytes,
				 (unsigned long long)offset, extent, (unsigned long long)limit);
	if (!write)
		return TOW_OK;
	if (!peer->writable)
		return twi_error(TOW_EPERM,
				 "peer %s: its pool may not be written: shm_peer_writes is 0 %s",
				 peer->base.address, peer->writes ? "here" : "there");
	return twi_shm_extent_open(shared->extents[extent]);
}

static void *window_at(struct tow_peer *base, uint32_t extent, uint64_t offset, uint64_t bytes,
		       bool write, int *status_out)
{
	struct twi_shm_peer *peer = shm_peer(base);
	const struct twi_shm_extent *found;

	if (twi_unlikely(!window_up(base))) {
		*status_out = peer->base.ended != 0 ? twi_error(peer->base.ended, "peer %s is lost",
								base->address)
						    : TOW_AGAIN;
		return NULL;
	}
	*status_out = find_window(peer, extent, offset, bytes, write);
	if (*status_out != TOW_OK)
		return NULL;
	found = peer->shared->extents[extent];
	return (uint8_t *)(write ? found->window : found->base) + offset;
}

static struct twi_window_hold *window_hold(struct tow_peer *peer)
{
	if (!window_up(peer))
		return NULL;
	shm_peer(peer)->shared->refs++;
	return (struct twi_window_hold *)(void *)shm_peer(peer)->shared;
}

static void window_release(struct twi_window_hold *hold)
{
	twi_shm_link_release((struct twi_shm_link *)(void *)hold);
}

static void window_wrote(struct tow_peer *peer)
{
	if (twi_likely(window_up(peer)))
		twi_shm_wrote(shm_peer(peer));
}

static void window_barrier(struct tow_peer *peer)
{
	twi_shm_pass_barrier(twi_shm_lane_of(peer->engine));
}

const struct twi_window_ops twi_shm_windows = { .up = window_up,
						.writable = window_writable,
						.expose = window_expose,
						.at = window_at,
						.hold = window_hold,
						.release = window_release,
						.wrote = window_wrote,
						.barrier = window_barrier };

pid_t twi_shm_window_pid(const struct tow_peer *peer)
{
	return window_up(peer) && shm_peer(peer)->remote_theirs ? shm_peer(peer)->pid : 0;
}
