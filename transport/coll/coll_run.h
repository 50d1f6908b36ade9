/*
 * coll_run.h - one collective under way: its chains of steps, messages and memory. See coll.h.
 */
#ifndef TWI_COLL_RUN_H
#define TWI_COLL_RUN_H

#include "transport/coll/coll.h"
#include "transport/op/own_memory.h"

enum twi_coll_state {
	TWI_COLL_QUEUED,
	TWI_COLL_CONNECTING,
	TWI_COLL_STAGING,
	TWI_COLL_MOVING,
	TWI_COLL_UNSTAGING,
	TWI_COLL_AGREEING,
	TWI_COLL_FAILING,
};

struct twi_coll_io {
	struct tow_op op;
	struct twi_coll_run *run;
	uint32_t chain, step;
	uint16_t next_free; /* index + 1 */
	bool busy;
};

/* Progress of one run of a program (plan.h). */
struct twi_coll_chain {
	bool active;
	bool posted; /* at a SYNC: this rank has announced that it has come */
	uint16_t stage;
	uint32_t program, repeat, index;
	uint32_t next, end; /* steps */
	uint32_t ahead;     /* receives before this step were posted, if they may be */
	uint32_t pending;   /* messages of the stage under way, among the steps before `next` */
	uint32_t late;      /* sends under way that may outlast their stage */
	uint64_t done;      /* bytes of a local step */
};

/* State of a message of a chain. */
enum twi_coll_message { TWI_COLL_NOT_SENT, TWI_COLL_UNDER_WAY, TWI_COLL_THERE };

/*
 * Owner of the operation of a collective. It is a run; or a call that becomes a run later, because
 * it is held back or the group is being set up. Only the holder of the engine reads it.
 */
struct twi_coll_owner {
	void (*abort)(struct tow_op *op, int status);
};

struct twi_coll_run {
	struct twi_coll_owner owner;
	struct twi_list link;   /* on the group's runs, or on the entry's spare runs */
	struct twi_list polled; /* on coll->polled, when the run must be looked at again */
	struct twi_coll_group *coll;
	struct twi_coll_entry *entry;
	struct tow_op *op; /* the user's or a fused call's; NULL: none, or it has ended */
	uint64_t seq;
	enum twi_coll_state state;
	int status; /* FAILING: the reason */
	int32_t priority;
	const uint8_t *in; /* the memory that the plan works on: the user's, or staged */
	uint8_t *out;
	const uint8_t *user_in;
	uint8_t *user_out;
	struct twi_site site;
	char name[TWI_COLL_NAME];
	double scale;   /* the call's factor; if it is not 0, the fast path is not used */
	bool is_scaled; /* all of the input has been scaled */
	const uint8_t *scale_from;
	uint64_t scale_bytes;      /* bytes scaled so far */
	struct twi_own_any scaled; /* the scaled input outside OUT; NULL: none */
	uint8_t *staged;           /* memory of the pool for all that is staged; NULL: none */
	uint8_t *ring;             /* memory of the pool for pieces of the input; NULL: none */
	uint8_t *aside;            /* the heap's, where the result waits; NULL: none */
	bool staged_in, staged_out;
	bool starved;          /* it waits for room in the pool (coll_room.h) */
	bool read_ring;        /* the piece in hand came from another rank's ring */
	uint64_t staged_bytes; /* bytes copied so far */
	bool outside;          /* memory is outside the pool: this rank asks for the pipeline... */
	uint8_t halved;        /* ...with pieces that are halved so often */
	bool pipelined;        /* ...which is used, as one of the ranks asks for it */
	uint64_t steps_announced, copied; /* counts of the pipeline; copied: pieces */
	struct twi_own_any scratch;
	uint32_t program, repeat; /* the next run of a program to begin */
	uint32_t begun;           /* runs of programs begun so far, for tags */
	uint32_t active;          /* chains */
	uint32_t busy;            /* ios */
	uint32_t connects;        /* under way */
	uint64_t syncs;           /* SYNCs that this rank has come to */
	uint32_t synced;          /* the locals[] before this one have come to the last SYNC */
	bool agreed;              /* the rank before has made the same call */
	bool challenged;          /* a rank that disagrees was sent this rank's call */
	bool left;                /* FAILING: this rank uses no memory of others any more */
	uint64_t leave_ns;        /* until then it waits for others to do the same */
	int suspicion; /* a message was not as expected: the run fails with this status... */
	char doubt[200];
	uint64_t suspect_ns; /* ...at this time, unless the ranks find first that they disagree */
	uint64_t start_ns, moving_ns, entered_ns; /* entered: the last other rank was seen */
	uint64_t called_ns; /* the start call returned; 0: not yet, or there is no span */
	uint64_t step;      /* step of the application in which it was started */
	struct twi_coll_chain chains[TWI_COLL_DEPTH_MAX];
	struct twi_coll_io sign_in, sign_out; /* coll_fail.c */
	uint64_t signs[2];                    /* of the rank before, and of this rank */
	uint16_t io_free;                     /* index + 1 */
	uint32_t io_count;
	uint32_t early;  /* receives under way that were posted before their stage */
	uint8_t *states; /* enum twi_coll_message; program_steps for each chain */
	struct twi_coll_io ios[];
};

