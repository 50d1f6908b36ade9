/*
 * save.c - writes a file atomically; see save.h.
 */
#include "tools/common/save.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int complain_of(const char *program, const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, strerror(err));
	return -1;
}

int save_file(const char *program, const char *path, const void *bytes, size_t count)
{
	char beside[PATH_MAX];
	FILE *file;
	int failed;

	if (strcmp(path, "-") == 0)
		return fwrite(bytes, 1, count, stdout) == count && fflush(stdout) == 0
			       ? 0
			       : complain_of(program, "cannot write", errno);
	if (snprintf(beside, sizeof(beside), "%s.part", path) >= (int)sizeof(beside))
		return complain_of(program, path, ENAMETOOLONG);
	file = fopen(beside, "wb");
	if (file == NULL)
		return complain_of(program, beside, errno);
	failed = fwrite(bytes, 1, count, file) != count;
	failed |= fclose(file) != 0;
	if (!failed && rename(beside, path) == 0)
		return 0;
	complain_of(program, path, errno);
	unlink(beside);
	return -1;
}
