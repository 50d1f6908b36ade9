/*
 * report.h - the documents that every runtime has: counters, latency, info, metrics.
 */
#ifndef TWI_REPORT_H
#define TWI_REPORT_H

#include <stddef.h>

struct twi_diag;
struct twi_emit;
struct twi_latency_sum;

#define TWI_METRICS_PATH "/metrics"

struct twi_report {
	const char *path, *help;
	void (*render)(struct twi_diag *diag, struct twi_emit *e); /* members of one object */
};

/* Count, quantiles and buckets of a histogram, as members of the present object. */
void twi_latency_emit(struct twi_emit *e, const struct twi_latency_sum *sum);

/* The samples of one histogram of an OpenMetrics family in seconds; its head is the caller's. */
void twi_report_histogram(struct twi_emit *e, const char *family, const char *labels,
			  const struct twi_latency_sum *sum);

size_t twi_report_count(void);
const struct twi_report *twi_report_at(size_t index);

/* All of /metrics but the gauges and the end mark. */
void twi_report_metrics(struct twi_diag *diag, struct twi_emit *e);

#endif
