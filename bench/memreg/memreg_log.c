/*
 * memreg_log.c - reads an allocation log.
 *
 * Two forms. A recording of the library's (read_recording), and a simple text, for people whose
 * program records nothing of the kind:
 *
 *   kind	id	bytes	align	thread	tag        the header
 *   alloc	17	1048576	64
 *   free	17
 *   step
 *   # sampled 8                              1 of 8 allocations is in the log
 *
 * One event a line, in the order of time; blanks or tabs between fields. id is any number that no
 * other live allocation has. align, thread and tag may be left out: 64, 0, 0. Lines that begin with
 * '#' are remarks, but for `# sampled N`, `# lost N` (events that are missing) and `# before N`
 * (bytes that were live when the log began).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/memreg_bench.h"
#include "memreg/sizing/alloclog_read.h"
#include <internal/base.h>
#include <towline/status.h>

#define LINE_ROOM      512
#define EVENTS_MAX     (UINT64_C(1) << 26)
#define LIBRARY_THREAD UINT32_MAX /* the kernel gives none that number */

static const char blanks[] = " \t\r\n";

/* A log while it is read. */
struct reader {
	const char *path;
	uint64_t line, room;
	struct memreg_log *log;
};

static int refuse_field(const struct reader *reader, const char *what, const char *value)
{
	fprintf(stderr, "memreg-bench: %s:%" PRIu64 ": %s%s%.60s%s\n", reader->path, reader->line,
		what, value != NULL ? " '" : "", value != NULL ? value : "",
		value != NULL ? "'" : "");
	return MEMREG_USAGE;
}

/* The next field as a number; `fallback` where there is none. */
static int next_number(const struct reader *reader, char **save, const char *name,
		       uint64_t fallback, uint64_t *out)
{
	const char *text = strtok_r(NULL, blanks, save);
	char what[64], *end;

	*out = fallback;
	if (text == NULL && fallback != UINT64_MAX)
		return 0;
	errno = 0;
	if (text != NULL)
		*out = strtoull(text, &end, 0);
	if (text != NULL && *text >= '0' && *text <= '9' && *end == '\0' && errno == 0)
		return 0;
	snprintf(what, sizeof(what), "%s is %s", name, text != NULL ? "no number:" : "missing");
	return refuse_field(reader, what, text);
}

static int append_event(struct reader *reader, const struct twi_alloc_event *event)
{
	struct memreg_log *log = reader->log;

	if (log->count == reader->room) {
		uint64_t room = reader->room == 0 ? 1024 : reader->room * 2;
		void *grown = room > EVENTS_MAX ? NULL : realloc(log->event, room * sizeof(*event));

		if (grown == NULL)
			return refuse_field(reader, "too many events for memory", NULL);
		log->event = grown;
		reader->room = room;
	}
	log->event[log->count++] = *event;
	return 0;
}

static int read_alloc(struct reader *reader, char **save, struct twi_alloc_event *event)
{
	uint64_t align = 64, thread = 0, tag = 0;
	int rc = next_number(reader, save, "id", UINT64_MAX, &event->id);

	if (rc == 0)
		rc = next_number(reader, save, "bytes", UINT64_MAX, &event->bytes);
	if (rc == 0)
		rc = next_number(reader, save, "align", 64, &align);
	if (rc == 0)
		rc = next_number(reader, save, "thread", 0, &thread);
	if (rc == 0)
		rc = next_number(reader, save, "tag", 0, &tag);
	if (rc != 0)
		return rc;
	align = align != 0 ? align : 64;
	if ((align & (align - 1)) != 0 || align > (UINT64_C(2) << 20))
		return refuse_field(reader, "align is no power of two up to 2097152", NULL);
	if (event->bytes > UINT64_C(1) << 40)
		return refuse_field(reader, "bytes are more than 2^40", NULL);
	event->align_log2 = (uint8_t)__builtin_ctzll(align);
	event->thread = (uint32_t)thread;
	event->tag = (uint32_t)tag;
	return append_event(reader, event);
}

