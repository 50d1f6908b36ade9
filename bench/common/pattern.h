/*
 * pattern.h - payload that can be checked: 64-bit words that depend on a seed and on their index.
 *
 * Word i is  x ^ (x >> 31)  with  x = seed * ODD + i * STEP. So a message that is shifted, cut,
 * torn, in another's place or missing differs. A loop over i needs only additions, xors and shifts.
 * So the compiler makes vector code of it, and checking is as fast as memory. A tail of fewer than
 * eight bytes is the start of the next word.
 *
 * The mask and bits of a word serve the gradients: they make each half a small finite float.
 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdint.h>
#include <string.h>

#define PATTERN_STEP UINT64_C(0x9e3779b97f4a7c15)
#define PATTERN_ODD  UINT64_C(0xd1342543de82ef95)
#define PATTERN_SAME UINT64_MAX /* result of pattern_check: every byte is right */

struct pattern {
	uint64_t seed;
	uint64_t mask; /* bits of the word that are kept */
	uint64_t bits; /* bits that are set in every word */
};

static inline struct pattern pattern_bytes(uint64_t seed)
{
	return (struct pattern){ seed, UINT64_MAX, 0 };
}

/* Each word is two floats, of either sign and of a magnitude in [2^-7, 2^-6), like gradients. */
static inline struct pattern pattern_floats(uint64_t seed)
{
	return (struct pattern){ seed, UINT64_C(0x807fffff807fffff), UINT64_C(0x3c0000003c000000) };
}

static inline uint64_t pattern_word(const struct pattern *p, uint64_t index)
{
	uint64_t x = p->seed * PATTERN_ODD + index * PATTERN_STEP;

	return ((x ^ (x >> 31)) & p->mask) | p->bits;
}

/* `data` is aligned to eight bytes, as pool memory is. */
static inline void pattern_fill(void *data, uint64_t bytes, struct pattern p)
{
	uint64_t *word = data, words = bytes / 8, tail;

	for (uint64_t i = 0; i < words; i++)
		word[i] = pattern_word(&p, i);
	tail = pattern_word(&p, words);
	memcpy(word + words, &tail, bytes % 8);
}

/*
 * Returns the offset of the first wrong byte, or PATTERN_SAME. Bytes are compared only when a word
 * differs.
 */
static inline uint64_t pattern_check(const void *data, uint64_t bytes, struct pattern p)
{
	const uint8_t *byte = data;
	const uint64_t *word = data;
	uint64_t words = bytes / 8, wrong = 0, want;

	for (uint64_t i = 0; i < words; i++)
		wrong |= word[i] ^ pattern_word(&p, i);
	want = pattern_word(&p, words);
	if (wrong == 0 && memcmp(word + words, &want, bytes % 8) == 0)
		return PATTERN_SAME;
	for (uint64_t i = 0; i < bytes; i++) {
		want = pattern_word(&p, i / 8);
		if (byte[i] != (uint8_t)(want >> (i % 8 * 8)))
			return i;
	}
	return PATTERN_SAME;
}

#endif
