/*
 * metrics_merge.c - see metrics_merge.h.
 *
 * The same code reads a text twice: first to check it, without output, and then to take it.
 * Families keep the order in which they first came.
 */
#include "tools/towstat/metrics_merge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAMILIES_MAX 8192
#define NAME_MAX_    256

struct text {
	char *at;
	size_t bytes, room;
};

struct family {
	char *name, *type, *unit, *help; /* unit, help: NULL when not given */
	struct text samples;
	size_t next; /* in the chain of its hash; FAMILIES_MAX: last */
};

struct metrics_merge {
	size_t bytes_max, bytes, count, room, disagreed;
	struct family *families;
	size_t heads[1024];
};

/* A part of a text, without a terminator. */
struct piece {
	const char *at;
	size_t bytes;
};

struct sample {
	struct piece name, labels, rest; /* labels: without braces; rest: from the value on */
};

/* The state of one reading of a text. */
struct reader {
	struct metrics_merge *merge; /* NULL: the text is only checked */
	const char *labels;
	bool named;          /* a family has begun */
	bool sampled;        /* the family has samples, so its head is over */
	struct piece family; /* the family of the next samples */
	struct piece type, unit, help;
	struct family *into; /* NULL: its samples are left out */
	char *error;
	size_t error_size, line;
	bool ended;
};

static int fail_line(const struct reader *reader, const char *what)
{
	snprintf(reader->error, reader->error_size, "line %zu of its metrics: %s", reader->line,
		 what);
	return -1;
}

static bool piece_is(struct piece piece, const char *text)
{
	return piece.bytes == strlen(text) && memcmp(piece.at, text, piece.bytes) == 0;
}

static bool same_piece(struct piece a, struct piece b)
{
	return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

/*
 * Whether the text is well-formed UTF-8. Other bytes of one rank would make the whole text
 * unreadable.
 */
static bool good_text(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		unsigned char first = (unsigned char)text[i++];
		unsigned more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
		unsigned code = more == 0 ? first : first & (0x3fu >> more);

		if (first == 0 || (first >= 0x80 && first < 0xc2) || first > 0xf4 ||
		    bytes - i < more)
			return false;
		for (unsigned j = 0; j < more; j++, i++) {
			if (((unsigned char)text[i] & 0xc0) != 0x80)
				return false;
			code = code << 6 | ((unsigned char)text[i] & 0x3f);
		}
		if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000) ||
		    (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
			return false;
	}
	return true;
}

/* --- families --- */

static size_t hash_of(struct piece name)
{
	size_t sum = 5381;

	for (size_t i = 0; i < name.bytes; i++)
		sum = sum * 33 + (unsigned char)name.at[i];
	return sum % (sizeof(((struct metrics_merge *)0)->heads) / sizeof(size_t));
}

static struct family *find_family(const struct metrics_merge *merge, struct piece name)
{
	for (size_t i = merge->heads[hash_of(name)]; i < FAMILIES_MAX;
	     i = merge->families[i].next) {
		if (piece_is(name, merge->families[i].name))
			return &merge->families[i];
	}
	return NULL;
}

static char *copy_of(struct piece piece)
{
	return piece.at != NULL ? strndup(piece.at, piece.bytes) : NULL;
}

static struct family *add_family(struct metrics_merge *merge, const struct reader *reader)
{
	struct family *family, *more;
	size_t slot = hash_of(reader->family);

	if (merge->count == FAMILIES_MAX)
		return NULL;
	if (merge->count == merge->room) {
		size_t room = merge->room == 0 ? 128 : merge->room * 2;

		more = realloc(merge->families, room * sizeof(*more));
		if (more == NULL)
			return NULL;
		merge->families = more;
		merge->room = room;
	}
	family = &merge->families[merge->count];
	*family = (struct family){ .name = copy_of(reader->family),
				   .type = copy_of(reader->type),
				   .unit = copy_of(reader->unit),
				   .help = copy_of(reader->help),
				   .next = merge->heads[slot] };
	if (family->name == NULL || family->type == NULL) {
		free(family->name);
		free(family->type);
		free(family->unit);
		free(family->help);
		return NULL;
	}
	merge->heads[slot] = merge->count++;
	return family;
}

static int put_bytes(struct metrics_merge *merge, struct text *out, const char *at, size_t bytes)
{
	if (bytes > merge->bytes_max - merge->bytes)
		return -1;
	if (out->room - out->bytes < bytes) {
		size_t room = (out->room + bytes) * 2;
		char *more = realloc(out->at, room);

		if (more == NULL)
			return -1;
		out->at = more;
		out->room = room;
	}
	memcpy(out->at + out->bytes, at, bytes);
	out->bytes += bytes;
	merge->bytes += bytes;
	return 0;
}

