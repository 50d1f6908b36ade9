/*
 * engine.c - taking the engine, driving it, sleeping. See engine.h.
 */
#include "transport/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "diag/counter.h"
#include "diag/error.h"
#include "memreg/pool_regions.h"
#include "transport/device_copy.h"
#include "transport/uring/ring.h"

#define SPINS_BEFORE_FUTEX 200
#define SLEEP_MAX_NS       (100ull * 1000 * 1000)

static _Atomic uint64_t fork_generation;
static _Atomic uint32_t next_mark = 1;
static _Atomic uint64_t next_engine_id = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;

/* The calling thread's mark, and the ring it used last. */
static __thread struct {
	uint32_t mark;
	uint64_t engine_id;
	struct twi_ring *ring;
} self;

static void count_fork(void)
{
	atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
	self.mark = 0;
	self.engine_id = 0;
}

/* Marks of threads that have ended; their rings may be reused. Bounded by the rings of one runtime.
 */
static _Atomic uint32_t ended_marks[256];

static void note_end(void *mark)
{
	uint32_t value = (uint32_t)(uintptr_t)mark;

	atomic_store_explicit(&ended_marks[value % twi_array_count(ended_marks)], value,
			      memory_order_release);
	/* A later destructor that calls in is another thread to us: the ring may be gone by then.
	 */
	self.mark = 0;
	self.engine_id = 0;
}

static void init_once(void)
{
	pthread_atfork(NULL, NULL, count_fork);
	pthread_key_create(&thread_end, note_end);
}

uint32_t twi_thread_mark(void)
{
	if (twi_unlikely(self.mark == 0)) {
		self.mark = atomic_fetch_add_explicit(&next_mark, 1, memory_order_relaxed);
		pthread_setspecific(thread_end, (void *)(uintptr_t)self.mark);
	}
	return self.mark;
}

bool twi_engine_forked(const struct twi_engine *engine)
{
	return twi_unlikely(engine->fork_generation !=
			    atomic_load_explicit(&fork_generation, memory_order_relaxed));
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

static bool try_hold(struct twi_engine *engine, uint32_t mark)
{
	uint32_t none = 0;

	/* acquire: pairs with the release in unhold; all of the engine is read after it */
	return atomic_load_explicit(&engine->held, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&engine->held, &none, mark,
						       memory_order_acquire, memory_order_relaxed);
}

static void unhold(struct twi_engine *engine)
{
	atomic_store_explicit(&engine->held, 0, memory_order_seq_cst);
	if (twi_unlikely(atomic_load_explicit(&engine->wanted, memory_order_seq_cst) > 0))
		futex(&engine->held, FUTEX_WAKE, 1, NULL);
}

static bool is_mine(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->held, memory_order_relaxed) == twi_thread_mark();
}

bool twi_engine_in_callback(struct twi_engine *engine)
{
	return is_mine(engine) && engine->in_callback;
}

bool twi_engine_try_enter(struct twi_engine *engine)
{
	if (!try_hold(engine, twi_thread_mark()))
		return false;
	engine->depth = 1;
	return true;
}

void twi_engine_enter(struct twi_engine *engine)
{
	uint32_t mark = twi_thread_mark();
	const struct timespec slice = { .tv_nsec = 1000000 };

	if (twi_likely(try_hold(engine, mark))) {
		engine->depth = 1;
		return;
	}
	if (is_mine(engine)) { /* from a callback */
		engine->depth++;
		return;
	}
	atomic_fetch_add_explicit(&engine->wanted, 1, memory_order_seq_cst);
	for (unsigned i = 0; !try_hold(engine, mark); i++) {
		uint32_t holder = atomic_load_explicit(&engine->held, memory_order_relaxed);

		if (i < SPINS_BEFORE_FUTEX || holder == 0)
			pause_cpu();
		else
			futex(&engine->held, FUTEX_WAIT, holder, &slice);
	}
	atomic_fetch_sub_explicit(&engine->wanted, 1, memory_order_relaxed);
	engine->depth = 1;
}

/* Wakes one sleeper to arm in its ring what this holder armed in its own, which goes to sleep now.
 */
