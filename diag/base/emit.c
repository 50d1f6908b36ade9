/*
 * emit.c - one growing string, and the rules of JSON and OpenMetrics for it. See emit.h.
 */
#include "diag/base/emit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"

#define EMIT_FIRST_ROOM 4096
#define EMIT_RAW_MAX    1024

void twi_emit_init(struct twi_emit *e)
{
	*e = (struct twi_emit){ 0 };
}

void twi_emit_fini(struct twi_emit *e)
{
	free(e->text);
	twi_emit_init(e);
}

int twi_emit_take(struct twi_emit *e, char **text_out)
{
	int status = e->status;
	char *text = e->text;

	*text_out = NULL;
	if (status == TOW_OK && text == NULL) {
		text = calloc(1, 1);
		status = text != NULL ? TOW_OK : TOW_ENOMEM;
	}
	if (status < 0) {
		twi_emit_fini(e);
		return twi_error(status, "no memory for a document, or it is larger than %u bytes",
				 TWI_EMIT_MAX);
	}
	twi_emit_init(e);
	*text_out = text;
	return TOW_OK;
}

/* Makes room for `bytes` more and the NUL. */
static bool grow_text(struct twi_emit *e, size_t bytes)
{
	size_t room = e->room != 0 ? e->room : EMIT_FIRST_ROOM;
	char *text;

	if (e->status < 0)
		return false;
	if (bytes > TWI_EMIT_MAX || e->bytes + bytes > TWI_EMIT_MAX) {
		e->status = TOW_ENOMEM;
		return false;
	}
	while (e->bytes + bytes >= room)
		room *= 2;
	text = realloc(e->text, room);
	if (text == NULL) {
		e->status = TOW_ENOMEM;
		return false;
	}
	e->text = text;
	e->room = room;
	return true;
}

/* e->bytes is at most e->room, so the difference does not wrap. */
static inline bool reserve_text(struct twi_emit *e, size_t bytes)
{
	return twi_likely(bytes < e->room - e->bytes && e->status >= 0) || grow_text(e, bytes);
}

static inline void put_bytes(struct twi_emit *e, const char *bytes, size_t count)
{
	if (!reserve_text(e, count))
		return;
	memcpy(e->text + e->bytes, bytes, count);
	e->bytes += count;
	e->text[e->bytes] = '\0';
}

static void puts_raw(struct twi_emit *e, const char *text)
{
	put_bytes(e, text, strlen(text));
}

void twi_emit_raw(struct twi_emit *e, const char *fmt, ...)
{
	char text[EMIT_RAW_MAX];
	va_list args;
	int bytes;

	va_start(args, fmt);
	bytes = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (bytes > 0)
		put_bytes(e, text, (size_t)bytes < sizeof(text) ? (size_t)bytes : sizeof(text) - 1);
}

