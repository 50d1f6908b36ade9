/*
 * group_split.c - makes groups of a group, by all of its ranks or by the new group's members alone.
 *
 * Ranks agree by the store. The connections are the job's.
 *
 *	tow_group_split    each rank draws a number, and a gather exchanges what all ranks pass
 *	tow_group_create   each member passes the list; the store gives the number (store_meet.h)
 *
 * The entries that a split leaves in the store go when its parent is closed. A creation leaves
 * none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"

#define PROBE_NS   1000000000ull /* timeout for a store that may have gone */
#define KEY_CHARS  48u
#define NAME_BYTES 200u

/* The part of each rank in a split. */
struct split_part {
	int64_t color, key;
	uint64_t id; /* a number that no group has yet */
	uint32_t rank;
};

struct split {
	struct split_part *parts;
};

static int keep_part(void *arg, uint32_t index, const uint8_t *value, uint32_t bytes)
{
	struct split_part *part = &((struct split *)arg)->parts[index];

	if (bytes != 24)
		return twi_error(TOW_EPROTOCOL, "split: rank %u sent %u bytes", index, bytes);
	*part = (struct split_part){ .color = (int64_t)twi_get_le(value, 8),
				     .key = (int64_t)twi_get_le(value + 8, 8),
				     .id = twi_get_le(value + 16, 8),
				     .rank = index };
	return TOW_OK;
}

static int by_key(const void *a, const void *b)
{
	const struct split_part *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Begins a group whose members and number are known. */
static void begin_group(const struct tow_group *parent, struct tow_group *made, uint64_t id)
{
	/* The store has drawn the number. In a job of one rank the rank counts for itself. */
	const bool alone = parent->ranks->client == NULL;

	made->id = alone && !parent->shrunk ? ++parent->ranks->alone : (uint32_t)id;
	made->shrunk = parent->shrunk && alone;
	twi_group_begin(made);
}

/* Makes the group of the ranks with this rank's colour, in order. */
static int build_group(struct tow_group *group, struct split *split, int64_t color,
		       struct tow_group **group_out)
{
	struct tow_group *made;
	uint32_t count = 0;

	for (uint32_t i = 0; i < group->size; i++) {
		if (split->parts[i].color == color)
			split->parts[count++] = split->parts[i];
	}
	qsort(split->parts, count, sizeof(split->parts[0]), by_key);
	made = twi_group_make(group->runtime, group->ranks, count);
	if (made == NULL)
		return TOW_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		made->members[i] = group->members[split->parts[i].rank];
		if (split->parts[i].rank == group->rank)
			made->rank = i;
	}
	begin_group(group, made, split->parts[0].id);
	*group_out = made;
	return TOW_OK;
}

/* The store does not draw numbers of shrunk groups, so other groups may have them as well. */
static const char *group_kind(const struct tow_group *group)
{
	return group->shrunk ? "shrunk-" : "";
}

static void split_key(const struct tow_group *group, char out[KEY_CHARS])
{
	snprintf(out, KEY_CHARS, "split:%s%u", group_kind(group), group->id);
}

/*
 * Exchanges colour, key and a drawn number of each rank. A new group gets its first rank's number.
 */
static int exchange_splits(struct tow_group *group, int64_t color, int64_t key, struct split *split,
			   const struct twi_until *until)
{
	struct twi_store_client *client;
	uint8_t value[24];
	char name[KEY_CHARS];
	struct twi_gather gather = { .key = name,
				     .index = group->rank,
				     .members = group->size,
				     .generation = group->splits,
				     .value = value,
				     .bytes = sizeof(value),
				     .each = keep_part,
				     .arg = split };
	uint64_t id = 0;
	int status = twi_group_open_client(group->ranks, until, &client);

	if (status < 0)
		return status;
	split_key(group, name);
	status = twi_store_add(client, "ids", 1, &id, until);
	twi_put_le(value, (uint64_t)color, 8);
	twi_put_le(value + 8, (uint64_t)key, 8);
	twi_put_le(value + 16, id, 8);
	if (status == TOW_OK)
		status = twi_store_gather(client, &gather, until);
	if (status == TOW_OK)
		group->splits++;
	twi_store_client_close(client, 0);
	return status;
}

