/*
 * towstat_alloclog.c - fetches an allocation log into a file.
 *
 * The file appears whole or not at all: it is written beside its place and then renamed. What is in
 * it is not looked at here; tow-alloclog reads it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http_unix.h"
#include "towstat.h"

#define LOG_BYTES_MAX ((size_t)8 << 30)
#define PATIENCE_MS                                                                                \
	60000 /* over the seconds asked for: large logs take time to be put in order               \
	       */

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "towstat: %s: %s\n", what, why);
	return 1;
}

static int save(const char *path, const char *bytes, size_t count)
{
	char beside[4096];
	FILE *file;
	int failed;

	if (strcmp(path, "-") == 0)
		return fwrite(bytes, 1, count, stdout) == count
			       ? 0
			       : complain("cannot write", strerror(errno));
	if (snprintf(beside, sizeof(beside), "%s.part", path) >= (int)sizeof(beside))
		return complain(path, strerror(ENAMETOOLONG));
	file = fopen(beside, "wb");
	if (file == NULL)
		return complain(beside, strerror(errno));
	failed = fwrite(bytes, 1, count, file) != count;
	failed |= fclose(file) != 0;
	if (!failed && rename(beside, path) == 0)
		return 0;
	complain(path, strerror(errno));
	unlink(beside);
	return 1;
}

int fetch_alloclog(const char *socket_path, long seconds, const char *output_path)
{
	struct http_limits limits = { PATIENCE_MS, LOG_BYTES_MAX };
	struct http_answer answer;
	char path[64] = "/v1/alloclog", error[512];
	int failed;

	if (seconds >= 0) {
		snprintf(path, sizeof(path), "/v1/alloclog?seconds=%ld", seconds);
		limits.timeout_ms += seconds * 1000;
	}
	if (http_get_within(socket_path, path, &limits, &answer, error, sizeof(error)) != 0) {
		fprintf(stderr, "towstat: %s\n", error);
		return 1;
	}
	if (answer.status == 200) {
		failed = save(output_path, answer.body, answer.bytes);
	} else {
		fprintf(stderr, "towstat: %s answers %d for %s\n", socket_path, answer.status,
			path);
		fwrite(answer.body, 1, answer.bytes, stderr);
		failed = 1;
	}
	http_answer_fini(&answer);
	return failed;
}
