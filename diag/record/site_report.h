/*
 * site_report.h - /v1/copies and /v1/registrations: what it cost, why, from where, and the cure.
 *
 *	total     count, bytes, ns
 *	reasons   those that occurred, the dearest first, with help, cure and a sentence
 *	sites     the dearest TWI_SITES_SHOWN places: sums, tag, address, module, sentence
 *
 * A sentence ("text") is the amount, what happened, from where, and what mends it. Where a reader
 * knows the place better (towstat: file and line), "text_parts" are what stands around the place:
 * parts[0] " from " PLACE parts[1].
 */
#ifndef TWI_SITE_REPORT_H
#define TWI_SITE_REPORT_H

#include <stddef.h>

#include "diag/record/counter.h"

struct twi_diag;
struct twi_emit;
struct twi_site_sum;

#define TWI_SITES_SHOWN 64

/* Members of one JSON object each (twi_report). */
void twi_site_report_copies(struct twi_diag *diag, struct twi_emit *e);
void twi_site_report_registrations(struct twi_diag *diag, struct twi_emit *e);

/*
 * The two parts of the sentence: "1,204 copies, 3.1 GiB, 410 ms: send of unregistered memory" and
 * ", copied where ...; allocate it ...". Together without a place they are a sentence too.
 */
void twi_site_sentence(enum twi_reason reason, const struct twi_site_sum *sum, char *before,
		       char *after, size_t bytes_each);

#endif