static int read_remark(struct reader *reader, const char *line)
{
	uint64_t value;

	if (sscanf(line, "# sampled %" SCNu64, &value) == 1 && value >= 1 && value <= 1000000)
		reader->log->sampled = (double)value;
	if (sscanf(line, "# lost %" SCNu64, &value) == 1)
		reader->log->lost = value;
	if (sscanf(line, "# before %" SCNu64, &value) == 1 && value <= UINT64_C(1) << 40)
		reader->log->before_bytes = value;
	return 0;
}

static int read_line(struct reader *reader, char *line)
{
	struct twi_alloc_event event = { .ns = reader->line * 1000 };
	char *save = NULL, *kind;
	int rc = 0;

	if (line[0] == '#')
		return read_remark(reader, line);
	kind = strtok_r(line, blanks, &save);
	if (kind == NULL)
		return refuse_field(reader, "an empty line", NULL);
	if (strcmp(kind, "alloc") == 0) {
		event.kind = TWI_ALLOC_ALLOC;
		rc = read_alloc(reader, &save, &event);
	} else if (strcmp(kind, "free") == 0) {
		uint64_t ignored, thread;

		event.kind = TWI_ALLOC_FREE;
		rc = next_number(reader, &save, "id", UINT64_MAX, &event.id);
		for (int i = 0; rc == 0 && i < 2; i++)
			rc = next_number(reader, &save, "column", 0, &ignored);
		if (rc == 0)
			rc = next_number(reader, &save, "thread", 0, &thread);
		event.thread = rc == 0 ? (uint32_t)thread : 0;
		if (rc == 0)
			rc = next_number(reader, &save, "tag", 0, &ignored);
		if (rc == 0)
			rc = append_event(reader, &event);
	} else if (strcmp(kind, "step") == 0) {
		event.kind = TWI_ALLOC_STEP;
		rc = append_event(reader, &event);
	} else {
		return refuse_field(reader, "the kind is not alloc, free or step:", kind);
	}
	if (rc == 0 && (kind = strtok_r(NULL, blanks, &save)) != NULL)
		return refuse_field(
			reader, "more than the 6 columns kind id bytes align thread tag:", kind);
	return rc;
}

static int read_text(struct reader *reader, FILE *file)
{
	char line[LINE_ROOM];
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), file) != NULL) {
		reader->line++;
		if (strchr(line, '\n') == NULL && !feof(file))
			return refuse_field(reader, "longer than 510 characters, or a zero byte",
					    NULL);
		if (reader->line == 1 && strncmp(line, "kind", 4) == 0)
			continue;
		rc = read_line(reader, line);
	}
	if (rc == 0 && ferror(file))
		rc = refuse_field(reader, strerror(errno), NULL);
	return rc;
}

/* A free of what was allocated before the recording began. */
static bool is_earlier(const struct twi_alloc_event *event)
{
	return event->kind == TWI_ALLOC_FREE && event->id == 0;
}

/* Drops frees of what an old recording does not say the size of; how many others are earlier. */
static uint64_t drop_unsized(struct memreg_log *log)
{
	uint64_t kept = 0, earlier = 0;

	for (uint64_t i = 0; i < log->count; i++) {
		if (is_earlier(&log->event[i]) && log->event[i].bytes == 0)
			continue;
		earlier += is_earlier(&log->event[i]);
		log->event[kept++] = log->event[i];
	}
	log->count = kept;
	return earlier;
}

/*
 * What was allocated before the recording began and is freed in it: an allocation at its begin, of
 * what the free has given back. What nobody frees is left to add_before.
 */
