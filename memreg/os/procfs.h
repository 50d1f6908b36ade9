/*
 * procfs.h - reads and parses the kernel's figures about our memory, as text of /proc.
 *
 * A *span* is a range of addresses of interest (an extent). /proc/self/smaps and
 * /proc/self/numa_maps are read once for all spans, line by line:
 *
 *	7f0790caa000-7f0790cac000 rw-s ...    smaps: a mapping; does a span hold all of it?
 *	Rss:                   8 kB                  ... then this is the span's
 *	7f0790caa000 default ... N0=2 kernelpagesize_kB=4         numa_maps
 *
 * The kernel splits an extent into several mappings where a part of it is locked or watched; their
 * figures are added. Guards are mappings of their own. The parsers accept any bytes, and ignore
 * text that they do not understand.
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

/* The kernel's figures of one address range, in bytes. */
struct twi_range_view {
	uint64_t rss;     /* in memory, without reserved huge pages */
	uint64_t hugetlb; /* on reserved huge pages */
	uint64_t
		locked; /* by mlock; the kernel does not count reserved huge pages, never swapped */
	uint64_t thp;   /* part of rss on transparent huge pages */
	uint64_t node[TWI_NODES_MAX]; /* in memory, by node */
	uint64_t node_beyond;         /* on nodes from TWI_NODES_MAX up */
};

/* State of a parser between two lines. */
struct twi_range_reader {
	const struct twi_address_range *span;
	struct twi_range_view *view;
	size_t count;
	size_t at; /* index of the span that holds the current mapping; count: none */
};

/* Parses a decimal number at *text, and moves *text behind it. False: none, or beyond 64 bits. */
bool twi_proc_decimal(const char **text, uint64_t *out);
bool twi_proc_hex(const char **text, uint64_t *out);

/*
 * Finds the text behind "key:" at the start of a line, as in "VmPin:	 1032 kB". In a node's
 * meminfo the key follows "Node 0 ". Names of files and processes never begin a line. NULL: no such
 * line.
 */
const char *twi_proc_value(const char *text, const char *key);
bool twi_proc_number(const char *text, const char *key, uint64_t *out);

/* Parse one line of smaps or numa_maps. */
void twi_smaps_feed(struct twi_range_reader *spans, const char *line);
void twi_numa_maps_feed(struct twi_range_reader *spans, const char *line);

/* Reads a small kernel file, as much as fits into `room`. text is "" if it cannot be read. */
void twi_proc_read(const char *path, char *text, size_t room);

/* Reads a file, up to `most` bytes. The caller frees the result. NULL: it cannot be read. */
char *twi_proc_read_all(const char *path, size_t most);

/*
 * Read smaps or numa_maps and add the figures to the views, which start as zeroes. False: the file
 * cannot be read.
 */
bool twi_ranges_read_smaps(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count);
bool twi_ranges_read_nodes(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count);

#endif
