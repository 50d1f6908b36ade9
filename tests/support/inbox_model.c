/* inbox_model.c - see inbox_model.h. */
#include "inbox_model.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/wire/frame.h"

struct twt_inbox_model twt_inbox;

void twt_inbox_take_out(void *list, unsigned *count, unsigned at)
{
	void **from = list;

	*count -= 1;
	memmove(&from[at], &from[at + 1], (*count - at) * sizeof(*from));
}

bool twt_inbox_takes(const struct twt_asked *recv, uint64_t tag)
{
	return ((recv->tag ^ tag) & recv->mask) == 0;
}

static void post_in(struct twt_asked *recv)
{
	unsigned at = twt_inbox.posted_count++;

	for (; at > 0 && twt_inbox.posted[at - 1]->started > recv->started; at--)
		twt_inbox.posted[at] = twt_inbox.posted[at - 1];
	twt_inbox.posted[at] = recv;
}

static void wait_in(struct twt_sent *message)
{
	unsigned at = twt_inbox.waiting_count++;

	for (; at > 0 && twt_inbox.waiting[at - 1]->seq > message->seq; at--)
		twt_inbox.waiting[at] = twt_inbox.waiting[at - 1];
	twt_inbox.waiting[at] = message;
}

static struct twt_asked *find_posted(uint64_t tag)
{
	for (unsigned i = 0; i < twt_inbox.posted_count; i++) {
		struct twt_asked *recv = twt_inbox.posted[i];

		if (!twt_inbox_takes(recv, tag))
			continue;
		twt_inbox_take_out(twt_inbox.posted, &twt_inbox.posted_count, i);
		return recv;
	}
	return NULL;
}

static struct twt_sent *find_waiting(const struct twt_asked *recv)
{
	for (unsigned i = 0; i < twt_inbox.waiting_count; i++) {
		struct twt_sent *message = twt_inbox.waiting[i];

		if (!twt_inbox_takes(recv, message->tag))
			continue;
		twt_inbox_take_out(twt_inbox.waiting, &twt_inbox.waiting_count, i);
		return message;
	}
	return NULL;
}

void twt_inbox_credit_back(struct twt_sent *message)
{
	if (message->charged)
		twt_inbox.credit_out -=
			twi_frame_cost(message->offered ? 0 : (uint32_t)message->bytes);
	message->charged = false;
}

void twt_inbox_over(struct twt_asked *recv, int status, uint64_t bytes)
{
	recv->at = TWT_OVER;
	recv->status = status;
	recv->bytes = bytes;
	recv->dropped = 0;
	recv->met = NULL;
}

void twt_inbox_over_well(struct twt_asked *recv, uint64_t bytes)
{
	uint64_t fits = bytes < recv->room ? bytes : recv->room;

	twt_inbox_over(recv, TOW_OK, fits);
	recv->dropped = bytes - fits;
}

/* It is longer than the room of the receive, which wants all of it. */
static bool is_too_long(const struct twt_asked *recv, const struct twt_sent *message)
{
	return message->bytes > recv->room && !recv->truncate;
}

/* All of a small message is there, and this receive has met it. */
void twt_inbox_deliver(struct twt_asked *recv, struct twt_sent *message)
{
	twt_inbox_credit_back(message);
	message->at = TWT_OVER;
	if (is_too_long(recv, message))
		twt_inbox_over(recv, TOW_ETRUNCATED, message->bytes);
	else if (message->corrupt)
		twt_inbox_over(recv, TOW_ECORRUPT, message->bytes);
	else
		twt_inbox_over_well(recv, message->bytes);
}

static void model_meet(struct twt_asked *recv, struct twt_sent *message)
{
	recv->met_tag = message->tag;
	if (!message->offered && message->whole) {
		twt_inbox_deliver(recv, message);
		return;
	}
	if (message->offered)
		twt_inbox_credit_back(message);
	if (message->offered && is_too_long(recv, message)) {
		message->at = TWT_OVER;
		twt_inbox_over(recv, TOW_ETRUNCATED, message->bytes);
		return;
	}
	recv->at = message->at = TWT_MET;
	recv->met = message;
}

void twt_inbox_post(struct twt_asked *recv)
{
	struct twt_sent *message = find_waiting(recv);

	recv->at = TWT_WAITS;
	recv->met = NULL;
	if (message != NULL)
		model_meet(recv, message);
	else
		post_in(recv);
}

void twt_inbox_arrive(struct twt_sent *message)
{
	struct twt_asked *recv = find_posted(message->tag);

	message->at = TWT_WAITS;
	if (recv != NULL)
		model_meet(recv, message);
	else
		wait_in(message);
}
