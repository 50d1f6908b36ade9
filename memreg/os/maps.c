/*
 * maps.c - finds one mapping, by ioctl or by reading the text.
 */
#include "memreg/os/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "diag/base/fd.h"

#define LINE_BYTES 512

/* As in linux/fs.h since 6.11. */
struct procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define QUERY                  _IOWR('f', 17, struct procmap_query)
#define QUERY_VMA_READABLE     0x01
#define QUERY_VMA_SHARED       0x08
#define QUERY_COVERING_OR_NEXT 0x10

int twi_maps_open(void)
{
	return twi_fd_high(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

int twi_maps_query(int fd, uint64_t address, struct twi_map *out)
{
	struct procmap_query query = { .size = sizeof(query),
				       .query_flags = QUERY_COVERING_OR_NEXT,
				       .query_addr = address };

	if (ioctl(fd, QUERY, &query))
		return errno;
	*out = (struct twi_map){ .start = query.vma_start,
				 .end = query.vma_end,
				 .readable = (query.vma_flags & QUERY_VMA_READABLE) != 0,
				 .shared = (query.vma_flags & QUERY_VMA_SHARED) != 0,
				 .file = query.inode != 0 };
	return 0;
}

static bool parse_line(const char *line, struct twi_map *out)
{
	unsigned long long start, end, inode;
	char perms[8];

	if (sscanf(line, "%llx-%llx %7s %*x %*x:%*x %llu", &start, &end, perms, &inode) != 4)
		return false;
	*out = (struct twi_map){ .start = start,
				 .end = end,
				 .readable = perms[0] == 'r',
				 .shared = perms[3] == 's',
				 .file = inode != 0 };
	return true;
}

int twi_maps_scan(int fd, uint64_t address, struct twi_map *out)
{
	char text[4096], line[LINE_BYTES];
	size_t length = 0;
	off_t at = 0;

	for (;;) {
		ssize_t bytes = pread(fd, text, sizeof(text), at);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return bytes == 0 ? ENOENT : errno;
		at += bytes;
		for (ssize_t i = 0; i < bytes; i++) {
			/* A cut line loses only the end of its path, which is not needed. */
			if (text[i] != '\n') {
				if (length < sizeof(line) - 1)
					line[length++] = text[i];
				continue;
			}
			line[length] = '\0';
			length = 0;
			if (parse_line(line, out) && out->end > address)
				return 0;
		}
	}
}
