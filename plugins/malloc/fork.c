/*
 * fork.c - gives a forked child private memory in place of the placed blocks.
 *
 * The pool is shared memory that a child does not inherit. If it did, writes of the child would
 * show in its parent. So the parent copies all placed blocks before the fork, and the child moves
 * the copies to the addresses of the blocks. A start of a program by vfork or posix_spawn makes no
 * copies.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/malloc/blocks.h"
#include "plugins/malloc/place.h"

static void say_text(const char *text)
{
	(void)!write(STDERR_FILENO, text, strlen(text));
}

static void before_fork(void)
{
	struct twm_block *block = NULL;
	int error = errno;

	twm_lock();
	while ((block = twm_blocks_next(block)) != NULL) {
		void *copy;

		if (block->copied)
			continue; /* a child forks again, and its own child inherits the block */
		copy = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
		block->copy = copy != MAP_FAILED ? copy : NULL;
		if (copy != MAP_FAILED)
			memcpy(copy, block->memory, block->bytes);
		else
			say_text("towline-malloc: no memory to copy the allocations in the "
				 "pool: they are missing in the child of this fork\n");
	}
	errno = error;
}

static void in_parent(void)
{
	struct twm_block *block = NULL;
	int error = errno;

	while ((block = twm_blocks_next(block)) != NULL) {
		if (block->copy != NULL)
			munmap(block->copy, block->bytes);
		block->copy = NULL;
	}
	twm_unlock();
	errno = error;
}

/* Puts the copy at the block's address. False: there is no copy, or it cannot be moved. */
static bool move_copy(struct twm_block *block)
{
	if (block->copy == NULL)
		return false;
	if (mremap(block->copy, block->bytes, block->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   block->memory) != MAP_FAILED)
		return true;
	munmap(block->copy, block->bytes);
	say_text("towline-malloc: allocations in the pool are missing in the child of a fork\n");
	return false;
}

/*
 * Keeps the address of a block without a copy, because the child may free the block, and would then
 * unmap what else it had mapped there.
 */
static void reserve_address(struct twm_block *block)
{
	if (mmap(block->memory, block->bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		block->bytes = 0; /* a free of the block unmaps nothing */
}

static void in_child(void)
{
	struct twm_block *block = NULL;
	int error = errno;

	while ((block = twm_blocks_next(block)) != NULL) {
		if (block->copied)
			continue;
		if (!move_copy(block))
			reserve_address(block);
		block->copy = NULL;
		block->copied = true;
	}
	twm_forked();
	twm_unlock();
	errno = error;
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}
