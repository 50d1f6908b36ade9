/*
 * hist.c - reads histograms; the code that writes them is inline. See hist.h for the buckets.
 */
#include "diag/record/hist.h"

uint64_t twi_hist_lower(unsigned index)
{
	unsigned octave = index / TWI_HIST_SUB, step = index % TWI_HIST_SUB;

	if (octave == 0)
		return step;
	return (uint64_t)(TWI_HIST_SUB + step) << (octave - 1);
}

uint64_t twi_hist_upper(unsigned index)
{
	return index + 1 < TWI_HIST_BUCKETS ? twi_hist_lower(index + 1) - 1
					    : (1ull << TWI_HIST_BITS) - 1;
}

void twi_hist_quantiles(const uint64_t counts[TWI_HIST_BUCKETS], const double *qs, unsigned count,
			uint64_t *out)
{
	uint64_t total = 0, seen = 0;
	unsigned at = 0;

	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++)
		total += counts[i];
	for (unsigned i = 0; i < count; i++)
		out[i] = 0;
	for (unsigned i = 0; i < TWI_HIST_BUCKETS && total > 0; i++) {
		seen += counts[i];
		for (; at < count; at++) {
			double q = qs[at] < 0 ? 0 : qs[at] > 1 ? 1 : qs[at];
			uint64_t rank = (uint64_t)(q * (double)total);

			if (seen <= (rank < total ? rank : total - 1))
				break;
			out[at] = twi_hist_upper(i);
		}
		if (at == count)
			return;
	}
}

void twi_hist_merge(uint64_t into[TWI_HIST_BUCKETS], const uint64_t from[TWI_HIST_BUCKETS])
{
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++)
		into[i] += from[i];
}

uint64_t twi_size_class_min(unsigned size_class)
{
	return size_class == 0 ? 0 : twi_size_class_max(size_class - 1) + 1;
}

uint64_t twi_size_class_max(unsigned size_class)
{
	return size_class >= TWI_SIZE_CLASSES - 1 ? UINT64_MAX : 64ull << (3 * size_class);
}
