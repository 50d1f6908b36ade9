/*
 * twt_random.h - random numbers from a seed, for what runs without cmocka, too.
 */
#ifndef TWT_RANDOM_H
#define TWT_RANDOM_H

#include <stdint.h>

/* splitmix64: the next random number of a stream. */
static inline uint64_t twt_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* In [0, bound). */
static inline uint64_t twt_random_below(uint64_t *state, uint64_t bound)
{
	return twt_random(state) % bound;
}

#endif
