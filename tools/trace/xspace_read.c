/*
 * xspace_read.c - reads a trace from an XSpace that Towline wrote.
 *
 *	plane Towline     stats "rank" --> ranks, with their threads, peers and names
 *	plane /host:CPU   lines        --> threads, by the number of the line
 *	                  events       --> spans, by the stats tow_*
 *
 * The bytes are untrusted. protobuf-c bounds its objects by the number of bytes. This file checks
 * all else that the model relies on: indexes, kinds, order, and times that can be added.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/protobuf_lazy.h"
#include "diag/trace/export/xspace.h"
#include "tools/trace/formats.h"

/* More than any capture has. Memory for the objects is several times as large. */
#define READ_BYTES_MAX ((size_t)1 << 30)
#define READ_RANKS_MAX (1 << 16)
/*
 * Limits of times, and of the distance of clocks from each other and from UNIX time: 36 and 73
 * years. So sums of them do not overflow.
 */
#define READ_TIME_MAX  ((uint64_t)1 << 60)
#define READ_CLOCK_MAX ((int64_t)1 << 60)
#define READ_UNIX_MAX  ((int64_t)1 << 61)

/*
 * Memory for protobuf-c's objects, all of which is freed together. One untrusted byte can need some
 * forty bytes. More than MEMORY_EACH for each byte is refused.
 */
#define MEMORY_CHUNK ((size_t)1 << 20)
#define MEMORY_EACH  64u

struct memory {
	struct chunk {
		struct chunk *next;
	} * chunks;
	uint8_t *at;
	size_t left, allowed;
};

static void *memory_take(void *arg, size_t bytes)
{
	struct memory *memory = arg;
	size_t room = twi_align_up(bytes, 16);
	uint8_t *out;

	if (bytes > memory->allowed)
		return NULL;
	if (room > memory->left) {
		size_t wanted = twi_max(room, MEMORY_CHUNK);
		struct chunk *chunk = malloc(16 + wanted);

		if (chunk == NULL)
			return NULL;
		chunk->next = memory->chunks;
		memory->chunks = chunk;
		memory->at = (uint8_t *)chunk + 16;
		memory->left = wanted;
	}
	memory->allowed -= bytes;
	memory->left -= room;
	out = memory->at;
	memory->at += room;
	return out;
}

static void memory_leave(void *arg, void *pointer)
{
	(void)arg, (void)pointer;
}

static void memory_fini(struct memory *memory)
{
	while (memory->chunks != NULL) {
		struct chunk *chunk = memory->chunks;

		memory->chunks = chunk->next;
		free(chunk);
	}
}

#define UNFINISHED SIZE_MAX

struct reader {
	struct twi_trace *trace;
	/*
	 * Threads by the number of their line, from 1: the index of the rank, and the index of the
	 * thread in the rank, or UNFINISHED.
	 */
	struct line {
		size_t rank, thread;
		bool read;
	} * lines;
	size_t line_count;
};

static int bad_xspace(const char *what)
{
	return twi_error(TOW_EINVAL, "not a trace of Towline: %s", what);
}

/* Copies a text. NULL: no memory, or with *wrong, the bytes are no text. */
static char *text_of(const char *text, bool *wrong)
{
	if (!twi_text_is_clean(text)) {
		*wrong = true;
		return NULL;
	}
	return strdup(text);
}

static int read_names(struct twi_trace_rank *rank, const Twi__TraceRank *from)
{
	bool wrong = false;

	rank->names = calloc(from->n_names + 1, sizeof(*rank->names));
	rank->peers = calloc(from->n_peers + 1, sizeof(*rank->peers));
	if (rank->names == NULL || rank->peers == NULL)
		return twi_error(TOW_ENOMEM, "no memory to read a trace");
	for (size_t i = 0; i < from->n_names; i++) {
		rank->names[i] = text_of(from->names[i], &wrong);
		if (rank->names[i] == NULL)
			break;
		rank->name_count++;
	}
	for (size_t i = 0; i < from->n_peers && rank->name_count == from->n_names; i++) {
		rank->peers[i].name = text_of(from->peers[i]->name, &wrong);
		if (rank->peers[i].name == NULL)
			break;
		rank->peers[i].rank = from->peers[i]->rank;
		rank->peer_count++;
	}
	if (wrong)
		return bad_xspace("a name is no text");
	if (rank->name_count != from->n_names || rank->peer_count != from->n_peers)
		return twi_error(TOW_ENOMEM, "no memory to read a trace");
	return TOW_OK;
}

