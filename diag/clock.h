/* clock.h - stand-in until the diag layer is merged. */
#ifndef TWI_CLOCK_H
#define TWI_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t twi_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
