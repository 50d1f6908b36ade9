/*
 * latency_report.h - latencies as documents: /v1/latency, and their families of /metrics.
 */
#ifndef TWI_LATENCY_REPORT_H
#define TWI_LATENCY_REPORT_H

#include "diag/record/latency.h"

struct twi_diag;
struct twi_emit;
struct twi_latency_sum;

/* Count, quantiles and buckets of a histogram, as members of the present object. */
void twi_latency_emit(struct twi_emit *e, const struct twi_latency_sum *sum);

/*
 * The samples of one histogram of an OpenMetrics family in seconds; its head is the caller's.
 * exemplars: one for each bucket, or NULL.
 */
void twi_report_histogram(struct twi_emit *e, const char *family, const char *labels,
			  const struct twi_latency_sum *sum, const struct twi_exemplar *exemplars);

/* The same with buckets a factor of 2 apart, up to 67 s: where there are few series. */
void twi_report_fine_histogram(struct twi_emit *e, const char *family, const char *labels,
			       const struct twi_latency_sum *sum);

/* The members of /v1/latency. */
void twi_latency_report(struct twi_diag *diag, struct twi_emit *e);

/* Whole families. */
void twi_latency_metrics(struct twi_diag *diag, struct twi_emit *e);

#endif
