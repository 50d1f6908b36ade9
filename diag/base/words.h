/*
 * words.h - formats numbers for people: "1,204", "3.1 GiB", "410 ms"; makes text safe to show.
 *
 * Scaled numbers have one decimal below ten and none above, and are rounded to the nearest. So they
 * have at most four digits, whatever the locale. `out` of TWI_WORDS_BYTES holds any of them.
 */
#ifndef TWI_WORDS_H
#define TWI_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_WORDS_BYTES 32

void twi_words_count(uint64_t count, char out[TWI_WORDS_BYTES]);
void twi_words_bytes(uint64_t bytes, char out[TWI_WORDS_BYTES]);
void twi_words_ns(uint64_t ns, char out[TWI_WORDS_BYTES]);

/*
 * Writes `text` as printable ASCII; every other byte becomes \xNN. Text that does not fit is cut,
 * but never in the middle of such an escape. twi_error and twi_log pass all their text through this
 * function. So no name, key or address from outside can add a line or a terminal's commands.
 */
void twi_words_clean(char *out, size_t bytes, const char *text);

/* Does a knob such as `interfaces` allow the name? "a,b": these; "^a,b": all but these; "": all. */
bool twi_words_allow(const char *list, const char *name);

#endif