/* --- lines --- */

static bool name_byte(char byte, bool first, bool colons)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
	       (colons && byte == ':') || (!first && byte >= '0' && byte <= '9');
}

static struct piece take_name(const char *at, const char *end, bool colons)
{
	struct piece name = { at, 0 };

	while (at + name.bytes < end && name.bytes < NAME_MAX_ &&
	       name_byte(at[name.bytes], name.bytes == 0, colons))
		name.bytes++;
	return name;
}

/* The end of a quoted string, behind its last quote; NULL: it has none. */
static const char *skip_quoted(const char *at, const char *end)
{
	if (at == end || *at++ != '"')
		return NULL;
	for (; at < end && *at != '"'; at++) {
		if (*at == '\\' && (++at == end || (*at != '\\' && *at != '"' && *at != 'n')))
			return NULL;
	}
	return at < end ? at + 1 : NULL;
}

/* Skips labels, from behind "{" to behind "}"; NULL: these are no labels. */
static const char *skip_labels(const char *at, const char *end)
{
	while (at < end && *at != '}') {
		struct piece name = take_name(at, end, false);

		at += name.bytes;
		if (name.bytes == 0 || at == end || *at++ != '=')
			return NULL;
		at = skip_quoted(at, end);
		if (at == NULL || at == end || (*at != ',' && *at != '}'))
			return NULL;
		if (*at == ',' && (++at == end || *at == '}'))
			return NULL;
	}
	return at < end ? at + 1 : NULL;
}

/* Skips a number in OpenMetrics form; NULL: it is none. */
static const char *skip_number(const char *at, const char *end)
{
	char text[64], *behind;
	size_t bytes = 0;

	while (at + bytes < end && at[bytes] != ' ' && bytes + 1 < sizeof(text))
		bytes++;
	memcpy(text, at, bytes);
	text[bytes] = '\0';
	/* Hexadecimal, nan(...) and "infinity" in any case are not allowed. */
	if (bytes == 0 || (strspn(text, "0123456789+-.eE") != bytes && strcmp(text, "NaN") != 0 &&
			   strcmp(text, "+Inf") != 0 && strcmp(text, "-Inf") != 0))
		return NULL;
	strtod(text, &behind);
	return *behind == '\0' ? at + bytes : NULL;
}

/* Whether this is " value" or " value time", each with or without an exemplar. */
static bool good_rest(const char *at, const char *end)
{
	for (unsigned part = 0;
	     part < 2 && at < end && at[0] == ' ' && at + 1 < end && at[1] != '#'; part++) {
		at = skip_number(at + 1, end);
		if (at == NULL)
			return false;
		if (part == 1 || at == end || at + 1 == end || at[1] == '#')
			break;
	}
	if (at == end)
		return true;
	if (end - at < 4 || memcmp(at, " # {", 4) != 0)
		return false;
	at = skip_labels(at + 4, end);
	for (unsigned part = 0; part < 2 && at != NULL && (part == 0 || at < end); part++) {
		if (at == end || *at != ' ')
			return false;
		at = skip_number(at + 1, end);
	}
	return at == end;
}

static int parse_sample(const struct reader *reader, const char *at, const char *end,
			struct sample *out)
{
	out->name = take_name(at, end, true);
	at += out->name.bytes;
	out->labels = (struct piece){ at, 0 };
	if (out->name.bytes == 0)
		return fail_line(reader, "this is not a name");
	if (at < end && *at == '{') {
		const char *behind = skip_labels(at + 1, end);

		if (behind == NULL)
			return fail_line(reader, "these are not labels");
		out->labels = (struct piece){ at + 1, (size_t)(behind - at) - 2 };
		at = behind;
	}
	out->rest = (struct piece){ at, (size_t)(end - at) };
	if (at == end || *at != ' ' || at + 1 == end || at[1] == '#' || !good_rest(at, end))
		return fail_line(reader, "this is not a value");
	return 0;
}

