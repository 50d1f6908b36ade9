/*
 * group.h - the inside of groups.
 *
 *	tow_group (all) ----+
 *	tow_group (split) --+--> twi_ranks: endpoint, a slot for each rank of the job, the store
 *	barriers, dials ----+
 *
 * What all groups of a job share is one struct twi_ranks, which the last of its users frees:
 * groups, and operations of the library's own that are still on their way to their callbacks.
 * Everything in it but the store is touched with the engine held.
 *
 * Which rank is at the other end of a connection is said in its first message (TWI_SPACE_LINK, tag
 * TWI_GROUP_TAG_WHO), and answered: taken, or not. A pair of ranks that dial each other at once has
 * two connections for a moment: that of the lower rank stays, the other one's dialler is told to
 * wait, and dials again if nothing comes, as the lower rank's may have failed meanwhile.
 *
 *	slot: NONE --dial--> DIALING --taken--> UP
 *	        ^               | wait: theirs is under way
 *	        |               v
 *	        +--failed--- WAITING --theirs came--> UP
 */
#ifndef TWI_GROUP_H
#define TWI_GROUP_H

#include <pthread.h>

#include <internal/list.h>
#include <towline/group.h>

#include "transport/engine/handle.h"
#include "transport/job/bootstrap.h"
#include "transport/job/forming.h"
#include "transport/job/rank_words.h"
#include "transport/job/series.h"
#include "transport/job/store_client.h"
#include "transport/job/store_server.h"
#include "transport/message/match.h"
#include "transport/op/op.h"

#define TWI_GROUP_TAG_WHO    UINT64_MAX
#define TWI_GROUP_TAG_ANSWER (UINT64_MAX - 1)
#define TWI_GROUP_TAG_NEVER  (UINT64_MAX - 2) /* nobody sends it: a receive that is a timer */

#define TWI_GROUP_WHO_BYTES    32u
#define TWI_GROUP_ANSWER_BYTES 8u
/* Who has connected and not said who it is. */
#define TWI_GROUP_GUESTS   256u
#define TWI_GROUP_GUEST_NS 10000000000ull
#define TWI_GROUP_DIAL_NS  30000000000ull
#define TWI_GROUP_DIALS    16u /* of one pair in a row */
/* So many of these when it refuses: it takes TWI_READY_PEERS_MAX at once; more may follow soon. */
#define TWI_GROUP_REFUSALS 6u

enum twi_slot_state { TWI_SLOT_NONE, TWI_SLOT_DIALING, TWI_SLOT_WAITING, TWI_SLOT_UP };

/* Attempts to connect to a rank since there was last a connection (group_tries.c). */
struct twi_tries {
	struct tow_op *op; /* the connect under way */
	uint64_t since_ns, failed_ns;
	uint32_t attempts;
	int error;   /* errno of the last that failed; 0: it failed in another way */
	bool wanted; /* by more than a look at the job */
};

struct twi_slot {
	enum twi_slot_state state;
	unsigned dials;
	uint32_t rank;
	bool lost;             /* UP, but gone: it does not come back */
	struct tow_peer *peer; /* UP */
	struct twi_tries tries;
	struct twi_list waiting; /* tow_op.link, of TWI_OP_CALL, whose owner is the slot */
	struct twi_list held;    /* tow_op.match.link: messages, in their order (group_message.h) */
};

/* A rank's connection to itself: what it sends by the slot's peer comes in at the other. */
struct twi_self {
	struct twi_slot slot;
	struct tow_peer *back;
	uint32_t word; /* at random: by it this process knows its own connection; 0: none */
};

#define TWI_COLL_CTX_MAX    0x3fffu /* of group numbers that can have collectives */
#define TWI_COLL_CTX_SHRUNK 0x3000u /* of them, from here on: of shrunk groups */
#define TWI_COLL_CTX_WORDS  ((TWI_COLL_CTX_MAX + 1) / 64)

