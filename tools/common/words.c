/*
 * words.c - formats numbers and texts; see words.h.
 */
#include "tools/common/words.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void words_count(unsigned long long count, char out[WORDS_BYTES])
{
	char digits[24];
	size_t bytes = (size_t)snprintf(digits, sizeof(digits), "%llu", count);

	for (size_t i = 0; i < bytes; i++) {
		if (i > 0 && (bytes - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
}

/* One decimal below ten, none above. The rounded value chooses the unit. */
static void scale_units(unsigned long long value, unsigned step, const char *const *units,
			size_t count, char *out)
{
	unsigned long long tenths = 0, whole = value;
	double divisor = 1;
	size_t unit = 0;

	while (whole >= step && unit + 1 < count) {
		unit++;
		divisor *= step;
		tenths = (unsigned long long)((double)value * 10 / divisor + 0.5);
		whole = (unsigned long long)((double)value / divisor + 0.5);
	}
	if (unit > 0 && tenths < 100 && tenths % 10 != 0) {
		snprintf(out, WORDS_BYTES, "%llu.%llu %s", tenths / 10, tenths % 10, units[unit]);
		return;
	}
	words_count(whole, out);
	snprintf(out + strlen(out), WORDS_BYTES - strlen(out), " %s", units[unit]);
}

void words_bytes(unsigned long long bytes, char out[WORDS_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	scale_units(bytes, 1024, units, sizeof(units) / sizeof(units[0]), out);
}

void words_ns(unsigned long long ns, char out[WORDS_BYTES])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };

	scale_units(ns, 1000, units, sizeof(units) / sizeof(units[0]), out);
}

void words_clean(char *out, size_t size, const char *text)
{
	size_t used = 0;

	for (; text != NULL && *text != '\0' && used + 1 < size; text++) {
		unsigned char byte = (unsigned char)*text;

		out[used++] = byte < 0x20 || byte >= 0x7f ? '?' : (char)byte;
	}
	if (size > 0)
		out[used] = '\0';
}

void print_clean(const char *text)
{
	char part[256];
	size_t left = text != NULL ? strlen(text) : 0;

	while (left > 0) {
		size_t count = left < sizeof(part) - 1 ? left : sizeof(part) - 1;

		words_clean(part, count + 1, text);
		fputs(part, stdout);
		text += count;
		left -= count;
	}
}

void print_document(FILE *to, const char *text, size_t bytes)
{
	if (!isatty(fileno(to))) {
		fwrite(text, 1, bytes, to);
		return;
	}
	for (size_t i = 0; i < bytes; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte < 0x7f))
			putc(byte, to);
		else
			fprintf(to, "\\x%02x", byte);
	}
}
