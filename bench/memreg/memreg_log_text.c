/*
 * memreg_log_text.c - reads an allocation log in text form, for programs that record none:
 *
 *   kind	id	bytes	align	thread	tag	caller     the header
 *   alloc	17	1048576	64
 *   alloc	18	1MiB	64	0	weights	load_model
 *   free	17
 *   step
 *   # sampled 8                              1 of 8 allocations is in the log
 *
 * Each line has one event, in the order of time, with blanks or tabs between fields. id is any
 * number that no other live allocation has. align, thread, tag and caller may be left out: 64, 0,
 * none, none. Tags and callers are numbers or words; '-' is none. Lines that begin with '#' are
 * comments, except `# sampled N`, `# lost N` (missing events) and `# before N` (bytes that were
 * live when the log began).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/memreg_log.h"
#include <internal/base.h>

#define LINE_ROOM   512
#define DIGITS_FAST 18 /* so many digits always fit in 64 bits */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next field of the line, ended by a zero; NULL: there is none. */
static char *next_field(char **at)
{
	char *field = *at, *end;

	while (is_blank(*field))
		field++;
	for (end = field; *end != '\0' && !is_blank(*end);)
		end++;
	*at = *end != '\0' ? end + 1 : end;
	*end = '\0';
	return end > field ? field : NULL;
}

/* Reads a decimal number, a hexadecimal one behind 0x, or an octal one behind 0. */
static bool parse_number(const char *text, uint64_t *out)
{
	uint64_t value = 0;
	size_t digits = 0;
	char *end;

	for (; digits < DIGITS_FAST && text[digits] >= '0' && text[digits] <= '9'; digits++)
		value = 10 * value + (uint64_t)(text[digits] - '0');
	if (digits > 0 && text[digits] == '\0' && (text[0] != '0' || digits == 1)) {
		*out = value;
		return true;
	}
	errno = 0;
	*out = strtoull(text, &end, 0);
	return digits > 0 && *end == '\0' && errno == 0;
}

/* The next field as a number; `fallback` where there is none. */
static int next_number(const struct memreg_reader *reader, char **at, const char *name,
		       uint64_t fallback, uint64_t *out)
{
	const char *text = next_field(at);
	char what[64];

	*out = fallback;
	if (text == NULL && fallback != UINT64_MAX)
		return 0;
	if (text != NULL && parse_number(text, out))
		return 0;
	snprintf(what, sizeof(what), "%s is %s", name, text != NULL ? "no number:" : "missing");
	return memreg_reader_refuse(reader, what, text);
}

/* The next field as a number of bytes, with or without a unit; `fallback` where there is none. */
static int next_size(const struct memreg_reader *reader, char **at, uint64_t fallback,
		     uint64_t *out)
{
	const char *text = next_field(at);

	*out = fallback;
	if (text == NULL && fallback != UINT64_MAX)
		return 0;
	if (text == NULL)
		return memreg_reader_refuse(reader, "bytes is missing", NULL);
	if (parse_number(text, out) || memreg_parse_bytes(text, out))
		return 0;
	return memreg_reader_refuse(reader, "bytes is not a size such as 4096 or 1.5MiB:", text);
}

/* Reads the next field as a tag or a caller: a number up to `most`, a word, or nothing. */
static int next_name(struct memreg_reader *reader, char **at, enum memreg_named kind, uint64_t most,
		     uint64_t *out)
{
	static const char *const names[] = { "tag", "caller" };
	const char *text = next_field(at);
	char what[96];

	*out = 0;
	if (text == NULL || strcmp(text, "-") == 0)
		return 0;
	if (parse_number(text, out)) {
		if (*out <= most || (kind == MEMREG_NAMED_TAG && *out == TWI_ALLOC_TAG_LIBRARY))
			return 0;
		snprintf(what, sizeof(what), "%s is larger than %llu:", names[kind],
			 (unsigned long long)most);
	} else if (strchr("+-.0123456789", *text) != NULL) {
		snprintf(what, sizeof(what), "%s is neither a number nor a word:", names[kind]);
	} else if (strlen(text) >= MEMREG_NAME_ROOM) {
		snprintf(what, sizeof(what), "%s is longer than %d characters:", names[kind],
			 MEMREG_NAME_ROOM - 1);
	} else {
		*out = kind == MEMREG_NAMED_TAG && strcmp(text, "library") == 0
			       ? TWI_ALLOC_TAG_LIBRARY
			       : memreg_names_number(&reader->log->names, kind, text);
		if (*out != 0)
			return 0;
		snprintf(what, sizeof(what),
			 "%s is a new word, and %d words are kept at most:", names[kind],
			 kind == MEMREG_NAMED_TAG ? MEMREG_TAG_WORDS : MEMREG_CALLER_WORDS);
	}
	return memreg_reader_refuse(reader, what, text);
}

static int next_names(struct memreg_reader *reader, char **at, struct twi_alloc_event *event)
{
	uint64_t tag = 0;
	int rc = next_name(reader, at, MEMREG_NAMED_TAG, MEMREG_TAG_FIRST - 1, &tag);

	if (rc == 0)
		rc = next_name(reader, at, MEMREG_NAMED_CALLER, MEMREG_CALLER_FIRST - 1,
			       &event->caller);
	event->tag = (uint32_t)tag;
	return rc;
}

