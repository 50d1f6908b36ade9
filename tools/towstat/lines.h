/*
 * lines.h - file and line of an address in a module, from the DWARF of the file on disk.
 *
 * The file may have been built anew since the process started, so its build-id is compared with the
 * one that is mapped there; another file's lines would be worse than none. Debug information that
 * lies apart (.gnu_debuglink, /usr/lib/debug) is found, but nothing is asked of the network.
 */
#ifndef TOWSTAT_LINES_H
#define TOWSTAT_LINES_H

#include <stddef.h>
#include <stdint.h>

struct line {
	char file[512]; /* "" when not known */
	int line;
	char symbol[192]; /* also of functions that are not exported; "" when not known */
	uint64_t symbol_offset;
};

struct lines;

/* NULL without memory. pid: the process, whose view of the files may be another; 0: not known. */
struct lines *lines_open(long pid);
void lines_close(struct lines *lines);

/*
 * What `offset`, where a call in `module` returns to, is called. 1: file and line are there;
 * otherwise 0, and missing_out says why.
 */
int lines_find(struct lines *lines, const char *module, const char *build_id, uint64_t offset,
	       struct line *out, char *missing_out, size_t missing_size);

/* A path's last part. */
const char *base_name(const char *path);

#endif
