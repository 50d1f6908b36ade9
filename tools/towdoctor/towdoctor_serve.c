/*
 * towdoctor_serve.c - the other end of a measurement: answers the calls of one peer after another.
 *
 * As in each process of the library, a peer needs the job's key; without a key, any peer may
 * connect. Requests are bounded: CHUNK_BYTES in each, and CHUNKS at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/towdoctor/towdoctor.h"

#define SECOND   1000000000ull
#define VISIT_NS (120 * SECOND) /* limit of one peer's measurement */

struct server {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	char *payload; /* of each answer to METHOD_GIVE; read only */
};

static void answer_echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	tow_reply_start(call, 0, request, bytes <= 64 ? bytes : 64, NULL, NULL);
}

static void answer_take(struct tow_call_in *call, void *user)
{
	(void)user;
	tow_reply_start(call, 0, "taken", 5, NULL, NULL);
}

static void answer_give(struct tow_call_in *call, void *user)
{
	struct server *server = user;
	uint64_t bytes, wanted = 0;
	const void *request = tow_call_request(call, &bytes);

	if (bytes == sizeof(wanted))
		memcpy(&wanted, request, sizeof(wanted)); /* a length, no payload */
	if (wanted == 0 || wanted > CHUNK_BYTES) {
		static const char why[] = "towdoctor.give: from 1 byte to 2 MiB";

		tow_reply_start(call, TOW_EINVAL, why, sizeof(why) - 1, NULL, NULL);
		return;
	}
	tow_reply_start(call, 0, server->payload, wanted, NULL, NULL);
}

static void answer_info(struct tow_call_in *call, void *user)
{
	json_t *end = describe_end();
	char *text = json_dumps(end, JSON_COMPACT);

	(void)user;
	if (text != NULL)
		tow_reply_start(call, 0, text, strlen(text), NULL, NULL);
	else
		tow_reply_start(call, TOW_ENOMEM, "no memory", 9, NULL, NULL);
	free(text);
	json_decref(end);
}

static int refuse_to_serve(const char *what)
{
	fprintf(stderr, "towdoctor: %s: %s\n", what, tow_error_message());
	return SEVERITY_ERROR;
}

static int open_server(struct server *server, const char *address)
{
	static const struct {
		const char *name;
		tow_method_handler handler;
	} methods[] = { { METHOD_ECHO, answer_echo },
			{ METHOD_TAKE, answer_take },
			{ METHOD_GIVE, answer_give },
			{ METHOD_INFO, answer_info } };
	struct tow_method_options limits = TOW_METHOD_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = PATH_POOL;
	options.stats = 0;
	limits.in_service = 2 * CHUNKS;
	limits.request_bytes_max = CHUNK_BYTES;
	if (tow_runtime_open(&options, &server->runtime) < 0)
		return refuse_to_serve("cannot open a runtime");
	if (tow_alloc(server->runtime, CHUNK_BYTES, 0, (void **)&server->payload) < 0)
		return refuse_to_serve("no memory for answers");
	memset(server->payload, 0x5a, CHUNK_BYTES);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (tow_method_register(server->runtime, methods[i].name, methods[i].handler,
					server, &limits) < 0)
			return refuse_to_serve(methods[i].name);
	}
	if (tow_endpoint_open(server->runtime, address, &server->endpoint) < 0)
		return refuse_to_serve(address);
	return 0;
}

/* Serves one peer until it goes. */
static void attend_peer(struct tow_peer *peer)
{
	struct tow_op *leaving;
	char nothing[8];

	if (tow_recv_start(peer, nothing, sizeof(nothing), LEAVING_TAG, NULL, &leaving) < 0) {
		tow_peer_close(peer);
		return;
	}
	if (tow_op_wait(leaving, VISIT_NS) == TOW_ETIMEDOUT)
		tow_op_cancel(leaving);
	tow_peer_close(peer);
	tow_op_wait(leaving, SECOND);
	tow_op_release(leaving);
}

static int serve_peers(struct server *server, const struct serve_options *options)
{
	struct tow_op_options idle = TOW_OP_OPTIONS_INIT;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op;
	int status;

	idle.timeout_ns = options->idle_ms * 1000000ull;
	for (;;) {
		if (tow_accept_start(server->endpoint, &idle, &op) < 0)
			return refuse_to_serve("cannot accept");
		status = tow_op_wait(op, TOW_FOREVER);
		tow_op_result(op, &result);
		tow_op_release(op);
		if (status == TOW_EDEADLINE)
			return 0;
		if (status < 0)
			return refuse_to_serve("cannot accept");
		attend_peer(result.peer);
		if (options->once)
			return 0;
	}
}

int serve(const struct serve_options *options)
{
	struct server server = { 0 };
	char address[TOW_ADDRESS_MAX];
	int status = open_server(&server, options->address);

	if (status == 0)
		tow_endpoint_address(server.endpoint, address, sizeof(address));
	if (status == 0 && options->announce_fd >= 0 &&
	    dprintf(options->announce_fd, "%s\n", address) < 0)
		status = SEVERITY_ERROR;
	if (status == 0)
		status = serve_peers(&server, options);
	if (server.runtime != NULL)
		tow_runtime_close(server.runtime);
	return status;
}
