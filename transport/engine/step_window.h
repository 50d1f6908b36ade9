/*
 * step_window.h - how long the last steps took, and which step is slow beside them. Pure.
 *
 *	recent   5 7 6 5 9 6 ...     in the order in which they ended: the oldest one goes
 *	sorted   5 5 6 6 7 9 ...     the same; the middle one is the median
 *
 * A step that ends moves at most TWI_STEP_WINDOW words. Only one thread at a time is here: the one
 * that has made the step TWI_STEP_CHANGING (step.h).
 */
#ifndef TWI_STEP_WINDOW_H
#define TWI_STEP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define TWI_STEP_WINDOW 63u
#define TWI_STEP_KNOWN  8u /* fewer have no median: the first steps are unlike the others */

/* All zero is an empty window. */
struct twi_step_window {
	uint32_t count, next; /* next: the oldest, once count is TWI_STEP_WINDOW */
	uint64_t recent[TWI_STEP_WINDOW], sorted[TWI_STEP_WINDOW];
};

void twi_step_window_add(struct twi_step_window *window, uint64_t took_ns);

/* The median; of an even number of steps the larger of the middle two. 0: too few are known. */
uint64_t twi_step_window_median(const struct twi_step_window *window);

/* Did it take more than `percent` of the median? False, too, where the median is not known. */
bool twi_step_window_slow(const struct twi_step_window *window, uint64_t took_ns, uint32_t percent);

#endif
