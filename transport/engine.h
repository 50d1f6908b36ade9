/*
 * engine.h - whoever waits drives: the engine is held by one thread at a time, which moves the
 *lanes.
 *
 * Any call that touches a lane takes the engine for its time: one compare-and-swap when nobody has
 *it. A thread that waits for an operation keeps it and polls, gives way whenever another thread
 *asks for it (wanted), and gives it back before it sleeps. There is no other lock on the data path.
 *
 *	 T1: tow_op_wait            T2: tow_send_start
 *	 |  hold, poll, poll         |  wanted++
 *	 |  wanted? give way ------> |  hold: frame into the buffer, submit with T2's ring
 *	 |  hold again <------------ |  give back
 *	 |  nothing for spin_ns: give back, sleep on T1's ring and wake fd
 *
 * Every thread that drives has an io_uring of its own (uring/ring.h), because a ring with
 * DEFER_TASKRUN belongs to one thread. When the engine changes hands, the new holder first reaps
 *what the others' rings have posted (their completion queues are plain memory) and then has the
 *lanes arm its own ring.
 *
 * Under the simulator the engine has a virtual clock: instead of sleeping it jumps to the next
 *deadline.
 */
#ifndef TWI_ENGINE_H
#define TWI_ENGINE_H

#include <stdatomic.h>

#include <internal/list.h>
#include <towline/runtime.h>

#include "diag/clock.h"
#include "diag/diag.h"
#include "diag/lane_id.h"
#include "memreg/pool.h"
#include "memreg/staging.h"
#include "transport/job_key.h"
#include "transport/lane.h"
#include "transport/op.h"

#define TWI_RINGS_MAX 16

struct twi_alloclog;
struct twi_ring;

struct twi_engine {
	_Alignas(64) _Atomic uint32_t held; /* 0 free, else the holder's thread mark */
	_Atomic uint32_t wanted;            /* threads that ask for it */
	_Atomic uint32_t sleepers;          /* threads asleep in a wait, and those with a tow_fd */
	uint32_t depth;                     /* of the holder's calls: more than one in a callback */
	bool in_callback;
	bool armed_since_enter; /* this holder left requests in its ring that a sleeper must take on
				 */
	bool virtual_clock;
	uint8_t zerocopy;            /* enum twi_zerocopy */
	bool failing;                /* the runtime is closing: nothing new is taken */
	struct twi_ring *ring;       /* of the thread that drives now */
	struct twi_ring *last_ring;  /* the last holder's: it may have unreaped completions */
	struct twi_ring *armed_ring; /* in which the lanes have armed what they wait for */
	struct twi_ring *rings[TWI_RINGS_MAX];
	struct twi_lane *lanes[TWI_LANE_COUNT];
	struct twi_diag *diag;
	struct twi_pool *pool;
	const _Atomic uint64_t *regions_clock; /* the version of its regions */
	struct twi_staging staging;            /* part of it */
	struct twi_alloclog *alloclog;
	struct tow_options knobs;
	struct twi_job_key job_key; /* of the secret that knobs.job_key does not show any more */
	struct twi_op_table ops;
	struct twi_list timed;     /* operations with a deadline */
	struct twi_list callbacks; /* operations whose callback is due */
	struct twi_list endpoints;
	struct twi_list peers;
	struct twi_list devices;
	_Atomic uint32_t device_signal; /* a device has news that nobody has looked at yet */
	uint32_t notices;               /* zero-copy sends whose notification is to come */
	struct twi_latency notify_lag;  /* of zero-copy sends: completion to notification */
	uint64_t next_expiry_ns;
	uint64_t virtual_ns;
	uint64_t fork_generation;
	uint64_t id; /* of this runtime; never used again in this process */
};

static inline uint64_t twi_engine_now(const struct twi_engine *engine)
{
	return twi_unlikely(engine->virtual_clock) ? engine->virtual_ns : twi_now_ns();
}

/* True when the calling thread is inside a completion callback of this engine. */
bool twi_engine_in_callback(struct twi_engine *engine);

/* True in a forked child of the process that opened the runtime. */
bool twi_engine_forked(const struct twi_engine *engine);

/* Takes the engine, asking the holder to give way. Within a callback the thread holds it already.
 */
void twi_engine_enter(struct twi_engine *engine);
bool twi_engine_try_enter(struct twi_engine *engine);

/* Gives the engine back; runs callbacks that are due first. */
void twi_engine_leave(struct twi_engine *engine);

/*
 * Binds the calling thread's ring to the engine, making one when the thread has none. The engine is
 * held. TOW_OK; TOW_EBUSY when too many threads drive; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_engine_bind_ring(struct twi_engine *engine);

/* Moves every lane once, ends what is past its deadline. The engine is held and has a ring. */
unsigned twi_engine_poll(struct twi_engine *engine);

/* Drives until `op` is done or `until_ns` (engine time) has come; TOW_OK, TOW_AGAIN or a failure.
 */
int twi_engine_wait(struct twi_engine *engine, struct tow_op *op, uint64_t until_ns);

/* Tells sleeping threads that an operation is done or a ring must be taken on. */
void twi_engine_wake(struct twi_engine *engine);

/* A small number that no other live thread has; never 0. */
uint32_t twi_thread_mark(void);

int twi_engine_init(struct twi_engine *engine);
void twi_engine_fini(struct twi_engine *engine);

#endif
