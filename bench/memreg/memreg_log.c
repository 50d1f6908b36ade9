/*
 * memreg_log.c - reads an allocation log: a recording of the library's, or text
 * (memreg_log_text.c).
 *
 * The log is a file or the standard input. The standard input is first copied to a file, as it may
 * have to be read twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/memreg/memreg_log.h"
#include "memreg/sizing/alloclog_read.h"
#include <internal/base.h>
#include <towline/status.h>

#define LIBRARY_THREAD UINT32_MAX            /* the kernel gives no thread that number */
#define EARLIER_IDS    (UINT64_C(1) << 62)   /* of blocks from before the log that it frees */
#define PEAK_ID        (UINT64_C(1) << 61)   /* of the block for the earlier peak */
#define STAYING_IDS    (UINT64_C(1) << 60)   /* of blocks that were live before, and stay */
#define SLABS_BYTES    (UINT64_C(124) << 10) /* a slab of each class */
#define BEFORE_PAGE    4096u
#define ALIGN_LOG2     6
#define SMALL_MOST     2048u /* larger blocks have pages of their own */
#define BEFORE_BLOCKS  65536 /* at most, for the blocks that were live before a log */
#define SPOOL_MOST     (UINT64_C(8) << 30)
#define AHEAD          8                   /* distance in events of the memory prefetch */
#define PROGRESS_EACH  (UINT64_C(1) << 18) /* events */

int memreg_reader_refuse(const struct memreg_reader *reader, const char *what, const char *value)
{
	char line[32] = "", shown[61];

	memreg_progress(NULL, 0, 0);
	if (reader->line > 0)
		snprintf(line, sizeof(line), ":%" PRIu64, reader->line);
	/* The file may have any bytes, and they are printed on a terminal. */
	snprintf(shown, sizeof(shown), "%s", value != NULL ? value : "");
	memreg_clean_text(shown);
	fprintf(stderr, "tow-size: %s%s: %s%s%s%s\n", reader->name, line, what,
		value != NULL ? " '" : "", shown, value != NULL ? "'" : "");
	return MEMREG_USAGE;
}

static int put_event(struct memreg_reader *reader, const struct twi_alloc_event *event)
{
	int status = twi_replay_add(reader->builder, event);

	if (status == TOW_OK)
		return 0;
	memreg_reader_refuse(reader, tow_error_message(), NULL);
	return status == TOW_EINVAL ? MEMREG_USAGE : MEMREG_FAULT;
}

static int put_aligned(struct memreg_reader *reader, uint64_t id,
		       const struct memreg_earlier *block, uint32_t thread)
{
	struct twi_alloc_event event = { .id = id,
					 .bytes = block->bytes,
					 .caller = MEMREG_BEFORE,
					 .thread = thread,
					 .kind = TWI_ALLOC_ALLOC,
					 .align_log2 = block->align_log2 };

	return put_event(reader, &event);
}

static int put_earlier(struct memreg_reader *reader, uint64_t id, uint64_t bytes, uint32_t thread)
{
	struct memreg_earlier block = { .bytes = bytes, .align_log2 = ALIGN_LOG2 };

	return put_aligned(reader, id, &block, thread);
}

static bool append_block(struct memreg_blocks *blocks, const struct memreg_earlier *block)
{
	if (blocks->count == blocks->room) {
		uint64_t room = 2 * blocks->room + 64;
		void *grown = realloc(blocks->block, room * sizeof(blocks->block[0]));

		if (grown == NULL)
			return false;
		blocks->block = grown;
		blocks->room = room;
	}
	blocks->block[blocks->count++] = *block;
	return true;
}

/*
 * Adds the blocks that were live before the log began and that it does not mention. They are as
 * many as there were, all of about one size. A recording says what they took of the pool. So larger
 * ones are whole pages, which no arena rounds up again. The space that small ones leave free in
 * their slabs is a block of its own.
 */
