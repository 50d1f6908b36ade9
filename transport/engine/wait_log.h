/*
 * wait_log.h - for how long the thread that waits has been blocked, for what and for which ranks.
 *
 * The log has sums that only grow, and marks of them, one a second. So an answer covers the last
 * seconds (diag/judge/verdict_bound.c).
 *
 *	now -12 s                                          -2 s             now
 *	 |     |     |     |     |     |     |     |     |  |     |     |    |
 *	 mark  mark  ...                                    mark             sums
 *	 |<------------------- longer ---------------------------------------|
 *	                                                    |<--- lately ----|
 *
 * The log follows the same thread as cpu_log.h, and that thread adds to the sums itself. Waits of
 * other threads change nothing, so the sums never exceed the time that has passed. A wait of a
 * thread that is not followed costs one comparison.
 */
#ifndef TWI_WAIT_LOG_H
#define TWI_WAIT_LOG_H

#include <stdatomic.h>

#include "diag/judge/rank_state.h"

struct twi_step;

#define TWI_WAIT_LOG_STEP  1000000000ull /* between two marks, ns */
#define TWI_WAIT_LOG_MARKS 12u
#define TWI_WAIT_LOG_LATE  2u    /* marks back, where `lately` begins */
#define TWI_WAIT_LOG_PEERS 16u   /* peers that are told apart */
#define TWI_WAIT_LOG_LEAST 1000u /* a shorter wait counts for nothing, ns */

/* The sums at one time, and what the process has done until then. */
struct twi_wait_mark {
	uint64_t at_ns;
	uint64_t ns[TWI_WAITED_KINDS];
	uint64_t peer_ns[TWI_WAIT_LOG_PEERS];
	uint64_t step_ns, major_faults, read_bytes;
	uint32_t waits, steps;
};

struct twi_wait_log {
	/* The thread that is followed; 0: none yet. The holder of the engine writes it. */
	_Atomic int thread;
	/* The followed thread writes these; all relaxed, as each is a number by itself. */
	_Atomic uint64_t ns[TWI_WAITED_KINDS];
	_Atomic uint32_t waits;
	struct {
		_Atomic(const void *) peer; /* only compared: it may have gone */
		_Atomic uint64_t ns;
	} peers[TWI_WAIT_LOG_PEERS];
	/* The engine is held. */
	uint32_t made; /* marks so far; marks[] is a ring */
	struct twi_wait_mark marks[TWI_WAIT_LOG_MARKS];
};

/* The calling thread, which is followed, was blocked for `ns`; peer NULL: for no peer by name. */
void twi_wait_log_add(struct twi_wait_log *log, enum twi_waited kind, const void *peer,
		      uint64_t ns);

static inline void twi_wait_log_note(struct twi_wait_log *log, int thread, enum twi_waited kind,
				     const void *peer, uint64_t ns)
{
	if (ns >= TWI_WAIT_LOG_LEAST &&
	    atomic_load_explicit(&log->thread, memory_order_relaxed) == thread)
		twi_wait_log_add(log, kind, peer, ns);
}

/* Makes a mark, where one is due, and follows `thread` from now on. The engine is held. */
void twi_wait_log_mark(struct twi_wait_log *log, int thread, const struct twi_step *step,
		       uint64_t now_ns);

/*
 * Writes the sums since the marks. `open_ns`: how long a wait of `open_kind` has lasted that has
 * not ended. rank_of returns the rank of a peer; TWI_STATE_NO_RANK: none. The engine is held.
 */
struct twi_wait_log_ask {
	uint64_t now_ns, open_ns;
	enum twi_waited open_kind;
	const struct twi_step *step;
	uint32_t (*rank_of)(const void *arg, const void *peer);
	const void *arg;
};
void twi_wait_log_tell(const struct twi_wait_log *log, const struct twi_wait_log_ask *ask,
		       struct twi_rank_state *out);

#endif
