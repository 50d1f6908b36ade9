/*
 * link.c - connections with other processes, which carry comms as channels.
 *
 * This process connects to an endpoint of another process up to TOW_NCCL_CONNECTIONS times. Further
 * comms share these links, and take the link with the fewest users. A link ends with its last user.
 * On a link that another process has opened, this process receives a hello for each opened channel.
 *
 * The table of operations may be full: NCCL's threads may have filled it. What could not start then
 * starts in a later call.
 */
#include "plugins/nccl/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GIVE_UP_NS    (UINT64_C(20) * 1000000000) /* time for the retries of a refused connect */
#define AGAIN_NS      (UINT64_C(10) * 1000000)
#define HELLO_WAIT_NS (UINT64_C(30) * 1000000000) /* a peer without a hello is disconnected then */

static void unlink_one(struct twn_link *gone)
{
	for (struct twn_link **at = &twn.links; *at != NULL; at = &(*at)->next)
		if (*at == gone) {
			*at = gone->next;
			return;
		}
}

static void link_destroy(struct twn_link *link)
{
	unlink_one(link);
	/* Closing ends the operations of the peer. A connect has no peer yet, so it is canceled. */
	if (link->peer != NULL)
		tow_peer_close(link->peer);
	else if (link->op != NULL)
		tow_op_cancel(link->op);
	tow_op_release(link->op);
	free(link);
}

static struct twn_link *link_create(struct twn_device *device, bool outbound)
{
	struct twn_link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	link->device = device;
	link->outbound = outbound;
	link->next = twn.links;
	twn.links = link;
	return link;
}

void twn_link_end(struct twn_link *link, int status, const char *why)
{
	link->state = TWN_LINK_ENDED;
	link->status = status;
	snprintf(link->why, sizeof(link->why), "%s", why == NULL ? "" : why);
}

struct twn_link *twn_link_take(struct twn_device *device, const char *address)
{
	struct twn_link *best = NULL;
	int count = 0;

	for (struct twn_link *link = twn.links; link != NULL; link = link->next) {
		if (!link->outbound || link->device != device || link->state == TWN_LINK_ENDED ||
		    strcmp(link->address, address) != 0)
			continue;
		count++;
		if (best == NULL || link->users < best->users)
			best = link;
	}
	if (count < twn.connections) {
		best = link_create(device, true);
		if (best == NULL)
			return NULL;
		snprintf(best->address, sizeof(best->address), "%s", address);
		best->give_up_ns = twn_now_ns() + GIVE_UP_NS;
	}
	best->users++;
	return best;
}

/* Without users, an inbound link stays until the other side closes it. */
void twn_link_leave(struct twn_link *link)
{
	if (--link->users == 0 && (link->outbound || link->state == TWN_LINK_ENDED))
		link_destroy(link);
}

/* TOW_EBUSY of a connect: no operation is free, or no descriptor. Only the former passes. */
static bool has_descriptor(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void connect_again(struct twn_link *link)
{
	int status;

	if (twn_now_ns() < link->again_ns)
		return;
	status = tow_connect_start(link->device->endpoint, link->address, NULL, &link->op);
	if (status == TOW_EBUSY && has_descriptor())
		twn_log_busy();
	else if (status < 0)
		twn_link_end(link, status, tow_error_message());
}

void twn_link_poll(struct twn_link *link)
{
	struct tow_result result = TOW_RESULT_INIT;

	if (link->state != TWN_LINK_CONNECTING)
		return;
	if (link->op == NULL)
		connect_again(link);
	if (link->op == NULL || tow_op_result(link->op, &result) == TOW_AGAIN)
		return;
	if (result.status >= 0) {
		link->peer = result.peer;
		link->state = TWN_LINK_UP;
	} else if (result.status == TOW_EREFUSED && twn_now_ns() < link->give_up_ns) {
		link->again_ns = twn_now_ns() + AGAIN_NS;
	} else {
		twn_link_end(link, result.status, result.message);
	}
	tow_op_release(link->op);
	link->op = NULL;
}

/* If no operation is free, link->op stays NULL. */
static int receive_hello(struct twn_link *link)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	int status;

	options.timeout_ns = link->greeted ? TOW_FOREVER : HELLO_WAIT_NS;
	status = tow_recv_start(link->peer, &link->hello, sizeof(link->hello), TWN_HELLO_TAG,
				&options, &link->op);
	return status == TOW_EBUSY ? TOW_OK : status;
}

/* Handles each hello that has arrived on a link of the other side. */
static void poll_inbound(struct twn_link *link)
{
	struct tow_result result = TOW_RESULT_INIT;
	int status = link->op == NULL ? receive_hello(link) : TOW_OK;

	while (link->op != NULL && tow_op_result(link->op, &result) == TOW_OK) {
		status = result.status;
		if (status >= 0 && result.bytes == sizeof(link->hello))
			twn_listen_take(link, &link->hello);
		else if (status >= 0)
			status = TOW_EPROTOCOL;
		tow_op_release(link->op);
		link->op = NULL;
		link->greeted = true;
		if (status >= 0)
			status = receive_hello(link);
	}
	if (status < 0) {
		twn_link_end(link, status, NULL);
		if (link->users == 0)
			link_destroy(link);
	}
}

static void link_accepted(struct twn_device *device, struct tow_peer *peer)
{
	struct twn_link *link = link_create(device, false);

	if (link == NULL) {
		tow_peer_close(peer);
		return;
	}
	link->peer = peer;
	link->state = TWN_LINK_UP;
	if (receive_hello(link) < 0)
		link_destroy(link);
}

/* Accepts waiting connections, and reads the hellos of accepted ones. */
void twn_links_accept(struct twn_device *device)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct twn_link *next;

	for (;;) {
		if (device->accept == NULL &&
		    tow_accept_start(device->endpoint, NULL, &device->accept) < 0)
			break;
		if (tow_op_result(device->accept, &result) != TOW_OK) /* TOW_AGAIN, too */
			break;
		tow_op_release(device->accept);
		device->accept = NULL;
		if (result.status >= 0)
			link_accepted(device, result.peer);
	}
	for (struct twn_link *link = twn.links; link != NULL; link = next) {
		next = link->next;
		if (!link->outbound && link->device == device && link->state == TWN_LINK_UP)
			poll_inbound(link);
	}
}

void twn_links_close(void)
{
	while (twn.links != NULL)
		link_destroy(twn.links);
}
