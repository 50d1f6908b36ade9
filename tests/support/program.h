/*
 * program.h - random programs of several ranks, by seed, and the plain model that they are judged
 * by: an ideal network which knows the rules of the API's headers (endpoint.h, match.h) alone.
 *
 *	program_acts.c   what a program does: a table of kinds of actions
 *	program_ops.c    operations: how each is started, what must hold when it ends
 *	program_end.c    the end: everything is received, cancelled, closed, and nothing is left
 *	program_model.c  the model: who may have got which message
 *	program_trace.c  a fault is shown by the shortest program that has it
 *	program_sim.c    programs over the simulated network, program_lane.c over each lane
 *
 * A rank is an endpoint; all pairs have a connection. Where a program plays is its *stage*. Every
 * action has random numbers of its own, from the seed and its number, so that a program may leave
 * actions out and do the others as before.
 *
 * A *moment* counts what happens: starts, ends, looks. What is known of an operation's end is that
 * it lies between `open_at` (when it was still in flight) and `end_at` (when it had ended).
 */
#ifndef TWT_PROGRAM_H
#define TWT_PROGRAM_H

#include "twt.h"

#include <stdbool.h>
#include <string.h>

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"

#define TWT_PROGRAM_RANKS    5
#define TWT_PROGRAM_OPS      1200
#define TWT_PROGRAM_ACTS     240
#define TWT_PROGRAM_TAGS     4
#define TWT_PROGRAM_CHANNELS 3 /* with the peer itself */
#define TWT_PROGRAM_ANY      (-1)
#define TWT_PROGRAM_NEVER    UINT64_MAX
#define TWT_PROGRAM_HEAD     8u /* bytes of a message that name it */
#define TWT_PROGRAM_GUARD    16u
#define TWT_PROGRAM_BALLAST  24
#define TWT_PROGRAM_BUDGET   400u /* runs to shorten a program that fails */

struct twt_program;

/* UNKNOWN: nobody hears of it. VOID: the start has failed, as it may. */
enum twt_program_end { TWT_PROGRAM_OPEN, TWT_PROGRAM_ENDED, TWT_PROGRAM_UNKNOWN, TWT_PROGRAM_VOID };

/* What a send or a receive is to be. */
struct twt_program_start {
	int rank, peer; /* peer: the other rank, or TWT_PROGRAM_ANY */
	bool send, view, truncate;
	bool lends;       /* a send: nobody writes to its memory */
	unsigned channel; /* of the peer, or of whichever it is; 0: itself */
	uint64_t tag, mask, bytes;
	bool plain; /* no deadline, no leave to be without an operation: one of the end */
};

struct twt_program_op {
	struct twt_program *program;
	struct twt_program_start what;
	int id;
	struct tow_op *op; /* NULL: released, or there never was a handle */
	uint8_t *data;
	bool pool, freed;                 /* where data lies; a send's was freed at once */
	bool callback, headless, instant; /* without a handle; complete in its start */
	bool cancelled, timed;
	uint64_t deadline_ns;
	uint64_t start_at, cancel_at, open_at, end_at;
	int start_rests, end_rests; /* how often all had come to rest by then */

	/* How it ended. */
	enum twt_program_end end;
	int status, from; /* from: the rank whose message a receive got, or -1 */
	uint64_t got, dropped, tag, rpc;
	uint8_t head[TWT_PROGRAM_HEAD];
	const uint8_t *shown; /* of a view that is held */
	bool came;            /* a small message that had come whole when all was at rest */

	/* What a probe has promised it. */
	bool promised;
	int promised_from;
	uint64_t promised_rpc;

	struct twt_program_op *met; /* a receive's message, a message's receive */
};

/* What a seed makes use of. */
struct twt_program_features {
	bool cancels, deadlines, views, truncates, at_once, masks, any, probes, nested, headless,
		closes, short_rooms, early_free, bursts, waits, huge, ballast, channels, shuts;
};

/* Where a program plays. */
struct twt_program_stage {
	/* Runtimes and endpoints of all ranks. False: this lane is not to be had here. */
	bool (*open)(struct twt_program *program);
	/* Lets time pass; everybody moves. */
	void (*pass)(struct twt_program *program, uint64_t ns);
	uint64_t (*now)(const struct twt_program *program);
	/* Has the network failed between these two? */
	bool (*down)(const struct twt_program *program, int a, int b);
	/* Operations of the stage's own; NULL: there are none. */
	void (*let_go)(struct twt_program *program);
	/* Of runtimes; the rest is closed. */
	void (*close)(struct twt_program *program);
	uint64_t rest_ns; /* after which nothing more happens by itself */
	/* Real time: nobody knows when all is at rest. The end waits for so many times rest_ns. */
	int patience;
	uint64_t slack_ns; /* a deadline may come so much early, by a clock that was read before */
	int acts_max;
	void *more;
};

