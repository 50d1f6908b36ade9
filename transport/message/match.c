/*
 * match.c - the match tables: receives and messages meet. See match.h for the tables and their
 * invariant.
 *
 * An entry that has been through here is either on a chain or linked to itself. So a cancel that
 * comes too late is detected without a flag.
 */
#include "transport/message/match.h"

void twi_match_init(struct twi_match *match)
{
	match->posted_count = 0;
	match->unexpected_count = 0;
	match->held_count = 0;
	match->wild = match->kept_back = false;
	match->any = NULL;
	twi_list_init(&match->wild_posted);
	twi_list_init(&match->aged);
	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		twi_list_init(&match->posted[i]);
		twi_list_init(&match->unexpected[i]);
	}
}

static struct twi_list *bucket_of(struct twi_list *buckets, const struct twi_match_entry *entry)
{
	return &buckets[twi_match_hash(entry->tag, entry->context)];
}

/* Adds an entry at the end of its chain. `first`: in front, behind older entries. */
static inline void push_entry(struct twi_list *head, struct twi_match_entry *entry, bool first)
{
	struct twi_list *pos;

	if (!first) {
		twi_list_push_back(head, &entry->link);
		return;
	}
	for (pos = head; pos->next != head; pos = pos->next) {
		if (twi_container_of(pos->next, struct twi_match_entry, link)->order >=
		    entry->order)
			break;
	}
	twi_list_push_front(pos, &entry->link);
}

/* Common to both ways to post: looks into the other table, and queues only if that has no match. */
static inline __attribute__((always_inline)) struct twi_match_entry *
post_entry(struct twi_match *match, struct twi_match_entry *recv, bool first)
{
	struct twi_match_entry *message;

	if (twi_likely((match->held_count | match->kept_back | recv->wild) == 0)) {
		message = twi_match_take_unexpected(match, recv->tag, recv->context);
	} else {
		message = twi_match_meets(match, recv);
		if (message != NULL)
			twi_match_drop_message(match, message);
	}
	twi_list_init(&recv->link);
	if (message != NULL)
		return message;
	if (twi_unlikely(recv->wild))
		twi_match_put_wild(&match->wild_posted, recv);
	else
		push_entry(bucket_of(match->posted, recv), recv, first);
	match->posted_count++;
	return NULL;
}

static inline struct twi_match_entry *arrive_entry(struct twi_match *match,
						   struct twi_match_entry *message, bool first)
{
	struct twi_match_entry *recv;

	if (twi_unlikely(match->wild))
		recv = twi_match_take_wild(match, message->tag, message->context, message->order);
	else
		recv = twi_match_take_posted(match, message->tag, message->context);
	twi_list_init(&message->link);
	if (recv != NULL)
		return recv;
	push_entry(bucket_of(match->unexpected, message), message, first);
	match->unexpected_count++;
	if (twi_unlikely(match->wild))
		twi_match_put_aged(match, message);
	return NULL;
}

struct twi_match_entry *twi_match_post(struct twi_match *match, struct twi_match_entry *recv)
{
	return post_entry(match, recv, false);
}

struct twi_match_entry *twi_match_post_first(struct twi_match *match, struct twi_match_entry *recv)
{
	return post_entry(match, recv, true);
}

struct twi_match_entry *twi_match_arrive(struct twi_match *match, struct twi_match_entry *message)
{
	return arrive_entry(match, message, false);
}

struct twi_match_entry *twi_match_arrive_first(struct twi_match *match,
					       struct twi_match_entry *message)
{
	return arrive_entry(match, message, true);
}

bool twi_match_remove_posted(struct twi_match *match, struct twi_match_entry *recv)
{
	if (twi_list_empty(&recv->link))
		return false;
	twi_list_remove(&recv->link);
	match->posted_count -= !recv->any || recv->held;
	match->held_count -= recv->held;
	recv->held = false;
	return true;
}

void twi_match_hold(struct twi_match *match, struct twi_match_entry *recv)
{
	if (twi_unlikely(recv->wild))
		twi_match_put_wild(&match->wild_posted, recv);
	else
		push_entry(bucket_of(match->posted, recv), recv, true);
	match->posted_count++;
	match->held_count++;
	recv->held = true;
}

/* The first receive of a chain that is held and takes such a message. */
static struct twi_match_entry *first_held(struct twi_list *head, uint64_t tag, uint32_t context)
{
	for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
		struct twi_match_entry *recv = twi_container_of(pos, struct twi_match_entry, link);

		if (recv->held && twi_match_takes(recv, tag, context))
			return recv;
	}
	return NULL;
}

struct twi_match_entry *twi_match_take_held(struct twi_match *match, uint64_t tag, uint32_t context)
{
	struct twi_match_entry *recv, *wild;

	if (match->held_count == 0)
		return NULL;
	recv = first_held(&match->posted[twi_match_hash(tag, context)], tag, context);
	wild = first_held(&match->wild_posted, tag, context);
	if (wild != NULL && (recv == NULL || wild->order < recv->order))
		recv = wild;
	if (recv != NULL)
		twi_match_remove_posted(match, recv);
	return recv;
}

bool twi_match_remove_unexpected(struct twi_match *match, struct twi_match_entry *message)
{
	if (twi_list_empty(&message->link))
		return false;
	twi_match_drop_message(match, message);
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
	struct twi_match_entry *recv = match->posted_count ? first_from(match->posted, 0) : NULL;
	struct twi_list *wild = twi_list_first(&match->wild_posted);

	if (recv != NULL || wild == NULL)
		return recv;
	return twi_container_of(wild, struct twi_match_entry, link);
}

struct twi_match_entry *twi_match_first_unexpected(const struct twi_match *match)
{
	return match->unexpected_count ? first_from(match->unexpected, 0) : NULL;
}

struct twi_match_entry *twi_match_next_unexpected(const struct twi_match *match,
						  const struct twi_match_entry *entry)
{
	const uint32_t bucket = twi_match_hash(entry->tag, entry->context);

	twi_assert(!twi_list_empty(&entry->link)); /* a removed entry would be its own next */
	if (entry->link.next != &match->unexpected[bucket])
		return twi_container_of(entry->link.next, struct twi_match_entry, link);
	return first_from(match->unexpected, bucket + 1);
}

static uint32_t count_chain(const struct twi_list *head, uint8_t space)
{
	uint32_t count = 0;

	for (const struct twi_list *pos = head->next; pos != head; pos = pos->next)
		count += twi_space_of(
				 twi_container_of(pos, struct twi_match_entry, link)->context) ==
			 space;
	return count;
}

static uint32_t count_of(const struct twi_list *buckets, uint8_t space)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++)
		count += count_chain(&buckets[i], space);
	return count;
}

uint32_t twi_match_count_posted(const struct twi_match *match, uint8_t space)
{
	return count_of(match->posted, space) + count_chain(&match->wild_posted, space);
}

uint32_t twi_match_count_unexpected(const struct twi_match *match, uint8_t space)
{
	return count_of(match->unexpected, space);
}