/*
 * Checks that the store is there, if the connection to rank 0, which serves it, has gone. Opening a
 * client instead would retry until the timeout.
 */
static int check_store(struct twi_ranks *ranks, const char *call)
{
	const struct twi_until until = { twi_net_now() + PROBE_NS, -1, NULL };
	uint64_t id;
	bool lost;
	int status;

	twi_group_enter(ranks->engine);
	lost = ranks->slots[0].lost;
	twi_engine_leave(ranks->engine);
	if (!lost)
		return TOW_OK;
	pthread_mutex_lock(&ranks->store_lock);
	status = twi_store_add(ranks->client, "ids", 0, &id, &until);
	pthread_mutex_unlock(&ranks->store_lock);
	if (status == TOW_OK)
		return TOW_OK;
	return twi_error(TOW_EPEER,
			 "%s: rank 0 has gone, and with it the store that ranks agree by", call);
}

TOW_PUBLIC int tow_group_split(struct tow_group *group, int64_t color, int64_t key,
			       uint64_t timeout_ns, struct tow_group **group_out)
{
	TWI_UNCANCELED;
	struct twi_until until = twi_group_until(timeout_ns);
	int status = twi_group_check(group, "tow_group_split");
	struct split split;

	if (status == TOW_OK)
		status = twi_group_check_blocking(group->runtime, "tow_group_split");
	if (status < 0)
		return status;
	if (group_out == NULL || color < TOW_GROUP_NONE)
		return twi_error(TOW_EINVAL,
				 "tow_group_split: group_out is NULL, or color is below %d",
				 TOW_GROUP_NONE);
	*group_out = NULL;
	status = twi_group_wait_begin(group, &until);
	if (status == TOW_OK)
		status = check_store(group->ranks, "tow_group_split");
	if (status < 0)
		return status;
	split.parts = calloc(group->size, sizeof(split.parts[0]));
	if (split.parts == NULL)
		return twi_error(TOW_ENOMEM, "no memory to split a group of %u", group->size);
	split.parts[0].color = color;
	split.parts[0].id = group->id;
	if (group->ranks->client != NULL)
		status = twi_group_wait_end(group,
					    exchange_splits(group, color, key, &split, &until));
	if (status == TOW_OK && color != TOW_GROUP_NONE)
		status = build_group(group, &split, color, group_out);
	free(split.parts);
	return status;
}

void twi_group_forget_splits(const struct tow_group *group)
{
	const struct twi_until until = { twi_net_now() + PROBE_NS, -1, NULL };
	struct twi_ranks *ranks = group->ranks;
	char name[KEY_CHARS];
	bool lost, was;

	if (group->splits == 0 || group->rank != 0 || ranks->client == NULL)
		return;
	twi_group_enter(ranks->engine);
	lost = ranks->slots[0].lost;
	twi_engine_leave(ranks->engine);
	if (lost)
		return;
	split_key(group, name);
	pthread_mutex_lock(&ranks->store_lock);
	twi_store_delete(ranks->client, name, &was, &until);
	pthread_mutex_unlock(&ranks->store_lock);
}

/* --- by members alone --- */

