/*
 * report.h - lists the documents that every runtime has, and writes its metrics.
 */
#ifndef TWI_REPORT_H
#define TWI_REPORT_H

#include <stddef.h>

#include "diag/record/latency_report.h"

struct twi_diag;
struct twi_emit;

struct twi_report {
	const char *path, *help;
	void (*render)(struct twi_diag *diag, struct twi_emit *e); /* members of one object */
};

size_t twi_report_count(void);
const struct twi_report *twi_report_at(size_t index);

/* Writes all of /metrics except the gauges and the end mark. */
void twi_report_metrics(struct twi_diag *diag, struct twi_emit *e);

#endif
