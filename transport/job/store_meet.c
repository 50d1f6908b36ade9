/*
 * store_meet.c - makes meetings, and ends them. See store_meet.h.
 */
#include "transport/job/store_meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"

/* Bytes of a meeting without its key and members. */
#define MEET_BYTES (sizeof(struct twi_store_meet) + 32)

static uint64_t bytes_of(uint32_t count, uint32_t key_bytes)
{
	return MEET_BYTES + count * sizeof(struct twi_meet_member) + key_bytes;
}

static void free_meet(struct twi_store *store, struct twi_store_meet *meet)
{
	twi_list_remove(&meet->link);
	store->bytes -= bytes_of(meet->count, meet->key_bytes);
	free(meet);
}

static struct twi_store_meet *meet_of(struct twi_list *pos)
{
	return twi_container_of(pos, struct twi_store_meet, link);
}

static int by_rank(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* --- meetings begin and end --- */

/*
 * Makes a meeting from a request. NULL, with status and text: the request is broken, or there is no
 * memory.
 */
static struct twi_store_meet *make_meet(struct twi_store *store,
					const struct twi_store_frame *frame, int *status_out)
{
	uint32_t count = (uint32_t)(frame->a >> 32);
	uint16_t *ranks = malloc(count * sizeof(*ranks));
	struct twi_store_meet *meet = NULL;
	bool good = ranks != NULL &&
		    twi_store_list_take(frame->value, frame->value_bytes, ranks, count);

	*status_out = ranks == NULL ? twi_error(TOW_ENOMEM, "no memory for the job's store")
		      : good        ? twi_store_charge(store, bytes_of(count, frame->key_bytes))
				    : twi_error(TOW_EPROTOCOL, "store: a broken list of ranks");
	if (*status_out == TOW_OK) {
		meet = calloc(1,
			      sizeof(*meet) + count * sizeof(meet->members[0]) + frame->key_bytes);
		if (meet == NULL) {
			store->bytes -= bytes_of(count, frame->key_bytes);
			*status_out = twi_error(TOW_ENOMEM, "no memory for the job's store");
		}
	}
	if (meet != NULL) {
		twi_list_init(&meet->link);
		meet->count = count;
		meet->key = (char *)&meet->members[count];
		meet->key_bytes = frame->key_bytes;
		twi_store_copy(meet->key, frame->key, frame->key_bytes);
		for (uint32_t i = 0; i < count; i++)
			meet->members[i] =
				(struct twi_meet_member){ TWI_STORE_NOBODY, 0, ranks[i], 0 };
		qsort(ranks, count, sizeof(*ranks), by_rank);
		for (uint32_t i = 0; i < count; i++)
			meet->members[i].sorted = ranks[i];
	}
	free(ranks);
	return meet;
}

/* Checks that the list has different ranks of the job, with the client's rank at its index. */
static int judge_list(const struct twi_store *store, const struct twi_store_meet *meet,
		      uint32_t index, uint32_t rank)
{
	for (uint32_t i = 0; i < meet->count; i++) {
		if (meet->members[i].sorted >= store->config.world_size ||
		    (i > 0 && meet->members[i].sorted == meet->members[i - 1].sorted))
			return twi_error(TOW_EPROTOCOL, "store: rank %u lists rank %u, of %u", rank,
					 meet->members[i].sorted, store->config.world_size);
	}
	if (meet->members[index].rank != rank)
		return twi_error(TOW_EPROTOCOL, "store: rank %u says that it is rank %u", rank,
				 meet->members[index].rank);
	return TOW_OK;
}

/* Ends a meeting with the thread's error as the reply to all that wait in it. */
static void fail_meet(struct twi_store *store, struct twi_store_meet *meet, int status)
{
	char text[TWI_STORE_TEXT];

	snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, tow_error_message());
	for (uint32_t i = 0; i < meet->count; i++) {
		uint32_t client = meet->members[i].client;

		if (client == TWI_STORE_NOBODY)
			continue;
		store->clients[client].meet = NULL;
		twi_store_refuse(store, client, twi_error(status, "%s", text));
	}
	free_meet(store, meet);
	twi_error(status, "%s", text);
}

void twi_store_meet_leave(struct twi_store *store, uint32_t index)
{
	struct twi_store_connection *client = &store->clients[index];
	struct twi_store_meet *meet = client->meet;

	if (meet == NULL)
		return;
	client->meet = NULL;
	meet->members[client->meet_index].client = TWI_STORE_NOBODY;
	if (--meet->come == 0)
		free_meet(store, meet);
}

