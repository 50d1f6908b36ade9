/*
 * coll.h - the internals of collectives: a call becomes an entry of the cache, and the entry a run.
 *
 *	tow_coll_*_start --> call --> entry (plan, cached) --> run --> chains --> messages, memory
 *	     coll_api.c               coll_cache.c             coll_run.c, coll_step.c
 *	                                                       coll_local.c (memory of this host)
 *	                                                       coll_quick.c (small ones there)
 *	group: coll_group.c (state), coll_setup.c (which ranks share memory), coll_line.c (control
 *	messages between ranks), coll_fail.c (ranks that disagree or die), coll_late.c (ranks that
 *	do not come), coll_batch.c (calls that are held back and fused), coll_held.c (calls that
 *	wait until fewer are in flight), coll_report.c (what ran, how long, and why)
 *
 * The *seq* of a collective is its number in its group, the same at all ranks. A run's states:
 *
 *	QUEUED -> CONNECTING -> STAGING -> MOVING -> UNSTAGING -> AGREEING -> done
 *	  |          |            |          |           |           |
 *	  +----------+------------+----------+-----------+-----------+--> FAILING -> done
 *
 * QUEUED: the group is being set up, or another rank still reads the slot of the seq. STAGING:
 * memory outside the pool is copied into the pool, so that other ranks can read it. AGREEING: the
 * signature of the rank before, which shows that both made the same call, has not come yet.
 *
 * Everything runs with the engine held. The second call with the same arguments finds the entry and
 * a spare run, and allocates nothing.
 */
#ifndef TWI_COLL_H
#define TWI_COLL_H

#include <stdatomic.h>

#include <internal/list.h>
#include <towline/coll.h>

#include "diag/record/site.h"
#include "transport/coll/coll_moves.h"
#include "transport/coll/plan/plan.h"
#include "transport/job/series.h"
#include "transport/op/claim.h"
#include "transport/op/op.h"

#define TWI_COLL_SLOTS       TOW_COLL_IN_FLIGHT
#define TWI_COLL_CELL        2032u
#define TWI_COLL_BUCKETS     64u
#define TWI_COLL_ENTRIES     256u  /* in the cache; one more evicts the oldest idle one */
#define TWI_COLL_EARLY_STEPS 4096u /* steps; larger plans post no receives early */
#define TWI_COLL_DEPTH_MAX   16u
#define TWI_COLL_IOS_MAX     256u /* messages of one run under way at a time */
#define TWI_COLL_NAME        32u
#define TWI_COLL_WHY         440u /* bytes of the text why a group is broken */

struct tow_group;
struct twi_coll_group;
struct twi_coll_quick;
struct twi_coll_run;
struct twi_emit;
struct twi_coll_region;
struct twi_engine;
struct twi_ranks;
struct twi_window_hold;
struct twi_window_ops;

/* --- a call --- */

struct twi_coll_call {
	enum twi_coll_kind kind;
	enum tow_type type;
	enum tow_reduce reduce;
	uint32_t root;
	uint64_t count;
	const void *in;
	void *out;
	bool in_place, set_up; /* set_up: planned before the hosts of the group are known */
	const uint64_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
	const struct tow_coll_pair *pairs;
	uint32_t pair_count;
	int64_t target, source;
	int32_t priority;
	const struct twi_plan_row *forced;
	double scale;   /* factor for this rank's input; 0 stands for 1 */
	uint64_t parts; /* of a fused call: a hash of the parts' counts; else 0 */
	struct twi_site site;
	char name[TWI_COLL_NAME];
};

/* Bytes of `in` and of `out` that the call uses at this rank. */
void twi_coll_spans(const struct twi_coll_call *call, uint32_t rank, uint32_t ranks,
		    uint64_t *in_bytes_out, uint64_t *out_bytes_out);

/* --- the cache (coll_cache.c) --- */

/* Statistics of a duration. */
struct twi_coll_spread {
	uint64_t count, sum_ns, min_ns, max_ns;
};

struct twi_coll_entry {
	struct twi_list link;      /* in its bucket */
	struct twi_list age;       /* in coll->ages; the one used last is in front */
	struct twi_coll_call call; /* `in`, `out`, `site` and `name` are not part of the key */
	uint64_t *arrays;          /* copies of the call's counts, offsets and pairs */
	uint64_t hash;             /* of the key */
	uint64_t signature;        /* hash of what all ranks must agree on */
	struct twi_plan *plan;
	const char *why; /* reason for the choice of the plan */
	uint64_t in_bytes, out_bytes;
	bool shares, shares_out;     /* other ranks read IN or touch OUT; they touch OUT */
	bool local;                  /* this rank has no messages */
	bool signs;                  /* neighbours exchange signatures; the same at all ranks */
	bool may_pipeline, pipeline; /* outside memory may go in pieces (coll_pipeline.h); does */
	bool stream;                 /* the results exceed the caches: store around them */
	bool connected;              /* to all ranks that it exchanges messages with */
	uint32_t *peers;             /* ranks of the group that it exchanges messages with */
	uint32_t peer_count;
	uint32_t io_count;
	uint32_t program_steps; /* steps of the longest program */
	uint16_t *early;        /* the stage of each receive and send (coll_early.c); may be NULL */
	uint32_t users;
	struct twi_list spare;        /* runs */
	struct twi_coll_quick *quick; /* fast path; NULL: the plan has another form */
	uint64_t calls, staged_in_bytes, staged_out_bytes; /* for coll_report.c, as all below */
	struct twi_coll_spread latency, skew;
	struct twi_coll_moves moves;
};

