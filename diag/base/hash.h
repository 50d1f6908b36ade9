/*
 * hash.h - hashes for tables, signatures and samples; random numbers for simulations. None of them
 * withstands an attacker who chooses the input. Secrets and proofs use libsodium (security/).
 *
 * Ranks send each other the values of twi_hash_bytes, twi_hash_text and twi_hash_mix, and files
 * hold them (methods of calls, signatures of collectives, hosts, jobs). So they must not change.
 *
 * FNV-1a: Fowler, Noll and Vo, RFC 9923. Fibonacci hashing: Knuth, The Art of Computer Programming
 * 3, 6.4. splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
 */
#ifndef TWI_HASH_H
#define TWI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TWI_HASH_BASIS 0xcbf29ce484222325ull /* of FNV-1a, 64 bits */
#define TWI_HASH_PRIME 0x100000001b3ull
#define TWI_HASH_RATIO 0x9e3779b97f4a7c15ull /* 2^64 / golden ratio, odd */

/* One step of FNV-1a, with a byte or with a word in place of the byte. */
static inline uint64_t twi_hash_step(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * TWI_HASH_PRIME;
}

static inline uint64_t twi_hash_bytes(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t hash = TWI_HASH_BASIS;

	for (size_t i = 0; i < bytes; i++)
		hash = twi_hash_step(hash, at[i]);
	return hash;
}

static inline uint64_t twi_hash_text(const char *text)
{
	uint64_t hash = TWI_HASH_BASIS;

	for (; *text != '\0'; text++)
		hash = twi_hash_step(hash, (uint8_t)*text);
	return hash;
}

/* Fibonacci hashing: spreads a word. Neighbours fall far apart, and the high bits are the best. */
static inline uint64_t twi_hash_spread(uint64_t word)
{
	return word * TWI_HASH_RATIO;
}

/* Adds a word to the hash of a series: as FNV-1a, and then moves high bits down. */
static inline uint64_t twi_hash_mix(uint64_t hash, uint64_t word)
{
	hash = twi_hash_spread(hash ^ word);
	return hash ^ hash >> 29;
}

/* The last part of splitmix64: each bit depends on all bits of the word. */
static inline uint64_t twi_hash_word(uint64_t word)
{
	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
	word = (word ^ word >> 27) * 0x94d049bb133111ebull;
	return word ^ word >> 31;
}

/* splitmix64: the next random number of a stream. */
static inline uint64_t twi_hash_random(uint64_t *state)
{
	return twi_hash_word(*state += TWI_HASH_RATIO);
}

#endif
