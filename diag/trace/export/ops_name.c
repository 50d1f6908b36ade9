/* ops_name.c - names rendezvous. See ops_name.h. */
#include "diag/trace/export/ops_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/show.h"

#define NUMBER_BYTES 12 /* "_4294967295" */
#define WHAT_BYTES   40 /* "reduce-scatter-18446744073709551615B" */
#define BASE_BYTES   (TWI_RENDEZVOUS_BYTES - NUMBER_BYTES)

struct twi_op_named {
	unsigned kind;
	uint64_t bytes;
	bool mixed; /* several kinds or sizes */
};

bool twi_op_names_init(struct twi_op_names *names)
{
	*names = (struct twi_op_names){ 0 };
	names->named = calloc(TWI_RENDEZVOUS_MAX + 1, sizeof(*names->named));
	names->numbers = calloc(TWI_RENDEZVOUS_MAX + 1, sizeof(*names->numbers));
	return names->named != NULL && names->numbers != NULL;
}

void twi_op_names_fini(struct twi_op_names *names)
{
	twi_names_fini(&names->texts);
	twi_names_fini(&names->bases);
	free(names->named);
	free(names->numbers);
	*names = (struct twi_op_names){ 0 };
}

/* Replaces characters that XProf's patterns do not match; leaves room for `beside` others. */
static void clean_name(const char *text, size_t beside, char out[BASE_BYTES])
{
	size_t at = 0;

	for (; text[at] && at + beside + 1 < BASE_BYTES; at++) {
		char c = text[at];

		out[at] = (char)(isalnum((unsigned char)c) || c == '.' || c == '-' ? c : '_');
	}
	out[at] = '\0';
}

/* Writes a size in the largest unit that needs at most two decimals, so always the same way. */
static void size_text(uint64_t bytes, char *out, size_t out_size)
{
	static const char *const units[] = { "TiB", "GiB", "MiB", "KiB" };

	for (size_t i = 0; i < twi_array_count(units); i++) {
		uint64_t unit = 1ull << 10 * (twi_array_count(units) - i);
		uint64_t part = bytes % unit * 100;
		unsigned parts = (unsigned)(part / unit);

		if (bytes < unit || part % unit != 0)
			continue;
		if (parts == 0)
			snprintf(out, out_size, "%llu%s", (unsigned long long)(bytes / unit),
				 units[i]);
		else
			snprintf(out, out_size, parts % 10 ? "%llu.%02u%s" : "%llu.%u%s",
				 (unsigned long long)(bytes / unit),
				 parts % 10 ? parts : parts / 10, units[i]);
		return;
	}
	snprintf(out, out_size, "%lluB", (unsigned long long)bytes);
}

/* "all-reduce-9KiB"; a barrier has no size. */
static void what_text(unsigned kind, uint64_t bytes, char out[WHAT_BYTES])
{
	char size[32];

	if (kind == TWI_COLL_BARRIER && bytes == 0) {
		snprintf(out, WHAT_BYTES, "%s", twi_show_coll_name(kind));
		return;
	}
	size_text(bytes, size, sizeof(size));
	snprintf(out, WHAT_BYTES, "%s-%s", twi_show_coll_name(kind), size);
}

/* Is it "3 combined", the library's own name of a fused collective? That does not name its kind. */
static bool is_fused_name(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	static const char after[] = " " TWI_COLL_COMBINED;

	if (digits == 0 || strncmp(text + digits, after, sizeof(after) - 1) != 0)
		return false;
	text += digits + sizeof(after) - 1;
	return *text == '\0' || *text == ' ';
}

void twi_op_names_see(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes)
{
	char clean[BASE_BYTES];
	struct twi_op_named *named;
	uint32_t number;
	bool is_new;

	if (user == NULL || names->texts.count >= TWI_RENDEZVOUS_MAX)
		return;
	clean_name(user, WHAT_BYTES, clean);
	number = twi_names_number(&names->texts, clean, &is_new);
	named = &names->named[number];
	if (is_new)
		*named = (struct twi_op_named){ .kind = kind, .bytes = bytes };
	named->mixed |= named->kind != kind || named->bytes != bytes;
}

static bool is_mixed(struct twi_op_names *names, const char *clean)
{
	bool is_new;

	/* A name that had no room to be recorded gets kind and size. */
	if (names->texts.count >= TWI_RENDEZVOUS_MAX)
		return true;
	return names->named[twi_names_number(&names->texts, clean, &is_new)].mixed;
}

static bool add_number(struct twi_op_names *names, const char *base, char out[TWI_RENDEZVOUS_BYTES])
{
	bool is_new;
	uint32_t number = twi_names_number(&names->bases, base, &is_new);

	if (number == 0)
		return false;
	snprintf(out, TWI_RENDEZVOUS_BYTES, "%s_%u", base, ++names->numbers[number]);
	return true;
}

bool twi_op_names_make(struct twi_op_names *names, const char *user, unsigned kind, uint64_t bytes,
		       char out[TWI_RENDEZVOUS_BYTES])
{
	char clean[BASE_BYTES], base[BASE_BYTES + WHAT_BYTES + 2], what[WHAT_BYTES];

	what_text(kind, bytes, what);
	clean_name(user != NULL ? user : "", WHAT_BYTES, clean);
	if (clean[0] == '\0')
		snprintf(base, sizeof(base), "%s", what);
	else if (is_fused_name(user))
		snprintf(base, sizeof(base), "%s-%s", what, clean);
	else if (is_mixed(names, clean))
		snprintf(base, sizeof(base), "%s-%s", clean, what);
	else
		snprintf(base, sizeof(base), "%s", clean);
	clean_name(base, 0, clean);
	return add_number(names, clean, out);
}

bool twi_op_names_plain(struct twi_op_names *names, const char *text,
			char out[TWI_RENDEZVOUS_BYTES])
{
	char clean[BASE_BYTES];

	clean_name(text, 0, clean);
	return add_number(names, clean[0] ? clean : "op", out);
}