static void hand_on(struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		struct twi_ring *ring = engine->rings[i];

		if (ring != NULL && ring != engine->ring &&
		    atomic_load_explicit(&ring->sleeping, memory_order_relaxed) != 0) {
			twi_ring_wake(ring);
			if (!ring->watched) /* the thread of a tow_fd may be about something else */
				return;
		}
	}
}

void twi_engine_leave(struct twi_engine *engine)
{
	if (engine->depth > 1) {
		engine->depth--;
		return;
	}
	if (!twi_list_empty(&engine->callbacks))
		twi_op_run_callbacks(engine);
	if (engine->ring != NULL && engine->ring->unsubmitted > 0) {
		twi_ring_submit(engine->ring); /* a request left unsubmitted would run late */
		if (io_uring_cq_ready(&engine->ring->uring) > 0)
			engine->armed_since_enter = true; /* it is over: a sleeper reaps it */
	}
	if (engine->armed_since_enter) {
		engine->armed_since_enter = false;
		if (atomic_load_explicit(&engine->sleepers, memory_order_relaxed) > 0)
			hand_on(engine);
	}
	engine->ring = NULL;
	engine->depth = 0;
	unhold(engine);
}

void twi_engine_wake(struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		struct twi_ring *ring = engine->rings[i];

		if (ring != NULL && ring != engine->ring &&
		    atomic_load_explicit(&ring->sleeping, memory_order_relaxed) != 0)
			twi_ring_wake(ring);
	}
}

static bool thread_ended(uint32_t mark)
{
	return atomic_load_explicit(&ended_marks[mark % twi_array_count(ended_marks)],
				    memory_order_acquire) == mark;
}

static void drop_ring(struct twi_engine *engine, unsigned index)
{
	struct twi_ring *ring = engine->rings[index];

	twi_ring_reap(ring);
	if (ring->watched)
		atomic_fetch_sub_explicit(&engine->sleepers, 1, memory_order_relaxed);
	if (engine->last_ring == ring)
		engine->last_ring = NULL;
	if (engine->armed_ring == ring)
		engine->armed_ring = NULL;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL)
			engine->lanes[i]->ops->ring_gone(engine->lanes[i], index);
	}
	engine->rings[index] = NULL;
	twi_pool_registrar_remove(engine->pool, &twi_ring_registrar, ring);
	twi_ring_destroy(ring);
}

/* Registers the pool with a new ring. A pool that cannot be pinned is used without. */
static int register_pool(struct twi_engine *engine, struct twi_ring *ring)
{
	int status;

	ring->regions_version = twi_pool_regions_version(engine->pool);
	status = twi_pool_registrar_add(engine->pool, &twi_ring_registrar, ring);
	ring->registrar = twi_pool_registered(engine->pool, &twi_ring_registrar, ring);
	if (status < 0 && engine->knobs.strict_premap != 0)
		return status;
	if (status < 0)
		twi_log(engine->diag, 2, "%s", tow_error_message());
	return TOW_OK;
}

static int add_ring(struct twi_engine *engine)
{
	struct twi_ring *ring;
	unsigned index = 0;
	int status;

	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL && thread_ended(engine->rings[i]->mark))
			drop_ring(engine, i);
	}
	while (index < TWI_RINGS_MAX && engine->rings[index] != NULL)
		index++;
	if (index > 0 && engine->rings[0] != NULL && !engine->rings[0]->deferred)
		return twi_error(TOW_EBUSY,
				 "without IORING_SETUP_DEFER_TASKRUN (Linux 6.1) only one thread "
				 "may drive a runtime");
	if (index == TWI_RINGS_MAX)
		return twi_error(TOW_EBUSY, "more than %d threads drive this runtime",
				 TWI_RINGS_MAX);
	status = twi_ring_create(engine, &ring);
	if (status < 0)
		return status;
	ring->index = index;
	status = register_pool(engine, ring);
	if (status < 0) {
		twi_ring_destroy(ring);
		return status;
	}
	engine->rings[index] = ring;
	self.engine_id = engine->id;
	self.ring = ring;
	return TOW_OK;
}