struct twi_ranks {
	struct twi_engine *engine;
	uint32_t users;
	uint32_t groups; /* of the users */
	bool closing;
	uint32_t rank, size;
	uint64_t session;
	struct tow_endpoint *endpoint; /* NULL: of one rank, which has no lane to itself */
	struct tow_op *accept;
	uint32_t guests;
	struct twi_list talks;           /* of group_link.c */
	struct twi_list colls;           /* of coll/coll.h: the groups' */
	uint32_t posts[TWI_WORDS_KINDS]; /* under way */
	struct twi_list early;           /* of coll/coll_line.c */
	uint32_t early_count;
	struct twi_list kept;               /* of coll/coll_kept.c */
	struct twi_list shrinks;            /* of coll/coll_shrink.c */
	uint32_t shrunk;                    /* numbers for shrunk groups that were offered so far */
	uint64_t ended[TWI_COLL_CTX_WORDS]; /* a bit for each group's: its collectives are over */
	struct twi_slot *slots;             /* of this process' own rank: never UP */
	struct twi_self self;
	struct twi_list messages;          /* of group_message.h: the groups' */
	_Atomic uint32_t alone;            /* groups of a job of one rank that were made */
	uint64_t over[TWI_COLL_CTX_WORDS]; /* a bit for each group's: it was closed here */
	char (*addresses)[TOW_ADDRESS_MAX];
	bool addresses_shared; /* they are not its own (group_sim.c) */
	/* Not the engine's: */
	pthread_mutex_t store_lock;
	struct twi_store_client *client; /* NULL: the job has one rank */
	struct twi_store_server *server; /* rank 0 */
	struct twi_store_join join;      /* to open more clients; its strings are here: */
	struct twi_job_key key;
	bool key_exchanged; /* it came by the caller's exchange, and the engine has it */
	bool told;          /* rank 0: its address has been put there */
	struct twi_bootstrap bootstrap;
	struct twi_forming forming; /* while the others are waited for */
};

/* The barriers of a group. The group has one, and its barriers under way use it with the group. */
struct twi_barrier_log {
	struct twi_series series;
	struct twi_list running; /* barriers under way */
	uint32_t users;
	const void *callers[TWI_STATE_PAST]; /* by seq */
	uint32_t members[];                  /* of the series */
};

#define TWI_ABORT_WHY 440u

struct tow_group {
	struct twi_handle handle;
	struct twi_list link; /* on the runtime's list */
	struct tow_runtime *runtime;
	struct twi_ranks *ranks;
	uint32_t id; /* of this group, in the job */
	bool shrunk; /* the id is of those from TWI_COLL_CTX_SHRUNK on */
	uint32_t rank, size;
	uint32_t *members;                   /* their ranks in the job */
	uint32_t splits;                     /* so many were made of it */
	struct twi_barrier_log *barriers;    /* NULL: there was no memory for it yet */
	struct twi_coll_group *coll;         /* NULL: it can have no collectives */
	struct twi_group_messages *messages; /* NULL: it can have none, or has none yet */
	bool aborted;
	char abort_why[TWI_ABORT_WHY]; /* it is */
	int abort_fd;                  /* readable when it is; -1: nobody has waited by it yet */
	uint64_t *part_offsets[2];     /* memory of coll/coll_api.c, for calls that give none */
};

/* The part of a runtime that concerns ranks. */
struct twi_job {
	struct twi_bootstrap bootstrap; /* as found when the runtime was opened; then constant */
	int64_t given_rank, given_world_size; /* of the runtime's options; -1: not there */
	const char *given_job;                /* the knob, of which the session is made */
	char name[TWI_JOB_NAME];              /* the job's, where the knob is not set */
	pthread_mutex_t lock;
	struct twi_list groups; /* under the lock */
	struct twi_list opens;  /* of group_open.c; under the lock */
	bool closing;
};

/*
 * Looks who this process is. options may be NULL. The rank that was found becomes that of *knobs
 * where the user has said none, so that the stats sockets of ranks on one host differ.
 */
void twi_job_init(struct twi_job *job, const struct tow_options *options, struct twi_knobs *knobs);

/* Closes the groups that are open. The engine is not held. */
void twi_job_close(struct twi_job *job);
void twi_job_fini(struct twi_job *job);

/* group.c */
int twi_group_open(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct tow_group **group_out);
/*
 * A group of these ranks of the job, one more user of `ranks`; it is on the runtime's list. NULL:
 * no memory.
 */
struct tow_group *twi_group_make(struct tow_runtime *runtime, struct twi_ranks *ranks,
				 uint32_t size);
/*
 * Its members are known: it can have collectives and messages. One that cannot says so when it is
 * asked to.
 */
void twi_group_begin(struct tow_group *group);
/* group_label.c: the label of a group that has begun, as far as `name` can be one; "" is none. */
void twi_group_label_like(struct tow_group *group, const char *name);
/* TOW_OK; TOW_EINVAL for NULL, TOW_ECLOSED, TOW_EFORKED; `call` is named in the message. */
int twi_group_check(const struct tow_group *group, const char *call);
/* The options that were given, or the defaults. TOW_EINVAL: their size is not set. */
int twi_group_options(const struct tow_group_options *in, struct tow_group_options *out);

