/*
 * words.c - numbers for sentences. See words.h.
 */
#include "diag/base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

void twi_words_count(uint64_t count, char out[TWI_WORDS_BYTES])
{
	char digits[24];
	size_t bytes = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	char *to = out;

	for (size_t i = 0; i < bytes; i++) {
		if (i > 0 && (bytes - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
}

/* Writes `value` in the largest unit that leaves at least one. Each unit is `step` of the last. */
static void scale_units(uint64_t value, unsigned step, const char *const *units, unsigned count,
			char out[TWI_WORDS_BYTES])
{
	unsigned unit = 0;
	uint64_t tenths = 0, whole = value;
	double divisor = 1;

	/* Rounds first, so that 1,023.9 KiB becomes 1 MiB and not 1,024 KiB. */
	while (whole >= step && unit + 1 < count) {
		unit++;
		divisor *= step;
		tenths = (uint64_t)((double)value * 10 / divisor + 0.5);
		whole = (uint64_t)((double)value / divisor + 0.5);
	}
	if (unit > 0 && tenths < 100 && tenths % 10 != 0) {
		snprintf(out, TWI_WORDS_BYTES, "%u.%u %s", (unsigned)tenths / 10,
			 (unsigned)tenths % 10, units[unit]);
		return;
	}
	twi_words_count(whole, out);
	snprintf(out + strlen(out), TWI_WORDS_BYTES - strlen(out), " %s", units[unit]);
}

void twi_words_bytes(uint64_t bytes, char out[TWI_WORDS_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	scale_units(bytes, 1024, units, twi_array_count(units), out);
}

void twi_words_ns(uint64_t ns, char out[TWI_WORDS_BYTES])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };

	scale_units(ns, 1000, units, twi_array_count(units), out);
}

void twi_words_clean(char *out, size_t bytes, const char *text)
{
	static const char digits[] = "0123456789abcdef";
	size_t used = 0;

	for (; *text != '\0'; text++) {
		unsigned char byte = (unsigned char)*text;
		bool plain = byte >= 0x20 && byte < 0x7f;

		if (bytes - used <= (plain ? 1u : 4u))
			break;
		if (plain) {
			out[used++] = *text;
			continue;
		}
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = digits[byte >> 4];
		out[used++] = digits[byte & 15];
	}
	out[used] = '\0';
}

/* Is `name` a word of the comma-separated list? */
static bool is_listed(const char *list, const char *name)
{
	size_t bytes = strlen(name);

	while (*list != '\0') {
		size_t word = strcspn(list, ",");

		if (word == bytes && strncmp(list, name, bytes) == 0)
			return true;
		list += word + (list[word] == ',');
	}
	return false;
}

bool twi_words_allow(const char *list, const char *name)
{
	if (list[0] == '^')
		return !is_listed(list + 1, name);
	return list[0] == '\0' || is_listed(list, name);
}
