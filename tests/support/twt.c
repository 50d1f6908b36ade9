/* twt.c - seeds, and what a process has open. */
#include "twt.h"

uint64_t twt_seed(void)
{
	const char *text = getenv("TOW_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text != NULL ? strtoull(text, NULL, 0)
			    : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	printf("TOW_TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

bool twt_case_drawn(uint64_t seed, size_t which)
{
#ifdef TWT_SANITIZED
	size_t digits = 0;

	for (; which > 0; which /= 3)
		digits += which % 3;
	return (digits + seed) % 3 == 0;
#else
	(void)seed;
	(void)which;
	return true;
#endif
}

int twt_fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -1; /* the directory's own */

	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count - 2; /* . and .. */
}

int twt_map_count(const char *text)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		const char *at = line;

		while (*at && __builtin_strncmp(at, text, __builtin_strlen(text)))
			at++;
		count += *at != '\0';
	}
	if (file != NULL)
		fclose(file);
	return count;
}
