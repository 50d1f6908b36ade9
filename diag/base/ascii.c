/* ascii.c - see ascii.h. */
#include "diag/base/ascii.h"

#include <locale.h>
#include <stdlib.h>
#include <strings.h>

#include <internal/base.h>

/* libc has this locale ready: nothing is allocated, and nothing is to be freed. */
static locale_t plain_locale(void)
{
	locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);

	twi_assert(locale != (locale_t)0);
	return locale;
}

double twi_ascii_number(const char *text, char **end_out)
{
	return strtod_l(text, end_out, plain_locale());
}

bool twi_ascii_same(const char *one, const char *two)
{
	return strcasecmp_l(one, two, plain_locale()) == 0;
}

bool twi_ascii_begins(const char *one, const char *two, size_t bytes)
{
	return strncasecmp_l(one, two, bytes, plain_locale()) == 0;
}

void twi_ascii_raise(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text >= 'a' && *text <= 'z')
			*text = (char)(*text - 'a' + 'A');
	}
}
