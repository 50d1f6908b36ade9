/*
 * handle.c - tables of objects, one for each kind, in chunks that never move. A free slot holds the
 * number of the next free one, with the lowest bit set, which no address has.
 */
#include "plugins/mpi/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK  1024u
#define CHUNKS 4096u

struct table {
	_Atomic(_Atomic(uintptr_t) *) chunks[CHUNKS];
	uint32_t used; /* numbers used so far; under the lock, as `free` */
	uint32_t free; /* the first number to reuse; 0: none */
};

static struct table tables[TWMPI_KINDS];
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(uintptr_t) *find_slot(struct table *table, uint32_t number)
{
	_Atomic(uintptr_t) *chunk;

	if (number / CHUNK >= CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&table->chunks[number / CHUNK], memory_order_acquire);
	return chunk != NULL ? &chunk[number % CHUNK] : NULL;
}

/* The lock is held. */
static _Atomic(uintptr_t) *make_slot(struct table *table, uint32_t number)
{
	_Atomic(uintptr_t) *slot = find_slot(table, number);
	_Atomic(uintptr_t) *chunk;

	if (slot != NULL || number / CHUNK >= CHUNKS)
		return slot;
	chunk = calloc(CHUNK, sizeof(*chunk));
	if (chunk == NULL)
		return NULL;
	atomic_store_explicit(&table->chunks[number / CHUNK], chunk, memory_order_release);
	return &chunk[number % CHUNK];
}

void *twmpi_object(enum twmpi_kind kind, uintptr_t handle)
{
	_Atomic(uintptr_t) *slot;
	uintptr_t word;

	if (handle >> 24 != (uintptr_t)kind)
		return NULL;
	slot = find_slot(&tables[kind], handle & 0xffffff);
	word = slot != NULL ? atomic_load_explicit(slot, memory_order_acquire) : 0;
	return (word & 1) == 0 ? (void *)word : NULL;
}

bool twmpi_handle_new(enum twmpi_kind kind, void *object, uintptr_t *handle_out)
{
	struct table *table = &tables[kind];
	_Atomic(uintptr_t) *slot;
	uint32_t number;

	pthread_mutex_lock(&tables_lock);
	number = table->free != 0 ? table->free : TWMPI_DYNAMIC + table->used;
	slot = make_slot(table, number);
	if (slot != NULL) {
		if (table->free != 0)
			table->free = (uint32_t)(atomic_load(slot) >> 1);
		else
			table->used++;
		atomic_store_explicit(slot, (uintptr_t)object, memory_order_release);
		*handle_out = (uintptr_t)TWMPI_HANDLE_OF(kind, number);
	}
	pthread_mutex_unlock(&tables_lock);
	return slot != NULL;
}

bool twmpi_handle_set(enum twmpi_kind kind, uintptr_t handle, void *object)
{
	_Atomic(uintptr_t) *slot;

	pthread_mutex_lock(&tables_lock);
	slot = make_slot(&tables[kind], handle & 0xffffff);
	if (slot != NULL)
		atomic_store_explicit(slot, (uintptr_t)object, memory_order_release);
	pthread_mutex_unlock(&tables_lock);
	return slot != NULL;
}

void twmpi_handle_end(enum twmpi_kind kind, uintptr_t handle)
{
	struct table *table = &tables[kind];
	uint32_t number = handle & 0xffffff;
	_Atomic(uintptr_t) *slot;

	pthread_mutex_lock(&tables_lock);
	slot = find_slot(table, number);
	if (slot != NULL && number >= TWMPI_DYNAMIC) {
		atomic_store(slot, (uintptr_t)table->free << 1 | 1);
		table->free = number;
	} else if (slot != NULL) {
		atomic_store(slot, 0);
	}
	pthread_mutex_unlock(&tables_lock);
}

void *twmpi_handle_next(enum twmpi_kind kind, uint32_t *at)
{
	void *object = NULL;

	while (object == NULL && *at < TWMPI_DYNAMIC + tables[kind].used) {
		object = twmpi_object(kind, (uintptr_t)TWMPI_HANDLE_OF(kind, *at));
		++*at;
	}
	return object;
}
