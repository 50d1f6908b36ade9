/*
 * shm_extent.c - maps extents of other processes' pools, each once. See shm_extent.h.
 *
 * A descriptor of the other side is mapped only if its file is sealed against shrinking and has the
 * announced size. If a file shrinks under a mapping, a reader ends with SIGBUS. The lane maps the
 * other side's pool for reading, so that a stray write into it faults.
 */
#include "transport/lanes/shm/shm_extent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "transport/lanes/shm/shm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static int map_file(int fd, uint64_t bytes, bool writable, void **out)
{
	void *at = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return twi_error_errno(errno == EPERM || errno == EACCES ? TOW_EPERM : TOW_ENOMEM,
				       errno, "mmap of %llu shared bytes",
				       (unsigned long long)bytes);
	madvise(at, bytes, MADV_DONTFORK);
	*out = at;
	return TOW_OK;
}

/* Returns TOW_OK if the file behind `fd` has `bytes` and can never have fewer. */
static int check_file(int fd, uint64_t bytes, struct stat *out)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return twi_error(TOW_EPROTOCOL, "a descriptor of a peer's memory is no memfd that "
						"is sealed against shrinking");
	if (fstat(fd, out) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "fstat of a peer's memory");
	if (out->st_size < 0 || (uint64_t)out->st_size != bytes)
		return twi_error(TOW_EPROTOCOL, "a peer's memory has %lld bytes, not %llu",
				 (long long)out->st_size, (unsigned long long)bytes);
	return TOW_OK;
}

int twi_shm_map(int fd, uint64_t bytes, bool writable, void **out)
{
	struct stat file;
	int status = check_file(fd, bytes, &file);

	return status < 0 ? status : map_file(fd, bytes, writable, out);
}

static struct twi_shm_extent *find_extent(const struct twi_list *known, const struct stat *file)
{
	for (struct twi_list *pos = known->next; pos != known; pos = pos->next) {
		struct twi_shm_extent *extent = twi_container_of(pos, struct twi_shm_extent, link);

		if (extent->device == file->st_dev && extent->inode == file->st_ino)
			return extent;
	}
	return NULL;
}

/* Page tables of others' pools that this process has filled, of all its runtimes. */
static _Atomic uint64_t filled_bytes;

/*
 * Fills the page tables of a mapping, so that the first messages need not. It takes 56 ms for 256
 * MiB, in which nothing else moves here. With many ranks on few cores connects would end by their
 * timeout for that, so there is a bound; beyond it the messages fill the tables.
 */
static void fill_tables(struct twi_shm_extent *extent, void *at)
{
	uint64_t before =
		atomic_fetch_add_explicit(&filled_bytes, extent->bytes, memory_order_relaxed);

	if (extent->bytes > TWI_SHM_POPULATE_MAX ||
	    before + extent->bytes > TWI_SHM_POPULATE_TOTAL) {
		atomic_fetch_sub_explicit(&filled_bytes, extent->bytes, memory_order_relaxed);
		return;
	}
	extent->filled_bytes += extent->bytes;
	(void)madvise(at, extent->bytes, MADV_POPULATE_READ);
}

static int make_extent(struct twi_list *known, int fd, const struct stat *file,
		       struct twi_shm_extent **out)
{
	struct twi_shm_extent *extent = calloc(1, sizeof(*extent));
	int status;

	if (extent == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a peer's extent");
	extent->device = file->st_dev;
	extent->inode = file->st_ino;
	extent->bytes = (uint64_t)file->st_size;
	extent->window_fd = -1;
	status = map_file(fd, extent->bytes, false, &extent->base);
	if (status < 0) {
		free(extent);
		return status;
	}
	fill_tables(extent, extent->base);
	twi_list_push_back(known, &extent->link);
	*out = extent;
	return TOW_OK;
}

int twi_shm_extent_get(struct twi_list *known, int fd, uint64_t bytes, struct twi_shm_extent **out)
{
	struct stat file;
	int status = check_file(fd, bytes, &file);

	*out = status < 0 ? NULL : find_extent(known, &file);
	if (status == TOW_OK && *out == NULL)
		status = make_extent(known, fd, &file, out);
	if (status == TOW_OK)
		(*out)->refs++;
	return status;
}

void twi_shm_extent_put(struct twi_shm_extent *extent)
{
	if (--extent->refs > 0)
		return;
	atomic_fetch_sub_explicit(&filled_bytes, extent->filled_bytes, memory_order_relaxed);
	munmap(extent->base, extent->bytes);
	if (extent->window != NULL)
		munmap(extent->window, extent->bytes);
	if (extent->window_fd >= 0)
		close(extent->window_fd);
	twi_list_remove(&extent->link);
	free(extent);
}

/*
 * The owner has faulted the pages in, so only the page tables must be filled. They are filled as if
 * for reading, but the entries are writable, because the kernel counts no dirty pages of a memfd.
 * MADV_POPULATE_WRITE does the same page by page in 2.5 times the time. For 256 MiB it takes 140
 * ms, against 56, or 190 if the first writes do it. If populating fails, the writes fill the
 * tables.
 */
int twi_shm_extent_open(struct twi_shm_extent *extent)
{
	TWI_UNCANCELED;
	int status = extent->window != NULL
			     ? TOW_OK
			     : twi_shm_map(extent->window_fd, extent->bytes, true, &extent->window);

	if (status < 0 || extent->window_fd < 0)
		return status;
	fill_tables(extent, extent->window);
	close(extent->window_fd);
	extent->window_fd = -1;
	return TOW_OK;
}
