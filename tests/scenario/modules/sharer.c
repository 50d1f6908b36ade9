/*
 * sharer.c - two plugins that share a runtime, compiled twice under two names: each has what it
 * holds for itself, and neither knows of the other.
 */
#include "sharer.h"

#include <string.h>

static struct tow_runtime *runtime;

int sharer_open(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	int status = tow_runtime_share(options, &runtime);

	*runtime_out = runtime;
	return status;
}

int sharer_close(void)
{
	return tow_runtime_close(runtime);
}

const char *sharer_message(void)
{
	return tow_error_message();
}

void *sharer_alloc(size_t bytes, int value)
{
	void *memory = NULL;

	if (tow_alloc(runtime, bytes, 0, &memory) == TOW_OK)
		memset(memory, value, bytes);
	return memory;
}

int sharer_free(void *memory)
{
	return tow_free(runtime, memory);
}

int sharer_listen(const char *address, struct tow_endpoint **endpoint_out,
		  char address_out[TOW_ADDRESS_MAX])
{
	int status = tow_endpoint_open(runtime, address, endpoint_out);

	return status == TOW_OK ? tow_endpoint_address(*endpoint_out, address_out, TOW_ADDRESS_MAX)
				: status;
}

int sharer_hush(struct tow_endpoint *endpoint)
{
	return tow_endpoint_close(endpoint);
}

static int finish(struct tow_op *op, struct tow_peer **peer_out)
{
	struct tow_result result = TOW_RESULT_INIT;
	int status = tow_op_wait(op, SHARER_WAIT_NS);

	if (status >= 0 && tow_op_result(op, &result) == TOW_OK && peer_out != NULL)
		*peer_out = result.peer;
	tow_op_release(op);
	return status;
}

int sharer_accept(struct tow_endpoint *endpoint, struct tow_op **op_out)
{
	return tow_accept_start(endpoint, NULL, op_out);
}

int sharer_connect(struct tow_endpoint *endpoint, const char *address, struct tow_peer **peer_out)
{
	struct tow_op *op;
	int status = tow_connect_start(endpoint, address, NULL, &op);

	return status == TOW_OK ? finish(op, peer_out) : status;
}

int sharer_finish(struct tow_op *op, struct tow_peer **peer_out)
{
	return finish(op, peer_out);
}

int sharer_send(struct tow_peer *peer, const void *memory, size_t bytes)
{
	struct tow_op *op;
	int status = tow_send_start(peer, memory, bytes, 1, NULL, &op);

	return status == TOW_OK ? finish(op, NULL) : status;
}

int sharer_receive_start(struct tow_peer *peer, void *memory, size_t bytes, struct tow_op **op_out)
{
	return tow_recv_start(peer, memory, bytes, 1, NULL, op_out);
}
