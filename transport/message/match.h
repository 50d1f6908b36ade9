/*
 * match.h - matches the messages and the receives of one peer, by tag and in order. It does no
 * allocation and no I/O; entries live in the caller's operations and messages. Tags of two contexts
 * (match_entry.h) never match.
 *
 *   receives that wait            messages that wait
 *   posted[0]   r3 - r7           unexpected[0]
 *   posted[1]                     unexpected[1]   m2 - m2 - m9
 *   ...                           ...
 *
 * A hash of the tag chooses the bucket. The chain of a bucket is in order of arrival. An entry can
 * come back, because the entry that it had met was taken away. Such an entry goes in front, behind
 * older ones (twi_match_entry.order). So the first entry of a tag in its chain is the oldest.
 *
 * Invariant: a tag is in at most one of the two tables. A new entry looks into the other table
 * first, and is queued only when nothing is there.
 *
 * A *wild* receive takes more than one tag. It stands in a list beside the buckets, oldest first.
 * Its number is compared with the number of the receive that waits for the exact tag. A receive of
 * any peer of an endpoint stands in a list that the tables of these peers share (any_peer.h). While
 * it is held, it belongs to this peer. Once a table has seen a wild receive (`wild`), the messages
 * that wait are also in a list by their numbers. There a wild receive finds the oldest over all
 * buckets. Until then, wild receives cost one branch (match_wild.c).
 *
 * Cost: a hash (two multiplications) and on average 1 + entries/256 steps. A peer that chooses tags
 * with equal hashes makes its own messages slow. Its credit limits how many of them can wait here.
 */
#ifndef TWI_MATCH_H
#define TWI_MATCH_H

#include <internal/list.h>

#include "diag/base/hash.h"
#include "transport/op/match_entry.h"

#define TWI_MATCH_BITS    8
#define TWI_MATCH_BUCKETS (1u << TWI_MATCH_BITS)

struct twi_match {
	uint32_t posted_count, unexpected_count;
	uint32_t held_count;
	bool wild;      /* wild receives have been looked for here */
	bool kept_back; /* messages wait beside receives that take them (match_wild.c) */
	struct twi_list wild_posted; /* wild receives of this peer, oldest first */
	struct twi_list *any;        /* those of any peer of its endpoint; NULL: no endpoint */
	struct twi_list aged;        /* if `wild`: messages that wait, oldest first */
	struct twi_list posted[TWI_MATCH_BUCKETS];
	struct twi_list unexpected[TWI_MATCH_BUCKETS];
};

/* A message of a table that is `wild`: its entry, and its link in the list by age. */
struct twi_match_message {
	struct twi_match_entry entry;
	struct twi_list age;
};

/*
 * How many entries of a space wait, on all channels. Walks all that wait, so it is not for the data
 * path.
 */
uint32_t twi_match_count_posted(const struct twi_match *match, uint8_t space);
uint32_t twi_match_count_unexpected(const struct twi_match *match, uint8_t space);

/* The tables point into themselves: a struct twi_match must not be moved. */
void twi_match_init(struct twi_match *match);

/*
 * Posts a receive. Returns the oldest unexpected message with its tag; then neither is in a table.
 * NULL: no message was there, and `recv` is queued.
 */
struct twi_match_entry *twi_match_post(struct twi_match *match, struct twi_match_entry *recv);

/* Adds a message. Mirrors twi_match_post: returns the oldest receive, or queues `message`. */
struct twi_match_entry *twi_match_arrive(struct twi_match *match, struct twi_match_entry *message);

/*
 * The same for an entry that was matched before and lost its match. If it is queued, it is the
 * oldest of its tag again, so that later entries do not overtake it.
 */
struct twi_match_entry *twi_match_post_first(struct twi_match *match, struct twi_match_entry *recv);
struct twi_match_entry *twi_match_arrive_first(struct twi_match *match,
					       struct twi_match_entry *message);

/*
 * Takes an entry out early (canceled, withdrawn). False: the entry was not queued any more, and
 * nothing was done. The entry must have been through post or arrive once.
 */
bool twi_match_remove_posted(struct twi_match *match, struct twi_match_entry *recv);
bool twi_match_remove_unexpected(struct twi_match *match, struct twi_match_entry *message);

/*
 * Queues a matched receive that cannot take its message now. It is the oldest of its tag, and
 * *held*. While it is held, nothing of that tag is matched: messages queue, and so do later
 * receives, each in order. The caller later lets the message arrive, for the first time or with
 * arrive_first.
 */
void twi_match_hold(struct twi_match *match, struct twi_match_entry *recv);

/* Takes out the oldest held receive that takes such a message, and ends its hold; NULL: none. */
struct twi_match_entry *twi_match_take_held(struct twi_match *match, uint64_t tag,
					    uint32_t context);

