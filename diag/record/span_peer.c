/*
 * span_peer.c - numbers for peers, so that a span names a peer in four bytes. The table only grows,
 * up to a bound, because spans still name a peer that has gone.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/record/span_ring.h"

/* FNV-1a. */
static uint32_t slot_of(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash % TWI_SPAN_PEER_SLOTS;
}

/* The lock is held. 0: there is no room. */
static uint32_t add_peer(struct twi_span_table *table, const char *name, int64_t rank)
{
	uint32_t *slot = &table->slots[slot_of(name)];
	char *copy;

	if (table->peer_count == TWI_SPAN_PEERS)
		return 0;
	if (table->peer_count == table->peer_room) {
		uint32_t room = twi_max(16u, 2 * table->peer_room);
		void *grown = realloc(table->peers, room * sizeof(table->peers[0]));

		if (grown == NULL)
			return 0;
		table->peers = grown;
		table->peer_room = room;
	}
	copy = strdup(name);
	if (copy == NULL)
		return 0;
	table->peers[table->peer_count] =
		(struct twi_span_peer_row){ .name = copy, .rank = rank, .next = *slot };
	*slot = ++table->peer_count;
	return *slot;
}

/* The lock is held. 0: there is no such peer. */
static uint32_t find_peer(const struct twi_span_table *table, const char *name)
{
	uint32_t peer = table->slots[slot_of(name)];

	while (peer != 0 && strcmp(table->peers[peer - 1].name, name) != 0)
		peer = table->peers[peer - 1].next;
	return peer;
}

int64_t twi_span_peer_rank(struct twi_diag *diag, const char *name)
{
	struct twi_span_table *table = diag->spans;
	int64_t rank = -1;
	uint32_t peer;

	pthread_mutex_lock(&table->lock);
	peer = find_peer(table, name);
	if (peer != 0)
		rank = table->peers[peer - 1].rank;
	pthread_mutex_unlock(&table->lock);
	return rank;
}

uint32_t twi_span_peer(struct twi_diag *diag, const char *name, int64_t rank)
{
	struct twi_span_table *table = diag->spans;
	uint32_t peer;

	pthread_mutex_lock(&table->lock);
	peer = find_peer(table, name);
	if (peer == 0)
		peer = add_peer(table, name, rank);
	else if (rank >= 0)
		table->peers[peer - 1].rank = rank; /* the rank may become known later */
	pthread_mutex_unlock(&table->lock);
	return peer;
}
