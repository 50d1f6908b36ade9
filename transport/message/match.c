/*
 * match.c - receives and messages meet. See match.h for the two tables and their invariant.
 *
 * An entry that has been through here is either on a chain or linked to itself. That is how a
 * cancel that comes too late is told from one that comes in time, without a flag to keep right.
 */
#include "transport/message/match.h"

void twi_match_init(struct twi_match *match)
{
	match->posted_count = 0;
	match->unexpected_count = 0;
	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		twi_list_init(&match->posted[i]);
		twi_list_init(&match->unexpected[i]);
	}
}

typedef void push_function(struct twi_list *head, struct twi_list *entry);

static struct twi_match_entry *oldest_posted(struct twi_match *match, uint64_t tag, uint8_t space)
{
	return twi_match_find(&match->posted[twi_match_hash(tag, space)], tag, space);
}

static bool oldest_is_held(struct twi_match *match, uint64_t tag, uint8_t space)
{
	const struct twi_match_entry *recv = oldest_posted(match, tag, space);

	return recv != NULL && recv->held;
}

/* What both ways to come share: look into the other table first, queue only when it has none. */
static struct twi_match_entry *post_entry(struct twi_match *match, struct twi_match_entry *recv,
					  push_function *push)
{
	struct twi_match_entry *message = NULL;

	if (!twi_unlikely(match->held_count) || !oldest_is_held(match, recv->tag, recv->space))
		message = twi_match_take_unexpected(match, recv->tag, recv->space);
	twi_list_init(&recv->link);
	if (message != NULL)
		return message;
	push(&match->posted[twi_match_hash(recv->tag, recv->space)], &recv->link);
	match->posted_count++;
	return NULL;
}

static struct twi_match_entry *arrive_entry(struct twi_match *match,
					    struct twi_match_entry *message, push_function *push)
{
	struct twi_match_entry *recv = twi_match_take_posted(match, message->tag, message->space);

	twi_list_init(&message->link);
	if (recv != NULL)
		return recv;
	push(&match->unexpected[twi_match_hash(message->tag, message->space)], &message->link);
	match->unexpected_count++;
	return NULL;
}

struct twi_match_entry *twi_match_post(struct twi_match *match, struct twi_match_entry *recv)
{
	return post_entry(match, recv, twi_list_push_back);
}

struct twi_match_entry *twi_match_post_first(struct twi_match *match, struct twi_match_entry *recv)
{
	return post_entry(match, recv, twi_list_push_front);
}

struct twi_match_entry *twi_match_arrive(struct twi_match *match, struct twi_match_entry *message)
{
	return arrive_entry(match, message, twi_list_push_back);
}

struct twi_match_entry *twi_match_arrive_first(struct twi_match *match,
					       struct twi_match_entry *message)
{
	return arrive_entry(match, message, twi_list_push_front);
}

bool twi_match_remove_posted(struct twi_match *match, struct twi_match_entry *recv)
{
	if (twi_list_empty(&recv->link))
		return false;
	twi_list_remove(&recv->link);
	match->posted_count--;
	match->held_count -= recv->held;
	recv->held = false;
	return true;
}

void twi_match_hold(struct twi_match *match, struct twi_match_entry *recv)
{
	twi_list_push_front(&match->posted[twi_match_hash(recv->tag, recv->space)], &recv->link);
	match->posted_count++;
	match->held_count++;
	recv->held = true;
}

void twi_match_let_go(struct twi_match *match, uint64_t tag, uint8_t space)
{
	struct twi_match_entry *recv = oldest_posted(match, tag, space);

	if (recv == NULL || !recv->held)
		return;
	recv->held = false;
	match->held_count--;
}

bool twi_match_remove_unexpected(struct twi_match *match, struct twi_match_entry *message)
{
	if (twi_list_empty(&message->link))
		return false;
	twi_list_remove(&message->link);
	match->unexpected_count--;
	return true;
}

/* The first entry of the buckets from `bucket` on. */
static struct twi_match_entry *first_from(const struct twi_list *buckets, uint32_t bucket)
{
	for (; bucket < TWI_MATCH_BUCKETS; bucket++) {
		struct twi_list *link = twi_list_first(&buckets[bucket]);

		if (link != NULL)
			return twi_container_of(link, struct twi_match_entry, link);
	}
	return NULL;
}

struct twi_match_entry *twi_match_first_posted(const struct twi_match *match)
{
	return match->posted_count ? first_from(match->posted, 0) : NULL;
}

struct twi_match_entry *twi_match_first_unexpected(const struct twi_match *match)
{
	return match->unexpected_count ? first_from(match->unexpected, 0) : NULL;
}

struct twi_match_entry *twi_match_next_unexpected(const struct twi_match *match,
						  const struct twi_match_entry *entry)
{
	const uint32_t bucket = twi_match_hash(entry->tag, entry->space);

	twi_assert(!twi_list_empty(&entry->link)); /* one that was removed would be its own next */
	if (entry->link.next != &match->unexpected[bucket])
		return twi_container_of(entry->link.next, struct twi_match_entry, link);
	return first_from(match->unexpected, bucket + 1);
}

static uint32_t count_of(const struct twi_list *buckets, uint8_t space)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		const struct twi_list *head = &buckets[i];

		for (const struct twi_list *pos = head->next; pos != head; pos = pos->next)
			count +=
				twi_container_of(pos, struct twi_match_entry, link)->space == space;
	}
	return count;
}

uint32_t twi_match_count_posted(const struct twi_match *match, uint8_t space)
{
	return count_of(match->posted, space);
}

uint32_t twi_match_count_unexpected(const struct twi_match *match, uint8_t space)
{
	return count_of(match->unexpected, space);
}
