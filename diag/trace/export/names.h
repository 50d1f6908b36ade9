/*
 * names.h - texts by number: the first is 1, the same text has the same number.
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

/* All zero is an empty one. */
struct twi_names {
	struct twi_names_row *rows; /* by hash; room is a power of two, half of it is free */
	size_t room, count;
};

void twi_names_fini(struct twi_names *names);

/* 0 without memory. *is_new: nobody asked for it before. */
uint32_t twi_names_number(struct twi_names *names, const char *text, bool *is_new);

#endif
