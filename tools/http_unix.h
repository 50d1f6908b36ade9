/*
 * http_unix.h - one GET over a unix socket: all that towstat needs of HTTP, bounded in time and
 * size.
 */
#ifndef TOWSTAT_HTTP_UNIX_H
#define TOWSTAT_HTTP_UNIX_H

#include <stddef.h>

#define HTTP_TIMEOUT_MS 5000
#define HTTP_BYTES_MAX  (64u << 20)

struct http_answer {
	int status;
	char *text;   /* all that came, NUL-terminated; http_answer_fini frees it */
	char *body;   /* into text */
	size_t bytes; /* of the body */
};

/* How long and how much: what takes time to come about needs more of both. */
struct http_limits {
	long long timeout_ms;
	size_t bytes_max;
};

/* 0, or -1 with what went wrong in error_out. A status other than 200 is no error here. */
int http_get(const char *socket_path, const char *path, struct http_answer *out, char *error_out,
	     size_t error_size);
int http_get_within(const char *socket_path, const char *path, const struct http_limits *limits,
		    struct http_answer *out, char *error_out, size_t error_size);
void http_answer_fini(struct http_answer *answer);

/* Whether somebody accepts connections there: 1, 0, or -1 when that cannot be known (no right). */
int http_is_live(const char *socket_path);

#endif
