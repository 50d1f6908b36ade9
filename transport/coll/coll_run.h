/*
 * coll_run.h - one collective under way: chains of steps, their messages, their memory. See coll.h.
 */
#ifndef TWI_COLL_RUN_H
#define TWI_COLL_RUN_H

#include "transport/coll/coll.h"

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

/* One run of a program: where it stands. */
struct twi_coll_chain {
	bool active;
	bool posted; /* SYNC: this rank has come */
	uint16_t stage;
	uint32_t program, repeat, index;
	uint32_t next, end; /* steps */
	uint32_t ahead;     /* receives up to here are posted, as far as they may be */
	uint32_t pending;   /* messages of the stage, up to next, that are under way */
	uint32_t late;      /* sends of any stage, under way, that the next may not wait for */
	uint64_t done;      /* bytes of a local step */
};

/* Of a message of a chain. */
enum twi_coll_message { TWI_COLL_NOT_SENT, TWI_COLL_UNDER_WAY, TWI_COLL_THERE };

/*
 * What the operation of a collective stands for just now: a run; or what is to become one, because
 * it is held back, or the group is being set up. Only the holder of the engine looks.
 */
struct twi_coll_owner {
	void (*abort)(struct tow_op *op, int status);
};

struct twi_coll_run {
	struct twi_coll_owner owner;
	struct twi_list link;   /* of the group's runs, or of the entry's spare ones */
	struct twi_list polled; /* of the group's, when it must be looked at again */
	struct twi_coll_group *coll;
	struct twi_coll_entry *entry;
	struct tow_op *op; /* the user's; NULL: it has ended */
	uint64_t seq;
	enum twi_coll_state state;
	int status; /* FAILING: why */
	int32_t priority;
	const uint8_t *in; /* what the plan works on: the user's, or staged */
	uint8_t *out;
	const uint8_t *user_in;
	uint8_t *user_out;
	struct twi_site site;
	char name[TWI_COLL_NAME];
	double scale;   /* as the call's; then no part of it is quick */
	bool is_scaled; /* the input, by now */
	const uint8_t *scale_from;
	uint64_t scale_bytes;  /* done so far */
	uint8_t *scale_memory; /* of the pool, what is scaled and has no place in OUT; NULL: none */
	uint8_t *staged;       /* memory of the pool; NULL: none */
	bool staged_in, staged_out;
	uint64_t staged_bytes; /* copied so far */
	bool outside;          /* of the pool: this rank asks for pieces (coll_pipeline.h)... */
	bool pipelined;        /* ...which are had, as one of the ranks does */
	uint64_t step_said, copied; /* steps, and pieces */
	uint8_t *scratch;
	uint32_t program, repeat; /* the next to begin */
	uint32_t begun;           /* number of runs of programs, for tags */
	uint32_t active;          /* chains */
	uint32_t busy;            /* ios */
	uint32_t connects;        /* under way */
	uint64_t syncs;           /* this rank has come to */
	uint32_t synced;          /* locals[] up to here have come to the last */
	bool agreed;              /* the rank before has made the same call */
	bool told;                /* this one has told the rank behind */
	bool challenged;          /* one that disagrees has been told */
	bool left;                /* FAILING: no memory of others is used any more */
	uint64_t leave_ns;        /* and others are waited for until then */
	int suspicion;            /* a message was not as expected: with this status it fails... */
	char doubt[200];
	uint64_t suspect_ns; /* ...then, if the ranks have not found that they disagree */
	uint64_t start_ns, moving_ns, entered_ns; /* entered: the last of the others was seen */
	uint64_t called_ns; /* the start call returned; 0: it has not, or nobody asks */
	uint64_t step;      /* of the program, that it was started in */
	struct twi_coll_chain chains[TWI_COLL_DEPTH_MAX];
	struct twi_coll_io sign_in, sign_out; /* coll_fail.c */
	uint64_t signs[2];                    /* the neighbour's, and this rank's */
	uint16_t io_free;                     /* index + 1 */
	uint32_t io_count;
	uint32_t early;  /* receives under way that were posted before their stage */
	uint8_t *states; /* enum twi_coll_message; program_steps for each chain */
	struct twi_coll_io ios[];
};

#define TWI_COLL_SIGN_CHAIN UINT16_MAX   /* no run of a program has this number */
#define TWI_COLL_TURN_BYTES (512u << 10) /* of local work, before the engine turns to others */

/* The number of a collective in spans: the same on all its ranks. */
static inline uint64_t twi_coll_span_id(const struct twi_coll_group *coll, uint64_t seq)
{
	return (uint64_t)coll->ctx << 32 | (seq & UINT32_MAX);
}

/* What has become of the messages of a chain, by step of its program. */
static inline uint8_t *twi_coll_states(const struct twi_coll_run *run,
				       const struct twi_coll_chain *chain)
{
	return run->states + (size_t)(chain - run->chains) * run->entry->program_steps;
}

/* coll_early.c: when receives may be posted and sends may last; once for an entry. */
int twi_coll_early(struct twi_coll_entry *entry);

/* coll_run.c */
int twi_coll_run_make(struct twi_coll_group *coll, struct twi_coll_entry *entry,
		      struct twi_coll_run **out);
void twi_coll_run_free(struct twi_coll_run *run);
/* It has its seq: what others wait for is shown, where that needs nothing else (coll_quick.h). */
void twi_coll_run_give(struct twi_coll_run *run);
/* The first turn of a run that has just been called for. */
void twi_coll_run_start(struct twi_coll_run *run);
/* Goes on as far as it can. Returns whether anything was done. The run may be over after it, and
 * used for another. */
bool twi_coll_run_turn(struct twi_coll_run *run);
/* It is over, with this status: what is under way is ended first. */
void twi_coll_run_fail(struct twi_coll_run *run, int status);
/* It must be looked at again though no message comes. */
void twi_coll_run_poll(struct twi_coll_run *run);
void twi_coll_activate(struct twi_coll_group *coll);

/* coll_step.c: goes on with a chain. False: the run has failed, or nothing could be done. */
bool twi_coll_chain_turn(struct twi_coll_run *run, struct twi_coll_chain *chain);
void twi_coll_ios_abort(struct twi_coll_run *run);
uint64_t twi_coll_tag(const struct twi_coll_run *run, uint16_t chain, uint16_t tag);
/* The call as it is made of what is scaled: in OUT where that has room for it; `*out`. */
const struct twi_coll_call *twi_coll_scaled(const struct twi_coll_group *coll,
					    const struct twi_coll_call *call,
					    struct twi_coll_call *out);
/* Multiplies the input by the call's factor; true when all of it is done. */
bool twi_coll_scale(struct twi_coll_run *run);
/* Copies between the user's memory and the staged; true when all of it is done. */
bool twi_coll_stage(struct twi_coll_run *run);
bool twi_coll_unstage(struct twi_coll_run *run);

#endif
