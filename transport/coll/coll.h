/*
 * coll.h - collectives from the inside: a call becomes an entry of the cache, and that a run.
 *
 *	tow_coll_*_start --> call --> entry (plan, cached) --> run --> chains --> messages, memory
 *	     coll_api.c               coll_cache.c             coll_run.c, coll_step.c
 *	                                                       coll_local.c (memory of this host)
 *	                                                       coll_quick.c (small ones there)
 *	group: coll_group.c (state), coll_setup.c (who shares memory), coll_line.c (words between
 *	ranks), coll_fail.c (ranks that disagree, die or do not come), coll_batch.c (calls that are
 *	held back and fused), coll_held.c (calls that wait until fewer are in flight),
 *	coll_report.c (what ran, how long, and why)
 *
 * The n-th collective of a group at one rank is the n-th at all: its *seq*. A run goes through
 *
 *	QUEUED -> CONNECTING -> STAGING -> MOVING -> UNSTAGING -> AGREEING -> done
 *	  |          |            |          |           |           |
 *	  +----------+------------+----------+-----------+-----------+--> FAILING -> done
 *
 * QUEUED: the group is being set up, or the slot of the seq is still read by another rank.
 * STAGING: memory outside the pool is copied into it, where others are to read it. AGREEING: the
 * word of the rank before, that it has made the same call, has not come yet.
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
#define TWI_COLL_ENTRIES     256u  /* of the cache; beyond them the oldest that is idle goes */
#define TWI_COLL_EARLY_STEPS 4096u /* of a plan; larger ones post no receives early */
#define TWI_COLL_DEPTH_MAX   16u
#define TWI_COLL_IOS_MAX     256u /* messages that one run has under way */
#define TWI_COLL_NAME        32u
#define TWI_COLL_WHY         440u /* bytes of why a group is broken */

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
	bool in_place, set_up; /* the latter: planned before the group knew its hosts */
	const uint64_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
	const struct tow_coll_pair *pairs;
	uint32_t pair_count;
	int64_t target, source;
	int32_t priority;
	const struct twi_plan_row *forced;
	double scale;   /* of this rank's input, if it is not 1; else 0 */
	uint64_t parts; /* fused: a number made of the parts' counts; else 0 */
	struct twi_site site;
	char name[TWI_COLL_NAME];
};

/* Bytes of `in` and `out` that the call uses at this rank. */
void twi_coll_spans(const struct twi_coll_call *call, uint32_t rank, uint32_t ranks,
		    uint64_t *in_bytes_out, uint64_t *out_bytes_out);

/* --- the cache (coll_cache.c) --- */

/* Of times: how many, and how long. */
struct twi_coll_spread {
	uint64_t count, sum_ns, min_ns, max_ns;
};

struct twi_coll_entry {
	struct twi_list link;      /* of its bucket */
	struct twi_list age;       /* of the group's, the one used last in front */
	struct twi_coll_call call; /* in, out, site and name are not part of the key */
	uint64_t *arrays;          /* copies of the call's counts, offsets and pairs */
	uint64_t hash;             /* of the key */
	uint64_t signature;        /* of what all ranks must agree on */
	struct twi_plan *plan;
	const char *why; /* the plan was chosen */
	uint64_t in_bytes, out_bytes;
	bool shares, shares_out; /* others read its IN or touch its OUT; the latter */
	bool local;              /* no messages of this rank */
	bool signs;              /* neighbours compare calls by messages; the same at all ranks */
	bool pipeline;           /* memory outside the pool goes by pieces (coll_pipeline.h) */
	bool stream;             /* results are larger than the caches */
	bool connected;          /* to all that it has messages for */
	uint32_t *peers;         /* ranks of the group */
	uint32_t peer_count;
	uint32_t io_count;
	uint32_t program_steps; /* of its longest program */
	uint16_t *early;        /* stage of each receive and send, coll_early.c; or NULL */
	uint32_t users;
	struct twi_list spare;        /* runs */
	struct twi_coll_quick *quick; /* coll_quick.h; NULL: its plan has another form */
	uint64_t calls, staged_in_bytes, staged_out_bytes; /* these for coll_report.c */
	struct twi_coll_spread latency, skew;
	struct twi_coll_moves moves;
};

