/*
 * towtrace_file.c - reads and writes traces in files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/save.h"
#include "tools/towtrace/towtrace.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

static int complain_of(const char *what, const char *why)
{
	fprintf(stderr, "towtrace: %s: %s\n", what, why);
	return -1;
}

static void *read_all(FILE *file, size_t *count_out, const char **why_out)
{
	size_t room = 1 << 16, count = 0;
	char *bytes = malloc(room), *grown;

	*why_out = bytes != NULL ? NULL : strerror(ENOMEM);
	while (*why_out == NULL) {
		size_t got = fread(bytes + count, 1, room - count, file);

		count += got;
		if (got == 0)
			break;
		if (count > FILE_BYTES_MAX) {
			*why_out = "is larger than 1 GiB, which no trace is";
			break;
		}
		if (count < room)
			continue;
		grown = realloc(bytes, room * 2);
		if (grown == NULL)
			*why_out = strerror(ENOMEM);
		else
			bytes = grown;
		room *= 2;
	}
	if (*why_out == NULL && ferror(file))
		*why_out = strerror(errno);
	*count_out = count;
	if (*why_out == NULL)
		return bytes;
	free(bytes);
	return NULL;
}

void *read_file(const char *path, size_t *count_out)
{
	int is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "rb");
	const char *why;
	void *bytes;

	if (file == NULL) {
		complain_of(path, strerror(errno));
		return NULL;
	}
	bytes = read_all(file, count_out, &why);
	if (!is_stdin)
		fclose(file);
	if (bytes == NULL)
		complain_of(path, why);
	return bytes;
}

int write_file(const char *path, const void *bytes, size_t count)
{
	return save_file("towtrace", path, bytes, count);
}

/* Makes all directories of the path, like mkdir -p. */
static int make_folders(char *path)
{
	for (char *at = path + 1; *at != '\0'; at++) {
		int failed;

		if (*at != '/')
			continue;
		*at = '\0';
		failed = mkdir(path, 0777) != 0 && errno != EEXIST;
		if (failed)
			complain_of(path, strerror(errno));
		*at = '/';
		if (failed)
			return -1;
	}
	return 0;
}

int profile_path(const char *logdir, const char *run, const char *host, char *out, size_t out_size)
{
	int bytes;

	bytes = snprintf(out, out_size, "%s/plugins/profile/%s/%s.xplane.pb", logdir, run, host);

	if (bytes < 0 || (size_t)bytes >= out_size)
		return complain_of(logdir, strerror(ENAMETOOLONG));
	if (strchr(host, '/') != NULL || strchr(run, '/') != NULL)
		return complain_of(host, "cannot be the name of a file");
	return make_folders(out);
}
