/* span_kind.c - the kinds of spans by name. */
#include "diag/record/span.h"

const char *twi_span_kind_name(enum twi_span_kind kind)
{
	static const char *const names[TWI_SPAN_KINDS] = {
#define SPAN_NAME(id, name) name,
		TWI_SPAN_MAP(SPAN_NAME)
#undef SPAN_NAME
	};

	return (unsigned)kind < TWI_SPAN_KINDS ? names[kind] : "unknown";
}
