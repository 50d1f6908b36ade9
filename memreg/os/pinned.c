/*
 * pinned.c - reads VmPin and the rings' buffers; pinned.h has the rule that divides them.
 */
#include "memreg/os/pinned.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#define FDINFO_MOST ((size_t)4 << 20)
#define FDS_MOST    65536 /* limit of descriptors to read: each costs a microsecond */
#define TRIES       8     /* a ring does not list its buffers while a thread is inside it */
#define RING_LINK   "anon_inode:[io_uring]"

bool twi_pinned_parse(const char *fdinfo, struct twi_pinned_ring *ring_out, twi_pinned_visit *visit,
		      void *arg)
{
	const char *at = twi_proc_value(fdinfo, "UserBufs");
	uint64_t lines = 0, index, address, bytes;

	ring_out->listed = false;
	ring_out->slots = ring_out->buffers = 0;
	if (at == NULL || !twi_proc_decimal(&at, &ring_out->slots))
		return false;
	while (lines < ring_out->slots && (at = strchr(at, '\n')) != NULL) {
		at++;
		while (*at == ' ')
			at++;
		if (!twi_proc_decimal(&at, &index) || strncmp(at, ": ", 2) != 0)
			break;
		lines++;
		at += 2;
		if (strncmp(at, "0x", 2) != 0)
			continue;
		at += 2;
		if (!twi_proc_hex(&at, &address) || *at++ != '/' || !twi_proc_decimal(&at, &bytes))
			continue;
		ring_out->buffers++;
		visit(arg, address, bytes);
	}
	ring_out->listed = lines == ring_out->slots;
	return ring_out->listed;
}

uint64_t twi_pinned_ours(uint64_t total, uint64_t once, uint64_t each, uint64_t elsewhere)
{
	uint64_t rest = total - twi_min(total, elsewhere);

	return twi_min(twi_min(twi_max(rest, once), each), total);
}

/* The buffers of the rings, while they are read. */
struct gather {
	const struct twi_address_range *span;
	size_t spans;
	struct twi_pinned_ring *ring;
	struct twi_address_range *here; /* buffers in our regions */
	size_t count, room;
	uint64_t page_bytes;
	uint64_t each, elsewhere;
	bool failed; /* no memory for the list */
};

static void note_here(struct gather *g, uint64_t begin, uint64_t end)
{
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 64;
		struct twi_address_range *more = realloc(g->here, room * sizeof(*more));

		if (more == NULL) {
			g->failed = true;
			return;
		}
		g->here = more;
		g->room = room;
	}
	g->here[g->count++] = (struct twi_address_range){ begin, end };
}

static void visit_buffer(void *arg, uint64_t address, uint64_t bytes)
{
	struct gather *g = arg;
	uint64_t begin = address & ~(g->page_bytes - 1), end;

	/* No address is that large, but the text may have any bytes. */
	if (bytes == 0 || address >= 1ull << 63 || bytes >= 1ull << 62)
		return;
	end = twi_align_up(address + bytes, g->page_bytes);
	g->ring->bytes += end - begin;
	for (size_t i = 0; i < g->spans; i++) {
		uint64_t from = twi_max(begin, g->span[i].begin);
		uint64_t to = twi_min(end, g->span[i].end);

		if (from >= to)
			continue;
		g->ring->here_bytes += to - from;
		note_here(g, from, to);
	}
}

static int compare_rings(const void *a, const void *b)
{
	const struct twi_address_range *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Bytes of the spans that are registered, each counted once; also for each span if wanted. */
static uint64_t count_once(struct gather *g, uint64_t *span_bytes_out)
{
	uint64_t once = 0, reached = 0;

	if (g->count)
		qsort(g->here, g->count, sizeof(*g->here), compare_rings);
	for (size_t i = 0; i < g->count; i++) {
		uint64_t from = twi_max(g->here[i].begin, reached);
		uint64_t bytes = g->here[i].end > from ? g->here[i].end - from : 0;

		once += bytes;
		reached = twi_max(reached, g->here[i].end);
		for (size_t s = 0; span_bytes_out != NULL && s < g->spans; s++)
			if (g->here[i].begin >= g->span[s].begin &&
			    g->here[i].end <= g->span[s].end)
				span_bytes_out[s] += bytes;
	}
	return once;
}

/* True when the descriptor belongs to an io_uring. */
static bool is_ring(const char *fd)
{
	char path[64], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%.20s", fd);
	n = readlink(path, link, sizeof(link));
	return n == (ssize_t)strlen(RING_LINK) && strncmp(link, RING_LINK, (size_t)n) == 0;
}

static void read_ring(struct gather *g, const char *fd, struct twi_pinned_ring *ring)
{
	size_t before = g->count;
	char path[64];

	*ring = (struct twi_pinned_ring){ .fd = atoi(fd) };
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%.20s", fd);
	g->ring = ring;
	for (int i = 0; i < TRIES && !ring->listed; i++) {
		char *text = twi_proc_read_all(path, FDINFO_MOST);

		ring->bytes = ring->here_bytes = 0;
		g->count = before;
		if (text != NULL)
			twi_pinned_parse(text, ring, visit_buffer, g);
		free(text);
		if (!ring->listed)
			sched_yield();
	}
	g->each += ring->here_bytes;
	g->elsewhere += ring->bytes - ring->here_bytes;
}

static void read_rings(struct gather *g, struct twi_pinned *out)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int seen = 0;

	out->exact = dir != NULL;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		struct twi_pinned_ring spare, *ring = &spare;

		if (++seen > FDS_MOST) {
			out->exact = false;
			break;
		}
		if (entry->d_name[0] == '.' || !is_ring(entry->d_name))
			continue;
		if (out->rings < TWI_PINNED_RINGS)
			ring = &out->ring[out->rings++];
		else
			out->rings_left_out++;
		read_ring(g, entry->d_name, ring);
		out->exact = out->exact && ring->listed;
	}
	if (dir != NULL)
		closedir(dir);
}

void twi_pinned_read(const struct twi_address_range *span, size_t spans, uint64_t registered,
		     struct twi_pinned *out, uint64_t *span_bytes_out)
{
	struct gather g = { .span = span,
			    .spans = spans,
			    .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE) };
	uint64_t kib = 0, once;
	char status[8192];

	*out = (struct twi_pinned){ 0 };
	for (size_t i = 0; span_bytes_out != NULL && i < spans; i++)
		span_bytes_out[i] = 0;
	read_rings(&g, out);
	twi_proc_read("/proc/self/status", status, sizeof(status));
	out->known = twi_proc_number(status, "VmPin", &kib);
	out->total = out->known ? kib * 1024 : 0;
	out->locked = twi_proc_number(status, "VmLck", &kib) ? kib * 1024 : 0;
	once = count_once(&g, span_bytes_out);
	out->exact = out->exact && !g.failed;
	out->by_towline = out->exact ? twi_pinned_ours(out->total, once, g.each, g.elsewhere)
				     : twi_min(out->total, registered);
	out->by_others = out->total - out->by_towline;
	free(g.here);
}
