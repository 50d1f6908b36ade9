/*
 * twt.h - what every test program may need: seeds, random numbers, leak checks.
 *
 * A randomised test prints its seed first; TOW_TEST_SEED=<seed> runs it again. Include this before
 * other headers: cmocka wants its own includes in order.
 */
#ifndef TWT_TWT_H
#define TWT_TWT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "twt_random.h"

/* Built with ASan or TSan: they keep calloc, pthread_create and mlock (a no-op then) for
 * themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TWT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TWT_SANITIZED 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define TWT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TWT_TSAN 1
#endif
#endif

/* The seed of this run: TOW_TEST_SEED, else from the clock. Prints it. */
uint64_t twt_seed(void);

/*
 * Whether case `which` of a test that asks about many is played: with a sanitizer each third of
 * them, which, says the seed; else all. Of a number of three times three and so on cases each third
 * has as many of each kind, whether kinds follow each other or take turns.
 */
bool twt_case_drawn(uint64_t seed, size_t which);

/* Open file descriptors of this process. */
int twt_fd_count(void);

/* Mappings of this process whose line in /proc/self/maps contains `text` ("": all). */
int twt_map_count(const char *text);

#endif
