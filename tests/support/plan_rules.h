/*
 * plan_rules.h - what plan.h promises of every plan of a case, looked up in the plans alone.
 */
#ifndef TWT_PLAN_RULES_H
#define TWT_PLAN_RULES_H

#include "plan_memory.h"

#define TWT_RULE(rule)                                                                             \
	do {                                                                                       \
		if (!(rule))                                                                       \
			return #rule;                                                              \
	} while (0)

/* NULL, or the rule that the plan of rank `self` breaks. */
const char *twt_plan_rules(const struct twi_plan_case *cases, uint32_t self,
			   const struct twi_plan *plan, const struct twi_plan *first);

#endif
