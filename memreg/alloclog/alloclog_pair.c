/*
 * alloclog_pair.c - walks the records in the order of time, with a table of live addresses.
 *
 * At equal times allocations sort before frees. So an allocation and its free in one clock tick are
 * in order. A free and the next allocation at its address in one tick are then in the wrong order.
 * The look ahead corrects that, as it corrects events that two clocks have swapped.
 */
#include "memreg/alloclog/alloclog_pair.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include <internal/base.h>

#define LOOK_AHEAD_MAX 4096
#define NONE           UINT32_MAX

/* Live addresses: open addressing, at most half full. */
struct live {
	struct {
		uint64_t address;
		uint32_t event; /* its allocation; NONE: the row is empty */
	} * rows;
	size_t mask;
};

struct walk {
	struct twi_alloclog_rec *recs;
	size_t count;
	struct live live;
	struct twi_alloc_trace *trace;
	size_t room;
	uint64_t allocs;
};

static int by_time(const void *a, const void *b)
{
	const struct twi_alloclog_rec *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (int)twi_alloclog_rec_kind(x) - (int)twi_alloclog_rec_kind(y);
}

static size_t home_of(const struct live *live, uint64_t address)
{
	return (size_t)(twi_hash_spread(address >> 6) >> 20) & live->mask;
}

/* The row of `address`, or the empty row where it belongs. */
static size_t place_of(const struct live *live, uint64_t address)
{
	size_t at = home_of(live, address);

	while (live->rows[at].event != NONE && live->rows[at].address != address)
		at = (at + 1) & live->mask;
	return at;
}

/* Empties a row, and moves back the rows that it had displaced. */
static void erase_live(struct live *live, size_t hole)
{
	for (size_t at = (hole + 1) & live->mask; live->rows[at].event != NONE;
	     at = (at + 1) & live->mask) {
		size_t wanted = home_of(live, live->rows[at].address);

		if (((at - wanted) & live->mask) >= ((at - hole) & live->mask)) {
			live->rows[hole] = live->rows[at];
			hole = at;
		}
	}
	live->rows[hole].event = NONE;
}

static int live_init(struct live *live, size_t count)
{
	size_t rows = 16;

	while (rows < count * 2)
		rows *= 2;
	live->mask = rows - 1;
	live->rows = calloc(rows, sizeof(*live->rows));
	if (live->rows == NULL)
		return TOW_ENOMEM;
	for (size_t i = 0; i < rows; i++)
		live->rows[i].event = NONE;
	return TOW_OK;
}

/* Adds an event with its time and origin. NULL: no memory. */
static struct twi_alloc_event *add_event(struct walk *w, const struct twi_alloclog_rec *rec)
{
	struct twi_alloc_trace *trace = w->trace;

	if (trace->count == w->room) {
		size_t room = w->room + w->room / 2 + 16;
		struct twi_alloc_event *events = realloc(trace->events, room * sizeof(*events));

		if (events == NULL)
			return NULL;
		trace->events = events;
		w->room = room;
	}
	trace->events[trace->count] = (struct twi_alloc_event){
		.ns = rec->ns - twi_min(rec->ns, trace->start_monotonic_ns),
		.caller = rec->caller,
		.thread = rec->thread,
		.tag = rec->tag,
		.kind = (uint8_t)twi_alloclog_rec_kind(rec),
	};
	return &trace->events[trace->count++];
}

static int add_free(struct walk *w, const struct twi_alloclog_rec *rec)
{
	struct twi_alloc_event *alloc, *event = add_event(w, rec);
	size_t at;

	if (event == NULL)
		return TOW_ENOMEM;
	event->kind = TWI_ALLOC_FREE;
	at = place_of(&w->live, rec->address);
	if (w->live.rows[at].event == NONE) {
		w->trace->unknown_frees++;
		event->bytes = twi_alloclog_rec_bytes(rec);
		return TOW_OK;
	}
	alloc = &w->trace->events[w->live.rows[at].event];
	event->id = alloc->id;
	event->bytes = alloc->bytes;
	/* The thread that frees the block may also have allocated it. */
	if (alloc->tag == TWI_ALLOC_TAG_EARLIER)
		alloc->thread = rec->tag == TWI_ALLOC_TAG_LIBRARY ? UINT32_MAX : rec->thread;
	erase_live(&w->live, at);
	return TOW_OK;
}

