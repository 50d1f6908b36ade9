/*
 * shm_idle.c - decides which connections are polled and which ask for a wake-up byte. A sleeping
 * runtime asks for it on all its polled connections, an awake one on those that were quiet for a
 * while.
 *
 *	up    polled: two words are read on every turn
 *	idle  not polled: `asleep` is set in its segment, so the other side's next write also
 *	      sends a byte on the socket, and the connection is polled again
 *
 * The first shm_polled_peers connections are polled however quiet they are. A wake-up byte takes
 * microseconds, and polling so few connections takes less than one. Beyond that, each connection
 * costs every exchange of the others 20 ns and a cache line; 512 connections cost 11 us.
 */
#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "transport/lanes/shm/shm.h"

#define SWEEP_TURNS 256u /* turns of the poll between two reads of the clock */
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

/* Returns true if `asleep` was not set. A write of the peer after the next barrier sends a byte. */
static bool set_asleep(struct twi_shm_peer *peer)
{
	_Atomic uint32_t *asleep = &peer->out.box.head->asleep;

	if (atomic_load_explicit(asleep, memory_order_relaxed) == 1)
		return false; /* set before an earlier barrier: any later write has sent a byte */
	atomic_store_explicit(asleep, 1, memory_order_relaxed);
	return true;
}

/* Later writes of other processes see `asleep`, and their earlier writes are visible here. */
void twi_shm_pass_barrier(const struct twi_shm_lane *lane)
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
		twi_shm_pass_barrier(lane);
}

bool twi_shm_peer_ready(struct twi_shm_peer *peer)
{
	return (!peer->stalled && twi_shm_slot_peek(&peer->in) != 0) ||
	       (peer->expecting > 0 && twi_shm_note_there(&peer->notes_in)) ||
	       !twi_list_empty(&peer->copying) || !twi_list_empty(&peer->helped) ||
	       twi_shm_send_ready(peer);
}

/* No work is pending here. An action of the other side will send a byte. */
static bool is_quiet(const struct twi_shm_peer *peer)
{
	return !peer->moved && !peer->busy && peer->expecting == 0;
}

/*
 * Moves peers that were quiet since the last sweep to `aside`; `keep` peers remain. Returns whether
 * a barrier is needed.
 */
static bool collect_quiet(struct twi_shm_lane *lane, uint32_t keep, struct twi_list *aside)
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
	if (collect_quiet(lane, keep, &aside))
		twi_shm_pass_barrier(lane);
	while ((entry = twi_list_first(&aside)) != NULL) {
		struct twi_shm_peer *peer = twi_container_of(entry, struct twi_shm_peer, link);

		twi_list_remove(entry);
		twi_list_push_back(&lane->idle, entry);
		if (twi_shm_peer_ready(peer)) /* written before the barrier, so without a byte */
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
	peer->base.engine->armed_since_enter = true; /* a sleeper must poll it */
}

void twi_shm_ring_bell(struct twi_shm_peer *peer)
{
	TWI_UNCANCELED;
	static const char bell[1];

	/* A failed send on a full socket does no harm: its unread bytes wake the reader, too. */
	if (atomic_exchange_explicit(&peer->in.box.head->asleep, 0, memory_order_relaxed) != 0)
		(void)!send(peer->socket.fd, bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}
