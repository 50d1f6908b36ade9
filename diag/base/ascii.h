/*
 * ascii.h - reads and compares text as in the locale "C", whatever locale the program has set.
 *
 * Knobs and HTTP are the same in every country. In a German locale strtod takes a comma for the
 * point, and in a Turkish one toupper and strcasecmp do not know that i and I are one letter.
 */
#ifndef TWI_ASCII_H
#define TWI_ASCII_H

#include <stdbool.h>
#include <stddef.h>

/* As strtod: *end_out is behind the number, and errno is ERANGE where it is no double. */
double twi_ascii_number(const char *text, char **end_out);

/* Whether two texts are the same but for the case of their letters. */
bool twi_ascii_same(const char *one, const char *two);

/* The same of their first `bytes` bytes, or of all that they have. */
bool twi_ascii_begins(const char *one, const char *two, size_t bytes);

/* Makes capital letters of the small ones. */
void twi_ascii_raise(char *text);

#endif
