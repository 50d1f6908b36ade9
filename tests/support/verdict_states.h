/*
 * verdict_states.h - states of ranks made by hand: a healthy job, to which a test does something.
 */
#ifndef TWT_VERDICT_STATES_H
#define TWT_VERDICT_STATES_H

#include "twt.h"

#include <string.h>

#include "diag/judge/verdict.h"
#include "transport/job/series.h"

#define VS_RANKS 8
#define VS_MS    1000000ull
#define VS_STEP  (20 * VS_MS) /* from one collective to the next */
#define VS_NOW   (100000 * VS_MS)
#define VS_GAP   (400 * VS_MS) /* between the two looks */

struct twt_vs_job {
	uint32_t size;
	struct twi_verdict_rank ranks[VS_RANKS];
	struct twi_rank_state first[VS_RANKS], last[VS_RANKS];
	struct twi_verdict_case what;
	struct twi_verdict verdict;
};

/* How many random cases are played: TOW_VERDICT_CASES, or as many as is usual. */
uint64_t twt_vs_cases(uint64_t usual);

/* What a rank says of the calls that it has written down. */
void twt_vs_tell(const struct twi_series *series, struct twi_state_group *group);

/* The newest collective is `newest`, begun at `at`; each took a millisecond. */
void twt_vs_past(struct twi_state_group *group, uint64_t newest, uint64_t at);

void twt_vs_healthy(struct twt_vs_job *job, uint32_t size);

/* Rank `rank` has waited in collective `seq` for `ms`, in both looks. */
void twt_vs_wait_in(struct twt_vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms);

/* It has ended collective `seq` so long ago, and is in none. */
void twt_vs_stay_out(struct twt_vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms);

/* All but one wait for it. */
void twt_vs_miss(struct twt_vs_job *job, uint32_t missing, uint64_t ms);

/* It has gone through the barriers up to `newest`, or waits there for `ms`; 0: it does not. */
void twt_vs_barriers(struct twt_vs_job *job, uint32_t rank, uint64_t newest, uint64_t ms);

/* Rank `rank` came to each of the last `count` collectives so much later than the others. */
void twt_vs_delay(struct twt_vs_job *job, uint32_t rank, uint32_t count, uint64_t ms);

/* --- jobs that exchange messages, and have no groups --- */

/* Nobody waits, nothing is under way, and nothing goes on: each has ended 100 operations. */
void twt_vs_still(struct twt_vs_job *job, uint32_t size);

/* Between the looks rank `rank` has ended some operations. */
void twt_vs_moves(struct twt_vs_job *job, uint32_t rank);

/* It has an operation with `to` under way since `ms`, for which a thread waits, or none does. */
void twt_vs_message(struct twt_vs_job *job, uint32_t rank, uint8_t kind, uint32_t to, uint64_t tag,
		    uint64_t ms, bool thread);

/* Between the looks a thread of its user's has polled so often. */
void twt_vs_polls(struct twt_vs_job *job, uint32_t rank, uint64_t polls);

/* A message of `from`'s lies there, which no receive takes. */
void twt_vs_stray(struct twt_vs_job *job, uint32_t rank, uint32_t from, uint64_t tag);

/* Its clock is ahead of the asker's by so much. */
void twt_vs_move_clock(struct twt_vs_job *job, uint32_t rank, int64_t offset);

/*
 * Points of its thread's time, every 250 ms until now: in each it waited for a CPU for `waited_ms`,
 * and had one for `ran_ms`. The looks agree with them.
 */
void twt_vs_cpu(struct twt_vs_job *job, uint32_t rank, uint64_t waited_ms, uint64_t ran_ms);

struct twi_state_link *twt_vs_link(struct twi_rank_state *state, uint32_t to);

void twt_vs_silent(struct twt_vs_job *job, uint32_t rank);

void twt_vs_judge(struct twt_vs_job *job);

/* One finding, of this cause, with the ranks in the bits of `ranks`. */
void twt_vs_expect_ranks(struct twt_vs_job *job, enum twi_cause cause, uint32_t ranks);

/* One finding, of this cause, with this rank alone. */
void twt_vs_expect(struct twt_vs_job *job, enum twi_cause cause, uint32_t rank);

void twt_vs_expect_link(struct twt_vs_job *job, enum twi_cause cause, uint32_t from, uint32_t to);

#endif
