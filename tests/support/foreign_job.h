/*
 * foreign_job.h - a job whose bytes another library carries: ranks in processes with a runtime
 * each, which say in step what that library does, with a fault in it; and what towstat makes of it.
 *
 *	struct twt_fj job = { .ranks = 3, .fault = FJ_LATE, .victim = 1, .play = play };
 *	twt_fj_begin(&job);
 *	twt_fj_expect(&job);      towstat verdict names rank 1, which is late, and the communicator
 *	twt_fj_end(&job);
 *
 * `play` plays one rank: it calls twt_fj_step before each collective and ends when that says so.
 * What takes time there is said, not waited for; only a rank that comes late does, or stays away.
 */
#ifndef TWT_FOREIGN_JOB_H
#define TWT_FOREIGN_JOB_H

#include "must.h"
#include "twt.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <towline/towline.h>

#define FJ_RANKS 4
#define FJ_STEPS 20 /* before somebody asks */

#define FJ_MS_NS   1000000ull
#define FJ_LATE_MS 40
#define FJ_SLOW_NS (8 * FJ_MS_NS) /* of a message that is slow */

#define FJ_NAME "tp:0 of job" /* of the communicator */

enum twt_fj_fault {
	FJ_HEALTHY,
	FJ_LATE,    /* the victim comes late to each collective */
	FJ_LINK,    /* what the victim sends is on its way for long */
	FJ_DEVICE,  /* what has come to the victim waits for its device */
	FJ_MISSING, /* the victim comes to no more */
	FJ_STOPPED, /* the victim's process is stopped */
	FJ_FAULTS
};

extern const char *const twt_fj_names[FJ_FAULTS];

struct twt_fj_marks {
	_Atomic uint32_t arrived; /* at all meetings so far, together */
	_Atomic uint32_t steps;
	_Atomic bool stop, bad;
};

struct twt_fj {
	uint32_t ranks, victim;
	enum twt_fj_fault fault;
	bool grouped; /* ranks are in a group of ours, too, */
	bool old;     /* of which the last rank has never heard of groups of other libraries, */
	bool joins;   /* or what plays joins them, in a store that the environment names */
	void (*play)(struct twt_fj *job, uint32_t rank);
	int which; /* whatever play wants to know */
	/* inside */
	struct twt_fj_marks *marks;
	char dir[64], store[64], name[32];
	pid_t pids[FJ_RANKS];
	uint32_t met; /* of a rank: its meetings */
	int step;
	struct tow_runtime *runtime; /* of a rank in a group of ours */
};

void twt_fj_begin(struct twt_fj *job);

/* The verdict is what the fault asks for, and nothing else. */
void twt_fj_expect(struct twt_fj *job);

/* /v1/coll of the rank; goes to free(). */
char *twt_fj_document(struct twt_fj *job, uint32_t rank);

void twt_fj_end(struct twt_fj *job);

/* --- for a rank --- */

/* The environment of its runtime is set by then. False: it ends. */
bool twt_fj_step(struct twt_fj *job, uint32_t rank);

/* All ranks have come here; false: it ends, as one will not come any more. */
bool twt_fj_meet(struct twt_fj *job);

/* It waits, if it is one to come late. */
void twt_fj_dawdle(const struct twt_fj *job, uint32_t rank);

#endif
