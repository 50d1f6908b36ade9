/*
 * match_wild.c - receives that take more than one tag. See match.h.
 *
 * Of the receives that take a message, the one that was started first gets it. That is the first
 * with its tag in its bucket, or the first that takes it in the list of wild receives.
 *
 * While a receive is held, the messages that it takes wait. A receive that has to take one of these
 * first waits too, even if there is a later message for it.
 */
#include "transport/message/match.h"

static struct twi_match_entry *entry_of(struct twi_list *link)
{
	return twi_container_of(link, struct twi_match_entry, link);
}

static struct twi_match_message *aged_of(struct twi_list *age)
{
	return twi_container_of(age, struct twi_match_message, age);
}

/* Searches from the back, because a new receive is nearly always the youngest. */
void twi_match_put_wild(struct twi_list *list, struct twi_match_entry *recv)
{
	struct twi_list *pos = list->prev;

	while (pos != list && entry_of(pos)->order > recv->order)
		pos = pos->prev;
	twi_list_push_front(pos, &recv->link);
}

/* Puts the message behind `after`, which is the head or older, and behind all that are older. */
static void age_behind(struct twi_match *match, struct twi_list *after,
		       struct twi_match_message *message)
{
	while (after->next != &match->aged &&
	       aged_of(after->next)->entry.order < message->entry.order)
		after = after->next;
	twi_list_push_front(after, &message->age);
}

/* A new message is the youngest; a message that comes back is among the oldest. */
void twi_match_put_aged(struct twi_match *match, struct twi_match_entry *entry)
{
	struct twi_match_message *message =
		twi_container_of(entry, struct twi_match_message, entry);
	struct twi_list *last = match->aged.prev;

	if (last != &match->aged && aged_of(last)->entry.order > entry->order)
		last = &match->aged;
	age_behind(match, last, message);
}

/* Each bucket is nearly in order, so it goes into the list in one walk. */
void twi_match_go_wild(struct twi_match *match)
{
	if (match->wild)
		return;
	match->wild = true;
	match->kept_back = match->held_count > 0;
	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		struct twi_list *head = &match->unexpected[i], *after = &match->aged;

		for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
			struct twi_match_message *message =
				twi_container_of(entry_of(pos), struct twi_match_message, entry);

			if (after != &match->aged &&
			    aged_of(after)->entry.order > message->entry.order)
				after = &match->aged;
			age_behind(match, after, message);
			after = &message->age;
		}
	}
}

/* The oldest wild receive of a list that takes such a message, or NULL. */
static struct twi_match_entry *oldest_wild(struct twi_list *head, uint64_t tag, uint32_t context)
{
	for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
		if (twi_match_takes(entry_of(pos), tag, context))
			return entry_of(pos);
	}
	return NULL;
}

/* The oldest receive that takes such a message, held or not. */
static struct twi_match_entry *receive_for(struct twi_match *match, uint64_t tag, uint32_t context)
{
	struct twi_match_entry *recv, *wild;

	recv = twi_match_find(&match->posted[twi_match_hash(tag, context)], tag, context);
	wild = oldest_wild(&match->wild_posted, tag, context);
	if (recv == NULL || (wild != NULL && wild->order < recv->order))
		recv = wild;
	wild = match->any == NULL ? NULL : oldest_wild(match->any, tag, context);
	if (recv == NULL || (wild != NULL && wild->order < recv->order))
		recv = wild;
	return recv;
}

/* The oldest message that the receive takes, even if another receive takes it too. */
static struct twi_match_entry *message_for(struct twi_match *match,
					   const struct twi_match_entry *recv)
{
	if (match->unexpected_count == 0)
		return NULL;
	if (!recv->wild)
		return twi_match_find(&match->unexpected[twi_match_hash(recv->tag, recv->context)],
				      recv->tag, recv->context);
	for (struct twi_list *pos = match->aged.next; pos != &match->aged; pos = pos->next) {
		struct twi_match_entry *message = &aged_of(pos)->entry;

		if (twi_match_takes(recv, message->tag, message->context))
			return message;
	}
	return NULL;
}

/* Must a new receive leave the message to an older receive that cannot take it yet? */
static bool is_kept_back(struct twi_match *match, const struct twi_match_entry *recv,
			 const struct twi_match_entry *message)
{
	const struct twi_match_entry *other = receive_for(match, message->tag, message->context);

	return other != NULL && other->order <= recv->order;
}

struct twi_match_entry *twi_match_meets(struct twi_match *match, const struct twi_match_entry *recv)
{
	struct twi_match_entry *message = message_for(match, recv);

	if (message == NULL || twi_match_calm(match) || !is_kept_back(match, recv, message))
		return message;
	match->kept_back = match->wild;
	return NULL;
}

/* May the receive take message number `order`? Not if it must take an older message first. */
static bool is_next_for(struct twi_match *match, const struct twi_match_entry *recv, uint64_t order)
{
	const struct twi_match_entry *message;

	if (recv->held)
		return false;
	message = message_for(match, recv);
	return message == NULL || message->order >= order;
}

struct twi_match_entry *twi_match_take_wild(struct twi_match *match, uint64_t tag, uint32_t context,
					    uint64_t order)
{
	struct twi_match_entry *recv = receive_for(match, tag, context);

	if (recv == NULL)
		return NULL;
	if (!twi_match_calm(match) && !is_next_for(match, recv, order)) {
		match->kept_back = true;
		return NULL;
	}
	twi_match_remove_posted(match, recv);
	return recv;
}

struct twi_match_entry *twi_match_settle(struct twi_match *match, uint64_t *from_io,
					 struct twi_match_entry **recv_out)
{
	for (struct twi_list *pos = match->aged.next; pos != &match->aged; pos = pos->next) {
		struct twi_match_entry *message = &aged_of(pos)->entry, *recv;

		if (message->order < *from_io)
			continue;
		recv = receive_for(match, message->tag, message->context);
		if (recv == NULL)
			continue;
		if (!is_next_for(match, recv, message->order)) {
			match->kept_back = true;
			continue;
		}
		*from_io = message->order + 1;
		twi_match_drop_message(match, message);
		twi_match_remove_posted(match, recv);
		*recv_out = recv;
		return message;
	}
	return NULL;
}
