/*
 * alloclog_read.c - the reader of allocation logs; alloclog_read.h has the concept.
 */
#include "memreg/sizing/alloclog_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "memreg/alloclog/alloclog_codec.h"
#include <internal/base.h>

#define BATCH 1024

static bool all_zero(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (p[i] != 0)
			return false;
	}
	return true;
}

static void decode_event(const uint8_t *p, struct twi_alloc_event *e)
{
	*e = (struct twi_alloc_event){
		.ns = twi_get_le(p, 8),
		.id = twi_get_le(p + 8, 8),
		.bytes = twi_get_le(p + 16, 8),
		.caller = twi_get_le(p + 24, 8),
		.thread = (uint32_t)twi_get_le(p + 32, 4),
		.tag = (uint32_t)twi_get_le(p + 36, 4),
		.kind = p[40],
		.align_log2 = p[41],
	};
}

struct reader {
	FILE *file;
	uint64_t offset; /* position of the next byte */
	uint32_t crc;
	unsigned major;
	uint64_t promised, seen; /* events, by the header and so far */
	struct twi_alloc_trace *trace;
	twi_alloclog_visit visit;
	void *arg;
	struct twi_alloclog_checker checker;
};

static int wrong_at(uint64_t offset, const char *what)
{
	return twi_error(TOW_EINVAL, "allocation log: at byte %llu: %s", (unsigned long long)offset,
			 what);
}

static int read_bytes(struct reader *r, uint8_t *p, size_t bytes, const char *what)
{
	size_t got;

	errno = 0;
	got = fread(p, 1, bytes, r->file);
	if (got < bytes && ferror(r->file))
		return twi_error_errno(TOW_ESYSTEM, errno, "allocation log: read at byte %llu",
				       (unsigned long long)(r->offset + got));
	r->crc = twi_crc32(r->crc, p, got);
	r->offset += got;
	if (got < bytes)
		return twi_error(TOW_EINVAL,
				 "allocation log: at byte %llu: the file ends inside the %s; it "
				 "was cut off",
				 (unsigned long long)r->offset, what);
	return TOW_OK;
}

/* Skips header bytes that only a later minor version knows. */
static int skip_bytes(struct reader *r, size_t bytes)
{
	uint8_t rest[256];
	int status = TOW_OK;

	while (bytes > 0 && status == TOW_OK) {
		size_t some = twi_min(bytes, sizeof(rest));

		status = read_bytes(r, rest, some, "header");
		bytes -= some;
	}
	return status;
}

static void decode_header(const uint8_t *p, struct twi_alloc_trace *t)
{
	t->from_open = (twi_get_le(p + 20, 4) & TWI_ALLOCLOG_FROM_OPEN) != 0;
	t->start_realtime_ns = twi_get_le(p + 24, 8);
	t->start_monotonic_ns = twi_get_le(p + 32, 8);
	t->duration_ns = twi_get_le(p + 40, 8);
	t->lost = twi_get_le(p + 56, 8);
	t->live_bytes_at_start = twi_get_le(p + 64, 8);
	t->live_allocations_at_start = twi_get_le(p + 72, 8);
	t->pool_bytes = twi_get_le(p + 80, 8);
	t->page_bytes = twi_get_le(p + 88, 8);
	t->sampling_shift = (uint32_t)twi_get_le(p + 96, 4);
	t->pid = (uint32_t)twi_get_le(p + 100, 4);
	t->unknown_frees = twi_get_le(p + 104, 8);
	memcpy(t->arena, p + 112, TWI_ALLOCLOG_ARENA_BYTES);
	t->staging_bytes = twi_get_le(p + 120, 8);
	t->taken_bytes_at_start = twi_get_le(p + 128, 8);
	t->taken_peak_bytes = twi_get_le(p + 136, 8);
	t->spread_bytes = twi_get_le(p + 152, 8);
	t->gaps = twi_get_le(p + 160, 8);
	t->left_events = twi_get_le(p + 168, 8);
	t->left_steps = twi_get_le(p + 176, 8);
	t->gap_peak_bytes = twi_get_le(p + 184, 8);
}

