/*
 * ring_closer.c - the thread that closes io_urings. See ring_closer.h.
 */
#include "transport/engine/uring/ring_closer.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/uring/ring.h"

struct twi_uring_closer {
	struct twi_engine *engine;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct twi_uring *first, **end; /* by next_closing */
	bool over;
};

_Atomic uint32_t twi_uring_close_ms;

static void pause_closing(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	for (uint32_t ms = 0; ms < atomic_load_explicit(&twi_uring_close_ms, memory_order_relaxed);
	     ms++)
		nanosleep(&moment, NULL);
}

void twi_uring_close(struct twi_uring *ring)
{
	pause_closing();
	twi_uring_order_mappings();
	if (ring->uring.ring_fd >= 0)
		io_uring_queue_exit(&ring->uring);
	if (ring->buffers != NULL)
		munmap(ring->buffers, 4096 + (size_t)TWI_URING_BUFFERS * TWI_RING_BUFFER_BYTES);
	twi_ring_fini(&ring->base);
	free(ring);
}

/* The next ring to close. NULL: no more will come. The lock is held. */
static struct twi_uring *next_ring(struct twi_uring_closer *closer)
{
	struct twi_uring *ring;

	while (closer->first == NULL && !closer->over)
		pthread_cond_wait(&closer->more, &closer->lock);
	ring = closer->first;
	if (ring == NULL)
		return NULL;
	closer->first = ring->next_closing;
	if (closer->first == NULL)
		closer->end = &closer->first;
	return ring;
}

static void *closer_run(void *arg)
{
	struct twi_uring_closer *closer = arg;
	struct twi_uring *ring;

	pthread_mutex_lock(&closer->lock);
	while ((ring = next_ring(closer)) != NULL) {
		pthread_mutex_unlock(&closer->lock);
		twi_uring_close(ring);
		atomic_fetch_sub_explicit(&closer->engine->rings_closing, 1, memory_order_relaxed);
		pthread_mutex_lock(&closer->lock);
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

static struct twi_uring_closer *begin_closer(struct twi_engine *engine)
{
	struct twi_uring_closer *closer = calloc(1, sizeof(*closer));

	if (closer == NULL)
		return NULL;
	closer->engine = engine;
	closer->end = &closer->first;
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->more, NULL);
	if (twi_thread_start(&closer->thread, "tow-rings", 0, closer_run, closer) != 0) {
		free(closer);
		return NULL;
	}
	return closer;
}

bool twi_uring_closer_take(struct twi_engine *engine, struct twi_uring *ring)
{
	struct twi_uring_closer *closer = engine->uring_closer;

	if (engine->failing)
		return false;
	twi_assert_held(engine);
	if (closer == NULL)
		closer = engine->uring_closer = begin_closer(engine);
	if (closer == NULL)
		return false;
	atomic_fetch_add_explicit(&engine->rings_closing, 1, memory_order_relaxed);
	ring->next_closing = NULL;
	pthread_mutex_lock(&closer->lock);
	*closer->end = ring;
	closer->end = &ring->next_closing;
	pthread_cond_signal(&closer->more);
	pthread_mutex_unlock(&closer->lock);
	return true;
}

void twi_uring_closer_end(struct twi_engine *engine)
{
	struct twi_uring_closer *closer = engine->uring_closer;

	if (closer == NULL)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->over = true;
	pthread_cond_signal(&closer->more);
	pthread_mutex_unlock(&closer->lock);
	pthread_join(closer->thread, NULL);
	pthread_mutex_destroy(&closer->lock);
	pthread_cond_destroy(&closer->more);
	free(closer);
	engine->uring_closer = NULL;
}
