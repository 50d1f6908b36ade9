/*
 * coll_account.h - what collectives have cost since the start, by kind and lane: for /metrics, and
 * the totals of /v1/coll.
 *
 *	account --- sums[kind][lane]     slack, waits, bytes
 *	        \-- all --> times --> times --> ...    latency and skew; each of one kind and lane
 *	                      |          |
 *	                   a group's   of groups that have gone: nobody's
 *
 * Only the holder of the engine writes, by plain stores; anybody may read meanwhile, so that a
 * scrape does not take the engine. A collective is counted once, in the times of its group. When
 * the group ends they are added to nobody's and used again, and `version` is odd for so long: who
 * has read meanwhile reads again. Times are kept until the runtime closes.
 *
 * The lane of a collective is where its bytes go at this rank: that of its messages, shm where
 * ranks of one host read and write each other's memory, mixed where there are several, none where
 * nothing moves. In shared memory a byte counts at the rank that moves it.
 *
 * When a collective is waited for may be known later than its end. So its record is looked at from
 * the end of the next ones, in order (twi_coll_account_tell).
 */
#ifndef TWI_COLL_ACCOUNT_H
#define TWI_COLL_ACCOUNT_H

#include "diag/record/diag.h"
#include "transport/coll/coll_run.h"

enum { TWI_COLL_WAY_MIXED = TWI_LANE_COUNT, TWI_COLL_WAY_NONE, TWI_COLL_WAYS };

/* What one call of an entry moves, at this rank. */
struct twi_coll_traffic {
	uint64_t sends, recvs;
	uint64_t sent[TWI_LANE_COUNT + 1], received[TWI_LANE_COUNT + 1]; /* the last: not known */
	uint64_t read, written; /* of other ranks' memory, in place */
	uint64_t reduced, copied;
};

struct twi_coll_times {
	struct twi_coll_times *next;     /* of all; never changed */
	struct twi_coll_times *next_own; /* of the group's, or of the spare ones */
	_Atomic uint32_t key;            /* kind * TWI_COLL_WAYS + lane */
	bool owned, is_spare;
	struct twi_latency latency, skew;
};

struct twi_coll_sums {
	_Atomic uint64_t slack_count, slack_ns;
	_Atomic uint64_t wait_ns; /* that threads were blocked for it */
	_Atomic uint64_t sent[TWI_LANE_COUNT], received[TWI_LANE_COUNT];
};

struct twi_coll_account {
	_Atomic uint64_t version;
	struct twi_coll_times *_Atomic all; /* release, acquire */
	struct twi_coll_times *spare;
	uint64_t told; /* id of a record */
	struct twi_coll_sums sums[TWI_COLL_KINDS][TWI_COLL_WAYS];
};

/* "shm", "mixed", "none". */
const char *twi_coll_way_name(unsigned way);

void twi_coll_add_up(const struct twi_coll_group *coll, const struct twi_plan *plan,
		     struct twi_coll_traffic *out);

/* What all groups have together of a kind and lane; false: nothing. The engine is not needed. */
bool twi_coll_account_read(const struct twi_coll_account *account, unsigned kind, unsigned way,
			   struct twi_latency_sum *latency_out, struct twi_latency_sum *skew_out);

/* The engine is held. */

/* NULL without memory. */
struct twi_coll_account *twi_coll_account_make(void);
void twi_coll_account_free(struct twi_coll_account *account); /* NULL is legal */
/* One that went well. */
void twi_coll_account_run(struct twi_coll_run *run, uint64_t latency_ns, uint64_t skew_ns,
			  bool skew_known);
/* The group ends; what it has counted stays. */
void twi_coll_account_leave(struct twi_coll_group *coll);
/* Records that have ended, and were waited for, since the last time: at most a few. */
void twi_coll_account_tell(struct twi_engine *engine);

/* coll_metrics.c: arg is the engine, which is not taken. */
void twi_coll_metrics(void *arg, struct twi_emit *emit);
/* "totals" of /v1/coll. */
void twi_coll_account_emit(const struct twi_coll_account *account, struct twi_emit *emit);

#endif
