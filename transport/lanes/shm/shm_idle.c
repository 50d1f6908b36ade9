/*
 * shm_idle.c - who does not look at the rings is rung for: a runtime that sleeps, of all its
 * connections; one that is awake, of those that have been quiet for a while.
 *
 *	up    polled: a look at two words on every turn
 *	idle  not polled: `asleep` is set in its box, so the other side's next write rings, by the
 *	      socket, and the connection is polled again
 *
 * The first shm_polled_peers connections are polled however quiet they are: a bell takes
 * microseconds, and to look at so few takes less than one. Beyond, each costs every exchange of the
 * others 20 ns and a line of cache, and 512 cost 11 us.
 */
#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/lanes/shm/shm.h"

#define SWEEP_TURNS 256u /* of the poll, between two looks at the clock */
#define IDLE_NS     (50ull * 1000 * 1000)

static long membarrier_call(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

bool twi_shm_barriers_join(void)
{
	return membarrier_call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
	       membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

/* True: whoever writes to this peer's rings from the next barrier on rings. */
static bool set_asleep(struct twi_shm_peer *peer)
{
	_Atomic uint32_t *asleep = &peer->out.box.head->asleep;

	if (atomic_load_explicit(asleep, memory_order_relaxed) == 1)
		return false; /* since an earlier barrier: what came after it has rung */
	atomic_store_explicit(asleep, 1, memory_order_relaxed);
	return true;
}

/* What was set is seen by all who write after this; what they wrote before is seen here. */
static void pass_barrier(const struct twi_shm_lane *lane)
{
	/* seq_cst: pairs with the fence in twi_shm_wrote */
	atomic_thread_fence(memory_order_seq_cst);
	if (lane->barriers)
		(void)membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void twi_shm_doze(struct twi_shm_lane *lane)
{
	struct twi_list *pos, *next;
	bool news = false;

	twi_list_for_each_safe (pos, next, &lane->up)
		news |= set_asleep(twi_container_of(pos, struct twi_shm_peer, link));
	if (news)
		pass_barrier(lane);
}

bool twi_shm_peer_ready(struct twi_shm_peer *peer)
{
	return (!peer->stalled && twi_shm_slot_peek(&peer->in) != 0) ||
	       (peer->expecting > 0 && twi_shm_note_there(&peer->notes_in)) ||
	       !twi_list_empty(&peer->copying) || twi_shm_send_ready(peer);
}

/* Nothing is on its way that this side has to see to; what the other side does rings. */
static bool is_quiet(const struct twi_shm_peer *peer)
{
	return !peer->moved && !peer->busy && peer->expecting == 0;
}

/* Those that have said nothing since the last sweep, but for the first `keep` of all. */
static bool put_aside(struct twi_shm_lane *lane, uint32_t keep, struct twi_list *aside)
{
	struct twi_list *pos, *next;
	bool news = false;

	twi_list_for_each_safe (pos, next, &lane->up) {
		struct twi_shm_peer *peer = twi_container_of(pos, struct twi_shm_peer, link);

		if (lane->up_count > keep && is_quiet(peer)) {
			twi_list_remove(&peer->link);
			twi_list_push_back(aside, &peer->link);
			lane->up_count--;
			peer->idle = true;
			news |= set_asleep(peer);
		}
		peer->moved = false;
	}
	return news;
}

void twi_shm_sweep(struct twi_shm_lane *lane)
{
	const struct twi_engine *engine = lane->base.engine;
	uint32_t keep = (uint32_t)engine->knobs.shm_polled_peers;
	uint64_t now;
	struct twi_list aside, *entry;

	if (twi_likely(++lane->turns % SWEEP_TURNS != 0))
		return;
	now = twi_engine_now(engine);
	if (keep > 0 && now - lane->swept_ns < IDLE_NS)
		return;
	lane->swept_ns = now;
	twi_list_init(&aside);
	if (put_aside(lane, keep, &aside))
		pass_barrier(lane);
	while ((entry = twi_list_first(&aside)) != NULL) {
		struct twi_shm_peer *peer = twi_container_of(entry, struct twi_shm_peer, link);

		twi_list_remove(entry);
		twi_list_push_back(&lane->idle, entry);
		if (twi_shm_peer_ready(peer)) /* written before the barrier: nobody rings for it */
			twi_shm_wake(peer);
	}
}

void twi_shm_wake(struct twi_shm_peer *peer)
{
	struct twi_shm_lane *lane = twi_shm_lane_of(peer->base.engine);

	if (!peer->idle)
		return;
	peer->idle = false;
	peer->moved = true;
	twi_list_remove(&peer->link);
	twi_list_push_back(&lane->up, &peer->link);
	lane->up_count++;
	peer->base.engine->armed_since_enter = true; /* a sleeper looks at it */
}

void twi_shm_ring_bell(struct twi_shm_peer *peer)
{
	static const char bell[1];

	/* A socket that is full wakes its reader as well. */
	if (atomic_exchange_explicit(&peer->in.box.head->asleep, 0, memory_order_relaxed) != 0)
		(void)!send(peer->socket.fd, bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}
