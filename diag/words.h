/*
 * words.h - numbers as people say them: "1,204", "3.1 GiB", "410 ms".
 *
 * One decimal below ten, none above, rounded to the nearest; so at most four digits, whatever the
 * locale. `out` of TWI_WORDS_BYTES holds any of them.
 */
#ifndef TWI_WORDS_H
#define TWI_WORDS_H

#include <stdint.h>

#define TWI_WORDS_BYTES 32

void twi_words_count(uint64_t count, char out[TWI_WORDS_BYTES]);
void twi_words_bytes(uint64_t bytes, char out[TWI_WORDS_BYTES]);
void twi_words_ns(uint64_t ns, char out[TWI_WORDS_BYTES]);

#endif
