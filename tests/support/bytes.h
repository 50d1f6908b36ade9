/*
 * bytes.h - messages that are recognised: made and compared by blocks of words, as a sanitizer
 * looks at each access.
 */
#ifndef TWT_BYTES_H
#define TWT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A message that is recognised wherever it lies: words that depend on `seed` and their place. Of
 * seed 0 the first word is zero, as memory that nobody wrote.
 */
void twt_fill(void *data, size_t bytes, uint64_t seed);

/* Is it what twt_fill wrote? */
bool twt_same(const void *data, size_t bytes, uint64_t seed);

/* The same; 0, or -1 having said which byte is wrong. */
int twt_check(const void *data, size_t bytes, uint64_t seed);

/* Has each of them that value? */
bool twt_all(const void *data, size_t bytes, uint8_t value);

#endif
