/*
 * towstat_alloclog.c - fetches an allocation log into a file.
 *
 * The content is not read here; tow-alloclog reads it.
 */
#include <stdio.h>

#include "tools/common/http_unix.h"
#include "tools/common/save.h"
#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define LOG_BYTES_MAX ((size_t)8 << 30)

/* Added to the seconds of the log, as sorting a large log takes time. */
#define PATIENCE_MS 60000

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
		failed = save_file("towstat", output_path, answer.body, answer.bytes) != 0;
	} else {
		fprintf(stderr, "towstat: %s answers %d for %s\n", socket_path, answer.status,
			path);
		print_document(stderr, answer.body, answer.bytes);
		failed = 1;
	}
	http_answer_fini(&answer);
	return failed;
}
