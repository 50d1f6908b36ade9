/*
 * procfs.h - what the kernel says about our memory: parsers of /proc text, and reading it.
 *
 * A *span* is a range of addresses that we want to know about (an extent). /proc/self/smaps and
 * /proc/self/numa_maps are read once for all spans, line by line:
 *
 *	7f0790caa000-7f0790cac000 rw-s ...    smaps: a mapping; does a span hold all of it?
 *	Rss:                   8 kB                  ... then this is the span's
 *	7f0790caa000 default ... N0=2 kernelpagesize_kB=4         numa_maps
 *
 * The kernel splits an extent into several mappings where a part of it is locked or watched; they
 * are added up. Guards are mappings of their own. The parsers are functions of text, which may be
 * any bytes: what is not understood counts as not there.
 */
#ifndef TWI_PROCFS_H
#define TWI_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/os/numa.h"

struct twi_address_range {
	uint64_t begin, end;
};

/* One address range as the kernel sees it; bytes. */
struct twi_range_view {
	uint64_t rss;     /* in memory, except reserved huge pages */
	uint64_t hugetlb; /* on reserved huge pages */
	uint64_t
		locked; /* by mlock; the kernel does not count reserved huge pages, never swapped */
	uint64_t thp;   /* of rss: on transparent huge pages */
	uint64_t node[TWI_NODES_MAX]; /* in memory, by node */
	uint64_t node_beyond;         /* on nodes from TWI_NODES_MAX up */
};

/* Where a parser stands in its file. */
struct twi_range_reader {
	const struct twi_address_range *span;
	struct twi_range_view *view;
	size_t count;
	size_t at; /* the range of the mapping that is being told; count: none of ours */
};

/* A decimal number at *text, which moves behind it. False: none there, or more than 64 bits. */
bool twi_proc_decimal(const char **text, uint64_t *out);
bool twi_proc_hex(const char **text, uint64_t *out);

/*
 * What stands behind "key:" at the start of a line (or behind "Node 0 ", as a node's meminfo has
 * it), as in "VmPin:	 1032 kB". Names of files and processes stand elsewhere. NULL: no such line.
 */
const char *twi_proc_value(const char *text, const char *key);
bool twi_proc_number(const char *text, const char *key, uint64_t *out);

/* One line of smaps or numa_maps. */
void twi_smaps_feed(struct twi_range_reader *spans, const char *line);
void twi_numa_maps_feed(struct twi_range_reader *spans, const char *line);

/* Reads a small file of the kernel; text is "" when it cannot be read, and cut at its room. */
void twi_proc_read(const char *path, char *text, size_t room);

/* As many bytes as the file has, up to `most`; to be given to free(). NULL: it cannot be read. */
char *twi_proc_read_all(const char *path, size_t most);

/*
 * Reads smaps into the views, which start as zeroes, and numa_maps where nodes is set. False when
 * a file cannot be read: of smaps, or of numa_maps, as asked.
 */
bool twi_ranges_read_smaps(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count);
bool twi_ranges_read_nodes(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count);

#endif
