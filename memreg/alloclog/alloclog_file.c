/*
 * alloclog_file.c - encodes and decodes allocation logs. alloclog_file.h and docs/alloclog.md.
 *
 * Both directions run every event through one check (struct checker), so that what is written can
 * be read. The checker knows which ids are live from one word for each allocation, which exists
 * only once the allocation has been read.
 */
#include "memreg/alloclog/alloclog_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include <internal/base.h>

#define BATCH      1024
#define MAJOR      1
#define HEADER_MAX 4096
#define FROM_OPEN  1u
#define END_MAGIC  0x444e4554u /* "TEND" */
#define FREED      UINT32_MAX

static const char magic[8] = "TOWALOG\n";

static bool all_zero(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (p[i] != 0)
			return false;
	}
	return true;
}

void twi_alloc_trace_fini(struct twi_alloc_trace *trace)
{
	free(trace->events);
	*trace = (struct twi_alloc_trace){ 0 };
}

/* What is known of the events so far. */
struct checker {
	uint64_t last_ns, duration_ns, unknown_frees;
	uint32_t *live; /* by id - 1: the index of its event, FREED afterwards */
	size_t allocs, room;
	const char *wrong;
	unsigned field; /* offset in the record of what is wrong */
};

static bool refuse(struct checker *c, unsigned field, const char *what)
{
	c->field = field;
	c->wrong = what;
	return false;
}

static bool check_alloc(struct checker *c, const struct twi_alloc_event *e, size_t index)
{
	if (e->id != c->allocs + 1)
		return refuse(c, 8, "the id of an allocation is not the next one");
	if (c->allocs == c->room) {
		size_t room = c->room != 0 ? c->room * 2 : BATCH;
		uint32_t *live = realloc(c->live, room * sizeof(*live));

		if (live == NULL)
			return refuse(c, 0, NULL);
		c->live = live;
		c->room = room;
	}
	c->live[c->allocs++] = (uint32_t)index;
	return true;
}

static bool check_free(struct checker *c, const struct twi_alloc_event *e,
		       const struct twi_alloc_event *events)
{
	uint32_t alloc;

	if (e->id == 0) {
		c->unknown_frees++;
		return e->bytes == 0 || refuse(c, 16, "a free without its allocation has a size");
	}
	if (e->id > c->allocs)
		return refuse(c, 8, "a free of an id that was never allocated");
	alloc = c->live[e->id - 1];
	if (alloc == FREED)
		return refuse(c, 8, "a second free of the same id");
	if (e->bytes != events[alloc].bytes)
		return refuse(c, 16, "a free of another size than its allocation");
	c->live[e->id - 1] = FREED;
	return true;
}

/* Whether event `index` may follow those before it; false with what is wrong, NULL: no memory. */
static bool check_event(struct checker *c, const struct twi_alloc_event *events, size_t index)
{
	const struct twi_alloc_event *e = &events[index];

	if (e->ns < c->last_ns)
		return refuse(c, 0, "an event is earlier than the one before it");
	if (e->ns > c->duration_ns)
		return refuse(c, 0, "an event is later than the end of the log");
	c->last_ns = e->ns;
	if (e->bytes >> 56 != 0)
		return refuse(c, 16, "a size of more than 2^56 bytes");
	if (e->align_log2 > 63)
		return refuse(c, 41, "an alignment of more than 2^63");
	switch (e->kind) {
	case TWI_ALLOC_ALLOC:
		return check_alloc(c, e, index);
	case TWI_ALLOC_FREE:
		return check_free(c, e, events);
	case TWI_ALLOC_STEP:
		return e->bytes == 0 || refuse(c, 16, "a step has a size");
	default:
		return refuse(c, 40, "a kind of event that there is not (1 alloc, 2 free, 3 step)");
	}
}

static void encode_header(const struct twi_alloc_trace *t, uint64_t unknown_frees, uint8_t *p)
{
	for (unsigned i = 0; i < sizeof(magic); i++)
		p[i] = (uint8_t)magic[i];
	twi_put_le(p + 8, MAJOR, 2);
	twi_put_le(p + 12, TWI_ALLOCLOG_HEADER_BYTES, 4);
	twi_put_le(p + 16, TWI_ALLOCLOG_RECORD_BYTES, 4);
	twi_put_le(p + 20, t->from_open ? FROM_OPEN : 0, 4);
	twi_put_le(p + 24, t->start_realtime_ns, 8);
	twi_put_le(p + 32, t->start_monotonic_ns, 8);
	twi_put_le(p + 40, t->duration_ns, 8);
	twi_put_le(p + 48, t->count, 8);
	twi_put_le(p + 56, t->lost, 8);
	twi_put_le(p + 64, t->live_bytes_at_start, 8);
	twi_put_le(p + 72, t->live_allocations_at_start, 8);
	twi_put_le(p + 80, t->pool_bytes, 8);
	twi_put_le(p + 88, t->page_bytes, 8);
	twi_put_le(p + 96, t->sampling_shift, 4);
	twi_put_le(p + 100, t->pid, 4);
	twi_put_le(p + 104, unknown_frees, 8);
}

