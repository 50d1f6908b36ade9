/*
 * next.c - finds the next allocator with dlsym; see next.h.
 */
#include "plugins/malloc/next.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

_Alignas(64) unsigned char twm_early_area[TWM_EARLY_BYTES];
static atomic_size_t area_used;

struct twm_next twm_next;
atomic_bool twm_next_found;
static pthread_mutex_t lookup_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool in_lookup __attribute__((tls_model("initial-exec")));

/* Ends a process without an allocator. Only write works without memory. */
static _Noreturn void give_up(void)
{
	static const char text[] = "towline-malloc: no other malloc was found behind the "
				   "preload\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_Exit(127);
}

static void look_up(void)
{
	const struct {
		const char *name;
		void *at;
	} names[] = {
		{ "malloc", &twm_next.malloc },
		{ "free", &twm_next.free },
		{ "calloc", &twm_next.calloc },
		{ "realloc", &twm_next.realloc },
		{ "posix_memalign", &twm_next.posix_memalign },
		{ "aligned_alloc", &twm_next.aligned_alloc },
		{ "memalign", &twm_next.memalign },
		{ "valloc", &twm_next.valloc },
		{ "pvalloc", &twm_next.pvalloc },
		{ "malloc_usable_size", &twm_next.usable },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *call = dlsym(RTLD_NEXT, names[i].name);

		if (call == NULL)
			give_up();
		*(void **)names[i].at = call;
	}
}

const struct twm_next *twm_next_find(void)
{
	if (in_lookup)
		return NULL;
	in_lookup = true;
	pthread_mutex_lock(&lookup_lock);
	if (!atomic_load_explicit(&twm_next_found, memory_order_relaxed)) {
		look_up();
		atomic_store_explicit(&twm_next_found, true, memory_order_release);
	}
	pthread_mutex_unlock(&lookup_lock);
	in_lookup = false;
	return &twm_next;
}

void *twm_next_early(size_t bytes, size_t align)
{
	size_t used = atomic_load_explicit(&area_used, memory_order_relaxed), begin;

	align = align < 16 ? 16 : align;
	do {
		begin = (used + align - 1) / align * align;
		if (align > 64 || begin > TWM_EARLY_BYTES || bytes > TWM_EARLY_BYTES - begin)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&area_used, &used, begin + bytes, memory_order_relaxed, memory_order_relaxed));
	return twm_early_area + begin;
}
