/*
 * http_unix.h - GETs over unix sockets: all that towstat needs of HTTP, bounded in time and size.
 *
 * An ask is one GET that never blocks: its owner polls its descriptor beside others and steps it
 * when that is ready or its time is up. So a thousand processes are asked at once, and one that is
 * stopped costs its own time alone.
 */
#ifndef TOWSTAT_HTTP_UNIX_H
#define TOWSTAT_HTTP_UNIX_H

#include <stddef.h>

#define HTTP_TIMEOUT_MS 5000
#define HTTP_BYTES_MAX  (64u << 20)
#define HTTP_ASKS_MAX   256 /* that http_ask_all has open at a time */

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

enum http_ask_state { HTTP_IDLE, HTTP_SENDING, HTTP_READING, HTTP_DONE, HTTP_FAILED };

/* All zero: idle. */
struct http_ask {
	enum http_ask_state state;
	int fd;    /* while it is sending or reading */
	int error; /* of a failed one: errno; EBADMSG: what answers there is no stats socket */
	long long deadline_ms;
	struct http_answer answer; /* of a done one, until http_ask_fini */
	/* inside */
	size_t bytes_max, head_bytes, sent, bytes, room;
	char head[512];
};

/* The clock of deadlines; the same in seconds, finer. */
long long http_now_ms(void);
double http_now_s(void);

/* Begins; what fails at once is failed already. An ask that is not idle is ended first. */
void http_ask_start(struct http_ask *ask, const char *socket_path, const char *path,
		    long long deadline_ms, size_t bytes_max);

/* Whether it wants to be polled, and then for what. */
int http_ask_waits(const struct http_ask *ask, short *events_out);

/* Goes on as far as it can without waiting. */
void http_ask_step(struct http_ask *ask);

/* Ends it, wherever it was: idle again. */
void http_ask_fini(struct http_ask *ask);

/* What went wrong with a failed one, for people. */
const char *http_ask_why(const struct http_ask *ask);

/* A failed one: nobody lives there, or nobody whom we may ask. */
int http_ask_is_gone(const struct http_ask *ask);

struct http_ask_of {
	const char *socket_path;
	struct http_ask ask;
};

/*
 * Asks all of them for `path` and returns when each is done or failed: within the limits' time,
 * however many they are.
 */
void http_ask_all(struct http_ask_of *asks, size_t count, const char *path,
		  const struct http_limits *limits);

/* Whether somebody accepts connections there: 1, 0, or -1 when that cannot be known (no right). */
int http_is_live(const char *socket_path);

#endif
