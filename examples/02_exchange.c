/*
 * 02_exchange.c - several large messages in flight, driven by an event loop.
 *
 * Three things that a real program does:
 *   - payload lives in the pool, so that it moves without a copy and without a registration;
 *   - completion calls a function, so nobody waits for one message in particular;
 *   - the loop sleeps in poll on tow_fd, next to whatever else it watches.
 *
 * Both ends are in this process, on the loop lane; over "tcp://..." the code is the same.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <towline/towline.h>

#define MESSAGES 8
#define BYTES    (1 << 20)
#define LIMIT_S  20

static int finished; /* operations so far */

static int check(int status, const char *what)
{
	if (status >= TOW_OK) /* TOW_COPIED is done, too */
		return status;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

/* Runs once for each operation, inside tow_progress. `user` is what the start call was given. */
static void on_peer(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	check(result->status, "connecting");
	*(struct tow_peer **)result->user = result->peer;
	finished++;
}

static void on_message(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	check(result->status, "message");
	finished++;
}

/* Drives until `count` operations have finished. tow_fd is level-triggered: progress until idle,
 * then sleep. */
static void drive(struct tow_runtime *runtime, int count)
{
	struct pollfd watch = { .events = POLLIN };
	time_t end = time(NULL) + LIMIT_S;

	check(tow_fd(runtime, &watch.fd), "fd");
	while (finished < count) {
		if (check(tow_progress(runtime), "progress") == TOW_AGAIN)
			poll(&watch, 1, 100);
		if (time(NULL) > end) {
			fprintf(stderr, "nothing came for %d s\n", LIMIT_S);
			exit(EXIT_FAILURE);
		}
	}
}

static void join(struct tow_runtime *runtime, struct tow_peer **from_out, struct tow_peer **to_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_endpoint *left, *right;
	struct tow_op *op;

	check(tow_endpoint_open(runtime, "loop://left", &left), "left");
	check(tow_endpoint_open(runtime, "loop://right", &right), "right");
	options.done = on_peer;
	options.user = to_out;
	check(tow_accept_start(right, &options, &op), "accept");
	tow_op_release(op); /* the operation goes on; its callback tells how it went */
	options.user = from_out;
	check(tow_connect_start(left, "loop://right", &options, &op), "connect");
	tow_op_release(op);
	drive(runtime, 2);
	check(tow_runtime_seal(runtime), "seal"); /* start-up is over */
}

int main(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_peer *from = NULL, *to = NULL;
	void *out[MESSAGES], *in[MESSAGES];
	struct tow_op *op;

	check(tow_runtime_open(NULL, &runtime), "runtime");
	join(runtime, &from, &to);
	finished = 0;
	options.done = on_message;
	for (int i = 0; i < MESSAGES; i++) {
		check(tow_alloc(runtime, BYTES, 0, &out[i]), "pool");
		check(tow_alloc(runtime, BYTES, 0, &in[i]), "pool");
		memset(out[i], 'a' + i, BYTES);
		/* The receive first: a message that finds it needs no buffer in between. */
		check(tow_recv_start(to, in[i], BYTES, (uint64_t)i, &options, &op), "recv");
		tow_op_release(op);
		check(tow_send_start(from, out[i], BYTES, (uint64_t)i, &options, &op), "send");
		tow_op_release(op);
	}
	drive(runtime, 2 * MESSAGES);
	for (int i = 0; i < MESSAGES; i++) {
		if (memcmp(in[i], out[i], BYTES) != 0)
			return EXIT_FAILURE;
	}
	printf("%d messages of %d bytes arrived\n", MESSAGES, BYTES);
	check(tow_runtime_close(runtime), "close"); /* peers, endpoints and memory end with it */
	return EXIT_SUCCESS;
}