/* Whether the name is that of a sample of the family, whose type allows certain suffixes. */
static bool belongs_to_family(const struct reader *reader, struct piece name)
{
	static const struct {
		const char *type, *suffix;
	} table[] = {
		{ "counter", "_total" },
		{ "counter", "_created" },
		{ "histogram", "_bucket" },
		{ "histogram", "_count" },
		{ "histogram", "_sum" },
		{ "histogram", "_created" },
		{ "summary", "_count" },
		{ "summary", "_sum" },
		{ "summary", "_created" },
		{ "summary", "" },
		{ "info", "_info" },
		{ "gauge", "" },
		{ "unknown", "" },
		{ "stateset", "" },
		{ "gaugehistogram", "_bucket" },
		{ "gaugehistogram", "_gcount" },
		{ "gaugehistogram", "_gsum" },
	};
	struct piece suffix = { name.at + reader->family.bytes, 0 };

	if (name.bytes < reader->family.bytes ||
	    memcmp(name.at, reader->family.at, reader->family.bytes) != 0)
		return false;
	suffix.bytes = name.bytes - reader->family.bytes;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (piece_is(reader->type, table[i].type) && piece_is(suffix, table[i].suffix))
			return true;
	}
	return false;
}

/* Whether `labels`, which are well formed, have one of that name. */
static bool has_label(const char *labels, struct piece name)
{
	const char *at = labels, *end = labels + strlen(labels);

	while (at < end) {
		struct piece own = take_name(at, end, false);

		if (same_piece(own, name))
			return true;
		at = skip_quoted(at + own.bytes + 1, end);
		if (at == NULL || at == end)
			return false;
		at++;
	}
	return false;
}

static int put_labels(struct reader *reader, struct text *out, struct piece labels)
{
	const char *at = labels.at, *end = labels.at + labels.bytes, *behind;
	int failed = 0;

	while (at < end && failed == 0) {
		struct piece name = take_name(at, end, false);

		behind = skip_quoted(at + name.bytes + 1, end);
		failed = put_bytes(reader->merge, out, ",", 1);
		if (failed == 0 && has_label(reader->labels, name))
			failed = put_bytes(reader->merge, out, "exported_", 9);
		if (failed == 0)
			failed = put_bytes(reader->merge, out, at, (size_t)(behind - at));
		at = behind < end ? behind + 1 : end;
	}
	return failed;
}

static int put_sample(struct reader *reader, const struct sample *sample)
{
	struct text *out = &reader->into->samples;

	if (put_bytes(reader->merge, out, sample->name.at, sample->name.bytes) != 0 ||
	    put_bytes(reader->merge, out, "{", 1) != 0 ||
	    put_bytes(reader->merge, out, reader->labels, strlen(reader->labels)) != 0 ||
	    put_labels(reader, out, sample->labels) != 0 ||
	    put_bytes(reader->merge, out, "}", 1) != 0 ||
	    put_bytes(reader->merge, out, sample->rest.at, sample->rest.bytes) != 0 ||
	    put_bytes(reader->merge, out, "\n", 1) != 0)
		return fail_line(reader, "the metrics of all ranks are larger than they may be");
	return 0;
}

/* The head of a family is complete when its first sample comes. */
static int enter_family(struct reader *reader)
{
	reader->into = find_family(reader->merge, reader->family);
	if (reader->into == NULL) {
		reader->into = add_family(reader->merge, reader);
		return reader->into != NULL ? 0
					    : fail_line(reader, "too many families, or no memory");
	}
	if (!piece_is(reader->type, reader->into->type))
		reader->into = NULL;
	return 0;
}

static int read_sample(struct reader *reader, const char *at, const char *end)
{
	struct sample sample;

	if (parse_sample(reader, at, end, &sample) != 0)
		return -1;
	if (!reader->named || !belongs_to_family(reader, sample.name))
		return fail_line(reader, "a sample that belongs to no family before it");
	reader->sampled = true;
	if (reader->merge == NULL)
		return 0;
	if (reader->into == NULL && enter_family(reader) != 0)
		return -1;
	if (reader->into == NULL) {
		reader->merge->disagreed++;
		return 0;
	}
	return put_sample(reader, &sample);
}

/* Whether the unit ends the name: "bytes" of "towline_pool_bytes". */
static bool ends_with(struct piece name, struct piece unit)
{
	return unit.bytes > 0 && unit.bytes + 1 < name.bytes &&
	       memcmp(name.at + name.bytes - unit.bytes, unit.at, unit.bytes) == 0 &&
	       name.at[name.bytes - unit.bytes - 1] == '_';
}

