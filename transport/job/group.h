/*
 * group.h - the private parts of groups.
 *
 *	tow_group (all) ----+
 *	tow_group (split) --+--> twi_ranks: endpoint, a slot for each rank of the job, the store
 *	barriers, dials ----+
 *
 * All groups of a job share one struct twi_ranks. Its users are groups, and the library's own
 * operations until their callbacks have run. The last user frees it. All of it but the store is
 * accessed with the engine held.
 *
 * The first message on a connection names the rank that has dialed (TWI_SPACE_LINK, tag
 * TWI_GROUP_TAG_WHO). The answer is "taken" or not. Two ranks that dial each other at once have two
 * connections for a moment. The connection of the lower rank stays. The other rank is told to wait.
 * It dials again if no connection comes, as the lower rank's dial may have failed meanwhile.
 *
 *	slot: NONE --dial--> DIALING --taken--> UP
 *	        ^               | wait: the other rank's dial is under way
 *	        |               v
 *	        +--failed--- WAITING --its connection came--> UP
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
#include "transport/job/store_keep.h"
#include "transport/job/store_server.h"
#include "transport/message/match.h"
#include "transport/op/op.h"

#define TWI_GROUP_TAG_WHO    UINT64_MAX
#define TWI_GROUP_TAG_ANSWER (UINT64_MAX - 1)
#define TWI_GROUP_TAG_NEVER  (UINT64_MAX - 2) /* no rank sends it: a receive with it is a timer */

#define TWI_GROUP_WHO_BYTES    32u
#define TWI_GROUP_ANSWER_BYTES 8u
/* Connections whose rank is not known yet: how many there may be, and for how long. */
#define TWI_GROUP_GUESTS   256u
#define TWI_GROUP_GUEST_NS 10000000000ull
#define TWI_GROUP_DIAL_NS  30000000000ull
#define TWI_GROUP_DIALS    16u /* successive dials of one pair */
/* Dials to a rank that refuses: it takes TWI_READY_PEERS_MAX at once, and more soon. */
#define TWI_GROUP_REFUSALS 6u

enum twi_slot_state { TWI_SLOT_NONE, TWI_SLOT_DIALING, TWI_SLOT_WAITING, TWI_SLOT_UP };

/* Attempts to connect to a rank since its last connection (group_tries.c). */
struct twi_tries {
	struct tow_op *op; /* the connect under way */
	uint64_t since_ns, failed_ns;
	uint32_t attempts;
	int error;   /* errno of the last failure; 0: it has no errno */
	bool wanted; /* by an operation, not only by a look at the job */
};

struct twi_slot {
	enum twi_slot_state state;
	unsigned dials;
	uint32_t rank;
	bool lost;             /* UP, but the rank has gone and does not return */
	struct tow_peer *peer; /* set when UP */
	struct twi_tries tries;
	struct twi_list waiting; /* tow_op.link: operations TWI_OP_CALL, whose owner is the slot */
	struct twi_list held;    /* tow_op.match.link: messages in their order (group_message.h) */
};

/* A rank's connection to itself: what it sends by slot.peer arrives at `back`. */
struct twi_self {
	struct twi_slot slot;
	struct tow_peer *back;
	uint32_t word; /* random: identifies this process's own connection; 0: none */
};

#define TWI_COLL_CTX_MAX    0x3fffu /* group numbers with collectives are below this */
#define TWI_COLL_CTX_SHRUNK 0x3000u /* from here on the numbers are those of shrunk groups */
#define TWI_COLL_CTX_WORDS  ((TWI_COLL_CTX_MAX + 1) / 64)

