/*
 * clean.h - makes texts that every format accepts: UTF-8 without control characters. Names of
 * threads may be any bytes. For one that is not UTF-8, a reader would refuse the whole file.
 */
#ifndef TWI_CLEAN_H
#define TWI_CLEAN_H

#include <stdbool.h>

#include "diag/trace/trace.h"

bool twi_text_is_clean(const char *text);

/*
 * Makes a view of the trace with clean texts of the same length: a question mark replaces each bad
 * byte. Spans are not copied, so the trace must outlive the view. TOW_OK or TOW_ENOMEM.
 */
int twi_clean_make(const struct twi_trace *trace, struct twi_trace *out);
void twi_clean_fini(struct twi_trace *view);

#endif
