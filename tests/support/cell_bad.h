/*
 * cell_bad.h - memory of a cell (cell.h) that cannot be read or written: unmapped, protected,
 * beyond the end of its file, bad from its middle on. Large messages alone go out of it and into
 * it: a small one is copied by memcpy, and such memory ends the process (endpoint.h).
 */
#ifndef TWT_CELL_BAD_H
#define TWT_CELL_BAD_H

#include "cell_run.h"

#define TWT_BAD_BYTES (1u << 20) /* of each piece of it; messages are a little shorter */

enum twt_bad { TWT_GOOD, TWT_GONE, TWT_PROTECTED, TWT_SHORT_FILE, TWT_HALF, TWT_BADS };
extern const char *const twt_bad_names[];

/* TWT_BAD_BYTES that are bad for who reads them, or for who writes them. */
uint8_t *twt_bad_take(struct twt_end *end, enum twt_bad bad, bool write);

void twt_bad_give(uint8_t *at, enum twt_bad bad);

/* What the message of an operation says of it: whose memory it is, and where that lies. */
const char *twt_bad_told(const struct tow_result *result, const uint8_t *at, size_t bytes);

/* Each kind of it, of who sends and of who receives: what a case does with memory that is bad. */
void twt_bad_each(struct twt_end *end,
		  void (*play)(struct twt_end *end, enum twt_bad bad, bool receives));

#endif