struct twi_ranks {
	struct twi_engine *engine;
	uint32_t users;
	uint32_t groups; /* users that are groups */
	bool closing;
	uint32_t rank, size;
	uint64_t session;
	struct tow_endpoint *endpoint; /* NULL: a job of one rank without a lane to itself */
	struct tow_op *accept;
	uint32_t guests;
	struct twi_list handshakes;      /* used by group_link.c */
	struct twi_list colls;           /* the groups' collectives (coll/coll.h) */
	uint32_t posts[TWI_WORDS_KINDS]; /* posts under way */
	struct twi_list early;           /* used by coll/coll_line.c */
	uint32_t early_count;
	struct twi_list kept;               /* used by coll/coll_kept.c */
	struct twi_list shrinks;            /* used by coll/coll_shrink.c */
	uint32_t shrunk;                    /* numbers offered for shrunk groups so far */
	uint64_t ended[TWI_COLL_CTX_WORDS]; /* a bit for each group: its collectives have ended */
	struct twi_slot *slots;             /* by rank; this rank's own is never UP */
	struct twi_self self;
	struct twi_list messages; /* the groups' messages (group_message.h) */
	struct twi_list parted;   /* used by group_barrier.c, as the next */
	uint32_t parted_count;
	_Atomic uint32_t alone;                  /* groups made in a job of one rank */
	uint64_t over[TWI_COLL_CTX_WORDS];       /* a bit for each group: it was closed here */
	uint64_t is_over[2][TWI_COLL_CTX_WORDS]; /* used by group_over.c */
	char (*addresses)[TOW_ADDRESS_MAX];
	bool addresses_shared; /* they belong to another struct (group_sim.c) */
	/* For the store; used without the engine, except key_exchanged. */
	pthread_mutex_t store_lock;
	struct twi_store_client *client; /* NULL: the job has one rank */
	struct twi_store_keep keep;      /* keeps it connected */
	struct twi_store_server *server; /* only at rank 0 */
	struct twi_store_join join;      /* opens more clients; its strings are the members below */
	struct twi_job_key key;
	bool key_exchanged; /* the key came by the caller's exchange, and the engine has it */
	bool told;          /* rank 0 has put its address into the caller's exchange */
	struct twi_bootstrap bootstrap;
	struct twi_forming forming; /* while this rank waits for the others */
};

struct twi_barrier_log;

#define TWI_ABORT_WHY 440u

struct tow_group {
	struct twi_handle handle;
	struct twi_list link; /* on the runtime's list of groups */
	struct tow_runtime *runtime;
	struct twi_ranks *ranks;
	uint32_t id; /* number of this group in the job */
	bool shrunk; /* the id is one of the numbers of shrunk groups */
	uint32_t rank, size;
	uint32_t *members;                   /* ranks of the members in the job */
	uint32_t splits;                     /* number of splits of this group */
	struct twi_barrier_log *barriers;    /* NULL: not allocated, for want of memory */
	struct twi_coll_group *coll;         /* NULL: the group can have no collectives */
	struct twi_group_messages *messages; /* NULL: none are possible, or none yet */
	bool aborted;
	char abort_why[TWI_ABORT_WHY]; /* reason of the abort */
	int abort_fd;                  /* readable after the abort; -1: not needed yet */
	uint64_t *part_offsets[2];     /* memory for coll/coll_api.c, for calls that give none */
};

/* The part of a runtime that concerns ranks. */
struct twi_job {
	struct twi_bootstrap bootstrap;       /* found when the runtime opens; then constant */
	int64_t given_rank, given_world_size; /* from the runtime's options; -1: not set */
	const char *given_job;                /* the knob, of which the session is made */
	char name[TWI_JOB_NAME];              /* name of the job, where the knob is not set */
	pthread_mutex_t lock;
	struct twi_list groups; /* under the lock */
	struct twi_list opens;  /* used by group_open.c; under the lock */
	bool closing;
};

/*
 * Finds this process's rank. options may be NULL. The rank found is stored in *knobs where the user
 * has set none, so that the stats sockets of ranks on one host differ.
 */
void twi_job_init(struct twi_job *job, const struct tow_options *options, struct twi_knobs *knobs);

/* Closes the open groups. The engine is not held. */
void twi_job_close(struct twi_job *job);
void twi_job_fini(struct twi_job *job);

/* group.c */
int twi_group_open(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct tow_group **group_out);
/*
 * Makes a group of `size` ranks, which is one more user of `ranks`, and puts it on the runtime's
 * list. The caller fills in the members. NULL: no memory.
 */
struct tow_group *twi_group_make(struct tow_runtime *runtime, struct twi_ranks *ranks,
				 uint32_t size);
/*
 * Begins a group whose members are set: from now on it can have collectives and messages. A group
 * that cannot have them says so when it is asked for one.
 */
void twi_group_begin(struct tow_group *group);
/* group_label.c: labels a group that has begun with what fits of `name`; "": no label. */
void twi_group_label_like(struct tow_group *group, const char *name);
/* TOW_OK; TOW_EINVAL for NULL, TOW_ECLOSED, TOW_EFORKED. The message names `call`. */
int twi_group_check(const struct tow_group *group, const char *call);
/* Returns the options or the defaults. TOW_EINVAL: there is no size, or a contradiction. */
int twi_group_options(const struct tow_group_options *in, struct tow_group_options *out);