/* TOW_OK, or why a call that blocks cannot be made here. */
int twi_group_check_blocking(struct tow_runtime *runtime, const char *call);
/* From now on. */
struct twi_until twi_group_until(uint64_t timeout_ns);
/* A client of its own for a call that may wait for other ranks: others are not to wait for it. */
int twi_group_open_client(struct twi_ranks *ranks, const struct twi_until *until,
			  struct twi_store_client **out);

/*
 * group_abort.c. twi_group_abort: barriers and waits of the group end, with the thread's message;
 * the engine is held. Its collectives are ended by who calls it.
 */
void twi_group_abort(struct tow_group *group);
/* TOW_OK, or TOW_EABORTED with its message. Takes the engine. */
int twi_group_check_aborted(struct tow_group *group);
/*
 * Around a call that waits in the store: *until ends with the group's abort. The end makes the
 * status of a wait that was ended so.
 */
int twi_group_wait_begin(struct tow_group *group, struct twi_until *until);
int twi_group_wait_end(struct tow_group *group, int status);
void twi_group_abort_free(struct tow_group *group);

/* group_split.c: what splits of the group have left in the store goes. The engine is not held. */
void twi_group_forget_splits(const struct tow_group *group);

/* group_open.c: ends the joins that are under way in threads. */
void twi_job_end_opens(struct twi_job *job);

/* group_join.c */
/*
 * Meets the others. TOW_OK, and *out has one user, its caller; else as tow_group_open.
 */
int twi_ranks_join(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct twi_ranks **out);

/* A key that came by the exchange ends with the job. The engine is held. */
void twi_ranks_drop_key(struct twi_ranks *ranks);

/* Without store, endpoint and addresses. NULL: no memory. */
struct twi_ranks *twi_ranks_make(struct tow_runtime *runtime,
				 const struct twi_bootstrap *bootstrap);

/* group_barrier.c; the engine is held. */
/* What is to be told of the group's barriers from now on; NULL: no memory. */
struct twi_barrier_log *twi_barrier_log_of(struct tow_group *group);
void twi_barrier_log_drop(struct twi_barrier_log *log);
/* All barriers under way end with the status and the thread's message. */
void twi_barrier_log_abort(struct twi_barrier_log *log, int status);
/* Whether the operation is a barrier under way: its context (TWI_STATE_BARRIERS) and number. */
bool twi_barrier_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out);

/* group_link.c; the engine is held in all of them. */
int twi_ranks_listen(struct twi_ranks *ranks);
/* Ends what is under way, and closes the connections. */
void twi_ranks_hang_up(struct twi_ranks *ranks);
/*
 * The connection to a rank of the job as an operation; complete at once when there is one. `space`:
 * on whose behalf, as in twi_connect_start.
 */
int twi_ranks_connect(struct twi_ranks *ranks, uint32_t rank, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out);
/* The slot of a rank of the job, or one's own. */
static inline struct twi_slot *twi_ranks_slot(struct twi_ranks *ranks, uint32_t rank)
{
	return rank == ranks->rank ? &ranks->self.slot : &ranks->slots[rank];
}

/* Dials a rank, or oneself, whose slot is NONE. Who waits for it is told how that ends. */
void twi_ranks_dial(struct twi_ranks *ranks, uint32_t rank);
/* Those who wait for a connection on behalf of `user` wait no longer: TOW_ECANCELED. */
void twi_ranks_give_up(struct twi_ranks *ranks, const void *user);
void twi_ranks_use(struct twi_ranks *ranks);
void twi_ranks_drop(struct twi_ranks *ranks);
/* The same without the engine. */
void twi_ranks_let_go(struct twi_ranks *ranks);

/*
 * group_tries.c: an attempt to reach the slot's rank begins; its connect has failed, with that
 * errno or 0; there is a connection; what is known of it all. tell: false, there is nothing to
 * tell. The engine is held.
 */
void twi_tries_begin(struct twi_slot *slot, struct tow_op *connect, uint64_t now_ns);
void twi_tries_fail(struct twi_slot *slot, int error, uint64_t now_ns);
void twi_tries_end(struct twi_slot *slot);
bool twi_tries_tell(const struct twi_ranks *ranks, uint32_t rank, uint64_t now_ns,
		    struct twi_state_dial *out);

/* Frees what nobody uses any more; of a join that has failed, too. */
void twi_ranks_destroy(struct twi_ranks *ranks);

/* Takes the engine with a ring. */
void twi_group_enter(struct twi_engine *engine);

#endif