void twi_store_meets_free(struct twi_store *store)
{
	struct twi_list *pos;

	while ((pos = twi_list_first(&store->meets)) != NULL)
		free_meet(store, meet_of(pos));
	while ((pos = twi_list_first(&store->made)) != NULL)
		free_meet(store, meet_of(pos));
}

/* Draws a number that no group of the job has, from the counter that splits use, too. */
static int draw_number(struct twi_store *store, uint64_t *out)
{
	static const char key[] = "ids";
	uint8_t bytes[8];
	int status;
	struct twi_store_entry *entry = twi_store_make(store, key, sizeof(key) - 1, &status);

	if (entry != NULL && entry->value != NULL && entry->bytes != sizeof(bytes))
		status = twi_error(TOW_EINVAL, "store: the numbers of groups are overwritten");
	if (status < 0)
		return status;
	*out = 1 + (entry->value == NULL ? 0 : twi_get_le(entry->value, 8));
	twi_put_le(bytes, *out, 8);
	return twi_store_put(store, &entry->value, &entry->bytes, bytes, sizeof(bytes));
}

static void forget_made(struct twi_store *store, struct twi_store_meet *meet)
{
	store->made_count--;
	store->made_bytes -= bytes_of(meet->count, meet->key_bytes);
	free_meet(store, meet);
}

/* Keeps a meeting that has ended, in which no client waits any more. */
static void keep_over(struct twi_store *store, struct twi_store_meet *meet, uint64_t now_ns)
{
	twi_list_remove(&meet->link);
	twi_list_push_back(&store->made, &meet->link);
	meet->forget_ns = now_ns + TWI_STORE_KEEP_NS;
	store->made_count++;
	store->made_bytes += bytes_of(meet->count, meet->key_bytes);
	while (store->made_count > 1 &&
	       (store->made_count > TWI_STORE_MADE_MAX || store->made_bytes > TWI_STORE_MADE_BYTES))
		forget_made(store, meet_of(twi_list_first(&store->made)));
}

/* All members have come: replies to them with the group's number. */
static void finish_meet(struct twi_store *store, struct twi_store_meet *meet, uint64_t now_ns)
{
	int status = draw_number(store, &meet->group);

	if (status < 0) {
		fail_meet(store, meet, status);
		return;
	}
	for (uint32_t i = 0; i < meet->count; i++) {
		uint32_t client = meet->members[i].client;

		store->clients[client].meet = NULL;
		twi_store_answer(store, client, (struct twi_store_frame){ .a = meet->group });
	}
	keep_over(store, meet, now_ns);
}

/* Finds the made meeting of a request that is repeated because its answer was lost. */
static struct twi_store_meet *find_made_meet(const struct twi_store *store, uint32_t rank,
					     const struct twi_store_frame *frame)
{
	uint32_t count = (uint32_t)(frame->a >> 32), index = (uint32_t)frame->a;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &store->made) {
		struct twi_store_meet *meet = meet_of(pos);

		if (meet->count == count && meet->members[index].rank == rank &&
		    meet->members[index].number == frame->number)
			return meet;
	}
	return NULL;
}

/* --- members that disagree, that have gone, that do not come --- */

/* Fails a meeting and keeps it: members that come later get the failure, once each. */
static void fail_kept(struct twi_store *store, struct twi_store_meet *meet, const char *text,
		      uint64_t now_ns)
{
	snprintf(meet->doubt, sizeof(meet->doubt), "%s", text);
	keep_over(store, meet, now_ns);
	for (uint32_t i = 0; i < meet->count; i++) {
		uint32_t client = meet->members[i].client;

		if (client == TWI_STORE_NOBODY)
			continue;
		meet->members[i].client = TWI_STORE_NOBODY;
		store->clients[client].meet = NULL;
		twi_store_refuse(store, client, twi_error(TOW_EMISMATCH, "%s", text));
	}
}

/*
 * A rank has got the text of a disagreement. Marks this in all meetings of that disagreement, so
 * that it gets the text once, whichever list it comes with.
 */
static void mark_told(struct twi_store *store, uint32_t rank, uint32_t number, const char *text)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &store->made) {
		struct twi_store_meet *meet = meet_of(pos);

		if (meet->group != 0 || strcmp(meet->doubt, text) != 0)
			continue;
		for (uint32_t i = 0; i < meet->count; i++) {
			if (meet->members[i].rank == rank && meet->members[i].number == 0)
				meet->members[i].number = number;
		}
	}
}

