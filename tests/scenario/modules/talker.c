/*
 * talker.c - a library linked to libtowline.so, whose functions send messages through it: what
 * a plugin of a runtime does, in a process that has nothing else of Towline.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#include "talker.h"

#define WAIT_NS 20000000000ull
#define BYTES   (256 << 10)

struct talk {
	struct tow_runtime *runtime[2];
	struct tow_endpoint *endpoint[2];
	struct tow_peer *peer[2];
	void *memory[2];
};

static bool good(const char *what, int status)
{
	if (status < 0)
		printf("talker: %s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	return status >= 0;
}

/* Both ends are moved, whatever moves the other one's. */
static bool finish(const char *what, struct tow_op *op[2], struct tow_peer **peers_out)
{
	for (int i = 0; i < 2; i++) {
		struct tow_result result = TOW_RESULT_INIT;

		if (!good(what, tow_op_wait(op[i], WAIT_NS)) ||
		    !good(what, tow_op_result(op[i], &result)))
			return false;
		if (peers_out != NULL)
			peers_out[i] = result.peer;
		tow_op_release(op[i]);
	}
	return true;
}

static bool join(struct talk *talk)
{
	char address[512];
	struct tow_op *op[2];

	return good("address", tow_endpoint_address(talk->endpoint[1], address, sizeof(address))) &&
	       good("accept", tow_accept_start(talk->endpoint[1], NULL, &op[1])) &&
	       good("connect", tow_connect_start(talk->endpoint[0], address, NULL, &op[0])) &&
	       finish("join", op, talk->peer);
}

static bool exchange(struct talk *talk, size_t bytes)
{
	struct tow_op *op[2];

	memset(talk->memory[0], (int)(bytes % 251), bytes);
	memset(talk->memory[1], 255, bytes);
	return good("receive",
		    tow_recv_start(talk->peer[1], talk->memory[1], bytes, 7, NULL, &op[1])) &&
	       good("send",
		    tow_send_start(talk->peer[0], talk->memory[0], bytes, 7, NULL, &op[0])) &&
	       finish("message", op, NULL) && memcmp(talk->memory[0], talk->memory[1], bytes) == 0;
}

static int talk_through(struct talk *talk, const char *left, const char *right)
{
	int status = tow_endpoint_open(talk->runtime[0], left, &talk->endpoint[0]);

	if (status == TOW_OK)
		status = tow_endpoint_open(talk->runtime[1], right, &talk->endpoint[1]);
	if (status < 0) {
		printf("talker: %s\n", tow_error_message());
		return status == TOW_ENOTSUP ? TWT_NO_LANE : TWT_FAILED;
	}
	for (int i = 0; i < 2; i++) {
		if (!good("alloc", tow_alloc(talk->runtime[i], BYTES, 0, &talk->memory[i])))
			return TWT_FAILED;
	}
	return join(talk) && exchange(talk, 8) && exchange(talk, BYTES) ? TWT_SAID : TWT_FAILED;
}

int talker_talk(const char *left, const char *right, bool one_runtime,
		const struct tow_options *options)
{
	struct talk talk = { .memory = { NULL } };
	int said = TWT_FAILED;

	if (!good("open", tow_runtime_open(options, &talk.runtime[0])))
		return TWT_FAILED;
	talk.runtime[1] = talk.runtime[0];
	if (one_runtime || good("open", tow_runtime_open(options, &talk.runtime[1])))
		said = talk_through(&talk, left, right);
	if (talk.runtime[1] != talk.runtime[0] && talk.runtime[1] != NULL &&
	    !good("close", tow_runtime_close(talk.runtime[1])))
		said = TWT_FAILED;
	return good("close", tow_runtime_close(talk.runtime[0])) ? said : TWT_FAILED;
}

int talker_open(const struct tow_options *options, char *message_out, size_t room)
{
	struct tow_runtime *runtime;
	int status = tow_runtime_open(options, &runtime);

	snprintf(message_out, room, "%s", status < 0 ? tow_error_message() : "");
	return status == TOW_OK ? tow_runtime_close(runtime) : status;
}

int talker_trace(const struct tow_options *options, enum tow_trace_format format, char *message_out,
		 size_t room)
{
	struct tow_runtime *runtime;
	struct tow_trace *trace = NULL;
	void *bytes = NULL;
	size_t count;
	int status = tow_runtime_open(options, &runtime);

	if (status < 0)
		return status;
	status = tow_trace_begin(runtime);
	if (status == TOW_OK)
		status = tow_trace_end(runtime, &trace);
	if (status == TOW_OK)
		status = tow_trace_encode(trace, format, &bytes, &count);
	snprintf(message_out, room, "%s", status < 0 ? tow_error_message() : "");
	tow_trace_bytes_release(bytes);
	tow_trace_release(trace);
	tow_runtime_close(runtime);
	return status;
}