/* Checks that the list names each rank once, and this rank. Returns this rank's index. */
static int check_list(const struct tow_group *parent, const uint32_t *ranks, uint32_t count,
		      uint32_t *index_out)
{
	uint8_t *listed = calloc(1, parent->size);
	int status = TOW_OK;

	if (listed == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a list of %u ranks", count);
	*index_out = count;
	for (uint32_t i = 0; i < count && status == TOW_OK; i++) {
		if (ranks[i] >= parent->size)
			status = twi_error(TOW_EINVAL,
					   "tow_group_create: ranks[%u] is %u, the group has %u", i,
					   ranks[i], parent->size);
		else if (listed[ranks[i]] != 0)
			status = twi_error(TOW_EINVAL,
					   "tow_group_create: ranks[%u] is %u, which is listed "
					   "before",
					   i, ranks[i]);
		else
			listed[ranks[i]] = 1;
		if (ranks[i] == parent->rank)
			*index_out = i;
	}
	free(listed);
	if (status == TOW_OK && *index_out == count)
		status = twi_error(TOW_EINVAL,
				   "tow_group_create: rank %u, which is this process, is not among "
				   "the %u ranks",
				   parent->rank, count);
	return status;
}

static int check_create(const struct tow_group *parent, const uint32_t *ranks, uint32_t count,
			const char *name, uint32_t *index_out)
{
	if (ranks == NULL || count == 0)
		return twi_error(TOW_EINVAL, "tow_group_create: ranks is NULL, or count is 0");
	if (count > parent->size)
		return twi_error(TOW_EINVAL, "tow_group_create: count is %u, the group has %u",
				 count, parent->size);
	if (name != NULL && (*name == '\0' || strnlen(name, NAME_BYTES + 1) > NAME_BYTES))
		return twi_error(TOW_EINVAL, "tow_group_create: the name must have 1 to %u bytes",
				 NAME_BYTES);
	return check_list(parent, ranks, count, index_out);
}

static int meet_members(const struct tow_group *parent, const char *name,
			struct twi_meeting *meeting, const struct twi_until *until,
			uint64_t *id_out)
{
	struct twi_store_client *client;
	char key[KEY_CHARS + NAME_BYTES];
	int status = twi_group_open_client(parent->ranks, until, &client);

	if (status < 0)
		return status;
	snprintf(key, sizeof(key), "%s%u:%s", group_kind(parent), parent->id,
		 name == NULL ? "" : name);
	meeting->key = key;
	status = twi_store_meet(client, meeting, until, id_out);
	twi_store_client_close(client, 0);
	return status;
}

static int create_group(struct tow_group *parent, const char *name, struct twi_meeting *meeting,
			const struct twi_until *until, struct tow_group **group_out)
{
	struct tow_group *made;
	uint64_t id = parent->id;
	int status = TOW_OK;

	if (parent->ranks->client != NULL)
		status =
			twi_group_wait_end(parent, meet_members(parent, name, meeting, until, &id));
	if (status < 0)
		return status;
	made = twi_group_make(parent->runtime, parent->ranks, meeting->count);
	if (made == NULL)
		return TOW_ENOMEM;
	for (uint32_t i = 0; i < meeting->count; i++)
		made->members[i] = meeting->ranks[i];
	made->rank = meeting->index;
	begin_group(parent, made, id);
	if (name != NULL)
		twi_group_label_like(made, name);
	*group_out = made;
	return TOW_OK;
}

TOW_PUBLIC int tow_group_create(struct tow_group *parent, const uint32_t *ranks, uint32_t count,
				const char *name, uint64_t timeout_ns, struct tow_group **group_out)
{
	TWI_UNCANCELED;
	struct twi_until until = twi_group_until(timeout_ns);
	int status = twi_group_check(parent, "tow_group_create");
	struct twi_meeting meeting = { .count = count };
	uint32_t *members;

	if (status == TOW_OK)
		status = twi_group_check_blocking(parent->runtime, "tow_group_create");
	if (status == TOW_OK && group_out == NULL)
		status = twi_error(TOW_EINVAL, "tow_group_create: group_out is NULL");
	if (status < 0)
		return status;
	*group_out = NULL;
	status = check_create(parent, ranks, count, name, &meeting.index);
	if (status == TOW_OK)
		status = twi_group_wait_begin(parent, &until);
	if (status == TOW_OK)
		status = check_store(parent->ranks, "tow_group_create");
	if (status < 0)
		return status;
	members = calloc(count, sizeof(*members));
	if (members == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a group of %u", count);
	for (uint32_t i = 0; i < count; i++)
		members[i] = parent->members[ranks[i]];
	meeting.ranks = members;
	status = create_group(parent, name, &meeting, &until, group_out);
	free(members);
	return status;
}