static struct twi_ring *find_ring(struct twi_engine *engine, uint32_t mark)
{
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL && engine->rings[i]->mark == mark)
			return engine->rings[i];
	}
	return NULL;
}

/*
 * Reaps what the last holder has left in its queue. It comes before any system call on this
 * thread's ring: that might receive what follows it in the same stream.
 */
static void drain_others(struct twi_engine *engine)
{
	engine->last_ring = engine->ring;
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL && engine->rings[i] != engine->ring)
			twi_ring_reap(engine->rings[i]);
	}
}

/*
 * A notification reaches only the thread that sent. One that has ended gets none any more: its ring
 * goes, and with it the leases. That is safe: an operation in flight holds its memory itself, and
 * once it has ended nobody wants the bytes that are still on their way.
 */
static void drop_deaf(struct twi_engine *engine)
{
	if (twi_likely(engine->notices == engine->ring->notices))
		return;
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		struct twi_ring *ring = engine->rings[i];

		if (ring != NULL && ring->notices > 0 && thread_ended(ring->mark))
			drop_ring(engine, i);
	}
}

/* Regions have come or gone: this thread's ring follows. */
static void keep_in_step(struct twi_engine *engine)
{
	/* Acquire: pairs with the release of whoever publishes a region. */
	uint64_t now = atomic_load_explicit(engine->regions_clock, memory_order_acquire);

	if (twi_unlikely(engine->ring->regions_version != now))
		twi_ring_sync(engine->ring);
}

int twi_engine_bind_ring(struct twi_engine *engine)
{
	struct twi_ring *ring = self.ring;

	if (engine->virtual_clock)
		return TOW_OK;
	if (twi_unlikely(self.engine_id != engine->id)) {
		ring = find_ring(engine, twi_thread_mark());
		if (ring == NULL) {
			int status = add_ring(engine);

			if (status < 0) {
				/* it works without: what is taken back must not be on its way */
				engine->ring = NULL;
				drain_others(engine);
				return status;
			}
			ring = self.ring;
		}
		self.engine_id = engine->id;
		self.ring = ring;
	}
	engine->ring = ring;
	if (engine->last_ring != ring)
		drain_others(engine);
	keep_in_step(engine);
	return TOW_OK;
}

/* This thread's ring takes over: what waits in other threads' rings is armed in it as well. */
static void change_driver(struct twi_engine *engine)
{
	engine->armed_ring = engine->ring;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL)
			engine->lanes[i]->ops->driver_changed(engine->lanes[i]);
	}
}

unsigned twi_engine_poll(struct twi_engine *engine)
{
	unsigned events = 0;

	if (twi_unlikely(engine->armed_ring != engine->ring))
		change_driver(engine);
	if (engine->ring != NULL) {
		keep_in_step(engine);
		twi_pool_regions_settle(engine->pool);
		drop_deaf(engine);
		events += twi_ring_poll(engine->ring);
	}
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL)
			events += engine->lanes[i]->ops->progress(engine->lanes[i]);
	}
	if (twi_unlikely(!twi_list_empty(&engine->devices)))
		events += twi_devices_poll(engine);
	if (twi_unlikely(engine->next_expiry_ns != UINT64_MAX))
		twi_op_expire(engine, twi_engine_now(engine));
	if (!twi_list_empty(&engine->callbacks))
		twi_op_run_callbacks(engine);
	return events;
}

static uint64_t next_deadline(struct twi_engine *engine, uint64_t until_ns)
{
	uint64_t next = twi_min(until_ns, engine->next_expiry_ns);

	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL) {
			uint64_t at = engine->lanes[i]->ops->deadline_ns(engine->lanes[i]);

			next = twi_min(next, at);
		}
	}
	if (twi_unlikely(!twi_list_empty(&engine->devices)))
		next = twi_min(next, twi_devices_deadline_ns(engine));
	return next;
}

static void flush_lanes(struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL)
			engine->lanes[i]->ops->flush(engine->lanes[i], true);
	}
}

/* seq_cst: the sleeper's flag and the op's state cross those of publish in op.c */
static bool is_done(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->state, memory_order_seq_cst) & TWI_OP_DONE) != 0;
}