static int read_alloc(struct memreg_reader *reader, char **at, struct twi_alloc_event *event)
{
	uint64_t align = 64, thread = 0;
	int rc = next_number(reader, at, "id", UINT64_MAX, &event->id);

	if (rc == 0)
		rc = next_size(reader, at, UINT64_MAX, &event->bytes);
	if (rc == 0)
		rc = next_number(reader, at, "align", 64, &align);
	if (rc == 0)
		rc = next_number(reader, at, "thread", 0, &thread);
	if (rc == 0)
		rc = next_names(reader, at, event);
	if (rc != 0)
		return rc;
	align = align != 0 ? align : 64;
	if ((align & (align - 1)) != 0 || align > (UINT64_C(2) << 20))
		return memreg_reader_refuse(reader, "align is not a power of two up to 2097152",
					    NULL);
	if (event->bytes > UINT64_C(1) << 40)
		return memreg_reader_refuse(reader, "bytes are more than 2^40", NULL);
	event->align_log2 = (uint8_t)__builtin_ctzll(align);
	event->thread = (uint32_t)thread;
	return 0;
}

static int read_free(struct memreg_reader *reader, char **at, struct twi_alloc_event *event)
{
	uint64_t ignored, thread = 0;
	int rc = next_number(reader, at, "id", UINT64_MAX, &event->id);

	if (rc == 0)
		rc = next_size(reader, at, 0, &ignored);
	if (rc == 0)
		rc = next_number(reader, at, "align", 0, &ignored);
	if (rc == 0)
		rc = next_number(reader, at, "thread", 0, &thread);
	if (rc == 0)
		rc = next_names(reader, at, event);
	event->thread = (uint32_t)thread;
	return rc;
}

/* Splits a comment such as "# sampled 8" into name and value. Returns false when it is prose. */
static bool split_remark(char *line, char **name, char **value)
{
	char *at = line + 1;

	*name = next_field(&at);
	*value = *name != NULL ? next_field(&at) : NULL;
	/* `# before the first step` is prose; `# lost 1GiB` is a mistake. */
	return *value != NULL && strchr("+-.0123456789", **value) != NULL;
}

static int read_remark(struct memreg_reader *reader, char *line)
{
	static const struct {
		const char *name, *wants;
		uint64_t least, most;
	} remarks[] = {
		{ "sampled", "# sampled takes a whole number from 1 to 1000000, not", 1, 1000000 },
		{ "lost", "# lost takes a whole number of events, not", 0, UINT64_C(1) << 40 },
		{ "before", "# before takes a size up to 2^40 bytes, such as 4194304 or 1GiB, not",
		  0, UINT64_C(1) << 40 },
	};
	char *name, *text;
	uint64_t value;

	if (!split_remark(line, &name, &text))
		return 0;
	for (size_t i = 0; i < twi_array_count(remarks); i++) {
		if (strcmp(name, remarks[i].name) != 0)
			continue;
		if (!(parse_number(text, &value) || (i == 2 && memreg_parse_bytes(text, &value))) ||
		    value < remarks[i].least || value > remarks[i].most)
			return memreg_reader_refuse(reader, remarks[i].wants, text);
		if (i == 0)
			reader->log->sampled = (double)value;
		else if (i == 1)
			reader->log->lost = value;
		else if (!reader->second) {
			reader->again = reader->begun;
			reader->log->before_bytes = reader->before = value;
		}
	}
	return 0;
}

static int read_line(struct memreg_reader *reader, char *line)
{
	struct twi_alloc_event event = { .ns = reader->line * 1000 };
	char *at = line, *kind;
	int rc = 0;

	if (line[0] == '#')
		return read_remark(reader, line);
	kind = next_field(&at);
	if (kind == NULL)
		return memreg_reader_refuse(reader, "an empty line", NULL);
	if (strcmp(kind, "alloc") == 0) {
		event.kind = TWI_ALLOC_ALLOC;
		rc = read_alloc(reader, &at, &event);
	} else if (strcmp(kind, "free") == 0) {
		event.kind = TWI_ALLOC_FREE;
		rc = read_free(reader, &at, &event);
	} else if (strcmp(kind, "step") == 0) {
		event.kind = TWI_ALLOC_STEP;
	} else if (strcmp(kind, "kind") == 0 && !reader->begun) {
		return 0; /* the header */
	} else if (strchr(kind, ',') != NULL) {
		return memreg_reader_refuse(
			reader,
			"CSV: blanks or tabs belong between the columns, not commas:", kind);
	} else {
		return memreg_reader_refuse(reader, "the kind is not alloc, free or step:", kind);
	}
	if (rc == 0 && (kind = next_field(&at)) != NULL)
		return memreg_reader_refuse(
			reader,
			event.kind == TWI_ALLOC_STEP
				? "a step has nothing behind its kind; here there is:"
				: "more than the 7 columns kind id bytes align thread tag caller:",
			kind);
	return rc == 0 ? memreg_reader_add(reader, &event) : rc;
}

int memreg_read_text(struct memreg_reader *reader)
{
	char line[LINE_ROOM];
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), reader->file) != NULL) {
		reader->line++;
		if (strchr(line, '\n') == NULL && !feof(reader->file))
			return memreg_reader_refuse(
				reader, "longer than 510 characters, or a zero byte", NULL);
		rc = read_line(reader, line);
	}
	if (rc == 0 && ferror(reader->file))
		rc = memreg_reader_refuse(reader, strerror(errno), NULL);
	return rc;
}
