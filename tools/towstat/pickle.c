/*
 * pickle.c - see pickle.h.
 *
 * The codes are those of protocol 2, from PEP 307 and the comments of Python's pickletools.py. A
 * reader of that protocol takes them in any order of containers.
 */
#include "tools/towstat/pickle.h"

#include <stdint.h>
#include <string.h>

#define PROTOCOL    2
#define CODE_PROTO  0x80
#define CODE_TRUE   0x88
#define CODE_FALSE  0x89
#define CODE_LONG1  0x8a
#define CODE_INT    'J' /* four bytes, signed */
#define CODE_FLOAT  'G' /* eight bytes, highest first */
#define CODE_TEXT   'X' /* four bytes of length, then UTF-8 */
#define CODE_NONE   'N'
#define CODE_MARK   '('
#define CODE_LIST   ']'
#define CODE_DICT   '}'
#define CODE_APPEND 'e' /* all items since the mark */
#define CODE_SET    'u' /* all pairs since the mark */
#define CODE_STOP   '.'

static void put_code(FILE *out, int code)
{
	putc(code, out);
}

/* Writes a number, lowest byte first. */
static void put_number(FILE *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		putc((int)(value >> 8 * i & 0xff), out);
}

static void put_text(FILE *out, const char *text, size_t bytes)
{
	put_code(out, CODE_TEXT);
	put_number(out, bytes, 4);
	fwrite(text, 1, bytes, out);
}

static void put_integer(FILE *out, int64_t value)
{
	if (value >= INT32_MIN && value <= INT32_MAX) {
		put_code(out, CODE_INT);
		put_number(out, (uint64_t)value, 4);
		return;
	}
	put_code(out, CODE_LONG1);
	put_number(out, sizeof(value), 1);
	put_number(out, (uint64_t)value, sizeof(value));
}

static void put_real(FILE *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_code(out, CODE_FLOAT);
	for (unsigned i = 8; i-- > 0;)
		putc((int)(bits >> 8 * i & 0xff), out);
}

static int put_value(FILE *out, const json_t *value, unsigned depth);

static int put_array(FILE *out, const json_t *array, unsigned depth)
{
	const json_t *value;
	size_t i;

	put_code(out, CODE_LIST);
	put_code(out, CODE_MARK);
	json_array_foreach(array, i, value)
	{
		if (put_value(out, value, depth) != 0)
			return -1;
	}
	put_code(out, CODE_APPEND);
	return 0;
}

static int put_object(FILE *out, const json_t *object, unsigned depth)
{
	const char *key;
	json_t *value;

	put_code(out, CODE_DICT);
	put_code(out, CODE_MARK);
	json_object_foreach((json_t *)object, key, value)
	{
		put_text(out, key, strlen(key));
		if (put_value(out, value, depth) != 0)
			return -1;
	}
	put_code(out, CODE_SET);
	return 0;
}

static int put_value(FILE *out, const json_t *value, unsigned depth)
{
	if (depth == 0)
		return -1;
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return put_object(out, value, depth - 1);
	case JSON_ARRAY:
		return put_array(out, value, depth - 1);
	case JSON_STRING:
		put_text(out, json_string_value(value), json_string_length(value));
		return 0;
	case JSON_INTEGER:
		put_integer(out, json_integer_value(value));
		return 0;
	case JSON_REAL:
		put_real(out, json_real_value(value));
		return 0;
	case JSON_TRUE:
		put_code(out, CODE_TRUE);
		return 0;
	case JSON_FALSE:
		put_code(out, CODE_FALSE);
		return 0;
	default:
		put_code(out, CODE_NONE);
		return 0;
	}
}

int pickle_write(const json_t *document, FILE *out)
{
	put_code(out, CODE_PROTO);
	put_code(out, PROTOCOL);
	if (put_value(out, document, PICKLE_DEPTH) != 0)
		return -1;
	put_code(out, CODE_STOP);
	return ferror(out) ? -1 : 0;
}