/* Gives the engine back, sleeps, takes it again. */
static void sleep_once(struct twi_engine *engine, const struct tow_op *op, uint64_t until_ns)
{
	struct twi_ring *ring = engine->ring;
	uint64_t next, now;

	flush_lanes(engine);
	if (twi_op_run_callbacks(engine))
		return; /* they may have started what must be sent first */
	next = next_deadline(engine, until_ns);
	now = twi_engine_now(engine);
	atomic_fetch_add_explicit(&engine->sleepers, 1, memory_order_seq_cst);
	atomic_store_explicit(&ring->sleeping, 1, memory_order_seq_cst);
	engine->armed_since_enter = false;
	twi_engine_leave(engine);
	/* after sleepers++: a device that saw no sleeper has set its signal before this looks */
	if (!is_done(op) && next > now &&
	    atomic_load_explicit(&engine->device_signal, memory_order_seq_cst) == 0)
		twi_ring_sleep(ring, twi_min(next - now, SLEEP_MAX_NS));
	atomic_store_explicit(&ring->sleeping, ring->watched, memory_order_relaxed);
	atomic_fetch_sub_explicit(&engine->sleepers, 1, memory_order_relaxed);
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
}

/* Another thread asks for the engine: it gets it, and this one comes back after it. */
static void give_way(struct twi_engine *engine)
{
	twi_engine_leave(engine);
	for (unsigned i = 0; i < SPINS_BEFORE_FUTEX &&
			     atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0;
	     i++)
		pause_cpu();
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
}

/* Nothing will happen before the next deadline: the virtual clock is there at once. */
static bool jump(struct twi_engine *engine, uint64_t until_ns)
{
	uint64_t next;

	flush_lanes(engine);
	next = next_deadline(engine, until_ns);
	if (next == UINT64_MAX)
		return false;
	engine->virtual_ns = twi_max(next, engine->virtual_ns + 1);
	return true;
}

static int drive(struct twi_engine *engine, struct tow_op *op, uint64_t until_ns)
{
	uint64_t now = twi_engine_now(engine);
	uint64_t spin_until = now + (uint64_t)engine->knobs.spin_ns;

	for (;;) {
		unsigned events = twi_engine_poll(engine);

		if (is_done(op))
			return TOW_OK;
		now = twi_engine_now(engine);
		if (now >= until_ns)
			return TOW_AGAIN;
		if (atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0) {
			give_way(engine);
		} else if (events > 0) {
			spin_until = now + (uint64_t)engine->knobs.spin_ns;
		} else if (twi_unlikely(engine->virtual_clock)) {
			if (!jump(engine, until_ns))
				return TOW_AGAIN;
		} else if (now >= spin_until) {
			sleep_once(engine, op, until_ns);
			spin_until = twi_engine_now(engine) + (uint64_t)engine->knobs.spin_ns;
		} else {
			pause_cpu();
		}
	}
}

int twi_engine_wait(struct twi_engine *engine, struct tow_op *op, uint64_t until_ns)
{
	int status;

	twi_engine_enter(engine);
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK)
		status = drive(engine, op, until_ns);
	twi_engine_leave(engine);
	return status;
}

int twi_engine_init(struct twi_engine *engine)
{
	int status;

	pthread_once(&once, init_once);
	twi_list_init(&engine->timed);
	twi_list_init(&engine->callbacks);
	twi_list_init(&engine->endpoints);
	twi_list_init(&engine->peers);
	twi_list_init(&engine->devices);
	engine->next_expiry_ns = UINT64_MAX;
	engine->fork_generation = atomic_load_explicit(&fork_generation, memory_order_relaxed);
	engine->id = atomic_fetch_add_explicit(&next_engine_id, 1, memory_order_relaxed);
	status = twi_op_table_init(&engine->ops, (uint32_t)engine->knobs.max_ops);
	return status;
}

void twi_engine_fini(struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL)
			drop_ring(engine, i);
	}
	if (self.engine_id == engine->id)
		self.engine_id = 0;
	twi_op_table_fini(&engine->ops);
}