static void encode_event(const struct twi_alloc_event *e, uint8_t *p)
{
	twi_put_le(p, e->ns, 8);
	twi_put_le(p + 8, e->id, 8);
	twi_put_le(p + 16, e->bytes, 8);
	twi_put_le(p + 24, e->caller, 8);
	twi_put_le(p + 32, e->thread, 4);
	twi_put_le(p + 36, e->tag, 4);
	p[40] = e->kind;
	p[41] = e->align_log2;
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

static int check_trace(const struct twi_alloc_trace *trace, uint64_t *unknown_frees_out)
{
	struct checker c = { .duration_ns = trace->duration_ns };
	size_t i = 0;

	if (trace->count > TWI_ALLOCLOG_EVENTS_MAX)
		return twi_error(TOW_EINVAL, "allocation log: %zu events are more than a file has",
				 trace->count);
	if (trace->sampling_shift > TWI_ALLOCLOG_SHIFT_MAX)
		return twi_error(TOW_EINVAL, "allocation log: sampling_shift = %u is above %d",
				 trace->sampling_shift, TWI_ALLOCLOG_SHIFT_MAX);
	while (i < trace->count && check_event(&c, trace->events, i))
		i++;
	free(c.live);
	*unknown_frees_out = c.unknown_frees;
	if (i == trace->count)
		return TOW_OK;
	if (c.wrong == NULL)
		return twi_error(TOW_ENOMEM, "allocation log: no memory to check %zu events",
				 trace->count);
	return twi_error(TOW_EINVAL, "allocation log: event %zu: %s", i, c.wrong);
}

int twi_alloclog_encode(const struct twi_alloc_trace *trace, char **bytes_out, size_t *count_out)
{
	size_t records = trace->count * (size_t)TWI_ALLOCLOG_RECORD_BYTES;
	size_t bytes = TWI_ALLOCLOG_HEADER_BYTES + records + TWI_ALLOCLOG_END_BYTES;
	uint64_t unknown_frees = 0;
	uint8_t *p, *end;
	int status = check_trace(trace, &unknown_frees);

	*bytes_out = NULL;
	*count_out = 0;
	if (status < 0)
		return status;
	p = calloc(1, bytes);
	if (p == NULL)
		return twi_error(TOW_ENOMEM, "allocation log: no memory for a file of %zu bytes",
				 bytes);
	encode_header(trace, unknown_frees, p);
	for (size_t i = 0; i < trace->count; i++)
		encode_event(&trace->events[i],
			     p + TWI_ALLOCLOG_HEADER_BYTES + i * TWI_ALLOCLOG_RECORD_BYTES);
	end = p + TWI_ALLOCLOG_HEADER_BYTES + records;
	twi_put_le(end, END_MAGIC, 4);
	twi_put_le(end + 8, bytes, 8);
	twi_put_le(end + 4, twi_crc32(0, p, bytes - TWI_ALLOCLOG_END_BYTES), 4);
	*bytes_out = (char *)p;
	*count_out = bytes;
	return TOW_OK;
}

struct reader {
	FILE *file;
	uint64_t offset; /* of the next byte */
	uint32_t crc;
	uint64_t promised; /* events */
	struct twi_alloc_trace *trace;
	size_t room;
	struct checker checker;
};

static int wrong_at(uint64_t offset, const char *what)
{
	return twi_error(TOW_EINVAL, "allocation log: at byte %llu: %s", (unsigned long long)offset,
			 what);
}

static int take(struct reader *r, uint8_t *p, size_t bytes, const char *what)
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

/* What a later minor version may have put between the header that we know and the records. */
static int skip(struct reader *r, size_t bytes)
{
	uint8_t rest[256];
	int status = TOW_OK;

	while (bytes > 0 && status == TOW_OK) {
		size_t some = twi_min(bytes, sizeof(rest));

		status = take(r, rest, some, "header");
		bytes -= some;
	}
	return status;
}

static void decode_header(const uint8_t *p, struct twi_alloc_trace *t)
{
	t->from_open = (twi_get_le(p + 20, 4) & FROM_OPEN) != 0;
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
}

static int read_header(struct reader *r)
{
	uint8_t p[TWI_ALLOCLOG_HEADER_BYTES];
	uint64_t header_bytes;
	int status = take(r, p, 16, "header");

	if (status < 0)
		return status;
	if (memcmp(p, magic, sizeof(magic)) != 0)
		return wrong_at(0, "this is no allocation log: it does not begin with TOWALOG");
	if (twi_get_le(p + 8, 2) != MAJOR)
		return twi_error(TOW_EINVAL,
				 "allocation log: at byte 8: version %u.%u; this reads version %d",
				 (unsigned)twi_get_le(p + 8, 2), (unsigned)twi_get_le(p + 10, 2),
				 MAJOR);
	header_bytes = twi_get_le(p + 12, 4);
	if (header_bytes < TWI_ALLOCLOG_HEADER_BYTES || header_bytes > HEADER_MAX)
		return wrong_at(12, "the header's length is not from 128 to 4096");
	status = take(r, p + 16, sizeof(p) - 16, "header");
	if (status < 0)
		return status;
	if (twi_get_le(p + 16, 4) != TWI_ALLOCLOG_RECORD_BYTES)
		return wrong_at(16, "the length of a record is not 48");
	if (twi_get_le(p + 20, 4) & ~(uint64_t)FROM_OPEN)
		return wrong_at(20, "a flag that there is not");
	if (twi_get_le(p + 48, 8) > TWI_ALLOCLOG_EVENTS_MAX)
		return wrong_at(48, "more events than a log can have");
	if (twi_get_le(p + 96, 4) > TWI_ALLOCLOG_SHIFT_MAX)
		return wrong_at(96, "a sampling that there is not (2^0 to 2^10)");
	if (twi_get_le(p + 10, 2) == 0 && !all_zero(p + 112, 16))
		return wrong_at(112, "the reserved bytes are not zero");
	r->promised = twi_get_le(p + 48, 8);
	decode_header(p, r->trace);
	return skip(r, (size_t)header_bytes - sizeof(p));
}

/* Room for a batch more; grows with what has been read, whatever the header promises. */
static int grow(struct reader *r)
{
	struct twi_alloc_event *events;
	size_t room = r->room != 0 ? r->room * 2 : BATCH;

	if (r->trace->count + BATCH <= r->room)
		return TOW_OK;
	events = realloc(r->trace->events, room * sizeof(*events));
	if (events == NULL)
		return twi_error(TOW_ENOMEM, "allocation log: no memory for %zu events", room);
	r->trace->events = events;
	r->room = room;
	return TOW_OK;
}

static int read_batch(struct reader *r, size_t events)
{
	uint8_t batch[BATCH * TWI_ALLOCLOG_RECORD_BYTES];
	uint64_t begin = r->offset;
	int status = take(r, batch, events * TWI_ALLOCLOG_RECORD_BYTES, "records");

	if (status < 0)
		return status;
	status = grow(r);
	for (size_t i = 0; i < events && status == TOW_OK; i++) {
		const uint8_t *p = batch + i * TWI_ALLOCLOG_RECORD_BYTES;
		uint64_t at = begin + i * TWI_ALLOCLOG_RECORD_BYTES;
		size_t index = r->trace->count++;

		decode_event(p, &r->trace->events[index]);
		if (!all_zero(p + 42, 6))
			return wrong_at(at + 42, "the reserved bytes of a record are not zero");
		if (check_event(&r->checker, r->trace->events, index))
			continue;
		status = r->checker.wrong != NULL
				 ? wrong_at(at + r->checker.field, r->checker.wrong)
				 : twi_error(TOW_ENOMEM, "allocation log: no memory to check it");
	}
	return status;
}

static int read_end(struct reader *r)
{
	uint64_t at = r->offset;
	uint32_t crc = r->crc;
	uint8_t p[TWI_ALLOCLOG_END_BYTES];
	int status = take(r, p, sizeof(p), "end mark");

	if (status < 0)
		return status;
	if (twi_get_le(p, 4) != END_MAGIC)
		return wrong_at(at, "there is no end mark");
	if (twi_get_le(p + 4, 4) != crc)
		return wrong_at(at + 4, "the checksum is not that of the file: it was changed");
	if (twi_get_le(p + 8, 8) != r->offset)
		return wrong_at(at + 8, "the length is not that of the file");
	if (r->checker.unknown_frees != r->trace->unknown_frees)
		return wrong_at(104, "the number of frees without their allocation is another");
	if (fgetc(r->file) != EOF)
		return wrong_at(r->offset, "there are bytes behind the end");
	return TOW_OK;
}

int twi_alloclog_read(FILE *file, struct twi_alloc_trace *out)
{
	struct reader r = { .file = file, .trace = out };
	int status;

	*out = (struct twi_alloc_trace){ 0 };
	status = read_header(&r);
	r.checker.duration_ns = out->duration_ns;
	while (status == TOW_OK && r.trace->count < r.promised)
		status = read_batch(&r,
				    (size_t)twi_min(r.promised - r.trace->count, (uint64_t)BATCH));
	if (status == TOW_OK)
		status = read_end(&r);
	free(r.checker.live);
	if (status < 0)
		twi_alloc_trace_fini(out);
	return status;
}
