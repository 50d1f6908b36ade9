/*
 * alloclog_names.h - the names of tags and call sites in an allocation log.
 *
 * The number of a tag has a meaning only in its process, and an address only while the modules stay
 * where they are. So the writer of the file adds names to the numbers, as far as there is room. The
 * tags and call sites that had the most live memory come first.
 *
 *	names_offset                                              end of the header
 *	| kind 1 | bytes 1 | key 8 | text |  | kind | bytes | key | text |  ... zeros |
 *
 * The names are in the header. Readers of older minors skip unknown parts of the header, but
 * of nothing else. A name that was read is printable ASCII, whatever bytes the file has.
 */
#ifndef TWI_ALLOCLOG_NAMES_H
#define TWI_ALLOCLOG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_file.h"

#define TWI_ALLOCLOG_NAME_ROOM 128 /* bytes of a text, with its NUL */

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
 * Looks up the tags and call sites of the trace, and puts the names into trace->names. It must run
 * in the process that recorded it. A call site whose module was unloaded has no name. TOW_OK;
 * TOW_ENOMEM.
 */
int twi_alloclog_names_make(struct twi_alloc_trace *trace);

/* Adds a name, and cuts a long text. False: there is no room, or the text is empty. */
bool twi_alloclog_names_put(struct twi_alloc_trace *trace, enum twi_alloclog_named kind,
			    uint64_t key, const char *text);

/* Tests names that were read. Returns what is wrong, at byte *at_out of them; NULL: nothing. */
const char *twi_alloclog_names_check(const uint8_t *names, size_t bytes, size_t *at_out);

/* Reads the next name of checked names. *at is 0 at the begin. False: there is none. */
bool twi_alloclog_names_next(const struct twi_alloc_trace *trace, size_t *at,
			     struct twi_alloclog_name *out);

/* Replaces each byte that is no printable ASCII by a question mark. */
void twi_alloclog_name_clean(char *text, size_t bytes);

#endif