static void mark_all_told(struct twi_store *store, const struct twi_store_meet *meet)
{
	for (uint32_t i = 0; i < meet->count; i++) {
		if (meet->members[i].number != 0)
			mark_told(store, meet->members[i].rank, meet->members[i].number,
				  meet->doubt);
	}
}

/* Returns a failed meeting whose failure this member has not got yet. NULL: there is none. */
static struct twi_store_meet *find_failed_meet(const struct twi_store *store,
					       const struct twi_store_meet *like, uint32_t index)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &store->made) {
		struct twi_store_meet *meet = meet_of(pos);

		if (meet->group == 0 && twi_meet_same_key(meet, like) &&
		    twi_meet_same_list(meet, like, false) && meet->members[index].number == 0)
			return meet;
	}
	return NULL;
}

/* Looks for a meeting that disagrees with this one, and fails both. */
static void fail_disagreeing(struct twi_store *store, struct twi_store_meet *meet, uint64_t now_ns)
{
	struct twi_list *pos, *next;
	char text[TWI_STORE_TEXT];

	twi_list_for_each_safe (pos, next, &store->meets) {
		struct twi_store_meet *other = meet_of(pos);

		if (!(twi_meet_has_name(meet) || twi_meet_same_list(meet, other, true)) ||
		    !twi_meets_disagree(meet, other))
			continue;
		snprintf(text, sizeof(text), "%s", tow_error_message());
		fail_kept(store, other, text, now_ns);
		fail_kept(store, meet, text, now_ns);
		twi_list_for_each_safe (pos, next, &store->made) {
			if (strcmp(meet_of(pos)->doubt, text) == 0)
				mark_all_told(store, meet_of(pos));
		}
		return;
	}
}

int twi_store_meet_expired(struct twi_store *store, uint32_t index)
{
	const struct twi_store_connection *client = &store->clients[index];
	const struct twi_store_meet *meet = client->meet;
	char missing[TWI_MEET_CHARS], name[64];
	struct twi_list *pos, *next;
	uint32_t count;

	twi_list_for_each_safe (pos, next, &store->meets) {
		struct twi_store_meet *other = meet_of(pos);

		if (!twi_meets_disagree(meet, other))
			continue;
		snprintf(other->doubt, sizeof(other->doubt), "%s", tow_error_message());
		return TOW_EMISMATCH;
	}
	if (meet->doubt[0] != '\0')
		return twi_error(TOW_EMISMATCH, "%s", meet->doubt);
	twi_meet_name_text(meet, name, sizeof(name));
	count = twi_meet_list_text(meet, TWI_MEET_NEW, missing);
	if (count == 0)
		twi_meet_list_text(meet, TWI_MEET_ABSENT, missing);
	return twi_error(TOW_EDEADLINE,
			 count > 0 ? "%u of %u members have not come to make the group%s in %u ms: "
				     "rank %s of the job"
				   : "%u of %u members waited for the group%s and have given up in "
				     "%u ms: rank %s of the job",
			 count > 0 ? count : meet->count - meet->come, meet->count, name,
			 client->request.wait_ms, missing);
}

bool twi_store_rank_lost(const struct twi_store *store, uint32_t rank, uint64_t now_ns)
{
	uint64_t gone_ns = store->ranks[rank].gone_ns;

	return gone_ns != 0 && now_ns >= gone_ns + TWI_STORE_GRACE_NS;
}

/* Fails a meeting if one of its members cannot come any more. */
static bool fail_left(struct twi_store *store, struct twi_store_meet *meet, uint64_t now_ns)
{
	for (uint32_t i = 0; i < meet->count && store->gone + store->left > 0; i++) {
		uint32_t rank = meet->members[i].rank;
		bool left = store->ranks[rank].left;

		if (!left && !twi_store_rank_lost(store, rank, now_ns))
			continue;
		fail_meet(store, meet,
			  twi_error(TOW_EPEER,
				    "rank %u of the job, which belongs to the group, has %s", rank,
				    left ? "left the job" : "gone"));
		return true;
	}
	return false;
}

static uint64_t tell_late(struct twi_store *store, struct twi_store_meet *meet, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - meet->since_ns;
	char missing[TWI_MEET_CHARS];

	if (store->config.late == NULL)
		return UINT64_MAX;
	if (now_ns >= meet->tell_ns) {
		twi_meet_list_text(meet, TWI_MEET_ABSENT, missing);
		meet->tell_ns = now_ns + 2 * waited_ns;
		store->config.late(store->config.arg, "meet", missing, waited_ns);
	}
	return meet->tell_ns;
}

