/*
 * main() for a fuzzer without a fuzzer: gives it each file named, and each file of each directory
 * named, and prints how many. A finding aborts, as it does under libFuzzer; the last line printed
 * names the file.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fail_file(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", path, what, strerror(errno));
	return -1;
}

/* Returns 1, the number of inputs replayed, or -1. */
static long replay_file(const char *path, size_t bytes)
{
	FILE *file;
	uint8_t *data;
	size_t got;

	if (bytes > INPUT_MAX) {
		errno = EFBIG;
		return fail_file(path, "read");
	}
	file = fopen(path, "rb");
	if (file == NULL)
		return fail_file(path, "open");
	/* Exactly as large as the input, so that ASan sees the first byte read past it. */
	data = malloc(bytes ? bytes : 1);
	got = data != NULL ? fread(data, 1, bytes, file) : 0;
	fclose(file);
	if (data == NULL || got != bytes) {
		free(data);
		return fail_file(path, "read");
	}
	printf("%s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput(data, bytes);
	free(data);
	return 1;
}

static long replay_path(const char *path);

static long replay_directory(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char child[4096];
	long count = 0;

	if (dir == NULL)
		return fail_file(path, "open");
	while (count >= 0 && (entry = readdir(dir)) != NULL) {
		long more;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		more = replay_path(child);
		count = more < 0 ? more : count + more;
	}
	closedir(dir);
	return count;
}

static long replay_path(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return fail_file(path, "stat");
	if (S_ISDIR(st.st_mode))
		return replay_directory(path);
	return replay_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
	long total = 0;

	for (int i = 1; i < argc; i++) {
		const long count = replay_path(argv[i]);

		if (count < 0)
			return 1;
		total += count;
	}
	printf("%ld inputs replayed\n", total);
	/* A corpus that is not where it should be must not look like one without findings. */
	return total > 0 ? 0 : 1;
}
