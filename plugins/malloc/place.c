/*
 * place.c - places allocations in the pool of the attached runtime; see place.h.
 */
#include "plugins/malloc/place.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include <towline/place.h>
#include <towline/pool.h>
#include <towline/status.h>

#include "plugins/malloc/blocks.h"

#define ALIGN_MAX (2u << 20) /* largest alignment that the pool gives */

static _Atomic(struct tow_runtime *) attached;
atomic_size_t twm_least = SIZE_MAX; /* that of `attached`; stored under the lock */
static atomic_uint placing;         /* threads that may be inside tow_place */
static atomic_size_t blocks;        /* placed blocks; at 0, a free looks no further */
static uintptr_t text, text_bytes;  /* the library's code; set before twm_least is */
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned towline_depth __attribute__((tls_model("initial-exec")));

void twm_enter(void)
{
	towline_depth++;
}

void twm_leave(void)
{
	towline_depth--;
}

void twm_lock(void)
{
	pthread_mutex_lock(&table);
}

void twm_unlock(void)
{
	pthread_mutex_unlock(&table);
}

void twm_forked(void)
{
	atomic_store_explicit(&attached, NULL, memory_order_relaxed);
	atomic_store_explicit(&twm_least, SIZE_MAX, memory_order_relaxed);
	/* The threads that were placing do not exist in the child. */
	atomic_store_explicit(&placing, 0, memory_order_relaxed);
}

static int find_code_segment(struct dl_phdr_info *object, size_t size, void *none)
{
	const uintptr_t known = (uintptr_t)&tow_place;

	(void)size, (void)none;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t begin = object->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 &&
		    known - begin < part->p_memsz) {
			text = begin;
			text_bytes = part->p_memsz;
			return 1;
		}
	}
	return 0;
}

/*
 * Finds the addresses of the library's code. The library allocates while it holds locks that
 * tow_place takes, too. To use twm_enter instead, each call of the library would need a wrapper.
 */
static void find_library(void)
{
	dl_iterate_phdr(find_code_segment, NULL);
}

bool twm_attach(struct tow_runtime *runtime)
{
	struct tow_runtime *none = NULL;
	size_t least;

	if (!atomic_compare_exchange_strong(&attached, &none, runtime))
		return false;
	find_library();
	least = tow_place_least(runtime);
	twm_lock();
	if (atomic_load(&attached) == runtime) /* else another thread has detached it */
		atomic_store(&twm_least, least);
	twm_unlock();
	return true;
}

bool twm_detach(const struct tow_runtime *runtime)
{
	struct tow_runtime *is = (struct tow_runtime *)(uintptr_t)runtime;
	bool was;

	twm_lock();
	was = runtime != NULL && atomic_compare_exchange_strong(&attached, &is, NULL);
	if (was)
		atomic_store(&twm_least, SIZE_MAX);
	twm_unlock();
	if (!was)
		return false;
	while (atomic_load(&placing) > 0)
		sched_yield(); /* tow_place never blocks */
	return true;
}

static bool keep_block(const struct twm_block *block)
{
	bool kept;

	twm_lock();
	kept = twm_blocks_add(block);
	if (kept)
		atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
	twm_unlock();
	return kept;
}

static void *place_pages(size_t bytes, size_t align)
{
	struct twm_block block = { .bytes = bytes };
	void *memory = NULL;

	/* seq_cst, as in twm_detach: either that call sees this thread, or this thread sees NULL */
	atomic_fetch_add(&placing, 1);
	block.runtime = atomic_load(&attached);
	if (block.runtime != NULL && tow_place(block.runtime, bytes, align, &memory) == TOW_OK) {
		block.memory = memory;
		if (!keep_block(&block)) {
			tow_free(block.runtime, memory);
			memory = NULL;
		}
	}
	atomic_fetch_sub(&placing, 1);
	return memory;
}

bool twm_would_place(size_t bytes, const void *caller)
{
	return bytes >= atomic_load_explicit(&twm_least, memory_order_acquire) &&
	       towline_depth == 0 && bytes <= SIZE_MAX / 2 &&
	       (uintptr_t)caller - text >= text_bytes;
}

void *twm_place_large(size_t bytes, size_t align, const void *caller)
{
	int error = errno;
	void *memory;

	if (!twm_would_place(bytes, caller) || align > ALIGN_MAX)
		return NULL;
	twm_enter();
	memory = place_pages((bytes + TWM_PAGE - 1) / TWM_PAGE * TWM_PAGE,
			     align < TWM_PAGE ? TWM_PAGE : align);
	twm_leave();
	errno = error;
	return memory;
}

bool twm_unplace_page(void *memory)
{
	struct twm_block block = { .memory = NULL }, *row;
	int error = errno;

	if (atomic_load_explicit(&blocks, memory_order_relaxed) == 0)
		return false;
	twm_lock();
	row = twm_blocks_find(memory);
	if (row != NULL) {
		block = *row;
		twm_blocks_remove(row);
		atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
	}
	twm_unlock();
	if (block.memory == NULL)
		return false;
	twm_enter();
	if (block.copied)
		munmap(memory, block.bytes);
	else
		tow_free(block.runtime, memory);
	twm_leave();
	errno = error;
	return true;
}

size_t twm_placed_bytes(const void *memory)
{
	const struct twm_block *row;
	size_t bytes;

	if (!twm_may_be_placed(memory) || atomic_load_explicit(&blocks, memory_order_relaxed) == 0)
		return 0;
	twm_lock();
	row = twm_blocks_find(memory);
	bytes = row != NULL ? row->bytes : 0;
	twm_unlock();
	return bytes;
}
