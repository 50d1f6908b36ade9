/*
 * engine_thread.c - marks, records and forks. See engine_thread.h.
 */
#include "transport/engine/engine_thread.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <internal/base.h>

_Atomic uint64_t twi_fork_count;
_Atomic bool twi_has_barrier;
static _Atomic uint32_t next_mark = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static pthread_mutex_t lives_lock = PTHREAD_MUTEX_INITIALIZER;
static struct twi_list records = { &records, &records }; /* under the lock */
static _Atomic uint32_t inside_unknown; /* threads that have no record for want of memory */

__thread struct twi_thread twi_self __attribute__((tls_model("initial-exec"), aligned(8)));

static void lock_lives(void)
{
	pthread_mutex_lock(&lives_lock);
}

static void unlock_lives(void)
{
	pthread_mutex_unlock(&lives_lock);
}

/* In the child of a fork, which has only the thread that called fork. */
static void count_fork(void)
{
	atomic_fetch_add_explicit(&twi_fork_count, 1, memory_order_relaxed);
	twi_list_init(&records);
	atomic_store_explicit(&inside_unknown, 0, memory_order_relaxed);
	/* The record stays: the key's destructor will end it. */
	if (twi_self.record != NULL)
		twi_list_push_back(&records, &twi_self.record->link);
	unlock_lives();
	twi_self.mark = 0;
	twi_self.binding = 0;
}

void twi_thread_record_release(struct twi_thread_record *record)
{
	/* acq_rel: the thread that frees it comes after all that used it */
	if (record != NULL &&
	    atomic_fetch_sub_explicit(&record->holds, 1, memory_order_acq_rel) == 1)
		free(record);
}

/*
 * The calling thread ends. If a later destructor calls the library, it counts as another thread,
 * with a mark and a record of its own. The ring may be gone by then.
 */
static void note_end(void *arg)
{
	struct twi_thread_record *record = arg;

	twi_self = (struct twi_thread){ 0 };
	lock_lives();
	twi_list_remove(&record->link);
	unlock_lives();
	atomic_store_explicit(&record->ended, 1, memory_order_release);
	twi_thread_record_release(record);
}

static void setup_once(void)
{
	pthread_atfork(lock_lives, unlock_lives, count_fork);
	pthread_key_create(&thread_end, note_end);
}

void twi_thread_setup(void)
{
	pthread_once(&once, setup_once);
}

uint32_t twi_thread_begin(void)
{
	struct twi_thread_record *record = twi_self.record;

	while (twi_self.mark == 0)
		twi_self.mark = atomic_fetch_add_explicit(&next_mark, 1, memory_order_relaxed);
	twi_self.tid = gettid();
	if (record != NULL)
		return twi_self.mark;
	record = malloc(sizeof(*record));
	if (record == NULL)
		return twi_self.mark;
	atomic_init(&record->holds, 1);
	atomic_init(&record->ended, 0);
	atomic_init(&record->inside, 0);
	record->polled = (struct twi_polled){ 0 };
	if (pthread_setspecific(thread_end, record) != 0) {
		free(record);
		return twi_self.mark;
	}
	twi_self.record = record;
	lock_lives();
	twi_list_push_back(&records, &record->link);
	unlock_lives();
	return twi_self.mark;
}

struct twi_thread_record *twi_thread_record_acquire(void)
{
	if (twi_self.record != NULL)
		atomic_fetch_add_explicit(&twi_self.record->holds, 1, memory_order_relaxed);
	return twi_self.record;
}

bool twi_barrier_setup(void)
{
	bool has = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

	if (has)
		atomic_store_explicit(&twi_has_barrier, true, memory_order_release);
	return has;
}

void twi_barrier_all(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

struct twi_thread_record *twi_thread_enter_slowly(void)
{
	struct twi_thread_record *record;

	twi_thread_mark();
	record = twi_self.record;
	if (record == NULL)
		atomic_fetch_add_explicit(&inside_unknown, 1, memory_order_seq_cst);
	else
		atomic_store_explicit(&record->inside, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return record;
}

void twi_thread_leave_slowly(void)
{
	atomic_fetch_sub_explicit(&inside_unknown, 1, memory_order_release);
}

void twi_threads_wait_outside(void)
{
	struct twi_list *pos, *next;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&twi_has_barrier, memory_order_acquire))
		twi_barrier_all();
	lock_lives();
	twi_list_for_each_safe (pos, next, &records) {
		struct twi_thread_record *record =
			twi_container_of(pos, struct twi_thread_record, link);

		/*
		 * acquire: pairs with twi_thread_leave. A thread inside never blocks, nor takes
		 * this lock.
		 */
		while (atomic_load_explicit(&record->inside, memory_order_acquire) != 0)
			sched_yield();
	}
	while (atomic_load_explicit(&inside_unknown, memory_order_acquire) != 0)
		sched_yield();
	unlock_lives();
}
