/*
 * knob.h - resolves options, environment and defaults to the values that a runtime uses.
 *
 * knob.def is the only list of knobs. Each row is a field of struct tow_options (checked at compile
 * time), an environment variable TOW_<FIELD>, and a member of struct twi_knobs. A field that is set
 * overrides the environment, and the environment overrides the default.
 */
#ifndef TWI_KNOB_H
#define TWI_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#include "diag/knob/knob_word.h"

/* The C type of each type of knob.def, once resolved. In struct tow_options, -1 is unset. */
#define TWI_KNOB_C_BYTES    uint64_t
#define TWI_KNOB_C_NS       uint64_t
#define TWI_KNOB_C_COUNT    uint32_t
#define TWI_KNOB_C_BOOL     bool
#define TWI_KNOB_C_TEXT     const char * /* never NULL */
#define TWI_KNOB_C_EXHAUST  enum twi_exhaust
#define TWI_KNOB_C_ZEROCOPY enum twi_zerocopy
#define TWI_KNOB_C_POLLER   enum twi_poller_choice

/* The knobs of one runtime, resolved when it opens. Each has a value within its range. */
struct twi_knobs {
#define TWI_KNOB(field, kind, def, min, max, help) TWI_KNOB_C_##kind field;
#include "diag/knob/knob.def"
#undef TWI_KNOB
	/* Unchanged from the caller. */
	void (*premap_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
	void *premap_progress_user;
	tow_log_callback log_callback;
	void *log_user;
};

/*
 * Fills every member of *out. Strings point into `in`, the environment or static memory.
 * TOW_EINVAL: the message names the knob, its value, the value's source, and the range.
 */
int twi_knob_resolve(const struct tow_options *in, struct twi_knobs *out);

/*
 * Copies the strings of all knobs into one block from malloc, *texts_out, and points the knobs to
 * it. TOW_ENOMEM.
 */
int twi_knob_keep(struct twi_knobs *knobs, char **texts_out);

/*
 * Does `have` have all values that `in` sets? `asked` was resolved from `in`. TOW_OK, or TOW_EINVAL
 * with a message that names `call`, the first knob that differs, and both values. The log callback
 * is compared, too. The job's key is not.
 */
int twi_knob_agree(const char *call, const struct tow_options *in, const struct twi_knobs *asked,
		   const struct twi_knobs *have);

/* The value of knob `index` as text if its unit is text; NULL: it is a number. */
const char *twi_knob_text(const struct twi_knobs *knobs, size_t index);

/* The value of knob `index`, which must be a number. */
int64_t twi_knob_number(const struct twi_knobs *knobs, size_t index);

/* The member of knob `index`, for writing, if it is a string of any text; NULL: it is not. */
const char **twi_knob_string(struct twi_knobs *knobs, size_t index);

/* Parses "2GiB", "64k", "10us", "1.5s", "true" by the type of knob `index`. False: invalid. */
bool twi_knob_parse(size_t index, const char *text, int64_t *value_out);

#endif
