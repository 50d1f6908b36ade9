/*
 * tag.h - names that users give to what a thread does. Each name is kept once and has a number.
 *
 * A tag travels with each operation, so it must be small, and its text must outlive the caller's
 * buffer. So texts are copied into a table of the process, which never drops one. A record names
 * its tag for as long as the process lives. The table is bounded, because a program that made a tag
 * of every step would otherwise leak.
 */
#ifndef TWI_TAG_H
#define TWI_TAG_H

#include <stdint.h>

#define TWI_TAGS_MAX  1024
#define TWI_TAG_BYTES 64 /* with the NUL */

/* The calling thread's tag; 0: none. Initial-exec: every operation reads it (diag.h says why). */
extern __thread uint32_t twi_tag_current __attribute__((tls_model("initial-exec")));

/* NULL for 0 and for a number that no text has. The text lives as long as the process. */
const char *twi_tag_text(uint32_t tag);

/*
 * The number of a text, which is added if it is new. Messages name `call`. TOW_OK; TOW_EINVAL: the
 * text is not legal; TOW_EBUSY: the table is full.
 */
int twi_tag_number(const char *call, const char *text, uint32_t *tag_out);

/*
 * The same for names that records can do without: 0 if there is no number, and no message. They
 * take half of the table at most; the rest is for callers that ask for a tag.
 */
uint32_t twi_tag_name(const char *text);

#endif
