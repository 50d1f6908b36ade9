/*
 * delivery.h - finds how long each message of a trace was on its way. The spans of kind DELIVERY
 * tell; one of the message's two sides has written each.
 */
#ifndef TWI_DELIVERY_H
#define TWI_DELIVERY_H

#include "diag/trace/trace.h"

struct twi_delivery;

/* Sorted by pair, lane, number and size. The spans belong to the trace. */
struct twi_deliveries {
	struct twi_delivery *rows;
	size_t count;
};

/* TOW_OK or TOW_ENOMEM. */
int twi_deliveries_make(const struct twi_trace *trace, struct twi_deliveries *out);
void twi_deliveries_fini(struct twi_deliveries *deliveries);

/* The same for the receivers' own spans, where a message's receiver is in the trace. */
int twi_arrivals_make(const struct twi_trace *trace, struct twi_deliveries *out);

/* The span for `message`, which `rank` has sent or received; NULL: it is not in the trace. */
const struct twi_span *twi_delivery_of(const struct twi_deliveries *deliveries,
				       const struct twi_trace_rank *rank,
				       const struct twi_span *message);

#endif