static int read_threads(struct reader *reader, size_t index, const Twi__TraceRank *from)
{
	struct twi_trace_rank *rank = &reader->trace->ranks[index];
	struct line *lines;

	rank->threads = calloc(from->n_threads + 1, sizeof(*rank->threads));
	lines = realloc(reader->lines,
			(reader->line_count + from->n_threads + 1) * sizeof(*reader->lines));
	if (lines != NULL)
		reader->lines = lines;
	if (rank->threads == NULL || lines == NULL)
		return twi_error(TOW_ENOMEM, "no memory to read a trace");
	for (size_t i = 0; i < from->n_threads; i++) {
		const Twi__TraceThread *thread = from->threads[i];
		size_t number = thread->unfinished ? UNFINISHED : rank->thread_count;

		if (strlen(thread->name) >= sizeof(rank->threads[0].name) ||
		    !twi_text_is_clean(thread->name))
			return bad_xspace("the name of a thread is none");
		if ((uint64_t)thread->line != reader->line_count + 1)
			return bad_xspace("its threads are not in order");
		reader->lines[reader->line_count++] =
			(struct line){ .rank = index, .thread = number };
		if (thread->unfinished)
			continue;
		strcpy(rank->threads[number].name, thread->name);
		rank->threads[number].tid = thread->tid;
		rank->threads[number].lost = thread->lost;
		rank->thread_count++;
	}
	return TOW_OK;
}

static bool clocks_are_sane(const Twi__TraceRank *from)
{
	return from->begin_ns <= from->end_ns && from->end_ns <= READ_TIME_MAX &&
	       from->unix_ns >= -READ_UNIX_MAX && from->unix_ns <= READ_UNIX_MAX &&
	       from->clock_offset_ns >= -READ_CLOCK_MAX && from->clock_offset_ns <= READ_CLOCK_MAX;
}

static int read_rank(struct reader *reader, const Twi__TraceRank *from)
{
	struct twi_trace *trace = reader->trace;
	struct twi_trace_rank *rank = &trace->ranks[trace->rank_count];
	bool wrong = false;
	int status;

	if (trace->rank_count && from->rank <= rank[-1].rank && from->rank >= 0)
		return bad_xspace("its ranks are not in order");
	if (!clocks_are_sane(from))
		return bad_xspace("the clock of a rank is out of range");
	trace->rank_count++;
	rank->host = text_of(from->host, &wrong);
	rank->job = text_of(from->job, &wrong);
	if (rank->host == NULL || rank->job == NULL)
		return wrong ? bad_xspace("the name of a host or job is no text")
			     : twi_error(TOW_ENOMEM, "no memory to read a trace");
	rank->rank = from->rank;
	rank->world = from->world;
	rank->pid = from->pid;
	rank->begin_ns = from->begin_ns;
	rank->end_ns = from->end_ns;
	rank->unix_ns = from->unix_ns;
	rank->clock_offset_ns = from->clock_offset_ns;
	rank->clock_error_ns = from->clock_error_ns;
	rank->sampled_out = from->sampled_out;
	status = read_names(rank, from);
	return status < 0 ? status : read_threads(reader, trace->rank_count - 1, from);
}

static const Twi__XPlane *find_plane(const Twi__XSpace *space, const char *name)
{
	for (size_t i = 0; i < space->n_planes; i++)
		if (strcmp(space->planes[i]->name, name) == 0)
			return space->planes[i];
	return NULL;
}

