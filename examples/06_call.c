/*
 * 06_call.c - a call and its answer: a method that a peer offers, called with a deadline.
 *
 * What is shown:
 *   - the handler runs while somebody drives the runtime, and answers from the request in place;
 *   - the caller sees how the time was spent: waiting, on the wire, in the server;
 *   - a call that nobody serves, and one that fails there, end with a status and a text.
 *
 * Both ends are in this process, on the loop lane; over "tcp://..." the code is the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <towline/towline.h>

#define SECOND 1000000000u

static int check(int status, const char *what)
{
	if (status >= TOW_OK)
		return status;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

/* Sums the bytes of a request. A handler must not wait; this one has nothing to wait for. */
static void on_sum(struct tow_call_in *call, void *user)
{
	const unsigned char *data;
	uint64_t bytes, sum = 0;

	(void)user;
	data = tow_call_request(call, &bytes);
	if (bytes == 0) {
		check(tow_reply_start(call, 7, "nothing to sum", 14, NULL, NULL), "refusal");
		return;
	}
	for (uint64_t i = 0; i < bytes; i++)
		sum += data[i];
	/* A small answer is copied before this returns, so it may stand on the stack. */
	check(tow_reply_start(call, 0, &sum, sizeof(sum), NULL, NULL), "reply");
}

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	check(tow_op_wait(op, SECOND), "connecting");
	check(tow_op_result(op, &result), "result");
	check(tow_op_release(op), "release");
	return result.peer;
}

static struct tow_peer *join(struct tow_runtime *runtime)
{
	struct tow_endpoint *left, *right;
	struct tow_op *accept, *connect;
	struct tow_peer *peer;

	check(tow_endpoint_open(runtime, "loop://left", &left), "left");
	check(tow_endpoint_open(runtime, "loop://right", &right), "right");
	check(tow_accept_start(right, NULL, &accept), "accept");
	check(tow_connect_start(left, "loop://right", NULL, &connect), "connect");
	peer = peer_of(connect);
	peer_of(accept);
	return peer;
}

int main(void)
{
	struct tow_call_result result = { .size = sizeof(result) };
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	uint64_t sum = 0;
	void *data;
	int status;

	check(tow_runtime_open(NULL, &runtime), "runtime");
	check(tow_method_register(runtime, "sum", on_sum, NULL, NULL), "register");
	peer = join(runtime);
	check(tow_alloc(runtime, 1 << 20, 0, &data), "pool");
	memset(data, 1, 1 << 20);
	check(tow_call(peer, "sum", data, 1 << 20, &sum, sizeof(sum), SECOND, &result), "call");
	printf("sum of %d bytes: %llu\n", 1 << 20, (unsigned long long)sum);
	printf("%.1f us: waited %.1f, wire %.1f, unread %.1f, until served %.1f, served %.1f\n",
	       (double)result.total_ns / 1e3, (double)result.queue_ns / 1e3,
	       (double)result.wire_ns / 1e3, (double)result.server_queue_ns / 1e3,
	       (double)result.match_ns / 1e3, (double)result.serve_ns / 1e3);
	/* What goes wrong there has a status and a text here. */
	status = tow_call(peer, "sum", NULL, 0, &sum, sizeof(sum), SECOND, &result);
	if (status != TOW_EREMOTE || result.code != 7)
		return EXIT_FAILURE;
	printf("of nothing: %s %d, %s\n", tow_status_name(status), result.code, result.text);
	status = tow_call(peer, "product", data, 8, &sum, sizeof(sum), SECOND, &result);
	if (status != TOW_ENOTSUP)
		return EXIT_FAILURE;
	printf("product: %s, %s\n", tow_status_name(status), result.text);
	check(tow_free(runtime, data), "free");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
