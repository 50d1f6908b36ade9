/*
 * connect.c - connect: takes a link, opens a channel of it, and sends the hello that names the
 * listen.
 *
 * NCCL calls again, with the same handle, until connect returns a comm. Until then the comm stands
 * in a list, and the handle holds its number.
 */
#include "plugins/nccl/plugin.h"

#include <stdlib.h>

#define TRIES 64 /* channel numbers to try in one call; some may still be in use */

static void forget_connecting(const struct twn_comm *gone)
{
	for (struct twn_comm **at = &twn.connecting; *at != NULL; at = &(*at)->next)
		if (*at == gone) {
			*at = gone->next;
			return;
		}
}

static enum nccl_result connect_begin(struct twn_context *context, struct twn_device *device,
				      void *handle, struct twn_comm **comm_out)
{
	char address[TOW_ADDRESS_MAX];
	struct twn_link *link;
	uint64_t secret;
	enum nccl_result result = twn_handle_read(handle, address, &secret);

	if (result == NCCL_SUCCESS)
		result = twn_device_open(device);
	if (result != NCCL_SUCCESS)
		return result;
	link = twn_link_take(device, address);
	if (link == NULL)
		return NCCL_SYSTEM_ERROR;
	*comm_out = twn_comm_create(link, true);
	if (*comm_out == NULL) {
		twn_link_leave(link);
		return NCCL_SYSTEM_ERROR;
	}
	(*comm_out)->context = context;
	if (context != NULL)
		twn_comm_name(*comm_out, context->comm_id);
	(*comm_out)->secret = secret;
	(*comm_out)->next = twn.connecting;
	twn.connecting = *comm_out;
	twn_handle_set_stage(handle, (*comm_out)->number);
	return NCCL_SUCCESS;
}

/*
 * Channel numbers wrap around; a number that the other side has not closed yet is skipped.
 * TOW_AGAIN: the next call tries further numbers.
 */
static int open_channel(struct twn_comm *comm)
{
	struct twn_link *link = comm->link;
	int status = TOW_EBUSY;

	for (int i = 0; status == TOW_EBUSY && i < TRIES; i++) {
		link->last_channel = link->last_channel % TOW_CHANNEL_MAX + 1;
		status = tow_channel_open(link->peer, link->last_channel, &comm->channel);
		comm->channels_tried++;
	}
	comm->channel_number = link->last_channel;
	return status == TOW_EBUSY && comm->channels_tried < TOW_CHANNEL_MAX ? TOW_AGAIN : status;
}

static void free_hello(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	free(result->user);
}

/* The comm may end before the send of its hello. TOW_AGAIN: no operation is free now. */
static int send_hello(struct twn_comm *comm)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct twn_hello *hello = malloc(sizeof(*hello));
	int status;

	if (hello == NULL)
		return TOW_ENOMEM;
	*hello = (struct twn_hello){ TWN_HELLO_MAGIC, comm->channel_number, comm->secret };
	options.flags = TOW_OP_AT_ONCE;
	options.done = free_hello;
	options.user = hello;
	status = tow_send_start(comm->link->peer, hello, sizeof(*hello), TWN_HELLO_TAG, &options,
				&comm->hello_op);
	if (comm->hello_op == NULL) /* no callback runs */
		free(hello);
	comm->greeted = status >= 0;
	if (status != TOW_EBUSY)
		return status;
	twn_log_busy();
	return TOW_AGAIN;
}

/* Replaces a link that broke while it was unused, once for a comm. False: it cannot be replaced. */
static bool replace_link(struct twn_comm *comm, int status)
{
	struct twn_link *link = comm->link, *other;

	if (status != TOW_EPEER && status != TOW_ECLOSED)
		return false;
	twn_link_end(link, status, tow_error_message());
	if (comm->retried)
		return false;
	other = twn_link_take(link->device, link->address);
	if (other == NULL)
		return false;
	if (comm->channel != NULL) /* the link broke before the hello was sent */
		tow_channel_close(comm->channel);
	comm->channel = NULL;
	comm->channels_tried = 0;
	comm->retried = true;
	comm->link = other;
	twn_link_leave(link);
	return true;
}

static int open_and_greet(struct twn_comm *comm)
{
	int status = comm->channel == NULL ? open_channel(comm) : TOW_OK;

	if (status == TOW_OK && !comm->greeted)
		status = send_hello(comm);
	return status < 0 && replace_link(comm, status) ? TOW_AGAIN : status;
}

/* Positive, TOW_AGAIN: call again. */
static int connect_step(struct twn_comm *comm)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct twn_link *link = comm->link;
	int status;

	twn_link_poll(link);
	if (link->state == TWN_LINK_CONNECTING)
		return TOW_AGAIN;
	if (link->state == TWN_LINK_ENDED) {
		twn_log(NCCL_LOG_WARN, "connect to %s: %s: %s", link->address,
			tow_status_name(link->status), link->why);
		return link->status;
	}
	status = open_and_greet(comm);
	if (status == TOW_OK && comm->hello_op != NULL) {
		if (tow_op_result(comm->hello_op, &result) == TOW_AGAIN)
			return TOW_AGAIN;
		status = result.status;
	}
	if (status < 0)
		twn_log(NCCL_LOG_WARN, "connect to %s: %s: %s", comm->link->address,
			tow_status_name(status),
			result.message != NULL ? result.message : tow_error_message());
	return status;
}

static enum nccl_result connect_locked(struct twn_context *context, struct twn_device *device,
				       void *handle, struct twn_comm **comm_out)
{
	uint64_t number = twn_handle_stage(handle);
	struct twn_comm *comm = twn.connecting;
	enum nccl_result result;
	int status;

	while (comm != NULL && comm->number != number)
		comm = comm->next;
	if (comm == NULL) {
		result = connect_begin(context, device, handle, &comm);
		if (result != NCCL_SUCCESS)
			return result;
	}
	tow_progress(twn.runtime);
	status = connect_step(comm);
	if (status == TOW_AGAIN)
		return NCCL_SUCCESS;
	forget_connecting(comm);
	twn_handle_set_stage(handle, 0);
	tow_op_release(comm->hello_op);
	comm->hello_op = NULL;
	if (status < 0) {
		twn_comm_destroy(comm);
		return twn_result(status);
	}
	comm->peer = comm->link->peer;
	*comm_out = comm;
	return NCCL_SUCCESS;
}

enum nccl_result twn_connect(struct twn_context *context, int device, void *handle, void **sending)
{
	struct twn_comm *comm = NULL;
	enum nccl_result result;

	if (handle == NULL || sending == NULL || device < 0 || device >= twn.device_count) {
		twn_log(NCCL_LOG_WARN, "connect on device %d of %d", device, twn.device_count);
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&twn.lock);
	result = connect_locked(context, &twn.devices[device], handle, &comm);
	pthread_mutex_unlock(&twn.lock);
	*sending = comm;
	return result;
}

void twn_connect_end(struct twn_context *context)
{
	struct twn_comm *next;

	for (struct twn_comm *comm = twn.connecting; comm != NULL; comm = next) {
		next = comm->next;
		if (comm->context != context)
			continue;
		forget_connecting(comm);
		tow_op_release(comm->hello_op);
		twn_comm_destroy(comm);
	}
}