#define TWI_COLL_SIGN_CHAIN UINT16_MAX   /* no run of a program has this number */
#define TWI_COLL_TURN_BYTES (512u << 10) /* of local work in one turn */

/* The number of a collective in spans, the same at all its ranks. */
static inline uint64_t twi_coll_span_id(const struct twi_coll_group *coll, uint64_t seq)
{
	return (uint64_t)coll->ctx << 32 | (seq & UINT32_MAX);
}

/* States of the messages of a chain, by step of its program. */
static inline uint8_t *twi_coll_states(const struct twi_coll_run *run,
				       const struct twi_coll_chain *chain)
{
	return run->states + (size_t)(chain - run->chains) * run->entry->program_steps;
}

/* coll_early.c: when receives may be posted, and how long sends may last; once for an entry. */
int twi_coll_early(struct twi_coll_entry *entry);

/* coll_run.c */
int twi_coll_run_make(struct twi_coll_group *coll, struct twi_coll_entry *entry,
		      struct twi_coll_run **out);
void twi_coll_run_free(struct twi_coll_run *run);
/* The run has its seq: shows at once what other ranks wait for, if it is on the fast path. */
void twi_coll_run_give(struct twi_coll_run *run);
/* The first turn of a run that has just begun. */
void twi_coll_run_start(struct twi_coll_run *run);
/* Goes on as far as it can. Returns whether anything was done. After that the run may be over, and
 * used for another collective. */
bool twi_coll_run_turn(struct twi_coll_run *run);
/* Fails the run with this status. It ends when all that it has under way has ended. */
void twi_coll_run_fail(struct twi_coll_run *run, int status);
/* Has the run looked at again, even though no message comes. */
void twi_coll_run_poll(struct twi_coll_run *run);
void twi_coll_activate(struct twi_coll_group *coll);

/* coll_step.c: goes on with a chain. Returns whether anything was done, or the run failed. */
bool twi_coll_chain_turn(struct twi_coll_run *run, struct twi_coll_chain *chain);
void twi_coll_ios_abort(struct twi_coll_run *run);
uint64_t twi_coll_tag(const struct twi_coll_run *run, uint16_t chain, uint16_t tag);
/* Writes to *out the call on scaled input, which is in OUT if it fits there. Returns `out`. */
const struct twi_coll_call *twi_coll_scaled(const struct twi_coll_group *coll,
					    const struct twi_coll_call *call,
					    struct twi_coll_call *out);
/* Multiplies a piece of the input by the call's factor. True: all of it is done. */
bool twi_coll_scale(struct twi_coll_run *run);
/* The input that is staged: the user's, or what was made of it. */
const uint8_t *twi_coll_input(const struct twi_coll_run *run);
/* Copy a piece between the user's memory and staged memory. True: all of it is done. */
bool twi_coll_stage(struct twi_coll_run *run);
bool twi_coll_unstage(struct twi_coll_run *run);

#endif
