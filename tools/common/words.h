/*
 * words.h - formats numbers as the runtime's sentences do: "1,204", "3.1 GiB", "410 ms".
 *
 * The rules are those of the library's own words.h, which a tool does not see. test_why compares
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

/*
 * Copies names and sentences of other processes. Control bytes and bytes that are not ASCII become
 * "?".
 */
void words_clean(char *out, size_t size, const char *text);

/* Prints such a text. NULL: prints nothing. */
void print_clean(const char *text);

/*
 * Prints a document as it came. To a terminal, control bytes other than line ends and tabs, and
 * bytes that are not ASCII, become \xNN.
 */
void print_document(FILE *to, const char *text, size_t bytes);

#endif
