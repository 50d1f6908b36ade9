/*
 * environment.c - see environment.h.
 */
#include "diag/knob/environment.h"

#include <stdint.h>
#include <string.h>

#include <internal/base.h>
#include <towline/runtime.h>
#include <towline/status.h>

#include "diag/record/diag.h"

#define NAME_MAX_BYTES 63 /* a longer name is similar to none of ours */
#define WARNINGS_MAX   16

bool twi_environment_knows(const char *name, size_t bytes)
{
	static const char *const others[] = {
#define TWI_ENVIRONMENT(name, whose) name,
#include "diag/knob/environment.def"
#undef TWI_ENVIRONMENT
	};
	struct tow_knob_info knob = { .size = sizeof(knob) };

	for (size_t i = 0; i < tow_knob_count(); i++) {
		if (tow_knob_info(i, &knob) == TOW_OK && strlen(knob.env) == bytes &&
		    memcmp(knob.env, name, bytes) == 0)
			return true;
	}
	for (size_t i = 0; i < twi_array_count(others); i++) {
		size_t length = strlen(others[i]);

		if (others[i][length - 1] == '*' ? bytes >= length - 1 : bytes == length)
			length -= others[i][length - 1] == '*';
		else
			continue;
		if (memcmp(others[i], name, length) == 0)
			return true;
	}
	return false;
}

/* How many letters to insert, remove or change to turn one into the other. */
static unsigned spelling_distance(const char *a, size_t a_bytes, const char *b)
{
	unsigned row[NAME_MAX_BYTES + 1];
	size_t b_bytes = strlen(b);

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = twi_min(twi_min(row[j], row[j - 1]) + 1, change);
		}
	}
	return row[b_bytes];
}

const char *twi_environment_nearest(const char *name, size_t bytes)
{
	struct tow_knob_info knob = { .size = sizeof(knob) };
	/* Besides "TOW_", one letter and a third of the rest may be wrong. With more, another name
	 * was meant. */
	unsigned best = bytes > 4 ? 1 + (unsigned)(bytes - 4) / 3 : 0;
	const char *nearest = NULL;

	if (bytes > NAME_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i < tow_knob_count(); i++) {
		unsigned steps;

		if (tow_knob_info(i, &knob) < 0 || strlen(knob.env) > NAME_MAX_BYTES)
			continue;
		steps = spelling_distance(name, bytes, knob.env);
		if (steps < best || (steps == best && nearest == NULL)) {
			best = steps;
			nearest = knob.env;
		}
	}
	return nearest;
}

static void warn_unknown(struct twi_diag *diag, const char *name, size_t bytes)
{
	const char *nearest = twi_environment_nearest(name, bytes);

	if (nearest != NULL)
		twi_log(diag, 2,
			"the environment has %.*s, which is not a knob and does nothing; did "
			"you mean %s?",
			(int)twi_min(bytes, (size_t)NAME_MAX_BYTES), name, nearest);
	else
		twi_log(diag, 2,
			"the environment has %.*s, which is not a knob and does nothing; "
			"`towstat knobs` lists the knobs",
			(int)twi_min(bytes, (size_t)NAME_MAX_BYTES), name);
}

void twi_environment_check(struct twi_diag *diag, char *const *variables)
{
	unsigned found = 0;

	for (; variables != NULL && *variables != NULL; variables++) {
		size_t bytes = strcspn(*variables, "=");

		if (strncmp(*variables, "TOW_", 4) != 0 || twi_environment_knows(*variables, bytes))
			continue;
		if (found++ < WARNINGS_MAX)
			warn_unknown(diag, *variables, bytes);
	}
	if (found > WARNINGS_MAX)
		twi_log(diag, 2,
			"the environment has %u more variables TOW_... that are not "
			"knobs",
			found - WARNINGS_MAX);
}