static int put_staying(struct memreg_reader *reader, uint32_t thread)
{
	uint64_t bytes = reader->before, count = twi_max(reader->before_count, (uint64_t)1);
	uint64_t grain, units;
	int rc = 0;

	if (bytes == 0)
		return 0;
	count = twi_min(count, twi_min(bytes, (uint64_t)BEFORE_BLOCKS));
	grain = bytes / count > SMALL_MOST ? BEFORE_PAGE : 1;
	units = bytes / grain;
	count = twi_max(twi_min(count, units), (uint64_t)1);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		uint64_t size = (units / count + (i < units % count)) * grain;

		size += i + 1 == count ? bytes % grain : 0;
		rc = put_earlier(reader, UINT64_MAX - i, size, thread);
	}
	if (rc == 0 && reader->taken && reader->before_count > 0)
		rc = put_earlier(reader, UINT64_MAX - count, SLABS_BYTES, thread);
	return rc;
}

/*
 * Adds the pool's peak before the log began, less what was live when it began. It is one block that
 * comes and goes, as its place is not known. No pool with less room would have been enough.
 */
static int put_peak(struct memreg_reader *reader, uint32_t thread)
{
	struct twi_alloc_event event = { .id = PEAK_ID, .thread = thread, .kind = TWI_ALLOC_FREE };
	int rc;

	uint64_t peak = reader->peak - twi_min(reader->held_bytes, reader->peak);

	if (peak == 0)
		return 0;
	rc = put_earlier(reader, PEAK_ID, peak, thread);
	return rc == 0 ? put_event(reader, &event) : rc;
}

/* Adds all blocks from before the log. Those that the log frees have the sizes from their frees. */
static int put_before(struct memreg_reader *reader, uint32_t thread)
{
	const struct memreg_blocks *earlier = &reader->earlier, *staying = &reader->staying;
	int rc = 0;

	reader->begun = true;
	if (earlier->count > 0)
		thread = earlier->block[0].thread;
	for (uint64_t i = 0; rc == 0 && i < staying->count; i++)
		rc = put_aligned(reader, STAYING_IDS + i, &staying->block[i], thread);
	if (rc == 0)
		rc = put_staying(reader, thread);
	for (uint64_t i = 0; rc == 0 && i < earlier->count; i++)
		rc = put_earlier(reader, EARLIER_IDS + i, earlier->block[i].bytes,
				 earlier->block[i].thread);
	return rc == 0 ? put_peak(reader, thread) : rc;
}

int memreg_reader_add(struct memreg_reader *reader, const struct twi_alloc_event *event)
{
	int rc = reader->begun ? 0 : put_before(reader, event->thread);

	if (++reader->events % PROGRESS_EACH == 0)
		memreg_progress("reading the log", (uint64_t)ftello(reader->file),
				reader->file_bytes);
	return rc == 0 ? put_event(reader, event) : rc;
}

/*
 * Handles a free of a block from before the recording. The first reading notes it; the second gives
 * it the id of its allocation. Returns 1 when there is nothing to add.
 */
static int match_earlier(struct memreg_reader *reader, struct twi_alloc_event *event)
{
	struct memreg_earlier block;

	if (event->bytes == 0)
		return 1; /* an old recording does not have its size */
	if (reader->second) {
		if (reader->earlier_seen == reader->earlier.count)
			return memreg_reader_refuse(reader, "it changes while it is read", NULL);
		event->id = EARLIER_IDS + reader->earlier_seen++;
		return 0;
	}
	block = (struct memreg_earlier){ event->bytes, event->thread, ALIGN_LOG2 };
	if (!append_block(&reader->earlier, &block))
		return memreg_reader_refuse(reader, "no memory for its events", NULL);
	reader->log->earlier_bytes += event->bytes;
	reader->again = true;
	return 1;
}

/*
 * Takes a block that was live when the recording began, one of its first events. Its thread is the
 * one that frees it; 0: the log never frees it.
 */
static int put_held(struct memreg_reader *reader, const struct twi_alloc_event *event)
{
	struct memreg_earlier block = { event->bytes, event->thread, event->align_log2 };

	reader->held_bytes += event->bytes;
	if (event->thread != 0)
		return put_aligned(reader, event->id, &block, event->thread);
	if (!append_block(&reader->staying, &block))
		return memreg_reader_refuse(reader, "no memory for its events", NULL);
	return 0;
}

