/*
 * counter.h - names of the counters and reasons. Their lists are counter.def and reason.def.
 */
#ifndef TWI_COUNTER_H
#define TWI_COUNTER_H

enum twi_counter {
#define TWI_COUNTER(name, unit, lanes, help) TWI_C_##name,
#include "diag/record/counter.def"
#undef TWI_COUNTER
	TWI_C_COUNT
};

enum twi_reason {
#define TWI_REASON(name, kind, help, cure) TWI_R_##name,
#include "diag/record/reason.def"
#undef TWI_REASON
	TWI_R_COUNT
};

struct twi_counter_info {
	const char *name, *unit;
	const char *lanes; /* NULL: the same on every lane; else which may differ, and why */
	const char *help;
};

struct twi_reason_info {
	const char *name;
	const char *kind; /* "copy", "late_registration" */
	const char *help, *cure;
};

/* Static rows; NULL past the end. */
const struct twi_counter_info *twi_counter_describe(enum twi_counter counter);
const struct twi_reason_info *twi_reason_describe(enum twi_reason reason);

#endif
