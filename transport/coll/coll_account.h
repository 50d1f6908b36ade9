/*
 * coll_account.h - counts what collectives have cost since the start, by kind and lane: for
 * /metrics, and for the totals of /v1/coll.
 *
 *	account --- sums[kind][lane]     slack, waits, bytes
 *	        \-- all --> times --> times --> ...    latency and skew; each of one kind and lane
 *	                      |          |
 *	                   a group's   no group's: of groups that have ended
 *
 * Only the holder of the engine writes, by plain stores. Any thread may read meanwhile, so a scrape
 * does not take the engine. A collective is counted once, in the times of its group. When the group
 * ends, its times become ownerless. If there are ownerless ones of that kind and lane already, they
 * are added to those, and become spare. `version` is odd during this; a reader that sees it change
 * reads again. Times are freed when the runtime closes.
 *
 * The lane of a collective is the lane of its messages at this rank. It is shm where ranks of one
 * host read and write each other's memory, mixed where there are several lanes, none where nothing
 * moves. In shared memory a byte counts at the rank that moves it.
 *
 * The first wait for a collective may be known only after the collective has ended. So the ends of
 * later collectives look at its record, in order (twi_coll_account_tell).
 */
#ifndef TWI_COLL_ACCOUNT_H
#define TWI_COLL_ACCOUNT_H

#include "diag/record/diag.h"
#include "transport/coll/coll_run.h"

enum { TWI_COLL_WAY_MIXED = TWI_LANE_COUNT, TWI_COLL_WAY_NONE, TWI_COLL_WAYS };

/* What one call of an entry moves at this rank. */
struct twi_coll_traffic {
	uint64_t sends, recvs;
	/* the last: lane not known */
	uint64_t sent[TWI_LANE_COUNT + 1], received[TWI_LANE_COUNT + 1];
	uint64_t read, written; /* bytes of other ranks' memory, in place */
	uint64_t reduced, copied;
};

struct twi_coll_times {
	struct twi_coll_times *next;     /* on account->all; never changed */
	struct twi_coll_times *next_own; /* on the group's list, or on the list of spare ones */
	_Atomic uint32_t key;            /* kind * TWI_COLL_WAYS + lane */
	bool owned, is_spare;
	struct twi_latency latency, skew;
};

struct twi_coll_sums {
	_Atomic uint64_t slack_count, slack_ns;
	_Atomic uint64_t wait_ns; /* time that threads were blocked for it */
	_Atomic uint64_t sent[TWI_LANE_COUNT], received[TWI_LANE_COUNT];
};

struct twi_coll_account {
	_Atomic uint64_t version;
	struct twi_coll_times *_Atomic all; /* release, acquire */
	struct twi_coll_times *spare;
	uint64_t told; /* id of the last record that was counted */
	struct twi_coll_sums sums[TWI_COLL_KINDS][TWI_COLL_WAYS];
};

/* "shm", "mixed", "none". */
const char *twi_coll_way_name(unsigned way);

void twi_coll_add_up(const struct twi_coll_group *coll, const struct twi_plan *plan,
		     struct twi_coll_traffic *out);

/* The sum of all groups for a kind and lane. False: it is empty. The engine is not needed. */
bool twi_coll_account_read(const struct twi_coll_account *account, unsigned kind, unsigned way,
			   struct twi_latency_sum *latency_out, struct twi_latency_sum *skew_out);

/* The engine is held in all calls from here on, unless a comment says otherwise. */

/* NULL: no memory. */
struct twi_coll_account *twi_coll_account_make(void);
void twi_coll_account_free(struct twi_coll_account *account); /* NULL is legal */
/* Counts a run that has succeeded. */
void twi_coll_account_run(struct twi_coll_run *run, uint64_t latency_ns, uint64_t skew_ns,
			  bool skew_known);
/* The group ends; its counts stay. */
void twi_coll_account_leave(struct twi_coll_group *coll);
/* Counts the records that have ended and were waited for, since the last call: a few at most. */
void twi_coll_account_tell(struct twi_engine *engine);

/* coll_metrics.c: `arg` is the engine, which is not taken. */
void twi_coll_metrics(void *arg, struct twi_emit *emit);
/* Writes "totals" of /v1/coll. The engine is not needed. */
void twi_coll_account_emit(const struct twi_coll_account *account, struct twi_emit *emit);

#endif