/* Finds the entry of the call, or makes it. Returns TOW_OK, TOW_EINVAL (the plan does not fit),
 * TOW_ENOMEM or TOW_ENOTSUP. */
int twi_coll_entry_find(struct twi_coll_group *coll, const struct twi_coll_call *call,
			struct twi_coll_entry **out);
void twi_coll_entries_free(struct twi_coll_group *coll);
/* Fills in the case that a plan for this call is built for. */
void twi_coll_case(const struct twi_coll_group *coll, const struct twi_coll_call *call,
		   struct twi_plan_case *what);
/* Copies the call's arrays, because the caller's are valid only during the call. */
int twi_coll_call_keep(struct twi_coll_call *call, uint32_t ranks, uint64_t **arrays_out);

/* coll_choose.c: the size in bytes that the choice depends on; the plan for a call, or NULL. */
uint64_t twi_coll_measure(const struct twi_coll_group *coll, const struct twi_coll_call *call);
const struct twi_plan_row *twi_coll_choose(const struct twi_coll_group *coll,
					   const struct twi_coll_call *call,
					   struct twi_plan_case *what, const char **why_out);

/* --- a group --- */

enum twi_coll_group_state {
	TWI_COLL_NEW,
	TWI_COLL_SETTING_UP,
	TWI_COLL_READY,
	TWI_COLL_BROKEN,
};

/* Another rank's signature for a collective, early or late. */
struct twi_coll_sign {
	uint64_t seq;
	uint64_t signature;
	uint32_t rank;
	bool bad; /* it disagrees */
	char text[200];
};

/* Location of the region of a rank of this host. */
struct twi_coll_told {
	bool told, writable;
	bool gone; /* the rank was lost after that */
	uint32_t extent;
	uint64_t offset;
	const struct twi_coll_region *region; /* the mapped region; `hold` keeps the mapping */
	const struct twi_window_ops *windows;
	struct twi_window_hold *hold;
};

struct twi_coll_group {
	struct twi_list link;   /* on ranks->colls */
	struct twi_list active; /* on the list of groups that the engine polls */
	struct twi_ranks *ranks;
	struct twi_engine *engine;
	uint32_t ctx, rank, size;
	uint32_t *members; /* their numbers in the job */
	enum twi_coll_group_state state;
	struct tow_group *group;
	bool aborted, left, said_left; /* aborted: or broken before; left: in order */
	char why[TWI_COLL_WHY];        /* the reason why it is broken */
	struct twi_series series;      /* seq 0 belongs to the set-up */
	uint64_t over;     /* bit seq % TWI_COLL_SLOTS: this seq is over, an earlier one is not */
	uint64_t left_seq; /* the last seq of the rank that closed the group first */
	uint32_t left_rank;
	struct twi_list runs; /* runs that are not over, by priority, then by seq */
	struct twi_list polled;
	struct twi_list pending; /* calls that came before the group was READY */
	struct twi_list held,
		held_spare; /* coll_held.h: calls that came while too many were in flight */
	uint32_t held_n;
	/* Which ranks share memory; known once the group is READY. */
	uint32_t *hosts;
	uint32_t hosts_n;
	uint32_t *local_ranks; /* ranks of this host, this one included */
	uint32_t local_ranks_n;
	struct twi_coll_local *locals;
	uint32_t locals_n;
	bool peers_write, all_local;
	bool pipelines, pipelines_all; /* all ranks have coll_pipeline.h; with each kind */
	bool crowd;                    /* this host has more ranks than cores */
	struct twi_coll_region *region;
	struct twi_coll_kept *kept;   /* prepared for the group's end (coll_kept.h) */
	struct twi_coll_told *told;   /* one for each rank; may be NULL */
	uint32_t connects;            /* connection attempts of the set-up under way */
	struct twi_coll_setup *setup; /* while SETTING_UP */
	struct twi_coll_late *late;   /* while other ranks are asked about a late collective */
	struct twi_list buckets[TWI_COLL_BUCKETS];
	struct twi_list ages;
	uint32_t entries;
	uint64_t dropped[TWI_COLL_KINDS]; /* calls of evicted entries, by kind */
	struct twi_coll_entry *last;      /* the entry used last */
	struct twi_coll_sign signs[TWI_COLL_SLOTS];
	bool holds_back; /* calls: between tow_coll_batch_begin and _end, or by the knob combine */
	struct twi_coll_batch *batch;        /* the calls that are held back; NULL: none so far */
	struct twi_list all;                 /* on engine->coll_groups */
	struct twi_coll_times *times;        /* latencies of what has ended (coll_account.h) */
	char share_why[160], write_why[160]; /* reasons why not; "": it is */
};

