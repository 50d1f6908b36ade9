/*
 * delivery.h - of which message of a trace it is known how long it was on its way: by its spans of
 * kind DELIVERY, which one of its two sides has written.
 */
#ifndef TWI_DELIVERY_H
#define TWI_DELIVERY_H

#include "diag/trace/trace.h"

struct twi_delivery;

/* By pair, lane, number and size. Its spans are the trace's. */
struct twi_deliveries {
	struct twi_delivery *rows;
	size_t count;
};

/* TOW_OK or TOW_ENOMEM. */
int twi_deliveries_make(const struct twi_trace *trace, struct twi_deliveries *out);
void twi_deliveries_fini(struct twi_deliveries *deliveries);

/* The same of receives: where a message's receiver is in the trace, its own span. */
int twi_arrivals_make(const struct twi_trace *trace, struct twi_deliveries *out);

/* Of a message that `rank` has sent or received; NULL: it is not in the trace. */
const struct twi_span *twi_delivery_of(const struct twi_deliveries *deliveries,
				       const struct twi_trace_rank *rank,
				       const struct twi_span *message);

#endif