/*
 * Wild receives (match_wild.c).
 *
 * go_wild: must be called before the first wild receive is posted, and before a message is looked
 * for with a mask.
 *
 * take_wild: does what twi_match_take_posted does, in a table that is wild, for message number
 * `order`.
 *
 * meets: the message that post would return; the message stays in its table.
 *
 * settle: is called when an entry is no longer held. Returns the first message from number *from_io
 * on that has a receive now. Then both are in no table, and *from_io is behind that message. NULL:
 * there is none.
 */
void twi_match_go_wild(struct twi_match *match);
struct twi_match_entry *twi_match_take_wild(struct twi_match *match, uint64_t tag, uint32_t context,
					    uint64_t order);
struct twi_match_entry *twi_match_meets(struct twi_match *match,
					const struct twi_match_entry *recv);
struct twi_match_entry *twi_match_settle(struct twi_match *match, uint64_t *from_io,
					 struct twi_match_entry **recv_out);

/* Puts the entry where its order belongs in the list of wild receives, or of messages by age. */
void twi_match_put_wild(struct twi_list *list, struct twi_match_entry *recv);
void twi_match_put_aged(struct twi_match *match, struct twi_match_entry *message);

/*
 * Walks the queued entries. Each comes once, and entries of one tag come oldest first. The order of
 * tags means nothing; wild receives come last. NULL: there are no more. `entry` is queued. It may
 * be removed after the next was asked for. The next entry may not be removed before its own turn.
 */
struct twi_match_entry *twi_match_first_posted(const struct twi_match *match);
struct twi_match_entry *twi_match_first_unexpected(const struct twi_match *match);
struct twi_match_entry *twi_match_next_unexpected(const struct twi_match *match,
						  const struct twi_match_entry *entry);

/*
 * Tags may be small numbers in a row, addresses, or numbers with a rank in the high bits alone. One
 * multiplication carries every bit to the top, where the index is taken. But it puts tags with
 * certain steps between them (Fibonacci numbers) into a few buckets. The fold and the second
 * multiplication break such rows up.
 */
static inline uint32_t twi_match_hash(uint64_t tag, uint32_t context)
{
	uint64_t x = twi_hash_spread(tag + context);

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return (uint32_t)(x >> (64 - TWI_MATCH_BITS));
}

/* Does the receive take a message with this tag? */
static inline bool twi_match_takes(const struct twi_match_entry *recv, uint64_t tag,
				   uint32_t context)
{
	return recv->context == context && (recv->wild ? tag & recv->tag_mask : tag) == recv->tag;
}

/* The oldest entry with that tag in its chain, or NULL. */
static inline struct twi_match_entry *twi_match_find(struct twi_list *head, uint64_t tag,
						     uint32_t context)
{
	for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
		struct twi_match_entry *entry = twi_container_of(pos, struct twi_match_entry, link);

		if (entry->tag == tag && entry->context == context)
			return entry;
	}
	return NULL;
}

/*
 * Takes the oldest receive with that tag. NULL: there is none, or it is held. For a small message
 * that has just been read, which needs a record only when no receive waits for it.
 */
static inline struct twi_match_entry *twi_match_take_posted(struct twi_match *match, uint64_t tag,
							    uint32_t context)
{
	struct twi_match_entry *entry;

	if (twi_unlikely(match->wild))
		return twi_match_take_wild(match, tag, context, UINT64_MAX);
	if (!match->posted_count)
		return NULL;
	entry = twi_match_find(&match->posted[twi_match_hash(tag, context)], tag, context);
	if (entry == NULL || entry->held)
		return NULL;
	twi_list_remove(&entry->link);
	match->posted_count--;
	return entry;
}

/* No receive is held, and no message waits beside a receive that takes it. */
static inline bool twi_match_calm(const struct twi_match *match)
{
	return match->held_count == 0 && !match->kept_back;
}

/* Does any receive wait for a message of this peer? */
static inline bool twi_match_awaited(const struct twi_match *match)
{
	return match->posted_count > 0 || (match->any != NULL && !twi_list_empty(match->any));
}

/* Takes a queued message out of its table. */
static inline void twi_match_drop_message(struct twi_match *match, struct twi_match_entry *message)
{
	twi_list_remove(&message->link);
	match->unexpected_count--;
	if (twi_unlikely(match->wild))
		twi_list_remove(&twi_container_of(message, struct twi_match_message, entry)->age);
}

/* Takes the oldest unexpected message with that tag; NULL: none. */
static inline struct twi_match_entry *twi_match_take_unexpected(struct twi_match *match,
								uint64_t tag, uint32_t context)
{
	struct twi_match_entry *entry;

	if (!match->unexpected_count)
		return NULL;
	entry = twi_match_find(&match->unexpected[twi_match_hash(tag, context)], tag, context);
	if (entry != NULL)
		twi_match_drop_message(match, entry);
	return entry;
}

#endif
