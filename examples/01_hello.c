/*
 * 01_hello.c - one process sends a line to another.
 *
 * A runtime belongs to the process that opened it, so fork comes first; then each opens its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <towline/towline.h>
#include <unistd.h>

#define TAG      7                     /* a receive takes the first message with its tag */
#define LIMIT_NS UINT64_C(10000000000) /* wait for anything at most 10 s */

/* Failures are negative; the library says what failed and what to do about it. */
static int check(int status, const char *what)
{
	if (status == TOW_OK)
		return status;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

/* Everything that takes time is an operation: start it, wait for it, look at it, release it. */
static struct tow_result finish(struct tow_op *op, const char *what)
{
	struct tow_result result = { .size = sizeof(result) };

	check(tow_op_wait(op, LIMIT_NS), what);
	check(tow_op_result(op, &result), what);
	tow_op_release(op);
	return result;
}

static void say_hello(struct tow_runtime *runtime, int from_parent)
{
	char address[TOW_ADDRESS_MAX], line[] = "hello from the child";
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct tow_op *op;

	if (read(from_parent, address, sizeof(address)) != (ssize_t)sizeof(address))
		exit(EXIT_FAILURE);
	check(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint), "open");
	check(tow_connect_start(endpoint, address, NULL, &op), "connect");
	peer = finish(op, "connect").peer;
	check(tow_send_start(peer, line, sizeof(line), TAG, NULL, &op), "send");
	finish(op, "send");
	tow_peer_close(peer); /* what was sent is still delivered */
}

static void hear_hello(struct tow_runtime *runtime, int to_child)
{
	char address[TOW_ADDRESS_MAX] = "", line[64];
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct tow_op *op;

	/* Port 0 is any free port; the endpoint's address tells which. */
	check(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint), "open");
	check(tow_endpoint_address(endpoint, address, sizeof(address)), "address");
	if (write(to_child, address, sizeof(address)) != (ssize_t)sizeof(address))
		exit(EXIT_FAILURE);
	check(tow_accept_start(endpoint, NULL, &op), "accept");
	peer = finish(op, "accept").peer;
	check(tow_recv_start(peer, line, sizeof(line), TAG, NULL, &op), "receive");
	printf("%llu bytes: %s\n", (unsigned long long)finish(op, "receive").bytes, line);
	tow_peer_close(peer);
}

int main(void)
{
	struct tow_runtime *runtime;
	int fds[2], status = 0;
	pid_t child;

	if (pipe(fds) != 0 || (child = fork()) < 0)
		return EXIT_FAILURE;
	check(tow_runtime_open(NULL, &runtime), "runtime");
	if (child == 0)
		say_hello(runtime, fds[0]);
	else
		hear_hello(runtime, fds[1]);
	check(tow_runtime_close(runtime), "close");
	if (child != 0 && waitpid(child, &status, 0) != child)
		return EXIT_FAILURE;
	return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
