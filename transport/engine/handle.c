/*
 * handle.c - memory of the objects that users hold. See handle.h.
 *
 * The pages come from the allocator, not from mappings of our own. A process can have few mappings,
 * and a leak checker looks for pointers in memory that the allocator gave.
 */
#include "transport/engine/handle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct twi_list husks; /* under the lock; the oldest first */
static unsigned husk_count;
static _Atomic uint64_t next_number = 1;
static size_t page_bytes;

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void init_once(void)
{
	long bytes = sysconf(_SC_PAGESIZE);

	page_bytes = bytes > 0 ? (size_t)bytes : 4096;
	twi_list_init(&husks);
	pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* Makes the pages zero. No page is there before it is touched. */
static void clear_pages(uint8_t *at, size_t bytes)
{
	if (bytes > 0 && madvise(at, bytes, MADV_DONTNEED) != 0)
		memset(at, 0, bytes); /* its process has locked it */
}

void *twi_handle_alloc(enum twi_handle_kind kind, size_t bytes)
{
	struct twi_handle *handle;
	uint64_t number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
	size_t align;

	pthread_once(&once, init_once);
	align = bytes <= TWI_HANDLE_SMALL_BYTES ? TWI_HANDLE_LINE_BYTES : page_bytes;
	bytes = twi_align_up(bytes, align);
	handle = aligned_alloc(align, bytes);
	if (handle == NULL)
		return NULL;
	memset(handle, 0, twi_min(bytes, page_bytes));
	if (bytes > page_bytes)
		clear_pages((uint8_t *)handle + page_bytes, bytes - page_bytes);
	twi_list_init(&handle->link);
	handle->bytes = bytes;
	atomic_store_explicit(&handle->word, number << 8 | kind, memory_order_relaxed);
	return handle;
}

void twi_handle_close(struct twi_handle *handle)
{
	atomic_store_explicit(&handle->word, 0, memory_order_relaxed);
}

void twi_handle_remain(struct twi_handle *handle)
{
	uint64_t number = atomic_load_explicit(&handle->word, memory_order_relaxed) >> 8;

	atomic_store_explicit(&handle->word, number << 8 | TWI_HANDLE_REMAINS,
			      memory_order_relaxed);
}

/* Keeps only the handle's line, and nothing of what stood behind it, which may be a secret. */
void twi_handle_hollow(struct twi_handle *handle)
{
	uint8_t *at = (uint8_t *)handle;

	if (handle->bytes > page_bytes)
		clear_pages(at + page_bytes, handle->bytes - page_bytes);
	memset(at + TWI_HANDLE_LINE_BYTES, 0,
	       twi_min(handle->bytes, page_bytes) - TWI_HANDLE_LINE_BYTES);
	ASAN_POISON_MEMORY_REGION(at + TWI_HANDLE_LINE_BYTES,
				  handle->bytes - TWI_HANDLE_LINE_BYTES);
}

static void discard_handle(struct twi_handle *handle)
{
	ASAN_UNPOISON_MEMORY_REGION(handle, handle->bytes);
	free(handle);
}

void twi_handle_bury(struct twi_handle *handle)
{
	struct twi_handle *oldest = NULL;

	twi_handle_close(handle);
	pthread_mutex_lock(&lock);
	twi_list_push_back(&husks, &handle->link);
	if (++husk_count > TWI_HUSKS_KEPT) {
		oldest = twi_container_of(twi_list_first(&husks), struct twi_handle, link);
		twi_list_remove(&oldest->link);
		husk_count--;
	}
	pthread_mutex_unlock(&lock);
	if (oldest != NULL)
		discard_handle(oldest);
}

void twi_handle_free(struct twi_handle *handle, bool seen)
{
	if (handle == NULL)
		return;
	twi_handle_close(handle);
	if (!seen) {
		free(handle);
		return;
	}
	twi_handle_hollow(handle);
	twi_handle_bury(handle);
}

int twi_handle_refuse(const void *object, enum twi_handle_kind kind, const char *call)
{
	static const char *const names[] = { [TWI_HANDLE_RUNTIME] = "runtime",
					     [TWI_HANDLE_ENDPOINT] = "endpoint",
					     [TWI_HANDLE_PEER] = "peer",
					     [TWI_HANDLE_GROUP] = "group",
					     [TWI_HANDLE_CHANNEL] = "channel",
					     [TWI_HANDLE_QUEUE] = "queue",
					     [TWI_HANDLE_FOREIGN] = "foreign group" };

	if (object == NULL)
		return twi_error(TOW_EINVAL, "%s: %s is NULL", call, names[kind]);
	if (kind == TWI_HANDLE_RUNTIME)
		return twi_error(TOW_ECLOSED, "%s: the runtime was closed before", call);
	return twi_error(TOW_ECLOSED, "%s: the %s was closed before, or its runtime was", call,
			 names[kind]);
}