/* True for printable characters with only zeros behind them. */
static bool is_arena(const uint8_t *p)
{
	size_t i = 0;

	while (i < TWI_ALLOCLOG_ARENA_BYTES && p[i] > ' ' && p[i] <= '~')
		i++;
	return all_zero(p + i, TWI_ALLOCLOG_ARENA_BYTES - i);
}

/* Reads the names, whose field is at `where`. Refuses a wrong form; the texts may be anything. */
static int read_names(struct reader *r, uint64_t header_bytes, const uint8_t *where)
{
	uint64_t offset = twi_get_le(where, 4), bytes = twi_get_le(where + 4, 4);
	const char *wrong;
	size_t at = 0;
	int status;

	if (bytes == 0)
		return skip_bytes(r, (size_t)(header_bytes - r->offset));
	if (offset < r->offset || offset > header_bytes)
		return wrong_at(144, "the names begin outside the rest of the header");
	if (bytes > twi_min(header_bytes - offset, (uint64_t)TWI_ALLOCLOG_NAMES_MAX))
		return wrong_at(148, "the names do not fit in the header");
	status = skip_bytes(r, (size_t)(offset - r->offset));
	if (status == TOW_OK)
		status = read_bytes(r, r->trace->names, (size_t)bytes, "names");
	if (status < 0)
		return status;
	wrong = twi_alloclog_names_check(r->trace->names, (size_t)bytes, &at);
	if (wrong != NULL)
		return wrong_at(offset + at, wrong);
	r->trace->names_bytes = (uint32_t)bytes;
	return skip_bytes(r, (size_t)(header_bytes - r->offset));
}

static int read_header(struct reader *r)
{
	uint8_t p[TWI_ALLOCLOG_HEADER_BYTES] = { 0 };
	uint64_t header_bytes, known;
	int status = read_bytes(r, p, 16, "header");

	if (status < 0)
		return status;
	if (memcmp(p, TWI_ALLOCLOG_MAGIC, TWI_ALLOCLOG_MAGIC_BYTES) != 0)
		return wrong_at(0, "this is not an allocation log: it does not begin with "
				   "TOWALOG");
	r->major = (unsigned)twi_get_le(p + 8, 2);
	if (r->major < 1 || r->major > TWI_ALLOCLOG_MAJOR)
		return twi_error(TOW_EINVAL,
				 "allocation log: at byte 8: version %u.%u; this reads versions 1 "
				 "to %d",
				 r->major, (unsigned)twi_get_le(p + 10, 2), TWI_ALLOCLOG_MAJOR);
	header_bytes = twi_get_le(p + 12, 4);
	if (header_bytes < TWI_ALLOCLOG_HEADER_LEAST || header_bytes > TWI_ALLOCLOG_HEADER_MAX)
		return wrong_at(12, "the header's length is not from 128 to 4096");
	known = twi_min(header_bytes, sizeof(p)) & ~UINT64_C(7);
	status = read_bytes(r, p + 16, (size_t)known - 16, "header");
	if (status < 0)
		return status;
	if (twi_get_le(p + 16, 4) != TWI_ALLOCLOG_RECORD_BYTES)
		return wrong_at(16, "the length of a record is not 48");
	if (twi_get_le(p + 20, 4) & ~(uint64_t)TWI_ALLOCLOG_FROM_OPEN)
		return wrong_at(20, "an unknown flag");
	if (twi_get_le(p + 48, 8) > TWI_ALLOCLOG_EVENTS_MAX)
		return wrong_at(48, "more events than a log can have");
	if (twi_get_le(p + 96, 4) > TWI_ALLOCLOG_SHIFT_MAX)
		return wrong_at(96, "a sampling that is not from 2^0 to 2^10");
	if (r->major == 1 && twi_get_le(p + 10, 2) == 0 && !all_zero(p + 112, 16))
		return wrong_at(112, "the reserved bytes are not zero");
	if (r->major > 1 && !is_arena(p + 112))
		return wrong_at(112, "the name of the arena is unknown");
	if (r->major == 1)
		memset(p + 112, 0, sizeof(p) - 112); /* their meaning in major 1 is unknown */
	r->promised = twi_get_le(p + 48, 8);
	decode_header(p, r->trace);
	return read_names(r, header_bytes, p + 144);
}