/* coll_group.c: the collectives of the group, which the first use makes. The engine is held. */
int twi_coll_of(struct tow_group *group, struct twi_coll_group **out);
/*
 * Closes the collectives of the group: all that are in flight end with TOW_ECLOSED. Returns false
 * when something is still under way; drive the engine, then call again. The engine is held.
 */
bool twi_coll_group_end(struct tow_group *group);
/* Whether a call would begin now; if not, it is held back behind others. */
static inline bool twi_coll_has_room(const struct twi_coll_group *coll)
{
	return coll->held_n == 0 && coll->series.in_flight < TOW_COLL_IN_FLIGHT;
}

/* Starts a call that has passed the checks; `op` is its operation. */
int twi_coll_start(struct twi_coll_group *coll, const struct twi_coll_call *call,
		   struct tow_op *op);
/* The same for a call that may begin now (READY). `later`: its start call has returned already. */
int twi_coll_begin(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op,
		   bool later);
/* Starts the set-up's own collective, seq 0. */
int twi_coll_start_own(struct twi_coll_group *coll, const struct twi_coll_call *call);
void twi_coll_fail_pending(struct twi_coll_group *coll, int status);
/* Names the collective that a user's operation waits for. False: none. */
bool twi_coll_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out,
		    uint8_t *state_out);
/* The group has been set up: the pending calls begin. */
void twi_coll_ready(struct twi_coll_group *coll);
/* Called when a run has ended. */
void twi_coll_over(struct twi_coll_run *run);

/* coll_run.c: finds the run of a seq. NULL: it is not under way. */
struct twi_coll_run *twi_coll_run_of(struct twi_coll_group *coll, uint64_t seq);

/* coll_hooks.c */
/* For the operation of every collective. Its owner begins with a struct twi_coll_owner. */
extern const struct twi_op_ops twi_coll_op_ops;
extern const struct twi_coll_hooks twi_coll_hooks;
extern const struct twi_rank_hooks twi_coll_rank_hooks;

/* coll_setup.c */
int twi_coll_setup_start(struct twi_coll_group *coll);
void twi_coll_setup_turn(struct twi_coll_group *coll);
void twi_coll_setup_end(struct twi_coll_group *coll);
/* Whether the set-up cannot go on without this rank. */
bool twi_coll_setup_needs(const struct twi_coll_group *coll, uint32_t rank);
/* Called when the set-up's all-gather has ended. */
void twi_coll_setup_gathered(struct twi_coll_group *coll, int status);
/* Rank `from` has sent the location of its region. Extent UINT32_MAX: it shares none. */
void twi_coll_setup_heard(struct twi_coll_group *coll, uint32_t from, uint32_t extent,
			  uint64_t offset, bool writable);

/* --- failures (coll_fail.c, coll_late.c) --- */

/*
 * Breaks the group, with the thread's error message: all runs end with `status`. With `tell`, the
 * other ranks are informed. Does nothing if the group is broken already.
 */
void twi_coll_break(struct twi_coll_group *coll, uint64_t seq, int status, bool tell);
/*
 * coll_abort.c: aborts the group, on behalf of this rank or another one. The thread's error message
 * is the reason. Does nothing if the group is aborted already.
 */
void twi_coll_group_abort(struct twi_coll_group *coll);
/* Informs the connected ranks, and both neighbours in any case. */
void twi_coll_tell_broken(struct twi_coll_group *coll, uint64_t seq, int status);
/* This rank closes the group, which breaks it unless nothing is under way. Tells the others. */
void twi_coll_leave(struct twi_coll_group *coll, bool idle);
/* Breaks the group: a rank has left that will not join what this one has begun, or is about to. */
void twi_coll_check_left(struct twi_coll_group *coll);
/* Ends the user's operation early (cancel, deadline); its owner is a run. */
void twi_coll_abort(struct tow_op *op, int status);
/* Sets the message for a rank of the job whose connect has failed. Returns the run's status. */
int twi_coll_unreached(const struct twi_coll_group *coll, const struct tow_op *connect);
/* The deadline of `op` has passed: asks the others about `seq`, then breaks the group. */
void twi_coll_late(struct twi_coll_group *coll, struct tow_op *op, uint64_t seq);
void twi_coll_late_end(struct twi_coll_group *coll);
/* Text of a call, for people: "all-reduce sum of 4 f32, plan ring, at train+0x41 in trainer". */
void twi_coll_call_text(const struct twi_coll_run *run, char *out, size_t bytes);

#endif
