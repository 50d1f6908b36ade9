/* step_window.c - keeps the last times in order of their end, and sorted. See step_window.h. */
#include "transport/engine/step_window.h"

/* How many of the sorted times are less. */
static uint32_t count_below(const struct twi_step_window *window, uint64_t took_ns)
{
	uint32_t low = 0, high = window->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (window->sorted[middle] < took_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void forget_oldest(struct twi_step_window *window)
{
	uint32_t at = count_below(window, window->recent[window->next]);

	window->count--;
	for (; at < window->count; at++)
		window->sorted[at] = window->sorted[at + 1];
}

void twi_step_window_add(struct twi_step_window *window, uint64_t took_ns)
{
	uint32_t at;

	if (window->count == TWI_STEP_WINDOW)
		forget_oldest(window);
	for (at = window->count; at > 0 && window->sorted[at - 1] > took_ns; at--)
		window->sorted[at] = window->sorted[at - 1];
	window->sorted[at] = took_ns;
	window->count++;
	window->recent[window->next] = took_ns;
	window->next = (window->next + 1) % TWI_STEP_WINDOW;
}

uint64_t twi_step_window_median(const struct twi_step_window *window)
{
	return window->count < TWI_STEP_KNOWN ? 0 : window->sorted[window->count / 2];
}

bool twi_step_window_slow(const struct twi_step_window *window, uint64_t took_ns, uint32_t percent)
{
	uint64_t median = twi_step_window_median(window);

	if (median == 0 || median > UINT64_MAX / percent)
		return false;
	return took_ns > median * percent / 100;
}
