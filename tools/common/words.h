/*
 * words.h - numbers as the runtime's sentences have them: "1,204", "3.1 GiB", "410 ms".
 *
 * The same rules as the library's own (words.h), which a tool does not see; test_why compares
 * the two.
 */
#ifndef TOWSTAT_WORDS_H
#define TOWSTAT_WORDS_H

#include <stddef.h>
#include <stdio.h>

#define WORDS_BYTES 32

void words_count(unsigned long long count, char out[WORDS_BYTES]);
void words_bytes(unsigned long long bytes, char out[WORDS_BYTES]);
void words_ns(unsigned long long ns, char out[WORDS_BYTES]);

/* Names and sentences of other processes: what a terminal obeys, or is not ASCII, becomes "?". */
void words_clean(char *out, size_t size, const char *text);

/* The same, printed at once; NULL: nothing. */
void print_clean(const char *text);

/*
 * A document as it came, with its line ends and tabs; to a terminal what it would obey, or is not
 * ASCII, goes as \xNN.
 */
void print_document(FILE *to, const char *text, size_t bytes);

#endif
