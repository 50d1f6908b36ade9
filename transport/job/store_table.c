/*
 * store_table.c - the store's entries. See store_table.h.
 */
#include "transport/job/store_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"

/* The cost of an entry without its key and value, and that of a part without its value. */
#define ENTRY_BYTES (sizeof(struct twi_store_entry) + 32)
#define PART_BYTES  (sizeof(struct twi_store_part) + 16)

static uint32_t bucket_of(const char *key, uint32_t bytes)
{
	return (uint32_t)(twi_hash_bytes(key, bytes) >> 32) % TWI_STORE_BUCKETS;
}

int twi_store_charge(struct twi_store *store, uint64_t bytes)
{
	uint64_t limit =
		TWI_STORE_TOTAL_MAX + TWI_STORE_RANK_BYTES * (uint64_t)store->config.world_size;

	if (bytes > limit - store->bytes)
		return twi_error(TOW_EBUSY,
				 "the store holds %llu bytes, at most %llu; delete keys first",
				 (unsigned long long)store->bytes, (unsigned long long)limit);
	store->bytes += bytes;
	return TOW_OK;
}

static int no_memory(void)
{
	return twi_error(TOW_ENOMEM, "no memory for the job's store");
}

struct twi_store_entry *twi_store_find(struct twi_store *store, const char *key, uint32_t bytes)
{
	struct twi_list *head = &store->buckets[bucket_of(key, bytes)];

	for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
		struct twi_store_entry *entry = twi_container_of(pos, struct twi_store_entry, link);

		if (entry->key_bytes == bytes && memcmp(entry->key, key, bytes) == 0)
			return entry;
	}
	return NULL;
}

struct twi_store_entry *twi_store_make(struct twi_store *store, const char *key, uint32_t bytes,
				       int *status_out)
{
	struct twi_store_entry *entry = twi_store_find(store, key, bytes);

	*status_out = TOW_OK;
	if (entry != NULL)
		return entry;
	*status_out = twi_store_charge(store, ENTRY_BYTES + bytes);
	if (*status_out < 0)
		return NULL;
	entry = calloc(1, sizeof(*entry) + bytes);
	if (entry == NULL) {
		store->bytes -= ENTRY_BYTES + bytes;
		*status_out = no_memory();
		return NULL;
	}
	twi_list_init(&entry->going);
	entry->key_bytes = bytes;
	twi_store_copy(entry->key, key, bytes);
	twi_list_push_back(&store->buckets[bucket_of(key, bytes)], &entry->link);
	return entry;
}

int twi_store_put(struct twi_store *store, uint8_t **value, uint32_t *bytes, const uint8_t *from,
		  uint32_t count)
{
	uint8_t *room;
	int status;

	status = twi_store_charge(store, count);
	if (status < 0)
		return status;
	room = malloc(count == 0 ? 1 : count);
	if (room == NULL) {
		store->bytes -= count;
		return no_memory();
	}
	twi_store_copy(room, from, count);
	store->bytes -= *bytes;
	free(*value);
	*value = room;
	*bytes = count;
	return TOW_OK;
}

/* Gives back the parts of one generation, and their table. */
static void drop_parts(struct twi_store *store, struct twi_store_part *parts, uint32_t members)
{
	if (parts == NULL)
		return;
	for (uint32_t i = 0; i < members; i++) {
		store->bytes -= parts[i].bytes;
		free(parts[i].value);
	}
	store->bytes -= PART_BYTES * (uint64_t)members;
	free(parts);
}

static struct twi_store_part *make_parts(struct twi_store *store, uint32_t members, int *status_out)
{
	struct twi_store_part *parts;

	*status_out = twi_store_charge(store, PART_BYTES * (uint64_t)members);
	if (*status_out < 0)
		return NULL;
	parts = calloc(members, sizeof(parts[0]));
	if (parts == NULL) {
		store->bytes -= PART_BYTES * (uint64_t)members;
		*status_out = no_memory();
		return NULL;
	}
	for (uint32_t i = 0; i < members; i++)
		parts[i].rank = TWI_STORE_NOBODY;
	return parts;
}

void twi_store_drop(struct twi_store *store, struct twi_store_entry *entry)
{
	drop_parts(store, entry->before, entry->members);
	drop_parts(store, entry->parts, entry->members);
	store->bytes -= ENTRY_BYTES + entry->key_bytes + entry->bytes;
	twi_list_remove(&entry->link);
	twi_list_remove(&entry->going);
	free(entry->value);
	free(entry);
}

int twi_store_gather_begin(struct twi_store *store, struct twi_store_entry *entry, uint32_t members,
			   uint32_t generation)
{
	int status;
	struct twi_store_part *parts = make_parts(store, members, &status);

	if (parts == NULL)
		return status;
	drop_parts(store, entry->before, entry->members);
	entry->before = entry->parts;
	entry->parts = parts;
	entry->members = members;
	entry->given = 0;
	entry->generation = generation;
	entry->drop_ns = 0;
	twi_list_remove(&entry->going);
	return TOW_OK;
}

void twi_store_gather_end(struct twi_store *store, struct twi_store_entry *entry)
{
	drop_parts(store, entry->before, entry->members);
	entry->before = NULL;
}

void twi_store_missing(const struct twi_store_entry *entry, char *out, size_t bytes)
{
	uint32_t named = 0, missing = entry->members - entry->given;
	size_t used = 0;

	*out = '\0';
	for (uint32_t i = 0; i < entry->members && named < 16; i++) {
		if (entry->parts[i].rank != TWI_STORE_NOBODY)
			continue;
		used += (size_t)snprintf(out + used, bytes - used, "%s%u", named == 0 ? "" : ", ",
					 i);
		named++;
		if (used + 32 > bytes)
			break;
	}
	if (named < missing)
		snprintf(out + used, bytes - used, " and %u more", missing - named);
}

uint32_t twi_store_absent(const struct twi_store_entry *entry, uint16_t out[TWI_STORE_ABSENT_MAX])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < entry->members && count < TWI_STORE_ABSENT_MAX; i++) {
		if (entry->parts[i].rank == TWI_STORE_NOBODY)
			out[count++] = (uint16_t)i;
	}
	return count;
}
