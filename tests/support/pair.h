/*
 * pair.h - two processes with a runtime each and one connection between them, for scenario tests.
 *
 * The child runs `child` with its side and ends with what it returns; the parent goes on with its
 * own. Every wait is bounded; a child that is left over is ended by pid.
 */
#ifndef TWT_PAIR_H
#define TWT_PAIR_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <towline/towline.h>

#define TWT_SECOND 1000000000ull

struct twt_side {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	pid_t child; /* 0 in the child */
};

#define TWT_OK(call)                                                                               \
	do {                                                                                       \
		int twt_status = (call);                                                           \
		if (twt_status != TOW_OK) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,          \
				tow_status_name(twt_status), tow_error_message());                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct tow_runtime *twt_runtime(int64_t pool_bytes);

/* Waits at most 20 s and gives the operation back; its result in *out if that is not NULL. */
int twt_finish(struct tow_op *op, struct tow_result *out);

struct tow_peer *twt_accept(struct tow_endpoint *endpoint);

struct tow_peer *twt_connect(struct tow_endpoint *endpoint, const char *address);

/* Opens both sides at `address` (tcp://127.0.0.1:0, ...). */
void twt_pair(struct twt_side *side, const char *address, int64_t pool_bytes,
	      int (*child)(struct twt_side *side, void *arg), void *arg);

/* Ends the parent's side and the child; returns how the child ended, as waitpid says. */
int twt_pair_end(struct twt_side *side);

/* A message that is recognised wherever it lies: words that depend on `seed` and their place. */
void twt_fill(void *data, size_t bytes, uint64_t seed);

int twt_check(const void *data, size_t bytes, uint64_t seed);

#endif
