/*
 * budget.h - how many bytes a pool needs, as a sum with a line for each consumer.
 *
 *   gradients: send buffers            474.7 MiB   one for each tensor
 *   gradients: receive buffers         474.7 MiB   one for each tensor
 *   staging                              4.0 MiB   taken by the runtime when it opens
 *   arena: rounding                      0.2 MiB   ...
 *   ----------------------------------------------
 *   premap_memory_bytes
 *
 * Pure. Nobody can check a number without its sum. So the author of a new consumer of the pool adds
 * its line. A sum that exceeds 64 bits is UINT64_MAX, and stays there.
 */
#ifndef TWI_BUDGET_H
#define TWI_BUDGET_H

#include <stdint.h>

#define TWI_BUDGET_LINES 32

struct twi_budget_line {
	char name[136];
	char why[112];
	uint64_t bytes;
};

struct twi_budget {
	struct twi_budget_line line[TWI_BUDGET_LINES];
	uint32_t count;
};

/* Adds a consumer. Past TWI_BUDGET_LINES the bytes join the last line, so that none are lost. */
void twi_budget_add(struct twi_budget *budget, uint64_t bytes, const char *name, const char *why);

/* The sum of all lines. */
uint64_t twi_budget_sum(const struct twi_budget *budget);

/*
 * Adds a line that makes the sum a multiple of `step` (a power of two), at least `least`. Returns
 * the sum.
 */
uint64_t twi_budget_round(struct twi_budget *budget, uint64_t least, uint64_t step,
			  const char *name, const char *why);

#endif
