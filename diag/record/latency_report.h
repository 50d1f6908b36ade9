/*
 * latency_report.h - writes latencies as documents: /v1/latency, and their families of /metrics.
 */
#ifndef TWI_LATENCY_REPORT_H
#define TWI_LATENCY_REPORT_H

#include "diag/record/latency.h"

struct twi_diag;
struct twi_emit;
struct twi_latency_sum;

/* Writes count, quantiles and buckets of a histogram as members of the current object. */
void twi_latency_emit(struct twi_emit *e, const struct twi_latency_sum *sum);

/*
 * Writes the samples of one histogram of an OpenMetrics family in seconds; the caller writes the
 * head. exemplars: one for each bucket, or NULL.
 */
void twi_report_histogram(struct twi_emit *e, const char *family, const char *labels,
			  const struct twi_latency_sum *sum, const struct twi_exemplar *exemplars);

/* The same with edges a factor of 2 apart, up to 67 s, for families with few series. */
void twi_report_fine_histogram(struct twi_emit *e, const char *family, const char *labels,
			       const struct twi_latency_sum *sum);

/* Writes the members of /v1/latency. */
void twi_latency_report(struct twi_diag *diag, struct twi_emit *e);

/* Writes whole families. */
void twi_latency_metrics(struct twi_diag *diag, struct twi_emit *e);

#endif
