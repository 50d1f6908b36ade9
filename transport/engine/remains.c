/* remains.c - the list of such pools, under one lock. See remains.h. */
#include "transport/engine/remains.h"

#include <pthread.h>
#include <stdlib.h>

#include <internal/base.h>
#include <internal/list.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine_thread.h"
#include "transport/engine/handle.h"

struct twi_remains {
	struct twi_list link;
	struct twi_handle *runtime;
	struct twi_pool *pool; /* NULL until begin */
	uint64_t fork_generation;
	uint64_t held, freed; /* allocations at begin, and given back since */
	bool settled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct twi_list all; /* under the lock */

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
	twi_list_init(&all);
	pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

int twi_remains_create(struct twi_handle *runtime, struct twi_remains **out)
{
	struct twi_remains *remains = calloc(1, sizeof(*remains));

	pthread_once(&once, init_once);
	*out = remains;
	if (remains == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	twi_list_init(&remains->link);
	remains->runtime = runtime;
	remains->fork_generation = twi_fork_generation();
	return TOW_OK;
}

void twi_remains_begin(struct twi_remains *remains, struct twi_pool *pool)
{
	remains->pool = pool;
	pthread_mutex_lock(&lock);
	twi_list_push_back(&all, &remains->link);
	pthread_mutex_unlock(&lock);
	twi_handle_remain(remains->runtime);
	twi_threads_wait_outside();
}

/* Destroys what no call finds any more. */
static void end_remains(struct twi_remains *remains)
{
	twi_pool_destroy(remains->pool);
	free(remains);
}

bool twi_remains_end(struct twi_remains *remains, struct twi_pool *pool, struct twi_diag *diag)
{
	uint64_t held;
	bool stays;

	if (remains == NULL || remains->pool == NULL) {
		twi_pool_destroy(pool);
		free(remains);
		return false;
	}
	held = twi_diag_held(diag);
	if (held > 0)
		twi_log(diag, 3,
			"%llu allocations outlive the runtime; they stay mapped until tow_free",
			(unsigned long long)held);
	/* Frees that come meanwhile use nothing that goes away here. */
	twi_pool_detach(pool);
	pthread_mutex_lock(&lock);
	remains->held = held;
	stays = remains->freed != held;
	if (!stays)
		twi_list_remove(&remains->link);
	pthread_mutex_unlock(&lock);
	if (!stays)
		end_remains(remains);
	return stays;
}

void twi_remains_settle(struct twi_remains *remains)
{
	struct twi_handle *runtime = remains->runtime;
	bool stays;

	twi_handle_hollow(runtime);
	pthread_mutex_lock(&lock);
	remains->settled = true;
	stays = remains->freed != remains->held;
	if (!stays)
		twi_list_remove(&remains->link);
	pthread_mutex_unlock(&lock);
	if (!stays) {
		end_remains(remains);
		twi_handle_bury(runtime);
	}
}

/* The lock is held. */
static struct twi_remains *find_remains(const struct twi_handle *runtime)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &all) {
		struct twi_remains *remains = twi_container_of(pos, struct twi_remains, link);

		if (remains->runtime == runtime)
			return remains;
	}
	return NULL;
}

static int free_in(struct twi_remains *remains, void *memory)
{
	int status;

	if (remains->fork_generation != twi_fork_generation())
		return twi_error(TOW_EFORKED,
				 "tow_free: this process is a forked child, which does not have "
				 "the pool of its parent");
	status = twi_pool_free_detached(remains->pool, memory);
	remains->freed += status == TOW_OK;
	return status;
}

int twi_remains_free(const struct twi_handle *runtime, void *memory)
{
	struct twi_handle *last = NULL;
	struct twi_remains *remains;
	int status;

	pthread_mutex_lock(&lock);
	remains = find_remains(runtime);
	if (remains == NULL || memory == NULL)
		status = twi_handle_refuse(runtime, TWI_HANDLE_RUNTIME, "tow_free");
	else
		status = free_in(remains, memory);
	if (status == TOW_OK && remains->settled && remains->freed == remains->held) {
		twi_list_remove(&remains->link);
		last = remains->runtime;
	}
	pthread_mutex_unlock(&lock);
	if (last != NULL) {
		end_remains(remains);
		twi_handle_bury(last);
	}
	return status;
}
