/*
 * budget.c - the lines of a sum; budget.h has the concept.
 */
#include "memreg/sizing/budget.h"

#include <stdio.h>

#include <internal/base.h>

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void twi_budget_add(struct twi_budget *budget, uint64_t bytes, const char *name, const char *why)
{
	struct twi_budget_line *line;

	if (budget->count == TWI_BUDGET_LINES) {
		line = &budget->line[TWI_BUDGET_LINES - 1];
		snprintf(line->name, sizeof(line->name), "further consumers");
		line->why[0] = '\0';
		line->bytes = add_capped(line->bytes, bytes);
		return;
	}
	line = &budget->line[budget->count++];
	snprintf(line->name, sizeof(line->name), "%s", name);
	snprintf(line->why, sizeof(line->why), "%s", why);
	line->bytes = bytes;
}

uint64_t twi_budget_sum(const struct twi_budget *budget)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < budget->count; i++)
		sum = add_capped(sum, budget->line[i].bytes);
	return sum;
}

uint64_t twi_budget_round(struct twi_budget *budget, uint64_t least, uint64_t step,
			  const char *name, const char *why)
{
	uint64_t sum = twi_budget_sum(budget), want = twi_max(sum, least);

	if (want > UINT64_MAX - step)
		return UINT64_MAX;
	want = twi_align_up(want, step);
	if (want > sum)
		twi_budget_add(budget, want - sum, name, why);
	return want;
}
