/*
 * plain.h - writes /metrics in Prometheus' older text format, for readers without OpenMetrics:
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
 * Does a client that sends this header prefer the text format? Its q for text/plain must be higher
 * than its q for OpenMetrics; a type that the header does not name has q 0. NULL, and a header that
 * accepts both alike, mean OpenMetrics.
 */
bool twi_plain_wanted(const char *accept);

/* `text` is OpenMetrics as this library writes it: TYPE, UNIT, HELP and samples of each family. */
void twi_plain_emit(struct twi_emit *e, const char *text);

#endif
