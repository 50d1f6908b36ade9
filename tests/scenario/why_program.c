/*
 * why_program.c - receives too late, at lines that it knows, and waits to be asked why.
 *
 *	why_program STATS_DIR late|clean
 *
 * Built with -g whatever the build type. Prints "PID LINE TAGGED_LINE" when there is something to
 * ask about, and ends when its input does. test_why.c starts it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define MESSAGES 12
#define TAGGED   5
#define SECOND   1000000000ull

static int line;

/* The call, on the line that is noted. */
#define HERE(call) (line = __LINE__, (call))

static int check(int status, const char *what)
{
	if (status < TOW_OK) {
		fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
		exit(EXIT_FAILURE);
	}
	return status;
}

static void finish(struct tow_op *op, struct tow_result *out)
{
	if (check(tow_op_wait(op, 20 * SECOND), "wait") != TOW_OK)
		check(TOW_EDEADLINE, "wait");
	if (out != NULL)
		check(tow_op_result(op, out), "result");
	check(tow_op_release(op), "release");
}

static void join(struct tow_runtime *runtime, struct tow_peer **from_out, struct tow_peer **to_out)
{
	struct tow_result result = { .size = sizeof(result) };
	struct tow_endpoint *left, *right;
	struct tow_op *accept, *connect;

	check(tow_endpoint_open(runtime, "loop://left", &left), "left");
	check(tow_endpoint_open(runtime, "loop://right", &right), "right");
	check(tow_accept_start(right, NULL, &accept), "accept");
	check(tow_connect_start(left, "loop://right", NULL, &connect), "connect");
	finish(connect, &result);
	*from_out = result.peer;
	finish(accept, &result);
	*to_out = result.peer;
}

/* Until `count` messages have come that nobody waits for. */
static void await_unexpected(struct tow_runtime *runtime, int count)
{
	time_t end = time(NULL) + 20;
	char wanted[64], *text;
	int there = 0;

	snprintf(wanted, sizeof(wanted), "\"unexpected_messages\":%d,", count);
	while (!there) {
		check(tow_progress(runtime), "progress");
		check(tow_stats_get(runtime, "/v1/counters", &text), "counters");
		there = strstr(text, wanted) != NULL;
		tow_stats_release(text);
		if (time(NULL) > end)
			check(TOW_EDEADLINE, "arrival");
	}
}

/* Two calls of it are two addresses of one line, as an unrolled loop makes them. */
static inline __attribute__((always_inline)) void receive(struct tow_peer *to, char bytes[8],
							  uint64_t tag)
{
	struct tow_op *op;

	check(HERE(tow_recv_start(to, bytes, 8, tag, NULL, &op)), "recv");
	finish(op, NULL);
}

static void receive_late(struct tow_runtime *runtime, struct tow_peer *from, struct tow_peer *to)
{
	char bytes[8] = "payload";
	struct tow_op *op;
	int untagged = 0;

	for (uint64_t i = 0; i < MESSAGES; i++) {
		check(tow_send_start(from, bytes, sizeof(bytes), i, NULL, &op), "send");
		finish(op, NULL);
	}
	await_unexpected(runtime, MESSAGES);
	receive(to, bytes, 0);
	for (uint64_t i = 1; i < MESSAGES - TAGGED; i++)
		receive(to, bytes, i);
	untagged = line;
	check(tow_tag_set("late layer"), "tag");
	for (uint64_t i = MESSAGES - TAGGED; i < MESSAGES; i++) {
		check(HERE(tow_recv_start(to, bytes, sizeof(bytes), i, NULL, &op)), "recv");
		finish(op, NULL);
	}
	printf("%d %d %d\n", (int)getpid(), untagged, line);
}

static void receive_in_time(struct tow_peer *from, struct tow_peer *to)
{
	char in[8], out[8] = "payload";
	struct tow_op *send, *recv;

	for (uint64_t i = 0; i < MESSAGES; i++) {
		check(tow_recv_start(to, in, sizeof(in), i, NULL, &recv), "recv");
		check(tow_send_start(from, out, sizeof(out), i, NULL, &send), "send");
		finish(send, NULL);
		finish(recv, NULL);
	}
	printf("%d 0 0\n", (int)getpid());
}

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_peer *from, *to;

	if (argc != 3)
		return EXIT_FAILURE;
	alarm(120); /* whoever started it may have died */
	options.premap_memory_bytes = 4 << 20;
	options.stats_dir = argv[1];
	options.job = "why";
	options.rank = 3;
	check(tow_runtime_open(&options, &runtime), "runtime");
	join(runtime, &from, &to);
	check(tow_runtime_seal(runtime), "seal");
	if (strcmp(argv[2], "late") == 0)
		receive_late(runtime, from, to);
	else
		receive_in_time(from, to);
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