/* The state of a scan. rc is the exit code when a visit has ended the scan. */
struct visit {
	struct memreg_reader *reader;
	const struct twi_alloc_trace *trace;
	int rc;
};

static void set_before(struct memreg_reader *reader, const struct twi_alloc_trace *trace)
{
	struct memreg_log *log = reader->log;
	uint64_t taken = trace->taken_bytes_at_start, peak = trace->taken_peak_bytes;

	log->before_bytes = taken != 0 ? taken : trace->live_bytes_at_start;
	reader->before = log->before_bytes - twi_min(log->earlier_bytes, log->before_bytes);
	reader->before_count = trace->live_allocations_at_start -
			       twi_min(reader->earlier.count, trace->live_allocations_at_start);
	reader->taken = !trace->from_open && peak != 0;
	reader->peak = reader->taken ? peak - twi_min(log->before_bytes, peak) : 0;
}

static int visit_events(void *arg, const struct twi_alloc_event *event, size_t count)
{
	struct visit *visit = arg;
	struct memreg_reader *reader = visit->reader;

	set_before(reader, visit->trace);
	for (size_t i = 0; i < count && visit->rc == 0; i++) {
		struct twi_alloc_event one = event[i];
		int skip = 0;

		if (i + AHEAD < count)
			twi_replay_expect(reader->builder, event[i + AHEAD].id);
		/*
		 * The library's allocations depend on the other side's timing, not on the program
		 * alone. So the library counts as a thread of its own, and other orders of both are
		 * tried.
		 */
		if (one.kind == TWI_ALLOC_GAP)
			continue; /* the blocks that matter have events of their own */
		if (one.tag == TWI_ALLOC_TAG_LIBRARY)
			one.thread = LIBRARY_THREAD;
		if (one.tag == TWI_ALLOC_TAG_EARLIER && one.kind == TWI_ALLOC_ALLOC) {
			visit->rc = put_held(reader, &one);
			continue;
		}
		if (one.kind == TWI_ALLOC_FREE && one.id == 0)
			skip = match_earlier(reader, &one);
		if (skip > 1)
			visit->rc = skip;
		else if (skip == 0 && !reader->again)
			visit->rc = memreg_reader_add(reader, &one);
	}
	return visit->rc == 0 ? TOW_OK : TOW_EINVAL;
}

static bool take_names(struct memreg_log *log, const struct twi_alloc_trace *trace)
{
	struct twi_alloclog_name name;
	size_t at = 0;

	while (twi_alloclog_names_next(trace, &at, &name)) {
		enum memreg_named kind = name.kind == TWI_ALLOCLOG_NAMED_TAG ? MEMREG_NAMED_TAG
									     : MEMREG_NAMED_CALLER;

		if (name.kind != TWI_ALLOCLOG_NAMED_TAG && name.kind != TWI_ALLOCLOG_NAMED_CALLER)
			continue;
		if (!memreg_names_add(&log->names, kind, name.key, name.text))
			return false;
	}
	return true;
}

/* Reads the library's own recording. */
static int read_recording(struct memreg_reader *reader)
{
	struct memreg_log *log = reader->log;
	struct twi_alloc_trace trace;
	struct visit visit = { reader, &trace, 0 };

	if (twi_alloclog_scan(reader->file, &trace, visit_events, &visit) < 0) {
		if (visit.rc == 0)
			visit.rc = memreg_reader_refuse(reader, tow_error_message(), NULL);
		return visit.rc;
	}
	if (!reader->second && reader->again)
		return 0;
	log->lost = trace.lost;
	log->gaps = (struct memreg_gaps){ trace.gaps, trace.left_events, trace.left_steps };
	log->page_bytes = trace.page_bytes;
	snprintf(log->arena, sizeof(log->arena), "%s", trace.arena);
	if (trace.arena[0] != '\0')
		log->staging_bytes = (int64_t)twi_min(trace.staging_bytes, (uint64_t)INT64_MAX);
	log->sampled = (double)(UINT64_C(1) << trace.sampling_shift);
	log->timed = true;
	if (!take_names(log, &trace))
		return memreg_reader_refuse(reader, "no memory for its names", NULL);
	set_before(reader, &trace);
	log->before_bytes += reader->held_bytes;
	log->spread_bytes = trace.from_open ? 0 : trace.spread_bytes;
	return 0;
}

