/*
 * twt.h - what every test program may need: seeds, random numbers, leak checks. Header-only.
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
static inline uint64_t twt_seed(void)
{
	const char *text = getenv("TOW_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0)
		    : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	printf("TOW_TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

/* Open file descriptors of this process. */
static inline int twt_fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -1; /* the directory's own */

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count - 2; /* . and .. */
}

/* Mappings of this process whose line in /proc/self/maps contains `text` ("": all). */
static inline int twt_map_count(const char *text)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	while (file && fgets(line, sizeof(line), file)) {
		const char *at = line;

		while (*at && __builtin_strncmp(at, text, __builtin_strlen(text)))
			at++;
		count += *at != '\0';
	}
	if (file)
		fclose(file);
	return count;
}

#endif
