/*
 * alloclog_names.h - what the tags and the calling places of an allocation log are called.
 *
 * A number of a tag means something in one process alone, and an address only while its modules lie
 * where they did. So whoever writes the file puts names beside the numbers, as far as there is
 * room: first those of what held the most memory at once.
 *
 *	names_offset                                              end of the header
 *	| kind 1 | bytes 1 | key 8 | text |  | kind | bytes | key | text |  ... zeros |
 *
 * They stand in the header, since readers of older minors skip what they do not know of it, and
 * nothing else. Whatever bytes a file has there, a name that is read is printable ASCII.
 */
#ifndef TWI_ALLOCLOG_NAMES_H
#define TWI_ALLOCLOG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_file.h"

#define TWI_ALLOCLOG_NAME_ROOM 128 /* of a text, with its NUL */

enum twi_alloclog_named {
	TWI_ALLOCLOG_NAMED_TAG = 1,    /* key: the tag's number */
	TWI_ALLOCLOG_NAMED_CALLER = 2, /* key: the return address */
};

struct twi_alloclog_name {
	uint8_t kind; /* enum twi_alloclog_named, or one of a later minor */
	uint64_t key;
	char text[TWI_ALLOCLOG_NAME_ROOM];
};

/*
 * Looks up what occurs in the trace and puts it into trace->names. While the process that recorded
 * it lives, and in it. A place whose module is gone has no name. TOW_OK; TOW_ENOMEM.
 */
int twi_alloclog_names_make(struct twi_alloc_trace *trace);

/* A name more; too long a text is cut. False: there is no room. */
bool twi_alloclog_names_put(struct twi_alloc_trace *trace, enum twi_alloclog_named kind,
			    uint64_t key, const char *text);

/* What is wrong with names that were read, and at which byte of them; NULL: nothing. */
const char *twi_alloclog_names_check(const uint8_t *names, size_t bytes, size_t *at_out);

/* The next name from *at on, which is 0 at the begin. False: there is none. Of checked names. */
bool twi_alloclog_names_next(const struct twi_alloc_trace *trace, size_t *at,
			     struct twi_alloclog_name *out);

/* Puts a question mark for each byte that is no printable ASCII. */
void twi_alloclog_name_clean(char *text, size_t bytes);

#endif
