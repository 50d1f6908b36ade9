/*
 * foreign.h - records what other libraries of this process have done (<towline/foreign.h>).
 *
 *	group --- series      how far this rank is: other ranks learn it, as for groups of this
 *	      |               library (job/series.h)
 *	      +-- rows        the last TWI_FOREIGN_ROWS collectives, by seq
 *	      +-- kinds       the results of all collectives, by kind
 *	      +-- flows       messages by peer and direction: of all time, and of the last seconds
 *
 * A group is on the engine's list, which the engine guards. All its other members are guarded by
 * its own lock, so that a thread that reports its work never waits for the thread that drives. The
 * lock order is the engine, then a group.
 *
 * Recent figures are in two buckets of TWI_FOREIGN_BUCKET_NS: the bucket that is being filled, and
 * the one before it. Reports use both, so a verdict needs one look and no history.
 */
#ifndef TWI_FOREIGN_H
#define TWI_FOREIGN_H

#include <pthread.h>
#include <stdatomic.h>

#include <internal/list.h>
#include <towline/foreign.h>

#include "diag/record/coll_kind.h"
#include "diag/record/span.h"
#include "transport/engine/handle.h"
#include "transport/job/series.h"

struct twi_emit;
struct twi_engine;

#define TWI_FOREIGN_ROWS      256u
#define TWI_FOREIGN_PLAN      24u
#define TWI_FOREIGN_BUCKET_NS 2000000000ull

struct twi_foreign_row {
	uint64_t seq; /* 0: none */
	uint64_t bytes, step;
	uint64_t start_ns, entered_ns, done_ns; /* 0: not yet */
	int32_t root;
	int status;
	uint8_t kind;
	int8_t type, reduce; /* -1: not known */
	char plan[TWI_FOREIGN_PLAN];
};

struct twi_foreign_kind {
	uint64_t calls, ended, bytes;
	uint64_t sum_ns, min_ns, max_ns; /* from entry to end */
	uint64_t queue_ns;               /* from call to entry, of all that have ended */
};

struct twi_foreign_figures {
	uint64_t messages, bytes, device_ns, peer_ns, wire_ns;
};

struct twi_foreign_flow {
	uint32_t peer;
	bool sends;
	uint32_t span_peer;
	uint64_t bucket_ns; /* the beginning of `now` */
	struct twi_foreign_figures all, now, before;
};

struct tow_foreign_group {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct twi_list link; /* on engine->foreign_groups */
	pthread_mutex_t lock;
	uint64_t id, begun, messages;
	uint32_t tag; /* its name in spans */
	uint32_t flow_count, flow_last;
	char name[TOW_FOREIGN_NAME_MAX];
	struct twi_series series;
	struct twi_foreign_row rows[TWI_FOREIGN_ROWS];
	struct twi_foreign_kind kinds[TWI_COLL_KINDS];
	struct twi_foreign_flow flows[TOW_FOREIGN_PEERS];
};

/* Closes the groups that users have left open when the runtime closes. The engine is not held. */
void twi_foreign_close_all(struct twi_engine *engine);

/* The recent figures of a flow; *window_ns_out: over what time. The group's lock is held. */
void twi_foreign_recent(const struct twi_foreign_flow *flow, uint64_t now_ns,
			struct twi_foreign_figures *out, uint64_t *window_ns_out);

/* foreign_tell.c: adds groups to the state, behind those that it has. The engine is held. */
void twi_foreign_tell(struct twi_engine *engine, uint64_t now_ns, uint32_t room,
		      struct twi_rank_state *out);

/* The span of a collective, as far as it has come. The group's lock is held. */
struct twi_span twi_foreign_span(const struct tow_foreign_group *group,
				 const struct twi_foreign_row *row);

/*
 * foreign_tell.c: writes the spans of collectives that have begun and not ended, from out[count]
 * on. Returns the new count, which may exceed `room`. The engine is held.
 */
size_t twi_foreign_begun(struct twi_engine *engine, struct twi_span *out, size_t room,
			 size_t count);

/* foreign_report.c: writes `foreign_groups` of /v1/coll. arg is the engine. */
void twi_foreign_describe(void *arg, struct twi_emit *emit);

#endif
