/*
 * engine_thread.c - marks, lives and forks. See engine_thread.h.
 */
#include "transport/engine/engine_thread.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint64_t twi_fork_count;
static _Atomic uint32_t next_mark = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;

__thread struct twi_thread twi_self __attribute__((tls_model("initial-exec"), aligned(8)));

static void count_fork(void)
{
	atomic_fetch_add_explicit(&twi_fork_count, 1, memory_order_relaxed);
	/* The life stays: the key's destructor will end it. */
	twi_self.mark = 0;
	twi_self.binding = 0;
}

void twi_life_release(struct twi_life *life)
{
	/* acq_rel: whoever frees it comes after all who used it */
	if (life != NULL && atomic_fetch_sub_explicit(&life->holds, 1, memory_order_acq_rel) == 1)
		free(life);
}

/*
 * The calling thread ends. A later destructor that calls in is another thread to us, with a mark
 * and a life of its own: the ring may be gone by then.
 */
static void note_end(void *arg)
{
	struct twi_life *life = arg;

	twi_self = (struct twi_thread){ 0 };
	atomic_store_explicit(&life->ended, 1, memory_order_release);
	twi_life_release(life);
}

static void setup_once(void)
{
	pthread_atfork(NULL, NULL, count_fork);
	pthread_key_create(&thread_end, note_end);
}

void twi_thread_setup(void)
{
	pthread_once(&once, setup_once);
}

uint32_t twi_thread_begin(void)
{
	struct twi_life *life = twi_self.life;

	while (twi_self.mark == 0)
		twi_self.mark = atomic_fetch_add_explicit(&next_mark, 1, memory_order_relaxed);
	twi_self.tid = gettid();
	if (life != NULL)
		return twi_self.mark;
	life = malloc(sizeof(*life));
	if (life == NULL)
		return twi_self.mark;
	atomic_init(&life->holds, 1);
	atomic_init(&life->ended, 0);
	if (pthread_setspecific(thread_end, life) != 0) {
		free(life);
		return twi_self.mark;
	}
	twi_self.life = life;
	return twi_self.mark;
}

struct twi_life *twi_life_acquire(void)
{
	if (twi_self.life != NULL)
		atomic_fetch_add_explicit(&twi_self.life->holds, 1, memory_order_relaxed);
	return twi_self.life;
}

bool twi_barrier_setup(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void twi_barrier_all(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
