/*
 * site_report.h - /v1/copies and /v1/registrations: cost, reasons, call sites, and the cure.
 *
 *	total     count, bytes, ns
 *	reasons   those that occurred, the dearest first, with help, cure and a sentence
 *	sites     the dearest TWI_SITES_SHOWN call sites: sums, tag, address, module, sentence
 *
 * A sentence ("text") has the amount, what happened, from where, and what mends it. A reader may
 * know the call site better: towstat knows file and line. For such a reader, "text_parts" are the
 * parts of the sentence around it: parts[0] " from " PLACE parts[1].
 */
#ifndef TWI_SITE_REPORT_H
#define TWI_SITE_REPORT_H

#include <stddef.h>

#include "diag/record/counter.h"

struct twi_diag;
struct twi_emit;
struct twi_site_sum;

#define TWI_SITES_SHOWN 64

/* Write members of one JSON object each (twi_report). */
void twi_site_report_copies(struct twi_diag *diag, struct twi_emit *e);
void twi_site_report_registrations(struct twi_diag *diag, struct twi_emit *e);

/*
 * Writes the two parts of the sentence: "1,204 copies, 3.1 GiB, 410 ms: send of unregistered
 * memory" and ", copied where ...; allocate it ...". They are a sentence without the place, too.
 */
void twi_site_sentence(enum twi_reason reason, const struct twi_site_sum *sum, char *before,
		       char *after, size_t bytes_each);

#endif
