/*
 * counter.c - the rows of counter.def and reason.def, for code that prints them.
 */
#include "diag/record/counter.h"

#include <stddef.h>

#define REASON_KIND_COPY "copy"
#define REASON_KIND_LATE "late_registration"

static const struct twi_counter_info counters[TWI_C_COUNT] = {
#define SAME                                 NULL
#define TWI_COUNTER(name, unit, lanes, help) { #name, #unit, lanes, help },
#include "diag/record/counter.def"
#undef TWI_COUNTER
#undef SAME
};

static const struct twi_reason_info reasons[TWI_R_COUNT] = {
#define TWI_REASON(name, kind, help, cure) { #name, REASON_KIND_##kind, help, cure },
#include "diag/record/reason.def"
#undef TWI_REASON
};

const struct twi_counter_info *twi_counter_describe(enum twi_counter counter)
{
	return counter < TWI_C_COUNT ? &counters[counter] : NULL;
}

const struct twi_reason_info *twi_reason_describe(enum twi_reason reason)
{
	return reason < TWI_R_COUNT ? &reasons[reason] : NULL;
}