/* Checks whether a call may block here: TOW_OK, or why not. */
int twi_group_check_blocking(struct tow_runtime *runtime, const char *call);
/* Makes a deadline from a timeout that begins now. */
struct twi_until twi_group_until(uint64_t timeout_ns);
/* Opens a client for a call that may wait for other ranks, so that no other call waits. */
int twi_group_open_client(struct twi_ranks *ranks, const struct twi_until *until,
			  struct twi_store_client **out);

/*
 * group_abort.c. twi_group_abort ends barriers, messages and waits of the group, with the thread's
 * message. The engine is held. The caller ends the group's collectives.
 */
void twi_group_abort(struct tow_group *group);
/* Returns TOW_OK, or TOW_EABORTED with the message of the abort. Takes the engine. */
int twi_group_check_aborted(struct tow_group *group);
/*
 * These two enclose a call that waits in the store. begin makes *until end with the group's abort,
 * and drive the engine where nobody else would. end turns the status of a wait that the abort has
 * ended into TOW_EABORTED.
 */
int twi_group_wait_begin(struct tow_group *group, struct twi_until *until);
int twi_group_wait_end(struct tow_group *group, int status);
void twi_group_abort_free(struct tow_group *group);

/* group_split.c: deletes what splits have left in the store. The engine is not held. */
void twi_group_forget_splits(const struct tow_group *group);

/* group_open.c: ends the joins that are under way in threads. */
void twi_job_end_opens(struct twi_job *job);

/* group_join.c */
/*
 * Meets the other ranks. TOW_OK: *out has one user, the caller. Failures are those of
 * tow_group_open.
 */
int twi_ranks_join(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct twi_ranks **out);

/* Drops a key that came by the exchange, at the end of the job. The engine is held. */
void twi_ranks_drop_key(struct twi_ranks *ranks);

/* Makes the struct without store, endpoint and addresses. NULL: no memory. */
struct twi_ranks *twi_ranks_make(struct tow_runtime *runtime,
				 const struct twi_bootstrap *bootstrap);

/* group_link.c; the engine is held in all of them. */
int twi_ranks_listen(struct twi_ranks *ranks);
/* Ends the operations under way, and closes the connections. */
void twi_ranks_hang_up(struct twi_ranks *ranks);
/*
 * Connects to a rank of the job. The operation completes at once when there is a connection.
 * `space`: on whose behalf, as in twi_connect_start.
 */
int twi_ranks_connect(struct twi_ranks *ranks, uint32_t rank, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out);
/* Returns the slot of a rank of the job, or that of this rank itself. */
static inline struct twi_slot *twi_ranks_slot(struct twi_ranks *ranks, uint32_t rank)
{
	return rank == ranks->rank ? &ranks->self.slot : &ranks->slots[rank];
}

/* Dials a rank, or this one, whose slot is NONE. Waiting operations learn the result. */
void twi_ranks_dial(struct twi_ranks *ranks, uint32_t rank);
/* Ends waits for a connection on behalf of `user` with TOW_ECANCELED. */
void twi_ranks_give_up(struct twi_ranks *ranks, const void *user);
void twi_ranks_use(struct twi_ranks *ranks);
void twi_ranks_drop(struct twi_ranks *ranks);
/* Does the same as twi_ranks_drop without the engine held. */
void twi_ranks_let_go(struct twi_ranks *ranks);

/*
 * group_tries.c. begin: an attempt to reach the slot's rank begins. fail: its connect has failed,
 * with that errno or 0. end: there is a connection. tell returns what is known of the attempts;
 * false: there is nothing to report. The engine is held.
 */
void twi_tries_begin(struct twi_slot *slot, struct tow_op *connect, uint64_t now_ns);
void twi_tries_fail(struct twi_slot *slot, int error, uint64_t now_ns);
void twi_tries_end(struct twi_slot *slot);
bool twi_tries_tell(const struct twi_ranks *ranks, uint32_t rank, uint64_t now_ns,
		    struct twi_state_dial *out);

/* Frees the struct, which has no users any more, or whose join has failed. */
void twi_ranks_destroy(struct twi_ranks *ranks);

/* Takes the engine with a ring. */
void twi_group_enter(struct twi_engine *engine);

#endif