/* Text begins with a printable character, and a recording with its magic number. */
static int read_form(struct memreg_reader *reader)
{
	unsigned char head[8] = { 0 };
	size_t got = fread(head, 1, sizeof(head), reader->file);

	rewind(reader->file);
	if (got >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
		return memreg_reader_refuse(reader,
					    "begins with a byte order mark: save it without", NULL);
	if (got >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
		return memreg_reader_refuse(reader, "is text in UTF-16: save it in ASCII or UTF-8",
					    NULL);
	if (got > 0 && (head[0] == '{' || head[0] == '['))
		return memreg_reader_refuse(reader,
					    "is JSON, as tow-alloclog prints it: give the "
					    "recording that it was made of",
					    NULL);
	if (got > 0 && memcmp(head, "TOWALOG", twi_min(got, (size_t)7)) != 0 &&
	    ((head[0] >= ' ' && head[0] <= '~') || strchr("\t\r\n", head[0]) != NULL) &&
	    head[0] != '\0')
		return memreg_read_text(reader);
	return read_recording(reader);
}

/* Reads the file once, into a builder of its own. */
static int read_once(struct memreg_reader *reader)
{
	int rc;

	reader->line = reader->events = 0;
	reader->held_bytes = reader->staying.count = 0;
	reader->begun = reader->again = false;
	rewind(reader->file);
	if (twi_replay_begin(&reader->builder) < 0)
		return memreg_reader_refuse(reader, tow_error_message(), NULL);
	rc = read_form(reader);
	reader->line = 0;
	if (rc == 0 && !reader->begun && !(reader->again && !reader->second))
		rc = put_before(reader, 0);
	if (rc == 0 && !(reader->again && !reader->second)) {
		int status = twi_replay_end(reader->builder, &reader->log->replay);

		reader->builder = NULL;
		if (status < 0) {
			memreg_reader_refuse(reader, tow_error_message(), NULL);
			rc = status == TOW_EINVAL ? MEMREG_USAGE : MEMREG_FAULT;
		}
	}
	twi_replay_abandon(reader->builder);
	reader->builder = NULL;
	return rc;
}

/* Copies the standard input to a file without a name. */
static FILE *spool_input(void)
{
	FILE *file = tmpfile();
	uint64_t bytes = 0;
	char some[65536];
	size_t got;

	while (file != NULL && bytes <= SPOOL_MOST &&
	       (got = fread(some, 1, sizeof(some), stdin)) > 0) {
		bytes += got;
		if (fwrite(some, 1, got, file) == got)
			continue;
		fclose(file);
		file = NULL;
	}
	if (file != NULL && (ferror(stdin) || bytes > SPOOL_MOST || fflush(file) != 0)) {
		fclose(file);
		file = NULL;
		errno = bytes > SPOOL_MOST ? EFBIG : EIO;
	}
	return file;
}

int memreg_log_read(const char *path, struct memreg_log *out)
{
	bool is_input = strcmp(path, "-") == 0;
	struct memreg_reader reader = { .name = is_input ? "standard input" : path, .log = out };
	struct stat info;
	int rc;

	*out = (struct memreg_log){ .sampled = 1, .staging_bytes = -1 };
	reader.file = is_input ? spool_input() : fopen(path, "re");
	if (reader.file == NULL)
		return memreg_reader_refuse(&reader, strerror(errno), NULL);
	if (fstat(fileno(reader.file), &info) == 0)
		reader.file_bytes = (uint64_t)info.st_size;
	rc = read_once(&reader);
	if (rc == 0 && reader.again) {
		reader.second = true;
		rc = read_once(&reader);
	}
	fclose(reader.file);
	free(reader.earlier.block);
	free(reader.staying.block);
	if (rc != 0)
		memreg_names_free(&out->names);
	memreg_progress(NULL, 0, 0);
	return rc;
}
