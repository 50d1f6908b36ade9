/*
 * match.h - which message goes to which receive, for one peer: by tag, and in order. Pure: no
 * allocation, no I/O; entries live in the caller's operations and messages. Tags of two contexts
 * (match_entry.h) never meet.
 *
 *   receives that wait            messages that wait
 *   posted[0]   r3 - r7           unexpected[0]
 *   posted[1]                     unexpected[1]   m2 - m2 - m9
 *   ...                           ...
 *
 * A bucket is chosen by a hash of the tag, and its chain is in order of coming, but for entries
 * that come back because what they had met was taken away from them: these go in front, behind
 * what is older (twi_match_entry.order). So the first entry with a tag in its chain is the oldest.
 *
 * Invariant: a tag is in at most one of the two tables. A newcomer looks into the other table
 * first, and queues only when nothing is there.
 *
 * A *wild* receive takes more than one tag. It stands in a list beside the buckets, from the oldest
 * on, and its number is compared with that of the receive for the tag alone. One of any peer of an
 * endpoint stands in a list that is common to the tables of these (any_peer.h); while it is held it
 * is this peer's. Once a table has seen
 * one (`wild`), the messages that wait are also in a list by their numbers, so that it finds the
 * oldest over all buckets; until then that costs a branch (match_wild.c).
 *
 * Cost: a hash (two multiplications) and on the average 1 + entries/256 steps. A peer that chooses
 * tags that collide makes its own messages slow; its credit bounds how many it can have here.
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
	struct twi_list wild_posted; /* those of this peer, from the oldest on */
	struct twi_list *any;        /* those of any peer of its endpoint; NULL: it has none */
	struct twi_list aged;        /* `wild`: messages that wait, from the oldest on */
	struct twi_list posted[TWI_MATCH_BUCKETS];
	struct twi_list unexpected[TWI_MATCH_BUCKETS];
};

/* What the entry of a message is a part of, at its beginning, in a table that is wild. */
struct twi_match_message {
	struct twi_match_entry entry;
	struct twi_list age;
};

/* How many of a space wait, on all channels; walks all that do, so not for the data path. */
uint32_t twi_match_count_posted(const struct twi_match *match, uint8_t space);
uint32_t twi_match_count_unexpected(const struct twi_match *match, uint8_t space);

/* The tables point into themselves: a struct twi_match must not be moved. */
void twi_match_init(struct twi_match *match);

/*
 * A receive comes. Returns the oldest unexpected message with its tag, now in no table, and `recv`
 * is in none either; or NULL, and `recv` is queued.
 */
struct twi_match_entry *twi_match_post(struct twi_match *match, struct twi_match_entry *recv);

/* A message comes. Mirrors twi_match_post: returns the oldest receive, or queues `message`. */
struct twi_match_entry *twi_match_arrive(struct twi_match *match, struct twi_match_entry *message);

/*
 * The same for one that was matched before, and whose match came to nothing: when it is queued, it
 * is the oldest with its tag again, so that later ones do not overtake it.
 */
struct twi_match_entry *twi_match_post_first(struct twi_match *match, struct twi_match_entry *recv);
struct twi_match_entry *twi_match_arrive_first(struct twi_match *match,
					       struct twi_match_entry *message);

/*
 * Takes an entry out before its time (canceled, withdrawn). False, and nothing done, when it was
 * not queued any more. The entry must have been through post or arrive once.
 */
bool twi_match_remove_posted(struct twi_match *match, struct twi_match_entry *recv);
bool twi_match_remove_unexpected(struct twi_match *match, struct twi_match_entry *message);

/*
 * A receive that was matched cannot take its message now: it is queued as the oldest with its tag,
 * and *held*. While it is, nothing of that tag is matched: messages queue, and so do receives
 * behind it, each in its order. Who holds it lets the message arrive first again, or for the first
 * time.
 */
void twi_match_hold(struct twi_match *match, struct twi_match_entry *recv);

/* Takes out the oldest held receive that takes such a message; it is held no longer. Or NULL. */
struct twi_match_entry *twi_match_take_held(struct twi_match *match, uint64_t tag,
					    uint32_t context);

/*
 * Wild receives (match_wild.c). go_wild comes before the first one is posted, and before a message
 * is looked for with a mask. take_wild: twi_match_take_posted of such a table, for a message of
 * that number. meets: the message that post would return, which stays where it is. settle, when
 * something is held no longer: the first message from number *from_io on that has a receive now;
 * both are in no table any more. NULL: there is none; *from_io goes on behind it.
 */
void twi_match_go_wild(struct twi_match *match);
struct twi_match_entry *twi_match_take_wild(struct twi_match *match, uint64_t tag, uint32_t context,
					    uint64_t order);
struct twi_match_entry *twi_match_meets(struct twi_match *match,
					const struct twi_match_entry *recv);
struct twi_match_entry *twi_match_settle(struct twi_match *match, uint64_t *from_io,
					 struct twi_match_entry **recv_out);

/* Puts the entry where its order says: the first of a list of wild receives. */
void twi_match_put_wild(struct twi_list *list, struct twi_match_entry *recv);
void twi_match_put_aged(struct twi_match *match, struct twi_match_entry *message);

/*
 * What is queued: each entry once, those of one tag from the oldest on, tags in no order that means
 * anything; wild receives last. NULL: there is none left. `entry` is queued; it may be removed once
 * the next was asked for, but the next may not be before it has had its turn.
 */
struct twi_match_entry *twi_match_first_posted(const struct twi_match *match);
struct twi_match_entry *twi_match_first_unexpected(const struct twi_match *match);
struct twi_match_entry *twi_match_next_unexpected(const struct twi_match *match,
						  const struct twi_match_entry *entry);

/*
 * Tags may be small numbers in a row, or addresses, or have a rank in the high bits and nothing
 * else. One multiplication carries every bit to the top, where the index is taken, but puts tags
 * with some steps between them (Fibonacci numbers) into a handful of buckets; the fold and the
 * second break such rows up.
 */
static inline uint32_t twi_match_hash(uint64_t tag, uint32_t context)
{
	uint64_t x = twi_hash_spread(tag + context);

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return (uint32_t)(x >> (64 - TWI_MATCH_BITS));
}

/* Does the receive take a message of that tag? */
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
 * Takes the oldest receive with that tag, or returns NULL, also when it is held: for a small
 * message that has just been read, which needs a record of its own only when nobody waits for it.
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

/* Nothing is held, and nothing is kept back: no message waits beside a receive that takes it. */
static inline bool twi_match_calm(const struct twi_match *match)
{
	return match->held_count == 0 && !match->kept_back;
}

/* Does anybody wait for a message of this peer? */
static inline bool twi_match_awaited(const struct twi_match *match)
{
	return match->posted_count > 0 || (match->any != NULL && !twi_list_empty(match->any));
}

/* A message that is queued is so no more. */
static inline void twi_match_drop_message(struct twi_match *match, struct twi_match_entry *message)
{
	twi_list_remove(&message->link);
	match->unexpected_count--;
	if (twi_unlikely(match->wild))
		twi_list_remove(&twi_container_of(message, struct twi_match_message, entry)->age);
}

/* Likewise the oldest unexpected message with that tag. */
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
