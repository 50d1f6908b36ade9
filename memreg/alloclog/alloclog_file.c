/*
 * alloclog_file.c - writes an allocation log as a file. alloclog_file.h and docs/alloclog.md have
 * the format.
 *
 * The reader is beside the library (memreg/sizing/alloclog_read.h). Both pass every event through
 * the check of alloclog_codec.h, so that every written file can be read.
 */
#include "memreg/alloclog/alloclog_file.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "memreg/alloclog/alloclog_codec.h"
#include <internal/base.h>

#define ROOM  1024
#define FREED UINT64_MAX

static bool refuse_event(struct twi_alloclog_checker *c, unsigned field, const char *what)
{
	c->field = field;
	c->wrong = what;
	return false;
}

static bool check_alloc(struct twi_alloclog_checker *c, const struct twi_alloc_event *e)
{
	if (e->id != c->allocs + 1)
		return refuse_event(c, 8, "the id of an allocation is not the next one");
	if (c->allocs == c->room) {
		size_t room = c->room != 0 ? c->room * 2 : ROOM;
		uint64_t *live = realloc(c->live, room * sizeof(*live));

		if (live == NULL)
			return refuse_event(c, 0, NULL);
		c->live = live;
		c->room = room;
	}
	c->live[c->allocs++] = e->bytes;
	return true;
}

static bool check_free(struct twi_alloclog_checker *c, const struct twi_alloc_event *e)
{
	if (e->id == 0) {
		c->unknown_frees++;
		return e->bytes == 0 || !c->unsized ||
		       refuse_event(c, 16, "a free without its allocation has a size");
	}
	if (e->id > c->allocs)
		return refuse_event(c, 8, "a free of an id that was never allocated");
	if (c->live[e->id - 1] == FREED)
		return refuse_event(c, 8, "a second free of the same id");
	if (e->bytes != c->live[e->id - 1])
		return refuse_event(c, 16, "a free of another size than its allocation");
	c->live[e->id - 1] = FREED;
	return true;
}

static bool check_gap(struct twi_alloclog_checker *c, const struct twi_alloc_event *e)
{
	if (e->bytes > c->duration_ns - e->ns)
		return refuse_event(c, 16, "a gap that ends after the log");
	if (e->id >> 56 != 0)
		return refuse_event(c, 8, "a gap of more than 2^56 steps");
	if (e->caller >> 56 != 0)
		return refuse_event(c, 24, "a gap of more than 2^56 events");
	c->gaps++;
	c->left_steps += e->id;
	c->left_events += e->caller;
	return true;
}

bool twi_alloclog_check(struct twi_alloclog_checker *c, const struct twi_alloc_event *e)
{
	if (e->ns < c->last_ns)
		return refuse_event(c, 0, "an event is earlier than the one before it");
	if (e->ns > c->duration_ns)
		return refuse_event(c, 0, "an event is later than the end of the log");
	c->last_ns = e->ns;
	if (e->bytes >> 56 != 0)
		return refuse_event(c, 16, "a size of more than 2^56 bytes");
	if (e->align_log2 > 63)
		return refuse_event(c, 41, "an alignment of more than 2^63");
	switch (e->kind) {
	case TWI_ALLOC_ALLOC:
		return check_alloc(c, e);
	case TWI_ALLOC_FREE:
		return check_free(c, e);
	case TWI_ALLOC_STEP:
		return e->bytes == 0 || refuse_event(c, 16, "a step has a size");
	case TWI_ALLOC_GAP:
		return check_gap(c, e);
	default:
		return refuse_event(c, 40,
				    "an unknown kind of event (1 alloc, 2 free, 3 step, 4 gap)");
	}
}

/* Records begin at a multiple of 8 bytes. */
static size_t header_bytes(const struct twi_alloc_trace *t)
{
	if (t->names_bytes == 0)
		return TWI_ALLOCLOG_HEADER_BYTES;
	return twi_align_up(TWI_ALLOCLOG_NAMES_OFFSET + (size_t)t->names_bytes, 8);
}

static void encode_names(const struct twi_alloc_trace *t, uint8_t *p)
{
	twi_put_le(p + 144, t->names_bytes > 0 ? TWI_ALLOCLOG_NAMES_OFFSET : 0, 4);
	twi_put_le(p + 148, t->names_bytes, 4);
	for (uint32_t i = 0; i < t->names_bytes; i++)
		p[TWI_ALLOCLOG_NAMES_OFFSET + i] = t->names[i];
}

static void encode_header(const struct twi_alloc_trace *t, uint64_t unknown_frees, uint8_t *p)
{
	for (unsigned i = 0; i < TWI_ALLOCLOG_MAGIC_BYTES; i++)
		p[i] = (uint8_t)TWI_ALLOCLOG_MAGIC[i];
	twi_put_le(p + 8, TWI_ALLOCLOG_MAJOR, 2);
	twi_put_le(p + 10, TWI_ALLOCLOG_MINOR, 2);
	twi_put_le(p + 12, header_bytes(t), 4);
	twi_put_le(p + 16, TWI_ALLOCLOG_RECORD_BYTES, 4);
	twi_put_le(p + 20, t->from_open ? TWI_ALLOCLOG_FROM_OPEN : 0, 4);
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
	for (size_t i = 0; i < TWI_ALLOCLOG_ARENA_BYTES; i++)
		p[112 + i] = i < strlen(t->arena) ? (uint8_t)t->arena[i] : 0;
	twi_put_le(p + 120, t->staging_bytes, 8);
	twi_put_le(p + 128, t->taken_bytes_at_start, 8);
	twi_put_le(p + 136, t->taken_peak_bytes, 8);
	encode_names(t, p);
	twi_put_le(p + 152, t->spread_bytes, 8);
	twi_put_le(p + 160, t->gaps, 8);
	twi_put_le(p + 168, t->left_events, 8);
	twi_put_le(p + 176, t->left_steps, 8);
	twi_put_le(p + 184, t->gap_peak_bytes, 8);
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

static int check_trace(const struct twi_alloc_trace *trace, uint64_t *unknown_frees_out)
{
	struct twi_alloclog_checker c = { .duration_ns = trace->duration_ns };
	size_t i = 0;

	if (trace->count > TWI_ALLOCLOG_EVENTS_MAX)
		return twi_error(TOW_EINVAL, "allocation log: %zu events are more than a file has",
				 trace->count);
	if (trace->sampling_shift > TWI_ALLOCLOG_SHIFT_MAX)
		return twi_error(TOW_EINVAL, "allocation log: sampling_shift = %u is above %d",
				 trace->sampling_shift, TWI_ALLOCLOG_SHIFT_MAX);
	while (i < trace->count && twi_alloclog_check(&c, &trace->events[i]))
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
	size_t head = header_bytes(trace), records = trace->count * TWI_ALLOCLOG_RECORD_BYTES;
	size_t bytes = head + records + TWI_ALLOCLOG_END_BYTES;
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
		encode_event(&trace->events[i], p + head + i * TWI_ALLOCLOG_RECORD_BYTES);
	end = p + head + records;
	twi_put_le(end, TWI_ALLOCLOG_END_MAGIC, 4);
	twi_put_le(end + 8, bytes, 8);
	twi_put_le(end + 4, twi_crc32(0, p, bytes - TWI_ALLOCLOG_END_BYTES), 4);
	*bytes_out = (char *)p;
	*count_out = bytes;
	return TOW_OK;
}

void twi_alloc_trace_fini(struct twi_alloc_trace *trace)
{
	free(trace->events);
	*trace = (struct twi_alloc_trace){ 0 };
}
