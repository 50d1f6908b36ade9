/*
 * procfs.c - reads and parses text of /proc; procfs.h has the formats.
 */
#include "memreg/os/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool parse_number(const char **text, unsigned base, uint64_t *out)
{
	const char *at = *text;
	uint64_t value = 0;

	if (digit_of(*at) >= (int)base)
		return false;
	for (; digit_of(*at) < (int)base; at++) {
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_of(*at), &value))
			return false;
	}
	*text = at;
	*out = value;
	return true;
}

bool twi_proc_decimal(const char **text, uint64_t *out)
{
	return parse_number(text, 10, out);
}

bool twi_proc_hex(const char **text, uint64_t *out)
{
	return parse_number(text, 16, out);
}

static const char *skip_blanks(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

const char *twi_proc_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (*text) {
		const char *end = strchr(text, '\n');
		uint64_t node;

		if (strncmp(text, "Node ", 5) == 0) {
			text += 5;
			if (twi_proc_decimal(&text, &node))
				text = skip_blanks(text);
		}
		if (strncmp(text, key, n) == 0 && text[n] == ':')
			return skip_blanks(text + n + 1);
		if (end == NULL)
			break;
		text = end + 1;
	}
	return NULL;
}

bool twi_proc_number(const char *text, const char *key, uint64_t *out)
{
	const char *value = twi_proc_value(text, key);

	return value != NULL && twi_proc_decimal(&value, out);
}

/* The index of the span that holds all of [begin, end); spans->count: none. */
static size_t find_span(const struct twi_range_reader *spans, uint64_t begin, uint64_t end)
{
	size_t i = 0;

	while (i < spans->count && (begin < spans->span[i].begin || end > spans->span[i].end))
		i++;
	return i;
}

/* Adds a line such as "Rss:   8 kB" to the total, if it has this key. */
static bool add_field(const char *line, const char *key, uint64_t *total)
{
	size_t n = strlen(key);
	uint64_t kib, sum;

	if (strncmp(line, key, n) != 0 || line[n] != ':')
		return false;
	line = skip_blanks(line + n + 1);
	if (twi_proc_decimal(&line, &kib) && !__builtin_mul_overflow(kib, 1024u, &kib) &&
	    !__builtin_add_overflow(*total, kib, &sum))
		*total = sum;
	return true;
}

void twi_smaps_feed(struct twi_range_reader *spans, const char *line)
{
	const char *at = line;
	struct twi_range_view *view;
	uint64_t begin, end;

	if (twi_proc_hex(&at, &begin) && *at == '-') {
		at++;
		spans->at = twi_proc_hex(&at, &end) && *at == ' ' && begin < end
				    ? find_span(spans, begin, end)
				    : spans->count;
		return;
	}
	if (spans->at >= spans->count)
		return;
	view = &spans->view[spans->at];
	if (add_field(line, "Rss", &view->rss) || add_field(line, "Locked", &view->locked) ||
	    add_field(line, "ShmemPmdMapped", &view->thp) ||
	    add_field(line, "Shared_Hugetlb", &view->hugetlb))
		return;
	add_field(line, "Private_Hugetlb", &view->hugetlb);
}

/* Reads the number behind " key" in a line of numa_maps. The caller reads node counts itself. */
static bool read_word(const char *line, const char *key, uint64_t *out)
{
	const char *at = strstr(line, key);

	at = at != NULL ? at + strlen(key) : NULL;
	return at != NULL && twi_proc_decimal(&at, out);
}

void twi_numa_maps_feed(struct twi_range_reader *spans, const char *line)
{
	const char *at = line;
	uint64_t begin, kib, node, pages, bytes;
	struct twi_range_view *view;
	size_t i;

	if (!twi_proc_hex(&at, &begin) || *at != ' ' || begin == UINT64_MAX)
		return;
	i = find_span(spans, begin, begin + 1);
	if (i == spans->count || !read_word(line, " kernelpagesize_kB=", &kib))
		return;
	view = &spans->view[i];
	for (at = strstr(at, " N"); at != NULL; at = strstr(at, " N")) {
		at += 2;
		if (!twi_proc_decimal(&at, &node) || *at != '=')
			continue;
		at++;
		if (!twi_proc_decimal(&at, &pages) || __builtin_mul_overflow(pages, kib, &bytes) ||
		    bytes > INT64_MAX / 4096)
			continue;
		*(node < TWI_NODES_MAX ? &view->node[node] : &view->node_beyond) += bytes * 1024;
	}
}

void twi_proc_read(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	while (fd >= 0 && n < room - 1) {
		ssize_t got = read(fd, text + n, room - 1 - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	if (fd >= 0)
		close(fd);
}

char *twi_proc_read_all(const char *path, size_t most)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t room = 4096, n = 0;
	char *text = fd < 0 ? NULL : malloc(room + 1);

	while (text != NULL && n < most) {
		ssize_t got = read(fd, text + n, twi_min(room, most) - n);

		if (got <= 0)
			break;
		n += (size_t)got;
		if (n == room && n < most) {
			char *more = realloc(text, 2 * room + 1);

			if (more == NULL) {
				free(text);
				text = NULL;
				break;
			}
			text = more;
			room *= 2;
		}
	}
	if (text != NULL)
		text[n] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

/* Feeds whole lines, however long: the rest of a cut line could look like a line of its own. */
static bool feed_file(const char *path, void (*feed)(struct twi_range_reader *, const char *),
		      struct twi_range_reader *spans)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	bool any = false;

	while (file != NULL && getline(&line, &room, file) > 0) {
		feed(spans, line);
		any = true;
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return any;
}

bool twi_ranges_read_smaps(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count)
{
	struct twi_range_reader spans = { span, view, count, count };

	return feed_file("/proc/self/smaps", twi_smaps_feed, &spans);
}

bool twi_ranges_read_nodes(const struct twi_address_range *span, struct twi_range_view *view,
			   size_t count)
{
	struct twi_range_reader spans = { span, view, count, count };

	return feed_file("/proc/self/numa_maps", twi_numa_maps_feed, &spans);
}
