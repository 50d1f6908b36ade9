/* bytes.c - messages that are recognised, as bytes.h says. */
#include "bytes.h"

#include <stdio.h>
#include <string.h>

#define TWT_BLOCK_WORDS 64u

/*
 * The next words of a message, as many as it has bytes left for, from word `first` on; how many
 * bytes they are. By blocks, as a sanitizer looks at each access: a byte at a time took most of the
 * time of these tests.
 */
static size_t twt_block(uint64_t words[TWT_BLOCK_WORDS], uint64_t seed, uint64_t first, size_t left)
{
	size_t bytes = left < TWT_BLOCK_WORDS * 8 ? left : TWT_BLOCK_WORDS * 8;

	for (size_t i = 0; i < (bytes + 7) / 8; i++)
		words[i] = (seed * 0xd1342543de82ef95ull + first + i) * 0x9e3779b97f4a7c15ull;
	return bytes;
}

void twt_fill(void *data, size_t bytes, uint64_t seed)
{
	uint64_t words[TWT_BLOCK_WORDS];
	uint8_t *at = data;

	for (size_t done = 0, n; done < bytes; done += n) {
		n = twt_block(words, seed, done / 8, bytes - done);
		memcpy(at + done, words, n);
	}
}

/* The first byte that is not what twt_fill wrote; `bytes`: all are. */
static size_t twt_first_wrong(const void *data, size_t bytes, uint64_t seed)
{
	uint64_t words[TWT_BLOCK_WORDS];
	const uint8_t *at = data, *right = (const uint8_t *)words;

	for (size_t done = 0, n; done < bytes; done += n) {
		n = twt_block(words, seed, done / 8, bytes - done);
		if (memcmp(at + done, words, n) == 0)
			continue;
		for (size_t i = 0; i < n; i++) {
			if (at[done + i] != right[i])
				return done + i;
		}
	}
	return bytes;
}

bool twt_same(const void *data, size_t bytes, uint64_t seed)
{
	return twt_first_wrong(data, bytes, seed) == bytes;
}

int twt_check(const void *data, size_t bytes, uint64_t seed)
{
	size_t wrong = twt_first_wrong(data, bytes, seed);

	if (wrong == bytes)
		return 0;
	fprintf(stderr, "byte %zu of %zu of message %llu is wrong\n", wrong, bytes,
		(unsigned long long)seed);
	return -1;
}

bool twt_all(const void *data, size_t bytes, uint8_t value)
{
	const uint8_t *at = data;

	/* Each is what the one before it is, and the first what it has to be. */
	return bytes == 0 || (at[0] == value && memcmp(at, at + 1, bytes - 1) == 0);
}