/* Reads "# TYPE name text". These lines of a family come in any order, but before its samples. */
static int read_comment(struct reader *reader, const char *at, const char *end)
{
	struct piece word = { at + 2, 0 }, name, text;

	if (end - at == 5 && memcmp(at, "# EOF", 5) == 0) {
		reader->ended = true;
		return 0;
	}
	while (word.at + word.bytes < end && word.at[word.bytes] != ' ')
		word.bytes++;
	if (word.at + word.bytes >= end)
		return fail_line(reader, "a comment of no known kind");
	name = take_name(word.at + word.bytes + 1, end, true);
	text = (struct piece){ name.at + name.bytes, 0 };
	if (name.bytes == 0 || (text.at < end && *text.at != ' '))
		return fail_line(reader, "this is not the name of a family");
	text.at += text.at < end;
	text.bytes = (size_t)(end - text.at);
	if (!reader->named || !same_piece(reader->family, name)) {
		reader->named = true;
		reader->family = name;
		reader->type = (struct piece){ "unknown", 7 };
		reader->unit = reader->help = (struct piece){ 0 };
		reader->into = NULL;
		reader->sampled = false;
	}
	if (reader->sampled)
		return fail_line(reader, "a family's head behind its samples");
	if (piece_is(word, "TYPE"))
		reader->type = text;
	else if (piece_is(word, "UNIT") && ends_with(name, text))
		reader->unit = text;
	else if (piece_is(word, "HELP"))
		reader->help = text;
	else
		return fail_line(reader, "a comment of an unknown kind, or a unit that does "
					 "not end the name");
	return 0;
}

static int read_text(struct reader *reader, const char *text, size_t bytes)
{
	const char *end = text + bytes, *at = text;

	if (reader->merge == NULL && !good_text(text, bytes))
		return fail_line(reader, "it is no UTF-8");
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		int failed;

		reader->line++;
		if (newline == NULL || newline == at)
			return fail_line(reader, "it is empty or cut");
		if (reader->ended)
			return fail_line(reader, "there is more behind the end");
		if (newline - at >= 2 && at[0] == '#' && at[1] == ' ')
			failed = read_comment(reader, at, newline);
		else
			failed = read_sample(reader, at, newline);
		if (failed != 0)
			return -1;
		at = newline + 1;
	}
	return reader->ended ? 0 : fail_line(reader, "it has no end");
}

int metrics_merge_add(struct metrics_merge *merge, const char *text, size_t bytes,
		      const char *labels, char *error_out, size_t error_size)
{
	struct reader check = { .labels = labels, .error = error_out, .error_size = error_size };
	struct reader reader = check;
	size_t largest;

	if (read_text(&check, text, bytes) != 0)
		return -1;
	/* An upper bound. Each line grows by labels, braces and renamed labels. */
	largest = bytes * 2 + check.line * (strlen(labels) + 16);
	if (largest > merge->bytes_max - merge->bytes)
		return fail_line(&check, "the metrics of all ranks are larger than they may be");
	reader.merge = merge;
	return read_text(&reader, text, bytes);
}

size_t metrics_merge_disagreed(const struct metrics_merge *merge)
{
	return merge->disagreed;
}

/* --- the whole --- */

struct metrics_merge *metrics_merge_create(size_t bytes_max)
{
	struct metrics_merge *merge = calloc(1, sizeof(*merge));

	if (merge == NULL)
		return NULL;
	merge->bytes_max = bytes_max;
	for (size_t i = 0; i < sizeof(merge->heads) / sizeof(merge->heads[0]); i++)
		merge->heads[i] = FAMILIES_MAX;
	return merge;
}

void metrics_merge_destroy(struct metrics_merge *merge)
{
	if (merge == NULL)
		return;
	for (size_t i = 0; i < merge->count; i++) {
		free(merge->families[i].name);
		free(merge->families[i].type);
		free(merge->families[i].unit);
		free(merge->families[i].help);
		free(merge->families[i].samples.at);
	}
	free(merge->families);
	free(merge);
}

static void print_family(FILE *file, const struct family *family)
{
	fprintf(file, "# TYPE %s %s\n", family->name, family->type);
	if (family->unit != NULL)
		fprintf(file, "# UNIT %s %s\n", family->name, family->unit);
	if (family->help != NULL)
		fprintf(file, "# HELP %s %s\n", family->name, family->help);
	fwrite(family->samples.at, 1, family->samples.bytes, file);
}

char *metrics_merge_take(struct metrics_merge *merge, size_t *bytes_out)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, bytes_out);
	bool failed;

	if (file == NULL)
		return NULL;
	for (size_t i = 0; i < merge->count; i++)
		print_family(file, &merge->families[i]);
	fputs("# EOF\n", file);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}

void metrics_escape(char *out, size_t size, const char *value)
{
	size_t used = 0;

	for (; *value != '\0' && used + 3 < size; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n') {
			out[used++] = '\\';
			out[used++] = *value == '\n' ? 'n' : *value;
		} else {
			out[used++] = *value;
		}
	}
	if (size > 0)
		out[used] = '\0';
}
