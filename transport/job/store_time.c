/*
 * store_time.c - what a store does as time passes. See store.h.
 *
 * It ends requests that have waited too long, finds ranks that have gone, and reports late members.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/store_meet.h"
#include "transport/job/store_table.h"

/*
 * A member has waited in vain. Replies with the missing members as text and as a list; the time in
 * the text runs since the member came.
 */
static void expire_gather(struct twi_store *store, uint32_t index,
			  const struct twi_store_entry *entry)
{
	const struct twi_store_connection *client = &store->clients[index];
	const struct twi_store_part *part = &entry->parts[(uint32_t)client->request.a];
	char missing[160], strangers[TWI_STORE_REFUSED_TEXT + 80] = "";
	struct twi_store_frame reply = { .status = TOW_EDEADLINE,
					 .a = entry->members - entry->given,
					 .b = store->strangers,
					 .value = store->reply };
	uint16_t absent[TWI_STORE_ABSENT_MAX];
	uint32_t count = twi_store_absent(entry, absent);

	if (store->strangers > 0)
		snprintf(strangers, sizeof(strangers),
			 "; %" PRIu64 " connections were refused, the last because %s",
			 store->strangers, store->refused);
	twi_store_missing(entry, missing, sizeof(missing));
	twi_error(TOW_EDEADLINE, "%u of %u ranks have not come to '%.*s' in %" PRIu64 " ms: %s%s",
		  entry->members - entry->given, entry->members,
		  (int)twi_min(client->request.key_bytes, 64u), client->key,
		  (client->until_ns - twi_min(part->since_ns, client->until_ns)) / 1000000u,
		  missing, strangers);
	reply.value_bytes = (uint32_t)twi_store_absent_put(store->reply, TWI_STORE_TEXT,
							   tow_error_message(), absent, count);
	twi_store_answer(store, index, reply);
}

static void expire_client(struct twi_store *store, uint32_t index)
{
	const struct twi_store_connection *client = &store->clients[index];
	struct twi_store_entry *entry =
		twi_store_find(store, client->key, client->request.key_bytes);

	if (client->meet != NULL) {
		twi_store_refuse(store, index, twi_store_meet_expired(store, index));
		return;
	}
	if (client->request.kind == TWI_STORE_KIND_GATHER && entry != NULL &&
	    entry->parts != NULL) {
		expire_gather(store, index, entry);
		return;
	}
	twi_error(TOW_EDEADLINE, "no rank has set '%.*s' in %u ms",
		  (int)twi_min(client->request.key_bytes, 96u), client->key,
		  client->request.wait_ms);
	twi_store_refuse(store, index, TOW_EDEADLINE);
}

/* Fails the store for ranks whose connection broke, and that did not return in time. */
static uint64_t expire_ranks(struct twi_store *store, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < store->config.world_size && store->gone > 0; i++) {
		const struct twi_store_rank *rank = &store->ranks[i];

		if (rank->gone_ns == 0)
			continue;
		if (twi_store_rank_lost(store, i, now_ns))
			twi_store_fail(
				store,
				twi_error(TOW_EPEER,
					  "rank %u has gone: its connection to the store broke "
					  "and it did not come back in %u s",
					  i, (unsigned)(TWI_STORE_GRACE_NS / 1000000000u)),
				true);
		else
			next = twi_min(next, rank->gone_ns + TWI_STORE_GRACE_NS);
	}
	return next;
}

/*
 * Reports the members that a client waits for in a gather, if that is due. Returns when it is due
 * next.
 */
static uint64_t tell_late(struct twi_store *store, const struct twi_store_connection *client,
			  uint64_t now_ns)
{
	struct twi_store_entry *entry;
	char missing[160], key[TWI_STORE_KEY_MAX + 1];
	uint64_t waited_ns;

	if (store->config.late == NULL || client->request.kind != TWI_STORE_KIND_GATHER)
		return UINT64_MAX;
	entry = twi_store_find(store, client->key, client->request.key_bytes);
	if (entry == NULL || entry->parts == NULL || entry->since_ns == 0)
		return UINT64_MAX;
	if (now_ns < entry->tell_ns)
		return entry->tell_ns;
	waited_ns = now_ns - entry->since_ns;
	entry->tell_ns = now_ns + 2 * waited_ns;
	twi_store_missing(entry, missing, sizeof(missing));
	snprintf(key, sizeof(key), "%.*s", (int)entry->key_bytes, entry->key);
	store->config.late(store->config.arg, key, missing, waited_ns);
	return entry->tell_ns;
}

/* Drops gathers that were deleted a while ago. Returns when the next one is due. */
static uint64_t drop_deleted(struct twi_store *store, uint64_t now_ns)
{
	struct twi_list *first;

	while ((first = twi_list_first(&store->going)) != NULL) {
		struct twi_store_entry *entry =
			twi_container_of(first, struct twi_store_entry, going);

		if (now_ns < entry->drop_ns)
			return entry->drop_ns;
		twi_store_drop(store, entry);
	}
	return UINT64_MAX;
}

uint64_t twi_store_expire(struct twi_store *store, uint64_t now_ns)
{
	uint64_t next = expire_ranks(store, now_ns);

	next = twi_min(next, twi_store_meets_turn(store, now_ns));
	next = twi_min(next, drop_deleted(store, now_ns));
	for (uint32_t i = 0; i < store->config.clients_max && store->waiting > 0; i++) {
		if (!store->clients[i].waiting)
			continue;
		if (store->clients[i].until_ns <= now_ns) {
			expire_client(store, i);
		} else {
			uint64_t late = tell_late(store, &store->clients[i], now_ns);

			next = twi_min(next, twi_min(late, store->clients[i].until_ns));
		}
	}
	return next;
}