/* The length of the UTF-8 sequence at `at`; 0: it is invalid (RFC 3629, table 3-7 of Unicode). */
static unsigned utf8_bytes(const unsigned char *at)
{
	unsigned char low = 0x80, high = 0xbf;
	unsigned count = at[0] < 0x80   ? 1
			 : at[0] < 0xc2 ? 0
			 : at[0] < 0xe0 ? 2
			 : at[0] < 0xf0 ? 3
					: 4;

	if (at[0] > 0xf4)
		return 0;
	if (at[0] == 0xe0)
		low = 0xa0; /* overlong */
	else if (at[0] == 0xed)
		high = 0x9f; /* surrogates */
	else if (at[0] == 0xf0)
		low = 0x90; /* overlong */
	else if (at[0] == 0xf4)
		high = 0x8f; /* above U+10FFFF */
	for (unsigned i = 1; i < count; i++) {
		if (at[i] < low || at[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return count;
}

/* Writes a number. It avoids printf, as /metrics has hundreds of them. */
static void put_u64(struct twi_emit *e, uint64_t value)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	put_bytes(e, text + at, sizeof(text) - at);
}

/* How many bytes from `at` on need no escape. Most strings have no others. */
static size_t plain_bytes(const unsigned char *at)
{
	size_t bytes = 0;

	while (at[bytes] >= 0x20 && at[bytes] < 0x7f && at[bytes] != '"' && at[bytes] != '\\')
		bytes++;
	return bytes;
}

/* Writes a string in quotes. Each byte that is not UTF-8 becomes U+FFFD. */
static void put_quoted(struct twi_emit *e, const char *value)
{
	put_bytes(e, "\"", 1);
	for (const unsigned char *at = (const unsigned char *)value;;) {
		size_t plain = plain_bytes(at);
		unsigned count = utf8_bytes(at + plain);

		put_bytes(e, (const char *)at, plain);
		at += plain;
		if (*at == '\0')
			break;
		if (*at == '"' || *at == '\\')
			twi_emit_raw(e, "\\%c", *at);
		else if (*at == '\n')
			put_bytes(e, "\\n", 2);
		else if (*at < 0x20 || *at == 0x7f)
			twi_emit_raw(e, "\\u%04x", *at);
		else if (count == 0)
			put_bytes(e, "\xef\xbf\xbd", 3);
		else
			put_bytes(e, (const char *)at, count);
		at += count != 0 ? count : 1;
	}
	put_bytes(e, "\"", 1);
}

void twi_emit_put(struct twi_emit *e, const char *bytes, size_t count)
{
	put_bytes(e, bytes, count);
}

void twi_emit_number(struct twi_emit *e, uint64_t value)
{
	put_u64(e, value);
}

void twi_emit_puts(struct twi_emit *e, const char *text)
{
	puts_raw(e, text);
}

/* Is it a control character for text direction? One could make the text look like another. */
static bool turns_around(const unsigned char *at)
{
	return at[0] == 0xe2 && ((at[1] == 0x80 && at[2] >= 0xaa && at[2] <= 0xae) ||
				 (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
}

void twi_emit_html(struct twi_emit *e, const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
		unsigned count = utf8_bytes(at);

		if (*at == '<' || *at == '>' || *at == '&' || *at == '"' || *at == '\'')
			twi_emit_raw(e, "&#%u;", *at);
		else if (count == 0 || *at < 0x20 || *at == 0x7f || turns_around(at))
			put_bytes(e, "\xef\xbf\xbd", 3);
		else
			put_bytes(e, (const char *)at, count);
		at += count != 0 ? count : 1;
	}
}

/* Writes the comma after the previous value, and the key. */
static void begin_value(struct twi_emit *e, const char *key)
{
	if (e->comma)
		put_bytes(e, ",", 1);
	e->comma = true;
	if (key != NULL) {
		put_quoted(e, key);
		put_bytes(e, ":", 1);
	}
}

static void open_bracket(struct twi_emit *e, const char *key, const char *bracket)
{
	begin_value(e, key);
	put_bytes(e, bracket, 1);
	e->comma = false;
}

static void close_bracket(struct twi_emit *e, const char *bracket)
{
	put_bytes(e, bracket, 1);
	e->comma = true;
}

void twi_emit_object_begin(struct twi_emit *e, const char *key)
{
	open_bracket(e, key, "{");
}

void twi_emit_object_end(struct twi_emit *e)
{
	close_bracket(e, "}");
}

void twi_emit_array_begin(struct twi_emit *e, const char *key)
{
	open_bracket(e, key, "[");
}

void twi_emit_array_end(struct twi_emit *e)
{
	close_bracket(e, "]");
}

void twi_emit_json(struct twi_emit *e, const char *key, const char *json)
{
	begin_value(e, key);
	puts_raw(e, json);
}

/* Caps the value: most readers have signed 64 bits, and jansson rejects a document with more. */
void twi_emit_u64(struct twi_emit *e, const char *key, uint64_t value)
{
	begin_value(e, key);
	put_u64(e, twi_min(value, (uint64_t)INT64_MAX));
}

void twi_emit_i64(struct twi_emit *e, const char *key, int64_t value)
{
	begin_value(e, key);
	twi_emit_raw(e, "%lld", (long long)value);
}

/* printf writes the decimal point of the user's locale. Both formats demand a dot. */
static void put_f64(struct twi_emit *e, double value)
{
	char text[64];
	size_t bytes = 0;

	snprintf(text, sizeof(text), "%.15g", value);
	for (const char *at = text; *at != '\0'; at++) {
		if (strchr("0123456789+-eE", *at) != NULL)
			text[bytes++] = *at;
		else if (bytes == 0 || text[bytes - 1] != '.')
			text[bytes++] = '.';
	}
	put_bytes(e, text, bytes);
}

void twi_emit_f64(struct twi_emit *e, const char *key, double value)
{
	begin_value(e, key);
	if (isfinite(value))
		put_f64(e, value);
	else
		puts_raw(e, "null");
}

void twi_emit_bool(struct twi_emit *e, const char *key, bool value)
{
	begin_value(e, key);
	puts_raw(e, value ? "true" : "false");
}

void twi_emit_str(struct twi_emit *e, const char *key, const char *value)
{
	begin_value(e, key);
	if (value != NULL)
		put_quoted(e, value);
	else
		puts_raw(e, "null");
}

static bool ends_with_unit(const char *name, const char *unit)
{
	size_t name_bytes = strlen(name), unit_bytes = strlen(unit);

	return name_bytes > unit_bytes && name[name_bytes - unit_bytes - 1] == '_' &&
	       strcmp(name + name_bytes - unit_bytes, unit) == 0;
}

static void put_words(struct twi_emit *e, const char *first, const char *name, const char *last)
{
	puts_raw(e, first);
	puts_raw(e, name);
	put_bytes(e, " ", 1);
	puts_raw(e, last);
}

void twi_emit_metric_head(struct twi_emit *e, const char *name, const char *kind, const char *unit,
			  const char *help)
{
	put_words(e, "# TYPE ", name, kind);
	if (unit != NULL && ends_with_unit(name, unit))
		put_words(e, "\n# UNIT ", name, unit);
	put_words(e, "\n# HELP ", name, "");
	while (*help != '\0') {
		size_t plain = strcspn(help, "\n\"\\");

		put_bytes(e, help, plain);
		help += plain;
		if (*help == '\0')
			break;
		put_bytes(e, "\\", 1);
		put_bytes(e, *help == '\n' ? "n" : help, 1);
		help++;
	}
	put_bytes(e, "\n", 1);
}

static void sample_head(struct twi_emit *e, const char *name, const char *labels)
{
	puts_raw(e, name);
	if (labels != NULL) {
		put_bytes(e, "{", 1);
		puts_raw(e, labels);
		put_bytes(e, "}", 1);
	}
	put_bytes(e, " ", 1);
}

void twi_emit_sample_u64(struct twi_emit *e, const char *name, const char *labels, uint64_t value)
{
	sample_head(e, name, labels);
	put_u64(e, value);
	put_bytes(e, "\n", 1);
}

/* 1234567 ns become 0.001234567; trailing zeros are left out. */
void twi_emit_seconds(struct twi_emit *e, uint64_t ns)
{
	uint64_t rest = ns % 1000000000;
	char text[10] = ".000000000";
	size_t bytes = sizeof(text);

	put_u64(e, ns / 1000000000);
	if (rest == 0)
		return;
	for (size_t at = sizeof(text); at-- > 1; rest /= 10)
		text[at] = (char)('0' + rest % 10);
	while (text[bytes - 1] == '0')
		bytes--;
	put_bytes(e, text, bytes);
}

void twi_emit_sample_seconds(struct twi_emit *e, const char *name, const char *labels, uint64_t ns)
{
	sample_head(e, name, labels);
	twi_emit_seconds(e, ns);
	put_bytes(e, "\n", 1);
}

/* Writes one character of a label's value as it must stand there; returns its bytes at `at`. */
static unsigned label_piece(const unsigned char *at, char piece[8])
{
	unsigned count = utf8_bytes(at);

	if (*at == '"' || *at == '\\')
		snprintf(piece, 8, "\\%c", *at);
	else if (*at == '\n')
		snprintf(piece, 8, "\\n");
	else if (*at == '\r' || count == 0) /* some readers split lines at \r, too */
		snprintf(piece, 8, "\xef\xbf\xbd");
	else
		snprintf(piece, 8, "%.*s", (int)count, (const char *)at);
	return count != 0 ? count : 1;
}

void twi_emit_label(char *labels, size_t room, const char *name, const char *value)
{
	size_t used = strlen(labels), bytes = strlen(name) + 5;
	char piece[8];

	if (used + bytes > room)
		return;
	if (used > 0)
		labels[used++] = ',';
	memcpy(labels + used, name, bytes - 5);
	used += bytes - 5;
	labels[used++] = '=';
	labels[used++] = '"';
	for (const unsigned char *at = (const unsigned char *)value; *at != '\0';) {
		const char *from = (const char *)at;

		bytes = twi_min(plain_bytes(at), room - used - 2);
		if (bytes == 0) {
			from = piece;
			at += label_piece(at, piece);
			bytes = strlen(piece);
		} else {
			at += bytes;
		}
		if (used + bytes + 2 > room)
			break;
		memcpy(labels + used, from, bytes);
		used += bytes;
	}
	labels[used++] = '"';
	labels[used] = '\0';
}
