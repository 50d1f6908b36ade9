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

static void put_in(void *list, unsigned *count, void *entry, bool first)
{
	void **to = list;
	unsigned at = first ? 0 : *count;

	memmove(&to[at + 1], &to[at], (*count - at) * sizeof(*to));
	to[at] = entry;
	*count += 1;
}

static struct twt_asked *find_posted(uint64_t tag)
{
	for (unsigned i = 0; i < twt_inbox.posted_count; i++) {
		struct twt_asked *recv = twt_inbox.posted[i];

		if (recv->tag != tag)
			continue;
		twt_inbox_take_out(twt_inbox.posted, &twt_inbox.posted_count, i);
		return recv;
	}
	return NULL;
}

static struct twt_sent *find_waiting(uint64_t tag)
{
	for (unsigned i = 0; i < twt_inbox.waiting_count; i++) {
		struct twt_sent *message = twt_inbox.waiting[i];

		if (message->tag != tag)
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

void twt_inbox_post(struct twt_asked *recv, bool first)
{
	struct twt_sent *message = find_waiting(recv->tag);

	recv->at = TWT_WAITS;
	recv->met = NULL;
	if (message != NULL)
		model_meet(recv, message);
	else
		put_in(twt_inbox.posted, &twt_inbox.posted_count, recv, first);
}

void twt_inbox_arrive(struct twt_sent *message, bool first)
{
	struct twt_asked *recv = find_posted(message->tag);

	message->at = TWT_WAITS;
	if (recv != NULL)
		model_meet(recv, message);
	else
		put_in(twt_inbox.waiting, &twt_inbox.waiting_count, message, first);
}
