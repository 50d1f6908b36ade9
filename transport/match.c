/*
 * match.c - receives and messages meet. See match.h for the two tables and their invariant.
 *
 * An entry that has been through here is either on a chain or linked to itself. That is how a
 * cancel that comes too late is told from one that comes in time, without a flag to keep right.
 */
#include "transport/match.h"

void twi_match_init(struct twi_match *match)
{
	match->posted_count = 0;
	match->unexpected_count = 0;
	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		twi_list_init(&match->posted[i]);
		twi_list_init(&match->unexpected[i]);
	}
}

struct twi_match_entry *twi_match_post(struct twi_match *match, struct twi_match_entry *recv)
{
	struct twi_match_entry *message = twi_match_take_unexpected(match, recv->tag);

	twi_list_init(&recv->link);
	if (message)
		return message;
	twi_list_push_back(&match->posted[twi_match_hash(recv->tag)], &recv->link);
	match->posted_count++;
	return NULL;
}

struct twi_match_entry *twi_match_arrive(struct twi_match *match, struct twi_match_entry *message)
{
	struct twi_match_entry *recv = twi_match_take_posted(match, message->tag);

	twi_list_init(&message->link);
	if (recv)
		return recv;
	twi_list_push_back(&match->unexpected[twi_match_hash(message->tag)], &message->link);
	match->unexpected_count++;
	return NULL;
}

bool twi_match_remove_posted(struct twi_match *match, struct twi_match_entry *recv)
{
	if (twi_list_empty(&recv->link))
		return false;
	twi_list_remove(&recv->link);
	match->posted_count--;
	return true;
}

bool twi_match_remove_unexpected(struct twi_match *match, struct twi_match_entry *message)
{
	if (twi_list_empty(&message->link))
		return false;
	twi_list_remove(&message->link);
	match->unexpected_count--;
	return true;
}

static struct twi_match_entry *first_of(const struct twi_list *buckets, uint32_t count)
{
	if (!count)
		return NULL;
	for (uint32_t i = 0; i < TWI_MATCH_BUCKETS; i++) {
		struct twi_list *link = twi_list_first(&buckets[i]);

		if (link)
			return twi_container_of(link, struct twi_match_entry, link);
	}
	return NULL;
}

struct twi_match_entry *twi_match_first_posted(const struct twi_match *match)
{
	return first_of(match->posted, match->posted_count);
}

struct twi_match_entry *twi_match_first_unexpected(const struct twi_match *match)
{
	return first_of(match->unexpected, match->unexpected_count);
}
