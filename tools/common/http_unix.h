/*
 * http_unix.h - GET requests over unix sockets: the part of HTTP that towstat needs, with limits of
 * time and size.
 *
 * An ask is one GET that never blocks. Its owner polls the descriptor beside others, and steps the
 * ask when the descriptor is ready or the time is up. So the tools ask a thousand processes at
 * once, and a stopped process delays only its own answer.
 */
#ifndef TOWSTAT_HTTP_UNIX_H
#define TOWSTAT_HTTP_UNIX_H

#include <stddef.h>

#define HTTP_TIMEOUT_MS 5000
#define HTTP_BYTES_MAX  (64u << 20)
#define HTTP_ASKS_MAX   256 /* asks that http_ask_all has open at a time */

struct http_answer {
	int status;
	char *text;   /* the whole answer, NUL-terminated; http_answer_fini frees it */
	char *body;   /* into text */
	size_t bytes; /* of the body */
};

/* Limits of time and size. Answers that take long to produce need larger ones. */
struct http_limits {
	long long timeout_ms;
	size_t bytes_max;
};

/* Returns 0, or -1 with the reason in error_out. A status other than 200 is no error here. */
int http_get(const char *socket_path, const char *path, struct http_answer *out, char *error_out,
	     size_t error_size);
int http_get_within(const char *socket_path, const char *path, const struct http_limits *limits,
		    struct http_answer *out, char *error_out, size_t error_size);
void http_answer_fini(struct http_answer *answer);

enum http_ask_state { HTTP_IDLE, HTTP_SENDING, HTTP_READING, HTTP_DONE, HTTP_FAILED };

/* All zero: idle. */
struct http_ask {
	enum http_ask_state state;
	int fd;    /* valid while sending or reading */
	int error; /* of a failed ask: errno; EBADMSG: the server is no stats socket */
	long long deadline_ms;
	struct http_answer answer; /* of a done ask, until http_ask_fini */
	/* private */
	size_t bytes_max, head_bytes, sent, bytes, room;
	char head[512];
};

/* The clock of the deadlines. http_now_s: the same clock in seconds, with a fraction. */
long long http_now_ms(void);
double http_now_s(void);

/* Starts an ask, which may have failed already on return. It ends an ask that is not idle first. */
void http_ask_start(struct http_ask *ask, const char *socket_path, const char *path,
		    long long deadline_ms, size_t bytes_max);

/* True: the ask waits for events_out on its descriptor. */
int http_ask_waits(const struct http_ask *ask, short *events_out);

/* Does all that is possible without waiting. */
void http_ask_step(struct http_ask *ask);

/* Ends an ask in any state, and makes it idle. */
void http_ask_fini(struct http_ask *ask);

/* Returns the reason of a failed ask, for a message. */
const char *http_ask_why(const struct http_ask *ask);

/* True: the ask failed because no process answers there, or the user has no right. */
int http_ask_is_gone(const struct http_ask *ask);

struct http_ask_of {
	const char *socket_path;
	struct http_ask ask;
};

/*
 * Asks all of them for `path`. Returns when each is done or failed, within the time limit for any
 * number of asks.
 */
void http_ask_all(struct http_ask_of *asks, size_t count, const char *path,
		  const struct http_limits *limits);

/* Returns 1: a process accepts connections there; 0: none does; -1: unknown (no right). */
int http_is_live(const char *socket_path);

#endif
