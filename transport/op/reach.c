/*
 * reach.c - see reach.h.
 *
 * The kernel is asked to fault the pages in. It may refuse for another reason than bad memory: a
 * device's memory has no pages, and an old kernel does not know the request. Then a byte of each
 * page goes through a pipe, and the kernel copies it as it would any payload.
 */
#include "transport/op/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "memreg/os/maps.h"

/* These exist since Linux 5.14. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define AHEAD_BYTES (1u << 20)

#define MAPPINGS_MAX 16u /* that one buffer may consist of */

/* Moves the byte at `at` into a pipe; for a write also back, so that it keeps its value. */
static bool try_byte(const int pipe_fds[2], uintptr_t at, bool write_too)
{
	void *byte = (void *)at;
	uint8_t spare;

	if (write(pipe_fds[1], byte, 1) != 1)
		return false;
	if (read(pipe_fds[0], write_too ? byte : &spare, 1) == 1)
		return true;
	return read(pipe_fds[0], &spare, 1) < 0; /* empties the pipe */
}

/* Checks page by page. Without descriptors nothing is known, and the memory counts as good. */
static uint64_t probe_pages(uintptr_t first, uint64_t bytes, uint64_t page, bool write)
{
	TWI_UNCANCELED;
	uint64_t good = 0;
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return bytes;
	while (good < bytes && try_byte(pipe_fds, first + good, write))
		good += page - (first + good) % page;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return twi_min(good, bytes);
}

uint64_t twi_reach(const void *at, uint64_t bytes, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)at, from = first - first % page;
	int rc;

	if (bytes == 0)
		return 0;
	if (bytes > UINT64_MAX - page - (uint64_t)first)
		return probe_pages(first, bytes, page, write);
	do
		rc = madvise((void *)from, twi_align_up(first + bytes - from, page),
			     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (rc != 0 && errno == EINTR);
	return rc == 0 ? bytes : probe_pages(first, bytes, page, write);
}

bool twi_access_check(struct twi_access_checked *known, uint64_t seq, const void *at,
		      uint64_t bytes, const void *end, bool write)
{
	uintptr_t from = (uintptr_t)at;
	uint64_t left = (uintptr_t)end - from;

	if (twi_likely(seq == known->seq && from >= known->from && from < known->to &&
		       bytes <= known->to - from))
		return true;
	left = twi_min(left, twi_max(bytes, (uint64_t)AHEAD_BYTES));
	*known = (struct twi_access_checked){ .seq = seq, .from = from };
	known->to = from + twi_reach(at, left, write);
	return bytes <= known->to - from;
}

int twi_reach_maps(void)
{
	TWI_UNCANCELED;

	return twi_maps_open();
}

bool twi_reach_plain(int maps, const void *at, uint64_t bytes)
{
	uint64_t from = (uintptr_t)at, end;

	if (maps < 0 || __builtin_add_overflow(from, bytes, &end))
		return false;
	for (unsigned i = 0; i < MAPPINGS_MAX && from < end; i++) {
		struct twi_map map;

		if (twi_maps_query(maps, from, &map) != 0 || map.start > from || map.file ||
		    !map.readable)
			return false;
		from = map.end;
	}
	return from >= end;
}

uint64_t twi_reach_ends(const void *at, uint64_t bytes, bool write)
{
	if (bytes == 0 || twi_reach(at, 1, write) == 0)
		return 0;
	return bytes - 1 + twi_reach((const uint8_t *)at + bytes - 1, 1, write);
}
