/*
 * plain.h - /metrics in Prometheus' older text format, for readers that know no OpenMetrics:
 * promtool check metrics, the textfile collector, agents.
 *
 *	OpenMetrics                     text format 0.0.4
 *	# TYPE a counter                # TYPE a_total counter
 *	# UNIT a bytes                  -
 *	# TYPE b info                   # TYPE b_info gauge
 *	c_bucket{le="1"} 2 # {id="7"} 1 c_bucket{le="1"} 2
 *	# EOF                           -
 */
#ifndef TWI_PLAIN_H
#define TWI_PLAIN_H

#include <stdbool.h>

struct twi_emit;

#define TWI_PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * Whether who sends this header would rather have the text format: it names text/plain, and
 * OpenMetrics not at all or with a lower q. NULL, and what takes anything, gets OpenMetrics.
 */
bool twi_plain_wanted(const char *accept);

/* `text` is OpenMetrics as this library writes it: of each family TYPE, UNIT, HELP, samples. */
void twi_plain_emit(struct twi_emit *e, const char *text);

#endif
