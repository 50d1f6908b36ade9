/*
 * store_meet_judge.c - compares two meetings, and writes them for messages. See store_meet.h.
 */
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/store_meet.h"

static bool lists_rank(const struct twi_store_meet *meet, uint32_t rank)
{
	uint32_t low = 0, high = meet->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (meet->members[middle].sorted < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < meet->count && meet->members[low].sorted == rank;
}

bool twi_meet_same_list(const struct twi_store_meet *a, const struct twi_store_meet *b, bool sorted)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		if (sorted ? a->members[i].sorted != b->members[i].sorted
			   : a->members[i].rank != b->members[i].rank)
			return false;
	}
	return true;
}

bool twi_meet_same_key(const struct twi_store_meet *a, const struct twi_store_meet *b)
{
	return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0;
}

static bool is_meant(const struct twi_store_meet *meet, uint32_t index, enum twi_meet_whom whom)
{
	const struct twi_meet_member *member = &meet->members[index];

	return whom == TWI_MEET_ALL ||
	       (whom == TWI_MEET_NEW ? member->number == 0 : member->client == TWI_STORE_NOBODY);
}

uint32_t twi_meet_list_text(const struct twi_store_meet *meet, enum twi_meet_whom whom,
			    char out[TWI_MEET_CHARS])
{
	uint32_t named = 0, total = 0;
	size_t used = 0;

	*out = '\0';
	for (uint32_t i = 0; i < meet->count; i++)
		total += is_meant(meet, i, whom);
	for (uint32_t i = 0, end; i < meet->count && used + 40 < TWI_MEET_CHARS; i = end) {
		uint32_t first = meet->members[i].rank;

		end = i + 1;
		if (!is_meant(meet, i, whom))
			continue;
		while (end < meet->count && meet->members[end].rank == first + end - i &&
		       is_meant(meet, end, whom))
			end++;
		used += (size_t)snprintf(out + used, TWI_MEET_CHARS - used, "%s%u",
					 named > 0 ? ", " : "", first);
		if (end - i > 1)
			used += (size_t)snprintf(out + used, TWI_MEET_CHARS - used, "%s%u",
						 end - i > 2 ? "-" : ", ", first + end - i - 1);
		named += end - i;
	}
	if (named < total)
		snprintf(out + used, TWI_MEET_CHARS - used, " and %u more", total - named);
	return total;
}

void twi_meet_name_text(const struct twi_store_meet *meet, char *out, size_t bytes)
{
	const char *colon = memchr(meet->key, ':', meet->key_bytes);
	uint32_t before = colon == NULL ? meet->key_bytes : (uint32_t)(colon - meet->key) + 1;

	if (before == meet->key_bytes)
		*out = '\0';
	else
		snprintf(out, bytes, " '%.*s'", (int)twi_min(meet->key_bytes - before, 48u),
			 meet->key + before);
}

static bool waits_in(const struct twi_store_meet *meet, uint32_t rank)
{
	for (uint32_t i = 0; i < meet->count; i++) {
		if (meet->members[i].rank == rank)
			return meet->members[i].client != TWI_STORE_NOBODY;
	}
	return false;
}

/* Returns a member that waits in `meet`, and that `other` waits for; TWI_STORE_NOBODY: none. */
static uint32_t awaited_by(const struct twi_store_meet *meet, const struct twi_store_meet *other)
{
	for (uint32_t i = 0; i < meet->count; i++) {
		uint32_t rank = meet->members[i].rank;

		if (meet->members[i].client != TWI_STORE_NOBODY && lists_rank(other, rank) &&
		    !waits_in(other, rank))
			return rank;
	}
	return TWI_STORE_NOBODY;
}

bool twi_meets_disagree(const struct twi_store_meet *a, const struct twi_store_meet *b)
{
	char mine[TWI_MEET_CHARS], theirs[TWI_MEET_CHARS], name[64];
	uint32_t one, other;

	if (a == b || !twi_meet_same_key(a, b) || twi_meet_same_list(a, b, false))
		return false;
	one = awaited_by(a, b);
	other = one == TWI_STORE_NOBODY ? one : awaited_by(b, a);
	if (other == TWI_STORE_NOBODY)
		return false;
	twi_meet_list_text(a, TWI_MEET_ALL, mine);
	twi_meet_list_text(b, TWI_MEET_ALL, theirs);
	twi_meet_name_text(a, name, sizeof(name));
	twi_error(TOW_EMISMATCH,
		  "members disagree about a group%s: rank %u of the job lists %s, rank %u of the "
		  "job lists %s",
		  name, one, mine, other, theirs);
	return true;
}

bool twi_meet_has_name(const struct twi_store_meet *meet)
{
	const char *colon = memchr(meet->key, ':', meet->key_bytes);

	return colon != NULL && colon + 1 < meet->key + meet->key_bytes;
}
