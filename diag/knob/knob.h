/*
 * knob.h - from options, environment and defaults to the values that a runtime runs with.
 *
 * knob.def is the only list of knobs; each row is a field of struct tow_options (checked at compile
 * time) and an environment variable TOW_<FIELD>. A field that is set wins over the environment, the
 * environment over the default.
 */
#ifndef TWI_KNOB_H
#define TWI_KNOB_H

#include <towline/runtime.h>

/*
 * Fills every field of *out. Strings point into `in`, the environment or static memory. TOW_EINVAL
 * with a message that names the knob, its value, where it came from, and its range.
 */
int twi_knob_resolve(const struct tow_options *in, struct tow_options *out);

/* The field of knob `index`: int64_t, or const char * where its unit is text. */
const void *twi_knob_field(const struct tow_options *options, size_t index);

/* The same, of a knob whose unit is text, to be set. */
const char **twi_knob_text(struct tow_options *options, size_t index);

/* Parses "2GiB", "64k", "10us", "1.5s", "true" by the type of knob `index`. False: it is none. */
int twi_knob_parse(size_t index, const char *text, int64_t *value_out);

#endif
