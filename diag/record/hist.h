/*
 * hist.h - log-linear histograms of latencies: 16 linear steps in each power of two.
 *
 *	index      values [ns]                  width of a step
 *	0..15      0 .. 15                      1
 *	16..31     16 .. 31                     1
 *	32..47     32 .. 63                     2
 *	48..63     64 .. 127                    4
 *	...
 *	16*k ..    2^(k+3) .. 2^(k+4)-1         2^(k-1)
 *	last       2^39 .. 2^40-1 and all above (over 18 minutes)
 *
 * Resolution: the value shown for a reading is at most 1/16 (6.25 %) above it. Quantiles are the
 * upper edge of their step, so they are never too low. The scheme is that of HdrHistogram, by Gil
 * Tene.
 */
#ifndef TWI_HIST_H
#define TWI_HIST_H

#include <stdint.h>

#define TWI_HIST_SUB_BITS   4
#define TWI_HIST_SUB        (1u << TWI_HIST_SUB_BITS)
#define TWI_HIST_BITS       40
#define TWI_HIST_BUCKETS    ((TWI_HIST_BITS - TWI_HIST_SUB_BITS + 1) * TWI_HIST_SUB)
#define TWI_HIST_RESOLUTION "1/16"

/* Size classes of messages, by payload bytes; TWI_SIZE_CLASSES - 1 has no upper bound. */
#define TWI_SIZE_CLASSES 8

static inline unsigned twi_hist_index(uint64_t value)
{
	unsigned bits;

	if (value < TWI_HIST_SUB)
		return (unsigned)value;
	if (value >> TWI_HIST_BITS != 0)
		return TWI_HIST_BUCKETS - 1;
	bits = 63u - (unsigned)__builtin_clzll(value);
	return (bits - TWI_HIST_SUB_BITS + 1) * TWI_HIST_SUB +
	       (unsigned)(value >> (bits - TWI_HIST_SUB_BITS) & (TWI_HIST_SUB - 1));
}

/* The smallest and largest value of a bucket. */
uint64_t twi_hist_lower(unsigned index);
uint64_t twi_hist_upper(unsigned index);

/*
 * Writes the quantiles for the shares qs (0..1, rising) of all readings, in one pass; 0 if there
 * are no readings.
 */
void twi_hist_quantiles(const uint64_t counts[TWI_HIST_BUCKETS], const double *qs, unsigned count,
			uint64_t *out);

void twi_hist_merge(uint64_t into[TWI_HIST_BUCKETS], const uint64_t from[TWI_HIST_BUCKETS]);

/* Classes end at 64, 512, 4 Ki, 32 Ki, 256 Ki, 2 Mi and 16 Mi bytes; the last has no end. */
static inline unsigned twi_size_class(uint64_t bytes)
{
	unsigned bits;

	if (bytes <= 64)
		return 0;
	if (bytes > 16u << 20)
		return TWI_SIZE_CLASSES - 1;
	bits = 64u - (unsigned)__builtin_clzll(bytes - 1); /* 65..128 -> 7, .. 512 -> 9 */
	return (bits - 7) / 3 + 1;
}

uint64_t twi_size_class_min(unsigned size_class);
uint64_t twi_size_class_max(unsigned size_class);

#endif
