/*
 * coll_kind.c - the names of the kinds of collectives (coll_kind.h).
 */
#include "diag/record/coll_kind.h"

const char *twi_coll_kind_name(enum twi_coll_kind kind)
{
	static const char *const names[] = {
#define NAME(name, text) text,
		TWI_COLL_MAP(NAME)
#undef NAME
	};

	return (unsigned)kind < TWI_COLL_KINDS ? names[kind] : "?";
}
