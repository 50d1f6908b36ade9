/*
 * clean.h - texts that every format takes: UTF-8 without control characters. Names of threads are
 * any bytes, and one that is no UTF-8 would make a reader refuse the whole file.
 */
#ifndef TWI_CLEAN_H
#define TWI_CLEAN_H

#include <stdbool.h>

#include "diag/trace/trace.h"

bool twi_text_is_clean(const char *text);

/* A view of the trace with clean texts, as long as before: a question mark stands for each byte
 * that is none. Spans are not copied, so the trace must outlive it. TOW_OK, or TOW_ENOMEM. */
int twi_clean_make(const struct twi_trace *trace, struct twi_trace *out);
void twi_clean_fini(struct twi_trace *view);

#endif
