/*
 * lines.h - file and line of an address in a module, from the DWARF of the file on disk.
 *
 * The file may have been built anew since the process started. So its build-id is compared with
 * that of the mapped module, as another file's lines would be worse than none. Separate debug
 * information (.gnu_debuglink, /usr/lib/debug) is found, but nothing is fetched over the network.
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

/*
 * pid is the process with the modules, which may see other files than this one; 0: not known.
 * Returns NULL without memory.
 */
struct lines *lines_open(long pid);
void lines_close(struct lines *lines);

/*
 * Finds the file and line of a call in `module` by its return address `offset`. Returns 1 when both
 * are known. Otherwise it returns 0, and missing_out has the reason.
 */
int lines_find(struct lines *lines, const char *module, const char *build_id, uint64_t offset,
	       struct line *out, char *missing_out, size_t missing_size);

/* The last part of a path. */
const char *base_name(const char *path);

#endif