static int add_earlier(struct memreg_log *log)
{
	uint64_t count = drop_unsized(log), at = 0;
	struct twi_alloc_event *event;

	if (count == 0)
		return 0;
	event = realloc(log->event, (log->count + count) * sizeof(*event));
	if (event == NULL)
		return MEMREG_FAULT;
	log->event = event;
	memmove(event + count, event, log->count * sizeof(*event));
	log->count += count;
	for (uint64_t i = count; i < log->count; i++) {
		if (!is_earlier(&event[i]))
			continue;
		event[i].id = UINT64_MAX - 1 - at;
		event[at++] = (struct twi_alloc_event){ .id = event[i].id,
							.bytes = event[i].bytes,
							.caller = MEMREG_BEFORE,
							.thread = event[i].thread,
							.kind = TWI_ALLOC_ALLOC,
							.align_log2 = 6 };
		log->earlier_bytes += event[i].bytes;
	}
	return 0;
}

/*
 * When the library takes memory and gives it back hangs on the other side's timing, not on the
 * program alone: it is a thread of its own, so that other orders of both are tried.
 */
static void set_library_apart(struct memreg_log *log)
{
	for (uint64_t i = 0; i < log->count; i++)
		if (log->event[i].tag == TWI_ALLOC_TAG_LIBRARY)
			log->event[i].thread = LIBRARY_THREAD;
}

/* The library's own recording. */
static int read_recording(struct reader *reader, FILE *file)
{
	struct memreg_log *log = reader->log;
	struct twi_alloc_trace trace;

	if (twi_alloclog_read(file, &trace) < 0) {
		fprintf(stderr,
			"memreg-bench: %s: neither a text log (kind id bytes align) nor a "
			"recording: "
			"%s\n",
			reader->path, tow_error_message());
		return MEMREG_USAGE;
	}
	log->event = trace.events;
	log->count = trace.count;
	log->lost = trace.lost;
	log->before_bytes = trace.live_bytes_at_start;
	log->page_bytes = trace.page_bytes;
	snprintf(log->arena, sizeof(log->arena), "%s", trace.arena);
	if (trace.arena[0] != '\0')
		log->staging_bytes = (int64_t)twi_min(trace.staging_bytes, (uint64_t)INT64_MAX);
	log->sampled = (double)(UINT64_C(1) << trace.sampling_shift);
	set_library_apart(log);
	if (add_earlier(log) == 0)
		return 0;
	return refuse_field(reader, "no memory for its events", NULL);
}

/* Text has printable characters in its first line; a recording begins with its magic number. */
static bool is_text(FILE *file)
{
	unsigned char head[8];
	size_t got = fread(head, 1, sizeof(head), file);
	bool text = got > 0;

	for (size_t i = 0; i < got; i++)
		text = text && ((head[i] >= ' ' && head[i] <= '~') || head[i] == '\t' ||
				head[i] == '\n' || head[i] == '\r');
	rewind(file);
	return text &&
	       (strncmp((const char *)head, "kind", got < 4 ? got : 4) == 0 ||
		strncmp((const char *)head, "alloc", got < 5 ? got : 5) == 0 ||
		strncmp((const char *)head, "free", got < 4 ? got : 4) == 0 ||
		strncmp((const char *)head, "step", got < 4 ? got : 4) == 0 || head[0] == '#');
}

int memreg_log_read(const char *path, struct memreg_log *out)
{
	struct reader reader = { .path = path, .log = out };
	FILE *file = fopen(path, "re");
	int rc;

	*out = (struct memreg_log){ .sampled = 1, .staging_bytes = -1 };
	if (file == NULL) {
		fprintf(stderr, "memreg-bench: %s: %s\n", path, strerror(errno));
		return MEMREG_USAGE;
	}
	rc = is_text(file) ? read_text(&reader, file) : read_recording(&reader, file);
	fclose(file);
	if (rc != 0)
		memreg_log_free(out);
	return rc;
}

void memreg_log_free(struct memreg_log *log)
{
	free(log->event);
	*log = (struct memreg_log){ .sampled = 1 };
}
