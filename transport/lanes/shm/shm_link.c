/*
 * shm_link.c - makes and counts the mappings of a link. See shm_link.h.
 *
 * With shm_peer_writes 0 our pool goes out as a read-only descriptor, so that the peer cannot map
 * it for writing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "transport/lanes/shm/shm.h"

static int make_file(uint64_t bytes, int *fd_out)
{
	int fd = twi_fd_high(memfd_create("towline-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return twi_fd_error(errno, "a peer's rings");
	if (ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		int err = errno;

		close(fd);
		return twi_error_errno(err == ENOSPC || err == ENOMEM ? TOW_ENOMEM : TOW_ESYSTEM,
				       err, "rings of %llu bytes for a peer",
				       (unsigned long long)bytes);
	}
	*fd_out = fd;
	return TOW_OK;
}

int twi_shm_link_create(struct twi_shm_lane *lane, const struct twi_shm_shape *shape,
			struct twi_shm_link **out, int *fd_out)
{
	struct twi_shm_link *shared = calloc(1, sizeof(*shared));
	int status;

	if (shared == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a link");
	shared->mine_bytes = twi_shm_box_bytes(shape);
	status = make_file(shared->mine_bytes, fd_out);
	if (status == TOW_OK) {
		status = twi_shm_map(*fd_out, shared->mine_bytes, true, &shared->mine);
		if (status < 0)
			close(*fd_out);
	}
	if (status < 0) {
		free(shared);
		return status;
	}
	shared->refs = 1;
	twi_list_push_back(&lane->links, &shared->link);
	*out = shared;
	return TOW_OK;
}

void twi_shm_link_release(struct twi_shm_link *shared)
{
	if (--shared->refs > 0)
		return;
	munmap(shared->mine, shared->mine_bytes);
	if (shared->theirs != NULL)
		munmap(shared->theirs, shared->theirs_bytes);
	for (uint32_t i = 0; i < shared->extent_count; i++)
		twi_shm_extent_put(shared->extents[i]);
	twi_list_remove(&shared->link);
	free(shared);
}

int twi_shm_link_extent(struct twi_shm_link *shared, struct twi_list *known, int fd, uint64_t bytes)
{
	uint32_t index = shared->extent_count;
	int status;

	if (index >= TWI_EXTENTS_MAX || bytes == 0)
		return twi_error(TOW_EPROTOCOL,
				 "a peer announces %u extents, the last of %llu "
				 "bytes",
				 index + 1, (unsigned long long)bytes);
	status = twi_shm_extent_get(known, fd, bytes, &shared->extents[index]);
	if (status < 0)
		return status;
	shared->extent_bytes[index] = bytes;
	shared->extent_count++;
	return TOW_OK;
}

int twi_shm_extent_fd(const struct twi_extent *extent, bool writable)
{
	char path[40];
	int fd;

	if (writable) {
		/* Without this seal the receiver could forbid all others to map it for writing. */
		(void)fcntl(extent->fd, F_ADD_SEALS, F_SEAL_SEAL);
		return fcntl(extent->fd, F_DUPFD_CLOEXEC, 0);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", extent->fd);
	fd = twi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
	/* Without /proc the descriptor itself goes out, and the peer still maps it for reading. */
	return fd >= 0 ? fd : fcntl(extent->fd, F_DUPFD_CLOEXEC, 0);
}
