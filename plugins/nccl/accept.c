/*
 * accept.c - listen and accept; finds the listen that a hello names.
 *
 * A listen is a random number that its handle carries. Only a process that was given the handle can
 * connect to the listen. All listens of a device share one endpoint.
 */
#include "plugins/nccl/plugin.h"

#include <stdlib.h>
#include <sys/random.h>

static struct twn_listen *find_listen(const struct twn_link *link, uint64_t secret)
{
	for (struct twn_listen *listen = twn.listens; listen != NULL; listen = listen->next)
		if (listen->secret == secret && listen->device == link->device)
			return listen;
	return NULL;
}

/* Ends the other side's operations on the channel with TOW_EPEER. */
static void refuse_channel(struct twn_link *link, uint32_t number)
{
	struct tow_channel *channel;

	if (tow_channel_open(link->peer, number, &channel) == TOW_OK)
		tow_channel_close(channel);
}

void twn_listen_take(struct twn_link *link, const struct twn_hello *hello)
{
	struct twn_listen *listen = find_listen(link, hello->secret);
	struct twn_call *call = NULL;

	if (hello->magic != TWN_HELLO_MAGIC || hello->channel < 1 ||
	    hello->channel > TOW_CHANNEL_MAX)
		return;
	if (listen != NULL && listen->call_count < TWN_CALLS_MAX)
		call = calloc(1, sizeof(*call));
	if (call == NULL) {
		refuse_channel(link, hello->channel);
		return;
	}
	call->link = link;
	call->channel = hello->channel;
	link->users++;
	*listen->calls_end = call;
	listen->calls_end = &call->next;
	listen->call_count++;
}

static struct twn_call *next_call(struct twn_listen *listen)
{
	struct twn_call *call = listen->calls;

	if (call == NULL)
		return NULL;
	listen->calls = call->next;
	if (listen->calls == NULL)
		listen->calls_end = &listen->calls;
	listen->call_count--;
	return call;
}

static enum nccl_result listen_open(struct twn_device *device, void *handle,
				    struct twn_listen *listen)
{
	enum nccl_result result = twn_device_open(device);

	if (result != NCCL_SUCCESS)
		return result;
	result = twn_handle_write(handle, device->address, listen->secret);
	if (result != NCCL_SUCCESS)
		return result;
	twn_links_accept(device); /* an accept waits from now on */
	listen->device = device;
	listen->calls_end = &listen->calls;
	listen->next = twn.listens;
	twn.listens = listen;
	twn.users++;
	return NCCL_SUCCESS;
}

enum nccl_result twn_listen(uint64_t comm_id, int device, void *handle, void **listening)
{
	struct twn_listen *listen;
	enum nccl_result result;

	if (device < 0 || device >= twn.device_count || handle == NULL || listening == NULL) {
		twn_log(NCCL_LOG_WARN, "listen on device %d of %d", device, twn.device_count);
		return NCCL_INVALID_ARGUMENT;
	}
	listen = calloc(1, sizeof(*listen));
	if (listen == NULL ||
	    getrandom(&listen->secret, sizeof(listen->secret), 0) != sizeof(listen->secret)) {
		free(listen);
		return NCCL_SYSTEM_ERROR;
	}
	listen->comm_id = comm_id;
	pthread_mutex_lock(&twn.lock);
	result = listen_open(&twn.devices[device], handle, listen);
	pthread_mutex_unlock(&twn.lock);
	if (result != NCCL_SUCCESS) {
		free(listen);
		return result;
	}
	*listening = listen;
	return NCCL_SUCCESS;
}

/*
 * Returns the comm of a call; NULL: no memory. If the other side has gone, the receives of the comm
 * fail, because the accepting process must not wait for ever.
 */
static struct twn_comm *accept_call(struct twn_call *call)
{
	struct twn_comm *comm = twn_comm_create(call->link, false);
	int status;

	if (comm == NULL) {
		refuse_channel(call->link, call->channel);
		twn_link_leave(call->link);
		return NULL;
	}
	/* The comm takes over the call's use of the link. */
	comm->channel_number = call->channel;
	status = tow_channel_open(call->link->peer, call->channel, &comm->channel);
	if (status < 0)
		twn_comm_fail(comm, status, tow_error_message());
	return comm;
}

enum nccl_result twn_accept(struct twn_listen *listening, void **receiving)
{
	struct twn_comm *comm = NULL;
	struct twn_call *call;

	if (listening == NULL || receiving == NULL)
		return NCCL_INVALID_ARGUMENT;
	pthread_mutex_lock(&twn.lock);
	tow_progress(twn.runtime);
	twn_links_accept(listening->device);
	call = next_call(listening);
	if (call != NULL)
		comm = accept_call(call);
	if (comm != NULL)
		twn_comm_name(comm, listening->comm_id);
	pthread_mutex_unlock(&twn.lock);
	*receiving = comm;
	if (call != NULL && comm == NULL) {
		free(call);
		return NCCL_SYSTEM_ERROR;
	}
	free(call);
	return NCCL_SUCCESS;
}

enum nccl_result twn_listen_close(struct twn_listen *listening)
{
	struct twn_call *call;

	if (listening == NULL)
		return NCCL_INVALID_ARGUMENT;
	pthread_mutex_lock(&twn.lock);
	for (struct twn_listen **at = &twn.listens; *at != NULL; at = &(*at)->next)
		if (*at == listening) {
			*at = listening->next;
			break;
		}
	while ((call = next_call(listening)) != NULL) {
		refuse_channel(call->link, call->channel);
		twn_link_leave(call->link);
		free(call);
	}
	twn_release();
	pthread_mutex_unlock(&twn.lock);
	free(listening);
	return NCCL_SUCCESS;
}