/* The entry of the call, made when it is new. TOW_OK, TOW_EINVAL (a plan that does not fit),
 * TOW_ENOMEM, TOW_ENOTSUP. */
int twi_coll_entry_find(struct twi_coll_group *coll, const struct twi_coll_call *call,
			struct twi_coll_entry **out);
void twi_coll_entries_free(struct twi_coll_group *coll);
/* What a plan is made for. */
void twi_coll_case(const struct twi_coll_group *coll, const struct twi_coll_call *call,
		   struct twi_plan_case *what);
/* The call's arrays are copied, as the caller's are only there during the call. */
int twi_coll_call_keep(struct twi_coll_call *call, uint32_t ranks, uint64_t **arrays_out);

/* coll_choose.c: what the choice goes by, in bytes; and the plan for a call, or NULL. */
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

/* Where a rank of this host has its region. */
struct twi_coll_told {
	bool told, writable;
	bool gone; /* lost since */
	uint32_t extent;
	uint64_t offset;
	const struct twi_coll_region *region; /* mapped; `hold` is on it */
	const struct twi_window_ops *windows;
	struct twi_window_hold *hold;
};

struct twi_coll_group {
	struct twi_list link;   /* of ranks->colls */
	struct twi_list active; /* of the engine's part, while `polled` is not empty */
	struct twi_ranks *ranks;
	struct twi_engine *engine;
	uint32_t ctx, rank, size;
	uint32_t *members; /* their ranks in the job */
	enum twi_coll_group_state state;
	struct tow_group *group;
	bool aborted, left;       /* broken by that, or before; closed in order (coll_kept.h) */
	char why[TWI_COLL_WHY];   /* it is broken */
	struct twi_series series; /* seq 0 is the set-up's */
	uint64_t over;     /* bit seq % TWI_COLL_SLOTS: this one is, and one before it is not */
	uint64_t left_seq; /* the last of the rank that has closed the group first */
	uint32_t left_rank;
	struct twi_list runs; /* not over, by priority, then by seq */
	struct twi_list polled;
	struct twi_list pending; /* calls that came before it is READY */
	struct twi_list held,
		held_spare; /* coll_held.h: calls that came when too many are under way */
	uint32_t held_n;
	/* Who shares memory, once it is READY. */
	uint32_t *hosts;
	uint32_t hosts_n;
	uint32_t *local_ranks; /* of this host, itself among them */
	uint32_t local_ranks_n;
	struct twi_coll_local *locals;
	uint32_t locals_n;
	bool peers_write, all_local;
	bool pipelines; /* all ranks know coll_pipeline.h */
	bool crowd;     /* more ranks of this host than it has cores */
	struct twi_coll_region *region;
	struct twi_coll_kept *kept;   /* for its end (coll_kept.h) */
	struct twi_coll_told *told;   /* of each rank, or NULL */
	uint32_t connects;            /* of the set-up, under way */
	struct twi_coll_setup *setup; /* while SETTING_UP */
	struct twi_coll_late *late;   /* while others are asked about a late one */
	struct twi_list buckets[TWI_COLL_BUCKETS];
	struct twi_list ages;
	uint32_t entries;
	uint64_t dropped[TWI_COLL_KINDS]; /* calls of entries that have gone */
	struct twi_coll_entry *last;      /* the one used last */
	struct twi_coll_sign signs[TWI_COLL_SLOTS];
	bool holds_back; /* calls: between tow_coll_batch_begin and _end, or the knob combine */
	struct twi_coll_batch *batch;        /* of those that are held back; NULL: none yet */
	struct twi_list all;                 /* of engine->coll_groups */
	struct twi_coll_times *times;        /* of what has ended (coll_account.h) */
	char share_why[160], write_why[160]; /* why not; "": it is so */
};

/* coll_group.c: the group's part; made at the first use. The engine is held. */
int twi_coll_of(struct tow_group *group, struct twi_coll_group **out);
/*
 * The group is being closed: all that is in flight ends with TOW_ECLOSED. False: something is still
 * under way, and the engine must be driven before this is called again. The engine is held.
 */
