/*
 * hunt.h - one rank of a job in which everything is mixed that a program can do: some threads, each
 * with an act of its own (messages, collectives, barriers, calls, groups that come and go, devices,
 * memory, another library's collectives, questions, forks), all at once in one runtime. It knows of
 * the library what its public headers say, and is linked as a user's program is.
 *
 * A thread and those of the same number at the other ranks are a *side*: they draw the same numbers
 * from `shared`, and so agree on what they do; `own` says how each does it. What ends well must be
 * right, whatever the knobs, lanes and cables; and nothing may wait longer than HUNT_BOUND_S.
 */
#ifndef HUNT_H
#define HUNT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/towline.h>

#include "../support/twt_random.h"

#define HUNT_SIDES   16
#define HUNT_BOUND_S 25 /* that any operation may take */
#define HUNT_BATCH   8  /* rounds between two questions whether to go on */
#define HUNT_NS      1000000000ull

struct hunt {
	struct tow_runtime *runtime;
	struct tow_group *all;
	struct tow_device *device;
	uint32_t rank, ranks, sides;
	uint64_t seed, end_ns;
	bool dying; /* some rank will be killed: operations may fail, then */
	bool tight; /* the pool is small: calls may find no room */
	_Atomic bool over;
};

/* How the end of an operation is learned. */
enum hunt_way { BY_WAIT, BY_TEST, BY_ANY, BY_CALLBACK, BY_CALLBACK_ALONE, BY_QUEUE, HUNT_WAYS };

struct hunt_pend {
	struct tow_op *op;
	struct tow_result result;
	_Atomic int done;
	enum hunt_way way;
	bool ended;
	char message[300];
	struct tow_call_result call; /* of a call by queue or callback */
	bool is_call;
};

struct hunt_side {
	struct hunt *hunt;
	uint32_t index;
	const char *act, *what;
	uint64_t shared, own, round;
	struct tow_group *group;
	struct tow_queue *queue;
	struct tow_channel *channels[HUNT_SIDES]; /* by rank */
	_Atomic uint64_t beat;
	bool lost; /* a rank has died, and this side with it */
};

/* What the act of a side does in one round. */
typedef void (*hunt_round)(struct hunt_side *side);

void hunt_messages(struct hunt_side *side);
void hunt_colls(struct hunt_side *side);
void hunt_barriers(struct hunt_side *side);
void hunt_calls(struct hunt_side *side);
void hunt_groups(struct hunt_side *side);
void hunt_devices(struct hunt_side *side);
void hunt_memory(struct hunt_side *side);
void hunt_foreign(struct hunt_side *side);
void hunt_questions(struct hunt_side *side);
void hunt_forks(struct hunt_side *side);
void hunt_peers(struct hunt_side *side);
void hunt_survivors(struct hunt_side *side);
void hunt_traces(struct hunt_side *side);

/* What calls are answered with; begins before the threads and ends after them. */
void hunt_serve(struct hunt *hunt);
void hunt_serve_end(struct hunt *hunt);

/* Says what is wrong and ends the process. */
_Noreturn void hunt_bad(const struct hunt_side *side, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define HUNT_TRUE(side, what)                                                                      \
	do {                                                                                       \
		if (!(what))                                                                       \
			hunt_bad(side, "%s:%d: %s", __FILE__, __LINE__, #what);                    \
	} while (0)

uint64_t hunt_now(void);
uint64_t hunt_own(struct hunt_side *side, uint64_t below);
uint64_t hunt_shared(struct hunt_side *side, uint64_t below);

/* Draws how the operation's end is learned; with a view, or a cancel, it has a handle. */
void hunt_way(struct hunt_side *side, struct hunt_pend *pend, bool handle);
tow_op_callback hunt_callback(const struct hunt_pend *pend);
struct tow_queue *hunt_queue(const struct hunt_side *side, const struct hunt_pend *pend);
struct tow_op **hunt_out(struct hunt_pend *pend);
struct tow_op_options hunt_options(const struct hunt_side *side, struct hunt_pend *pend);
struct tow_coll_options hunt_coll_options(const struct hunt_side *side, struct hunt_pend *pend);

/* What the start has returned. */
void hunt_started(struct hunt_pend *pend, int status);

/* Waits for the end, at most HUNT_BOUND_S; its status. */
int hunt_finish(struct hunt_side *side, struct hunt_pend *pend);

/* Gives it back, and a view with it. */
void hunt_drop(struct hunt_pend *pend);

/* True when it went well. Else it is a fault, or the side is lost with a rank that has died. */
bool hunt_well(struct hunt_side *side, const struct hunt_pend *pend, int status, const char *what);
bool hunt_said(struct hunt_side *side, int status, const char *what);

enum hunt_kind { HUNT_POOL, HUNT_HEAP, HUNT_REGISTERED, HUNT_PLACED, HUNT_KINDS };

/* Memory of some kind, drawn. */
struct hunt_memory {
	uint8_t *data;
	uint64_t bytes;
	enum hunt_kind kind;
	uint64_t handle;
};

void hunt_take(struct hunt_side *side, struct hunt_memory *memory, uint64_t bytes);
void hunt_give(struct hunt_side *side, struct hunt_memory *memory);
void hunt_fill(void *data, uint64_t bytes, uint64_t id);
bool hunt_same(const void *data, uint64_t bytes, uint64_t id);
uint64_t hunt_bytes(struct hunt_side *side); /* of a message, drawn from `shared` */
void hunt_nap(struct hunt_side *side, uint64_t below_ns);

#endif