static int read_ranks(struct reader *reader, const Twi__XPlane *plane)
{
	if (plane->n_stats > READ_RANKS_MAX)
		return bad_xspace("it has too many ranks");
	reader->trace->ranks = calloc(plane->n_stats + 1, sizeof(*reader->trace->ranks));
	if (reader->trace->ranks == NULL)
		return twi_error(TOW_ENOMEM, "no memory to read a trace");
	for (size_t i = 0; i < plane->n_stats; i++) {
		const Twi__XStat *stat = plane->stats[i];
		Twi__TraceRank *rank;
		int status;

		if (stat->value_case != TWI__XSTAT__VALUE_BYTES_VALUE)
			return bad_xspace("a rank is no message");
		rank = twi__trace_rank__unpack(NULL, stat->bytes_value.len, stat->bytes_value.data);
		if (rank == NULL)
			return bad_xspace("a rank is no message");
		status = read_rank(reader, rank);
		twi__trace_rank__free_unpacked(rank, NULL);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

/* The ids of the stats in this file. Another version of Towline may number them differently. */
struct stat_ids {
	int64_t ids[TWI_STAT_STATUS + 1];
};

static void read_stat_ids(const Twi__XPlane *plane, struct stat_ids *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < plane->n_stat_metadata; i++) {
		const Twi__XStatMetadata *value = plane->stat_metadata[i]->value;

		for (int stat = TWI_STAT_KIND; value != NULL && stat <= TWI_STAT_STATUS; stat++)
			if (strcmp(value->name, twi_stat_name((enum twi_stat)stat)) == 0)
				out->ids[stat] = plane->stat_metadata[i]->key;
	}
}

/* The values of one event, by stat; missing ones are 0. */
struct values {
	uint64_t of[TWI_STAT_STATUS + 1];
	bool has[TWI_STAT_STATUS + 1];
};

static void read_values(const Twi__XEvent *event, const struct stat_ids *ids, struct values *out)
{
	int stat = TWI_STAT_KIND;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < event->n_stats; i++) {
		const Twi__XStat *row = event->stats[i];

		/* The writer uses this order, so the next stat mostly matches. */
		for (int n = TWI_STAT_KIND; n <= TWI_STAT_STATUS; n++) {
			if (ids->ids[stat] == row->metadata_id && row->metadata_id != 0)
				break;
			stat = stat == TWI_STAT_STATUS ? TWI_STAT_KIND : stat + 1;
		}
		if (ids->ids[stat] != row->metadata_id || row->metadata_id == 0)
			continue;
		if (row->value_case == TWI__XSTAT__VALUE_UINT64_VALUE)
			out->of[stat] = row->uint64_value;
		else if (row->value_case == TWI__XSTAT__VALUE_INT64_VALUE)
			out->of[stat] = (uint64_t)row->int64_value;
		else
			continue;
		out->has[stat] = true;
	}
}

static bool detail_is_sane(uint64_t kind, uint64_t detail)
{
	switch (kind) {
	case TWI_SPAN_COPY:
	case TWI_SPAN_REGISTER:
		return detail <= TWI_R_COUNT;
	case TWI_SPAN_WAIT:
		return detail < TWI_SPAN_KINDS;
	default:
		return detail <= UINT8_MAX;
	}
}

static bool status_is_sane(uint64_t status)
{
	return (int64_t)status < TOW_STATUS_END && (int64_t)status >= INT8_MIN;
}

static int read_span(const struct values *values, const struct twi_trace_rank *rank,
		     struct twi_span *span)
{
	const uint64_t *of = values->of;
	uint64_t wire = of[TWI_STAT_WIRE];

	if (of[TWI_STAT_KIND] >= TWI_SPAN_KINDS)
		return bad_xspace("a span's kind is unknown");
	if (of[TWI_STAT_KIND] == TWI_SPAN_COLL)
		wire = of[TWI_STAT_RANKS];
	if (of[TWI_STAT_START] > READ_TIME_MAX ||
	    of[TWI_STAT_TOOK] > READ_TIME_MAX - of[TWI_STAT_START])
		return bad_xspace("a span's time is out of range");
	if (of[TWI_STAT_NAME] > rank->name_count || of[TWI_STAT_PEER] > rank->peer_count)
		return bad_xspace("a span's name or peer does not exist");
	if (values->has[TWI_STAT_LANE] && of[TWI_STAT_LANE] >= TWI_LANE_COUNT)
		return bad_xspace("a span's lane is unknown");
	if (!detail_is_sane(of[TWI_STAT_KIND], of[TWI_STAT_DETAIL]) ||
	    !status_is_sane(of[TWI_STAT_STATUS]) || of[TWI_STAT_QUEUE] > UINT32_MAX ||
	    of[TWI_STAT_MATCH] > UINT32_MAX || wire > UINT32_MAX)
		return bad_xspace("a field of a span is out of range");
	*span = (struct twi_span){
		.start_ns = of[TWI_STAT_START],
		.end_ns = of[TWI_STAT_START] + of[TWI_STAT_TOOK],
		.id = of[TWI_STAT_ID],
		.parent = of[of[TWI_STAT_KIND] == TWI_SPAN_CALL ? TWI_STAT_SERVER_QUEUE
								: TWI_STAT_PARENT],
		.bytes = of[TWI_STAT_BYTES],
		.queue_ns = (uint32_t)of[TWI_STAT_QUEUE],
		.wire_ns = (uint32_t)wire,
		.match_ns = (uint32_t)of[TWI_STAT_MATCH],
		.name = (uint32_t)of[TWI_STAT_NAME],
		.peer = (uint32_t)of[TWI_STAT_PEER],
		.kind = (uint8_t)of[TWI_STAT_KIND],
		.lane = values->has[TWI_STAT_LANE] ? (uint8_t)of[TWI_STAT_LANE] : TWI_SPAN_NO_LANE,
		.detail = (uint8_t)of[TWI_STAT_DETAIL],
		.status = (int8_t)(int64_t)of[TWI_STAT_STATUS],
	};
	return TOW_OK;
}