/*
 * Frees the block that is live at the address of the allocation `index`. That free must have been
 * earlier. If two clocks have swapped the two, the free is among the next records, and moves here.
 */
static int free_before(struct walk *w, size_t index)
{
	struct twi_alloclog_rec missing = w->recs[index];

	missing.caller = 0;
	missing.tag = 0;
	for (size_t i = index + 1; i < twi_min(w->count, index + LOOK_AHEAD_MAX); i++) {
		struct twi_alloclog_rec *rec = &w->recs[i];

		if (rec->ns - missing.ns > TWI_ALLOCLOG_SKEW_NS)
			break;
		if (twi_alloclog_rec_kind(rec) != TWI_ALLOC_FREE || rec->address != missing.address)
			continue;
		missing.caller = rec->caller;
		missing.thread = rec->thread;
		missing.tag = rec->tag;
		rec->what = 0; /* moved: this record has no kind any more */
		break;
	}
	return add_free(w, &missing);
}

static int add_alloc(struct walk *w, size_t index)
{
	const struct twi_alloclog_rec *rec = &w->recs[index];
	struct twi_alloc_event *event;
	int status = TOW_OK;
	size_t at;

	if (w->live.rows[place_of(&w->live, rec->address)].event != NONE)
		status = free_before(w, index);
	event = status == TOW_OK ? add_event(w, rec) : NULL;
	if (event == NULL)
		return TOW_ENOMEM;
	event->id = ++w->allocs;
	event->bytes = twi_alloclog_rec_bytes(rec);
	event->align_log2 = (uint8_t)(rec->what >> TWI_ALLOCLOG_ALIGN_BIT & 63);
	at = place_of(&w->live, rec->address);
	w->live.rows[at].address = rec->address;
	w->live.rows[at].event = (uint32_t)(event - w->trace->events);
	return TOW_OK;
}

static int add_gap(struct walk *w, const struct twi_alloclog_rec *rec)
{
	struct twi_alloc_event *event = add_event(w, rec);

	if (event == NULL)
		return TOW_ENOMEM;
	event->kind = TWI_ALLOC_GAP;
	event->id = rec->address;
	event->bytes = (uint64_t)rec->tag << 32 | rec->thread;
	event->thread = event->tag = 0;
	w->trace->gaps++;
	w->trace->left_steps += rec->address;
	w->trace->left_events += rec->caller;
	return TOW_OK;
}

static int add_any(struct walk *w, size_t index)
{
	struct twi_alloc_event *event;

	switch (twi_alloclog_rec_kind(&w->recs[index])) {
	case TWI_ALLOC_ALLOC:
		return add_alloc(w, index);
	case TWI_ALLOC_FREE:
		return add_free(w, &w->recs[index]);
	case TWI_ALLOC_STEP:
		event = add_event(w, &w->recs[index]);
		if (event == NULL)
			return TOW_ENOMEM;
		event->id = w->recs[index].address;
		return TOW_OK;
	default: /* a free that was moved, or a gap */
		return w->recs[index].what == TWI_ALLOCLOG_GAP ? add_gap(w, &w->recs[index])
							       : TOW_OK;
	}
}

int twi_alloclog_pair(struct twi_alloclog_rec *recs, size_t count, struct twi_alloc_trace *trace)
{
	struct walk w = { .recs = recs, .count = count, .trace = trace };
	size_t allocs = 0;
	int status;

	for (size_t i = 0; i < count; i++)
		allocs += twi_alloclog_rec_kind(&recs[i]) == TWI_ALLOC_ALLOC;
	if (count > 0)
		qsort(recs, count, sizeof(*recs), by_time);
	status = live_init(&w.live, allocs);
	for (size_t i = 0; i < count && status == TOW_OK; i++)
		status = add_any(&w, i);
	free(w.live.rows);
	if (status < 0) {
		twi_alloc_trace_fini(trace);
		return twi_error(TOW_ENOMEM, "allocation log: no memory for its %zu events", count);
	}
	return TOW_OK;
}
