/*
 * talker.c - a library linked to libtowline.so, whose one function sends a message through it: what
 * a plugin of a runtime does, in a process that has nothing else of Towline.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#define TALKER  __attribute__((visibility("default")))
#define WAIT_NS 20000000000ull
#define BYTES   (256 << 10)

/* What talker_talk returns. */
enum { SAID, FAILED, NO_LANE };

TALKER int talker_talk(const char *left, const char *right, bool one_runtime,
		       const struct tow_options *options);

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
		return status == TOW_ENOTSUP ? NO_LANE : FAILED;
	}
	for (int i = 0; i < 2; i++) {
		if (!good("alloc", tow_alloc(talk->runtime[i], BYTES, 0, &talk->memory[i])))
			return FAILED;
	}
	return join(talk) && exchange(talk, 8) && exchange(talk, BYTES) ? SAID : FAILED;
}

/* Says what went wrong on its standard output. */
int talker_talk(const char *left, const char *right, bool one_runtime,
		const struct tow_options *options)
{
	struct talk talk = { .memory = { NULL } };
	int said = FAILED;

	if (!good("open", tow_runtime_open(options, &talk.runtime[0])))
		return FAILED;
	talk.runtime[1] = talk.runtime[0];
	if (one_runtime || good("open", tow_runtime_open(options, &talk.runtime[1])))
		said = talk_through(&talk, left, right);
	if (talk.runtime[1] != talk.runtime[0] && talk.runtime[1] != NULL &&
	    !good("close", tow_runtime_close(talk.runtime[1])))
		said = FAILED;
	return good("close", tow_runtime_close(talk.runtime[0])) ? said : FAILED;
}