/* Reads the spans of one line. After a failure, *spans_out may have memory to free, too. */
static int read_events(const Twi__XLine *from, const struct stat_ids *ids,
		       const struct twi_trace_rank *rank, struct twi_span **spans_out,
		       size_t *count_out)
{
	struct twi_span *spans = calloc(from->n_events + 1, sizeof(*spans));
	size_t count = 0;

	*spans_out = spans;
	if (spans == NULL)
		return twi_error(TOW_ENOMEM, "no memory to read a trace");
	for (size_t i = 0; i < from->n_events; i++) {
		struct values values;
		int status;

		read_values(from->events[i], ids, &values);
		if (!values.has[TWI_STAT_KIND])
			continue;
		status = read_span(&values, rank, &spans[count]);
		if (status < 0)
			return status;
		if (count > 0 && spans[count].start_ns < spans[count - 1].start_ns)
			return bad_xspace("the spans of a thread are not in order");
		count++;
	}
	*count_out = count;
	return TOW_OK;
}

static int read_line(struct reader *reader, const Twi__XLine *from, const struct stat_ids *ids)
{
	struct line *line;
	struct twi_trace_rank *rank;

	if (from->id < 1 || (uint64_t)from->id > reader->line_count)
		return TOW_OK; /* added by another tool */
	line = &reader->lines[from->id - 1];
	rank = &reader->trace->ranks[line->rank];
	if (line->read)
		return bad_xspace("two lines are of one thread");
	line->read = true;
	if (line->thread != UNFINISHED)
		return read_events(from, ids, rank, &rank->threads[line->thread].spans,
				   &rank->threads[line->thread].span_count);
	if (rank->unfinished != NULL)
		return bad_xspace("two lines of a rank have what is unfinished");
	return read_events(from, ids, rank, &rank->unfinished, &rank->unfinished_count);
}

static int read_space(struct reader *reader, const Twi__XSpace *space)
{
	const Twi__XPlane *ranks = find_plane(space, TWI_XSPACE_RANKS_PLANE);
	const Twi__XPlane *host = find_plane(space, TWI_XSPACE_HOST_PLANE);
	struct stat_ids ids;
	int status;

	if (ranks == NULL || host == NULL)
		return bad_xspace("the planes " TWI_XSPACE_RANKS_PLANE " and " TWI_XSPACE_HOST_PLANE
				  " are not there; it may be another program's XSpace");
	status = read_ranks(reader, ranks);
	if (status < 0)
		return status;
	read_stat_ids(host, &ids);
	for (size_t i = 0; i < host->n_lines; i++) {
		status = read_line(reader, host->lines[i], &ids);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out)
{
	struct memory memory = { .allowed = count * MEMORY_EACH + MEMORY_CHUNK };
	ProtobufCAllocator allocator = { memory_take, memory_leave, &memory };
	struct reader reader = { .trace = out };
	Twi__XSpace *space;
	int status;

	*out = (struct twi_trace){ 0 };
	if (count > READ_BYTES_MAX)
		return bad_xspace("it is larger than 1 GiB");
	status = twi_protobuf_load();
	if (status < 0)
		return status;
	space = twi__xspace__unpack(&allocator, count, bytes);
	status = space != NULL ? read_space(&reader, space) : bad_xspace("it is no XSpace");
	memory_fini(&memory);
	free(reader.lines);
	if (status < 0)
		twi_trace_fini(out);
	return status;
}