bool twi_coll_group_end(struct tow_group *group);
/* Whether a call would begin now; else it is held back behind others. */
static inline bool twi_coll_has_room(const struct twi_coll_group *coll)
{
	return coll->held_n == 0 && coll->series.in_flight < TOW_COLL_IN_FLIGHT;
}

/* Starts a call that has been checked; its operation is `op`. */
int twi_coll_start(struct twi_coll_group *coll, const struct twi_coll_call *call,
		   struct tow_op *op);
/* The same of one that may begin now: the group is READY. `later`: not within the caller's call. */
int twi_coll_begin(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op,
		   bool later);
/* The set-up's own, of seq 0. */
int twi_coll_start_own(struct twi_coll_group *coll, const struct twi_coll_call *call);
void twi_coll_fail_pending(struct twi_coll_group *coll, int status);
/* What a user's operation stands for; false: no collective that has a seq yet. */
bool twi_coll_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out,
		    uint8_t *state_out);
/* The group has been set up, or has failed to: queued runs go on. */
void twi_coll_ready(struct twi_coll_group *coll);
/* A run has ended. */
void twi_coll_over(struct twi_coll_run *run);

/* coll_run.c: the run of a seq; NULL: it is not under way. */
struct twi_coll_run *twi_coll_run_of(struct twi_coll_group *coll, uint64_t seq);

/* coll_hooks.c */
/* Of every collective; owner: what begins with a struct twi_coll_owner. */
extern const struct twi_op_ops twi_coll_op_ops;
extern const struct twi_coll_hooks twi_coll_hooks;
extern const struct twi_rank_hooks twi_coll_rank_hooks;

/* coll_setup.c */
int twi_coll_setup_start(struct twi_coll_group *coll);
void twi_coll_setup_turn(struct twi_coll_group *coll);
void twi_coll_setup_end(struct twi_coll_group *coll);
/* Whether it cannot go on when this rank has gone. */
bool twi_coll_setup_needs(const struct twi_coll_group *coll, uint32_t rank);
/* The set-up's all-gather has ended. */
void twi_coll_setup_gathered(struct twi_coll_group *coll, int status);
/* Rank `from` says where its region is; extent UINT32_MAX: it shares nothing. */
void twi_coll_setup_heard(struct twi_coll_group *coll, uint32_t from, uint32_t extent,
			  uint64_t offset, bool writable);

/* --- failures (coll_fail.c, coll_late.c) --- */

/*
 * The group is broken from now on, with the thread's message: all runs end with `status`, and with
 * `tell` the other ranks hear of it. Nothing if it is broken already.
 */
void twi_coll_break(struct twi_coll_group *coll, uint64_t seq, int status, bool tell);
/*
 * coll_abort.c: the group is aborted, here or by another rank, for the reason that is the thread's
 * error. Nothing if it is already.
 */
void twi_coll_group_abort(struct twi_coll_group *coll);
/* The others hear it once from each rank that they know. */
void twi_coll_tell_broken(struct twi_coll_group *coll, uint64_t seq, int status);
/* This rank has closed the group, with nothing under way: the others are told after which seq. */
void twi_coll_leave(struct twi_coll_group *coll);
/* A rank will not come to what this one has begun, or is about to: the group breaks. */
void twi_coll_check_left(struct twi_coll_group *coll);
/* The user's operation is ended from outside; its owner is a run. */
void twi_coll_abort(struct tow_op *op, int status);
/* The message of a rank of the job that cannot be reached, and its status as a run's. */
int twi_coll_unreached(const struct twi_coll_group *coll, uint32_t job_rank, int status);
/* The deadline of op has passed: after the others were asked about `seq`, the group breaks. */
void twi_coll_late(struct twi_coll_group *coll, struct tow_op *op, uint64_t seq);
void twi_coll_late_end(struct twi_coll_group *coll);
/* Text of a call, for people: "all-reduce sum of 4 f32, plan ring, at train+0x41 in trainer". */
void twi_coll_call_text(const struct twi_coll_run *run, char *out, size_t bytes);

#endif