static int read_batch(struct reader *r, size_t events)
{
	uint8_t batch[BATCH * TWI_ALLOCLOG_RECORD_BYTES];
	struct twi_alloc_event event[BATCH];
	uint64_t begin = r->offset;
	int status = read_bytes(r, batch, events * TWI_ALLOCLOG_RECORD_BYTES, "records");

	for (size_t i = 0; i < events && status == TOW_OK; i++) {
		const uint8_t *p = batch + i * TWI_ALLOCLOG_RECORD_BYTES;
		uint64_t at = begin + i * TWI_ALLOCLOG_RECORD_BYTES;

		decode_event(p, &event[i]);
		if (!all_zero(p + 42, 6))
			return wrong_at(at + 42, "the reserved bytes of a record are not zero");
		if (twi_alloclog_check(&r->checker, &event[i]))
			continue;
		status = r->checker.wrong != NULL
				 ? wrong_at(at + r->checker.field, r->checker.wrong)
				 : twi_error(TOW_ENOMEM, "allocation log: no memory to check it");
	}
	if (status == TOW_OK)
		status = r->visit(r->arg, event, events);
	r->seen += events;
	return status;
}

static int read_end(struct reader *r)
{
	uint64_t at = r->offset;
	uint32_t crc = r->crc;
	uint8_t p[TWI_ALLOCLOG_END_BYTES];
	int status = read_bytes(r, p, sizeof(p), "end mark");

	if (status < 0)
		return status;
	if (twi_get_le(p, 4) != TWI_ALLOCLOG_END_MAGIC)
		return wrong_at(at, "there is no end mark");
	if (twi_get_le(p + 4, 4) != crc)
		return wrong_at(at + 4, "the checksum is not that of the file: it was changed");
	if (twi_get_le(p + 8, 8) != r->offset)
		return wrong_at(at + 8, "the length is not that of the file");
	if (r->checker.unknown_frees != r->trace->unknown_frees)
		return wrong_at(104, "the number of frees without their allocation is not that "
				     "of the file");
	if (r->checker.gaps != r->trace->gaps || r->checker.left_events != r->trace->left_events ||
	    r->checker.left_steps != r->trace->left_steps)
		return wrong_at(160, "what is left out is not the sum of the gaps");
	if (fgetc(r->file) != EOF)
		return wrong_at(r->offset, "there are bytes behind the end");
	return TOW_OK;
}

int twi_alloclog_scan(FILE *file, struct twi_alloc_trace *out, twi_alloclog_visit visit, void *arg)
{
	struct reader r = { .file = file, .trace = out, .visit = visit, .arg = arg };
	int status;

	*out = (struct twi_alloc_trace){ 0 };
	status = read_header(&r);
	r.checker.duration_ns = out->duration_ns;
	r.checker.unsized = r.major == 1;
	while (status == TOW_OK && r.seen < r.promised)
		status = read_batch(&r, (size_t)twi_min(r.promised - r.seen, (uint64_t)BATCH));
	if (status == TOW_OK)
		status = read_end(&r);
	free(r.checker.live);
	return status;
}

/* The events of a log, while they are collected. */
struct collection {
	struct twi_alloc_event *events;
	size_t count, room;
};

/* The memory grows with the events that were read, whatever the header promises. */
static int collect_batch(void *arg, const struct twi_alloc_event *event, size_t count)
{
	struct collection *all = arg;

	if (all->count + count > all->room) {
		size_t room = twi_max(2 * all->room, (size_t)BATCH);
		void *grown = realloc(all->events, room * sizeof(*event));

		if (grown == NULL)
			return twi_error(TOW_ENOMEM, "allocation log: no memory for %zu events",
					 room);
		all->events = grown;
		all->room = room;
	}
	for (size_t i = 0; i < count; i++)
		all->events[all->count++] = event[i];
	return TOW_OK;
}

int twi_alloclog_read(FILE *file, struct twi_alloc_trace *out)
{
	struct collection all = { .events = NULL };
	int status = twi_alloclog_scan(file, out, collect_batch, &all);

	out->events = all.events;
	out->count = all.count;
	if (status < 0)
		twi_alloc_trace_fini(out);
	return status;
}