uint64_t twi_store_meets_turn(struct twi_store *store, uint64_t now_ns)
{
	struct twi_list *pos, *next;
	uint64_t due = UINT64_MAX;

	twi_list_for_each_safe (pos, next, &store->meets) {
		struct twi_store_meet *meet = meet_of(pos);

		if (!fail_left(store, meet, now_ns))
			due = twi_min(due, tell_late(store, meet, now_ns));
	}
	while ((pos = twi_list_first(&store->made)) != NULL) {
		if (now_ns < meet_of(pos)->forget_ns)
			return twi_min(due, meet_of(pos)->forget_ns);
		forget_made(store, meet_of(pos));
	}
	return due;
}

/* --- the request --- */

/*
 * The same request may wait already, over a broken connection whose end the store has not seen yet.
 * Ends that wait.
 */
static void end_duplicate_wait(struct twi_store *store, uint32_t rank, uint32_t number)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &store->meets) {
		const struct twi_store_meet *meet = meet_of(pos);

		for (uint32_t i = 0; i < meet->count; i++) {
			const struct twi_meet_member *member = &meet->members[i];

			if (member->rank == rank && member->number == number &&
			    member->client != TWI_STORE_NOBODY) {
				twi_store_meet_leave(store, member->client);
				return;
			}
		}
	}
}

/* Returns a meeting of the same key and list in which this member does not wait yet. */
static struct twi_store_meet *find_meet(struct twi_store *store, const struct twi_store_meet *like,
					uint32_t index)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &store->meets) {
		struct twi_store_meet *meet = meet_of(pos);

		if (twi_meet_same_key(meet, like) && twi_meet_same_list(meet, like, false) &&
		    meet->members[index].client == TWI_STORE_NOBODY)
			return meet;
	}
	return NULL;
}

/* Replies from a meeting that has ended: with its group, or with its failure. */
static int answer_over(struct twi_store *store, uint32_t client, const struct twi_store_meet *meet)
{
	if (meet->group == 0)
		return twi_store_refuse(store, client, twi_error(TOW_EMISMATCH, "%s", meet->doubt));
	twi_store_answer(store, client, (struct twi_store_frame){ .a = meet->group });
	return TOW_OK;
}

static void join_meet(struct twi_store *store, struct twi_store_meet *meet, uint32_t client,
		      uint32_t index, uint64_t now_ns)
{
	struct twi_store_connection *connection = &store->clients[client];

	meet->members[index].client = client;
	meet->members[index].number = connection->request.number;
	meet->come++;
	connection->meet = meet;
	connection->meet_index = index;
	twi_store_wait(store, client, now_ns);
	if (meet->come == meet->count)
		finish_meet(store, meet, now_ns);
	else if (!fail_left(store, meet, now_ns))
		fail_disagreeing(store, meet, now_ns);
}

int twi_store_on_meet(struct twi_store *store, uint32_t client, const struct twi_store_frame *frame,
		      uint64_t now_ns)
{
	struct twi_store_connection *connection = &store->clients[client];
	uint32_t count = (uint32_t)(frame->a >> 32), index = (uint32_t)frame->a;
	struct twi_store_meet *made, *meet, *over;
	int status;

	if (count == 0 || count > store->config.world_size || index >= count)
		return twi_error(TOW_EPROTOCOL, "store: member %u of a group of %u", index, count);
	meet = find_made_meet(store, connection->rank, frame);
	if (meet != NULL)
		return answer_over(store, client, meet);
	made = make_meet(store, frame, &status);
	if (made == NULL)
		return status == TOW_EPROTOCOL ? status : twi_store_refuse(store, client, status);
	end_duplicate_wait(store, connection->rank, frame->number);
	status = judge_list(store, made, index, connection->rank);
	over = status < 0 ? NULL : find_failed_meet(store, made, index);
	meet = status < 0 ? NULL : find_meet(store, made, index);
	if (status < 0 || over != NULL || meet != NULL)
		free_meet(store, made);
	if (status < 0)
		return status;
	if (over != NULL) {
		mark_told(store, connection->rank, frame->number, over->doubt);
		return answer_over(store, client, over);
	}
	if (meet == NULL) {
		meet = made;
		meet->since_ns = now_ns;
		meet->tell_ns = now_ns + store->config.late_ns;
		twi_list_push_back(&store->meets, &meet->link);
	}
	join_meet(store, meet, client, index, now_ns);
	return TOW_OK;
}
