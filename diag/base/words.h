/*
 * words.h - numbers as people say them: "1,204", "3.1 GiB", "410 ms"; text that is safe to show.
 *
 * One decimal below ten, none above, rounded to the nearest; so at most four digits, whatever the
 * locale. `out` of TWI_WORDS_BYTES holds any of them.
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
 * `text` as printable ASCII: every other byte is written \xNN. What does not fit is cut, never in
 * the middle of such an escape. twi_error and twi_log send all that they say through here, so that
 * no name, key or address from outside brings a line of its own or a terminal's commands along.
 */
void twi_words_clean(char *out, size_t bytes, const char *text);

/* Does a knob like `interfaces` allow the name? "a,b": these; "^a,b": all but these; "": all. */
bool twi_words_allow(const char *list, const char *name);

#endif
