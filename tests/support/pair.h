/*
 * pair.h - two processes with a runtime each and one connection between them, for scenario tests.
 *
 * The child runs `child` with its side and ends with what it returns; the parent goes on with its
 * own. Every wait is bounded; a child that is left over is ended by pid.
 */
#ifndef TWT_PAIR_H
#define TWT_PAIR_H

#include "bytes.h"
#include "twt.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/*
 * How tests end an operation: each of these waits at most so long, else the program ends with a
 * message; the operation's result in *out, which may be NULL; and returns its status.
 */
#define TWT_FINISH_NS (60 * TWT_SECOND)

int twt_wait_for(struct tow_op *op, struct tow_result *out);

/* The same, and gives the operation back. */
int twt_finish(struct tow_op *op, struct tow_result *out);

/* Of a connect or an accept, which must end well: the peer. */
struct tow_peer *twt_finish_peer(struct tow_op *op);

/* Waits by driving all of these runtimes in turns, those that are not NULL. */
int twt_wait_driving(struct tow_op *op, struct tow_result *out, struct tow_runtime *const *runtimes,
		     unsigned count);
int twt_finish_driving(struct tow_op *op, struct tow_result *out,
		       struct tow_runtime *const *runtimes, unsigned count);

struct tow_peer *twt_accept(struct tow_endpoint *endpoint);

struct tow_peer *twt_connect(struct tow_endpoint *endpoint, const char *address);

/* How two processes are to be connected. What is NULL is left out. */
struct twt_pair_way {
	struct tow_options parent, child;
	const char *address; /* of both endpoints: tcp://127.0.0.1:0, ... */
	unsigned limit_s;    /* then the child is ended */
	/* In the child, first of all; what it changes of its way holds for the child alone. */
	void (*prepare)(struct twt_pair_way *way);
	void (*dial)(char where[TOW_ADDRESS_MAX], void *arg); /* may change what the child dials */
	int (*run)(struct twt_side *side, void *arg);         /* the child's part */
	void *arg;
};

/* The options of twt_runtime. */
struct tow_options twt_pair_options(int64_t pool_bytes);

/* Forks the child, which connects; the parent's side is open when this returns. */
void twt_pair_open(struct twt_side *side, const struct twt_pair_way *way);

/* The same at `address`, with the options of twt_runtime, for at most two minutes. */
void twt_pair(struct twt_side *side, const char *address, int64_t pool_bytes,
	      int (*child)(struct twt_side *side, void *arg), void *arg);

/* Ends the parent's side and the child; returns how the child ended, as waitpid says. */
int twt_pair_end(struct twt_side *side);

#endif
