/*
 * bitmap.h - a set of page numbers that finds the largest member not above a number in O(levels).
 *
 *   level 2                [..1]                 a bit for each word below that is not empty
 *   level 1        [1..............1]
 *   level 0   [..1..1.]   ...   [......1]        a bit for each page where a run begins
 *
 * There is one writer at a time (the arena's lock); readers take no lock. A reader looks up a page
 * inside a live run. So the bit of the run's first page is set and stays set, and no bit between
 * that page and the reader's page is set. All words that decide the search are therefore stable,
 * whatever changes beside them. A reader that breaks this rule gets an old answer, but never one
 * outside the set's range.
 */
#ifndef TWI_BITMAP_H
#define TWI_BITMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define TWI_BITMAP_LEVELS 6 /* 64^6 = 2^36 members */
#define TWI_BITMAP_NONE   UINT32_MAX

struct twi_bitmap {
	_Atomic uint64_t *word[TWI_BITMAP_LEVELS];
	unsigned levels;
	void *memory;
};

static inline bool twi_bitmap_init(struct twi_bitmap *map, uint32_t members)
{
	uint64_t words[TWI_BITMAP_LEVELS], total = 0, n = members;
	_Atomic uint64_t *at;

	map->levels = 0;
	do {
		n = (n + 63) / 64;
		words[map->levels++] = n;
		total += n;
	} while (n > 1);
	map->memory = calloc(total, sizeof(uint64_t));
	at = map->memory;
	for (unsigned i = 0; at != NULL && i < map->levels; i++) {
		map->word[i] = at;
		at += words[i];
	}
	return map->memory != NULL;
}

static inline void twi_bitmap_fini(struct twi_bitmap *map)
{
	free(map->memory);
	map->memory = NULL;
}

static inline void twi_bitmap_set(struct twi_bitmap *map, uint32_t i)
{
	for (unsigned l = 0; l < map->levels; l++, i >>= 6) {
		_Atomic uint64_t *word = &map->word[l][i >> 6];
		uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

		atomic_store_explicit(word, old | (uint64_t)1 << (i & 63), memory_order_relaxed);
		if (old)
			return;
	}
}

static inline void twi_bitmap_clear(struct twi_bitmap *map, uint32_t i)
{
	for (unsigned l = 0; l < map->levels; l++, i >>= 6) {
		_Atomic uint64_t *word = &map->word[l][i >> 6];
		uint64_t left = atomic_load_explicit(word, memory_order_relaxed) &
				~((uint64_t)1 << (i & 63));

		atomic_store_explicit(word, left, memory_order_relaxed);
		if (left)
			return;
	}
}

/* The largest member <= i; TWI_BITMAP_NONE: there is none. */
static inline uint32_t twi_bitmap_find_back(const struct twi_bitmap *map, uint32_t i)
{
	unsigned l = 0;

	for (;;) {
		uint64_t word = atomic_load_explicit(&map->word[l][i >> 6], memory_order_relaxed) &
				(UINT64_MAX >> (63 - (i & 63)));

		if (word) {
			i = (i & ~63u) | (63 - (uint32_t)__builtin_clzll(word));
			break;
		}
		i >>= 6;
		if (i == 0 || ++l == map->levels)
			return TWI_BITMAP_NONE;
		i--;
	}
	while (l > 0) {
		uint64_t word = atomic_load_explicit(&map->word[--l][i], memory_order_relaxed);

		if (word == 0)
			return TWI_BITMAP_NONE;
		i = i << 6 | (63 - (uint32_t)__builtin_clzll(word));
	}
	return i;
}

#endif
