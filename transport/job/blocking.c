/*
 * blocking.c - start, wait and release in one call, for programs that need no more than that.
 *
 * These calls are made of the public ones. What they start ends before they return: the caller's
 * timeout is the operation's deadline, not the wait's. So no buffer is in use afterwards.
 */
#include "diag/base/cancel.h"
#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"
#include "transport/job/group_message.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"

/* Refuses a call in a completion callback: the thread would wait for itself. */
static int check_caller(struct tow_group *group, const char *call)
{
	int status = twi_group_check(group, call);

	if (status == TOW_OK && twi_engine_in_callback(group->ranks->engine))
		status = twi_error(TOW_EINVAL, "%s in a completion callback", call);
	return status;
}

/* Returns the rest of timeout_ns since `since_ns`. */
static uint64_t left_ns(uint64_t timeout_ns, uint64_t since_ns)
{
	uint64_t gone_ns = timeout_ns == TOW_FOREVER ? 0 : twi_now_ns() - since_ns;

	return gone_ns < timeout_ns ? timeout_ns - gone_ns : 0;
}

/* Waits for an operation, which ends by its own deadline, and releases it. */
static int end_op(struct tow_op *op, struct tow_result *result_out)
{
	int status = tow_op_wait(op, TOW_FOREVER);

	tow_op_result(op, result_out);
	tow_op_release(op);
	return status;
}

TOW_PUBLIC int tow_group_connect(struct tow_group *group, uint32_t rank, uint64_t timeout_ns,
				 struct tow_peer **peer_out)
{
	TWI_UNCANCELED;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	int status = check_caller(group, "tow_group_connect");
	struct tow_op *op;

	if (peer_out != NULL)
		*peer_out = NULL;
	options.timeout_ns = timeout_ns;
	if (status == TOW_OK)
		status = tow_group_connect_start(group, rank, &options, &op);
	if (status < 0)
		return status;
	status = end_op(op, &result);
	if (status >= TOW_OK && peer_out != NULL)
		*peer_out = result.peer;
	return status;
}

/* Starts a message, and waits for it unless it has ended at once. */
static int pass_message(struct tow_group *group, const char *call, uint32_t rank,
			const struct twi_message *message, uint64_t timeout_ns,
			struct tow_result *result_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;
	int status = check_caller(group, call);

	options.timeout_ns = timeout_ns;
	options.flags = TOW_OP_AT_ONCE;
	options.result = result_out;
	if (status == TOW_OK)
		status = twi_group_message_call(group, call, rank, message, &options, &op);
	return status < 0 || op == NULL ? status : end_op(op, result_out);
}

TOW_PUBLIC int tow_send(struct tow_group *group, uint32_t rank, const void *data, uint64_t bytes,
			uint64_t tag, uint64_t timeout_ns)
{
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .waits = true,
					     .data = (void *)(uintptr_t)data,
					     .bytes = bytes,
					     .tag = tag,
					     .site = TWI_SITE_HERE };
	struct tow_result result = TOW_RESULT_INIT;

	return pass_message(group, "tow_send", rank, &message, timeout_ns, &result);
}

TOW_PUBLIC int tow_recv(struct tow_group *group, uint32_t rank, void *data, uint64_t bytes,
			uint64_t tag, uint64_t timeout_ns, uint64_t *bytes_out)
{
	const struct twi_message message = {
		.kind = TWI_OP_RECV, .data = data, .bytes = bytes, .tag = tag, .site = TWI_SITE_HERE
	};
	struct tow_result result = TOW_RESULT_INIT;
	int status = pass_message(group, "tow_recv", rank, &message, timeout_ns, &result);

	if (bytes_out != NULL)
		*bytes_out = result.bytes;
	return status;
}

TOW_PUBLIC int tow_wait_all(struct tow_op *const *ops, size_t count, uint64_t timeout_ns)
{
	uint64_t since_ns = timeout_ns == TOW_FOREVER ? 0 : twi_now_ns();
	int first = TOW_OK;

	if (ops == NULL && count > 0)
		return twi_error(TOW_EINVAL, "tow_wait_all: ops is NULL");
	for (size_t i = 0; i < count; i++) {
		struct tow_result result = TOW_RESULT_INIT;
		int status;

		if (ops[i] == NULL)
			continue;
		status = tow_op_wait(ops[i], left_ns(timeout_ns, since_ns));
		if (status < 0 && tow_op_result(ops[i], &result) != TOW_OK)
			return status; /* TOW_AGAIN: the wait has failed, not the operation */
		if (status < 0 && first == TOW_OK)
			first = status;
	}
	if (first == TOW_OK)
		return TOW_OK;
	/* The thread's message is to be that of the first failure, not of the last. */
	for (size_t i = 0; i < count; i++) {
		if (ops[i] != NULL && tow_op_wait(ops[i], 0) < 0)
			break;
	}
	return first;
}
