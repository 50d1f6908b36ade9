/*
 * names.h - numbers texts: the first is 1, and equal texts have the same number.
 */
#ifndef TWI_NAMES_H
#define TWI_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_names_row {
	char *text;
	uint32_t number;
};

/* All zero is an empty set. */
struct twi_names {
	struct twi_names_row *rows; /* a hash table; room is a power of two; half is free */
	size_t room, count;
};

void twi_names_fini(struct twi_names *names);

/* 0: there is no memory. *is_new: the text had no number before. */
uint32_t twi_names_number(struct twi_names *names, const char *text, bool *is_new);

#endif
