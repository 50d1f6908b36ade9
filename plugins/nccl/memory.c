/*
 * memory.c - registers memory: a buffer is pinned once, for all comms that register it.
 *
 * NCCL registers its buffers when it connects, and the same buffer for several comms. Memory that
 * cannot be pinned can still be sent, so its registration does not fail. If memory is deregistered
 * while operations use it, it stays registered until they have ended.
 */
#include "plugins/nccl/plugin.h"

#include <stdlib.h>

#define ROWS 256

struct region {
	struct region *next;
	void *data;
	size_t bytes;
	unsigned users;
	uint64_t handle; /* 0: not pinned */
};

static struct region *rows[ROWS];
static struct region *ending; /* deregistered regions that operations still use */
static bool warned;

static struct region **row_of(const void *data)
{
	return &rows[(uintptr_t)data / 4096 % ROWS];
}

static struct region *region_find(void *data, size_t bytes)
{
	struct region *region = *row_of(data);

	while (region != NULL && (region->data != data || region->bytes != bytes))
		region = region->next;
	return region;
}

/* The lock is held. */
static struct region *region_create(void *data, size_t bytes)
{
	struct region *region = calloc(1, sizeof(*region));
	struct region **row = row_of(data);

	if (region == NULL)
		return NULL;
	region->data = data;
	region->bytes = bytes;
	if (bytes > 0 && tow_mem_register(twn.runtime, data, bytes, &region->handle) < 0 &&
	    !warned) {
		warned = true;
		twn_log(NCCL_LOG_INFO, "memory is used without being pinned: %s",
			tow_error_message());
	}
	region->next = *row;
	*row = region;
	return region;
}

enum nccl_result twn_memory_register(void *data, size_t bytes, int type, void **out)
{
	struct region *region;

	if (out == NULL || type != NCCL_POINTER_HOST) {
		twn_log(NCCL_LOG_WARN, "memory of type %d is not the host's", type);
		return NCCL_INVALID_USAGE;
	}
	pthread_mutex_lock(&twn.lock);
	twn_memory_retry();
	region = region_find(data, bytes);
	if (region == NULL)
		region = region_create(data, bytes);
	if (region != NULL)
		region->users++;
	pthread_mutex_unlock(&twn.lock);
	*out = region;
	return region != NULL ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

static void region_end(struct region *region)
{
	for (struct region **at = row_of(region->data); *at != NULL; at = &(*at)->next)
		if (*at == region) {
			*at = region->next;
			break;
		}
	if (region->handle != 0 && tow_mem_deregister(twn.runtime, region->handle) == TOW_EBUSY) {
		region->next = ending;
		ending = region;
		return;
	}
	free(region);
}

enum nccl_result twn_memory_deregister(void *handle)
{
	struct region *region = handle;

	if (region == NULL)
		return NCCL_SUCCESS;
	pthread_mutex_lock(&twn.lock);
	if (--region->users == 0)
		region_end(region);
	pthread_mutex_unlock(&twn.lock);
	return NCCL_SUCCESS;
}

void twn_memory_retry(void)
{
	struct region **at = &ending;

	while (*at != NULL) {
		struct region *region = *at;

		if (tow_mem_deregister(twn.runtime, region->handle) == TOW_EBUSY) {
			at = &region->next;
			continue;
		}
		*at = region->next;
		free(region);
	}
}

/*
 * Called before the runtime closes, which ends the registrations. Regions with users stay listed.
 */
void twn_memory_forget(void)
{
	twn_memory_retry();
	while (ending != NULL) {
		struct region *region = ending;

		ending = region->next;
		free(region);
	}
	for (unsigned i = 0; i < ROWS; i++)
		for (struct region *region = rows[i]; region != NULL; region = region->next)
			region->handle = 0;
}