struct twt_program {
	uint64_t seed, random, moment;
	const struct twt_program_stage *stage;
	struct twt_program_features with;
	int ranks, tags;
	uint64_t eager_max, credit, bytes_max, pool_bytes;
	int64_t max_ops;
	struct tow_runtime *runtime[TWT_PROGRAM_RANKS];
	struct tow_endpoint *endpoint[TWT_PROGRAM_RANKS];
	/* [of][to]; NULL: there was none. */
	struct tow_peer *peers[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS];
	struct tow_channel *channels[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS][TWT_PROGRAM_CHANNELS];
	unsigned swept;                                    /* the channel whose rest is received */
	bool closed[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS]; /* by this side */
	/* Likewise, and the moment. */
	bool shut[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS][TWT_PROGRAM_CHANNELS];
	uint64_t shut_at[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS][TWT_PROGRAM_CHANNELS];
	int rests; /* times when nothing more happened by itself */
	bool ending, closing, judging;
	bool unswept; /* there was no room for receives of all that waits */
	/* Before all were closed: which connections had failed, which side had its peer still. */
	bool failed[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS];
	bool hears[TWT_PROGRAM_RANKS][TWT_PROGRAM_RANKS];
	/* Of each rank's pool what makes it full, so that views wait for room. */
	void *ballast[TWT_PROGRAM_RANKS][TWT_PROGRAM_BALLAST];
	struct twt_program_op ops[TWT_PROGRAM_OPS];
	int op_count;
	uint64_t
		log; /* of all that happened: two runs of a seed have the same over the simulator */
};

/* Of all programs: how often what happened. */
struct twt_program_counts {
	uint64_t ends[2][32]; /* [send][-status] */
	uint64_t programs, instant, wild, any, promised, views, waited_views, dropped, nested,
		shared, shared_any, shared_instant, shared_promised; /* of channels */
};
extern struct twt_program_counts twt_program_counts;

/* --- program_trace.c --- */

/* The program is faulty: tells it, and the shortest program that is so. Does not return. */
void twt_program_fault(struct twt_program *program, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
#define twt_program_check(program, holds, ...)                                                     \
	do {                                                                                       \
		if (!(holds))                                                                      \
			twt_program_fault(program, __VA_ARGS__);                                   \
	} while (0)

/* A line of the trace, if one is wanted. */
void twt_program_note(struct twt_program *program, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Signals that end the program tell its seed, too. Once, at the beginning. */
void twt_program_watch(void);

/* The program that plays now; acts that it leaves out. */
void twt_program_plays(struct twt_program *program);
bool twt_program_skips(int act);

/* --- program_ops.c --- */

static inline uint64_t twt_program_below(struct twt_program *program, uint64_t bound)
{
	return twt_random_below(&program->random, bound);
}

static inline bool twt_program_chance(struct twt_program *program, unsigned permille)
{
	return twt_program_below(program, 1000) < permille;
}

void twt_program_log(struct twt_program *program, uint64_t value);

/* Is the connection there, and open at this side? */
bool twt_program_linked(const struct twt_program *program, int rank, int peer);
/* Has it failed, or did either side close it? */
bool twt_program_down(const struct twt_program *program, int a, int b);
/* Or did either side close that channel? */
bool twt_program_off(const struct twt_program *program, int a, int b, unsigned channel);

/* Starts it. NULL: there is no room for it, or it was refused as it may be. */
struct twt_program_op *twt_program_begin(struct twt_program *program,
					 const struct twt_program_start *what);
void twt_program_cancel(struct twt_program_op *op);
void twt_program_release(struct twt_program_op *op);
/* Looks whose operations have ended, of those without a callback. */
void twt_program_reap(struct twt_program *program);
/* Lets time pass, and reaps. */
void twt_program_pass(struct twt_program *program, uint64_t ns);
struct twt_program_op *twt_program_random_open(struct twt_program *program);
void twt_program_close_peer(struct twt_program *program, int rank, int peer);
void twt_program_close_channel(struct twt_program *program, int rank, int peer, unsigned channel);
/* Starts a random send or receive. */
void twt_program_traffic(struct twt_program *program);
/* What a probe of rank, peer, channel, tag and mask says: TOW_AGAIN and the like. */
int twt_program_probe(struct twt_program *program, const struct twt_program_start *what,
		      struct tow_result *result);
bool twt_program_same(const uint8_t *data, uint64_t bytes, int id);

/* --- program_acts.c --- */
void twt_program_lighten(struct twt_program *program);
void twt_program_act(struct twt_program *program);
uint64_t twt_program_random_bytes(struct twt_program *program);

/* --- program_end.c --- */

/* Until nothing happens any more. Views that are held are given back. */
void twt_program_rest(struct twt_program *program);
void twt_program_sweep(struct twt_program *program);
void twt_program_take_down(struct twt_program *program);

/* --- program_model.c --- */

/* Whose message did each receive get? */
void twt_program_meet(struct twt_program *program);
void twt_program_judge(struct twt_program *program);

/* --- program.c --- */

/* Plays one seed. False: the stage is not to be had. The same storage serves all programs. */
bool twt_program_play(const struct twt_program_stage *stage, uint64_t seed, uint64_t *log_out);
void twt_program_print_counts(void);

/* The network of the simulator, by seed. */
extern const struct twt_program_stage twt_program_sim;

#endif
