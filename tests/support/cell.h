/*
 * cell.h - one cell of the conformance suite: two ends of one connection, a thread each, over a
 * lane, out of a kind of memory, driven in one way. What an end sees goes into its transcript, and
 * the transcripts of all cells must be equal (conform.h).
 *
 *	twt_begin(end, &doing, timeout_ns)	options for what is to be started
 *	twt_await(end, &doing, &result)		drives in the cell's way until it has ended
 *	twt_meet(end)				until both ends are here; each goes on driving
 *	twt_say(end, "...")			a line of the transcript
 *
 * A cell is a process of its own; whatever is wrong in it ends it with a text.
 */
#ifndef TWT_CELL_H
#define TWT_CELL_H

#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>
#include <towline/towline.h>

#define TWT_CELL_NS    20000000000ull /* for what should end at once */
#define TWT_CELL_BYTES (2u << 20)     /* of each end's memory, each way */
#define TWT_CELL_TEXT  (32u << 10)
#define TWT_CELL_IDS   256
#define TWT_CELL_LOG   4096
/*
 * Under TSan no more than keep a ring each: where one runtime takes a ring down and the other one
 * maps its own at that address, TSan sees one memory. (many_threads has 40 in one runtime.)
 */
#ifdef TWT_TSAN
#define TWT_CREW 12
#else
#define TWT_CREW 40
#endif
#define TWT_NOT_HERE 77 /* exit status: this host does not have the lane */

/* A row of lanes.def. */
struct twt_lane {
	const char *name, *address[2]; /* of each end */
	const char *poller;            /* NULL: the library's choice */
	bool encrypted;
	bool one_runtime; /* it joins endpoints of one runtime alone */
};

enum {
	TWT_LANES = 0
#define TWT_LANE(...)    +1
#define TWT_VARIANT(...) +1
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

extern const struct twt_lane twt_lanes[TWT_LANES];

enum twt_memory {
	TWT_POOL,
	TWT_REGISTERED,
	TWT_PLAIN,
	TWT_UNREADABLE, /* plain, and some of it is not there (cell_bad.h) */
	TWT_MEMORIES
};
extern const char *const twt_memories[TWT_MEMORIES];

enum twt_driving {
	TWT_WAIT,
	TWT_TEST,
	TWT_PROGRESS,
	TWT_FD,
	TWT_CALLBACK,   /* nobody drives but the library's thread, and a callback tells */
	TWT_OWN_THREAD, /* likewise, and the result is looked at now and then */
	TWT_THREADS,    /* every operation is waited for by the next of 40 threads */
	TWT_QUEUE,      /* its result is taken from a queue, on whose descriptor the end sleeps */
	TWT_DRIVINGS
};
extern const char *const twt_drivings[TWT_DRIVINGS];

/* What the parent reads when the cell has ended. */
struct twt_cell_shared {
	char transcript[4 * TWT_CELL_TEXT];
	char counters[TWT_CELL_TEXT];
	char wrong[512];
	char threads[8192];     /* where something was wrong: what each thread did until then */
	char log[TWT_CELL_LOG]; /* the first lines of both runtimes' logs */
	_Atomic unsigned log_bytes;
};

struct twt_crew_job {
	struct tow_op *op;
	bool due;
	int status;
};

struct twt_crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t threads[TWT_CREW];
	struct twt_crew_job jobs[TWT_CREW];
	unsigned next;
	bool over;
};

struct twt_cell;

struct twt_end {
	struct twt_cell *cell;
	int which; /* 0: connects; 1: accepts */
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct tow_group *group; /* where the ends are ranks of a job; the peer is its then */
	uint8_t *out, *in;       /* TWT_CELL_BYTES of the cell's kind of memory */
	uint64_t handles[2];
	int fd, silent; /* of tow_fd: how often it did not tell; or of the queue */
	struct tow_queue *queue;
	struct twt_crew crew;
	_Atomic unsigned met;
	const char *timed; /* counters that here depend on timing, by comma; NULL: none */
	char text[TWT_CELL_TEXT];
	size_t bytes;
};

struct twt_cell {
	const struct twt_lane *lane;
	enum twt_memory memory;
	enum twt_driving driving;
	void (*play)(struct twt_end *end);
	bool grouped;   /* the ends are ranks of a job, by their number, */
	char store[64]; /* who meet at this store */
	struct twt_end ends[2];
	char where[TOW_ADDRESS_MAX];        /* of end 1 */
	_Atomic uint64_t ids[TWT_CELL_IDS]; /* what one end tells the other: ids of messages */
	struct twt_cell_shared *shared;
};

/* One operation under way. */
struct twt_doing {
	struct tow_op *op;
	struct tow_op_options options;
	_Atomic int called;
	struct tow_result told; /* by the callback, or the queue */
};

/* What the threads of this process did: who ran, who had no core, who slept. Any thread. */
void twt_keep_threads(struct twt_cell_shared *shared);

#define twt_wrong(cell, ...)                                                                       \
	do {                                                                                       \
		int twt_at = snprintf((cell)->shared->wrong, sizeof((cell)->shared->wrong),        \
				      "%s:%d: ", __FILE__, __LINE__);                              \
		snprintf((cell)->shared->wrong + twt_at,                                           \
			 sizeof((cell)->shared->wrong) - (size_t)twt_at, __VA_ARGS__);             \
		twt_keep_threads((cell)->shared);                                                  \
		_exit(1);                                                                          \
	} while (0)

/* The end of an end's transcript, for texts: where it was. */
#define twt_last(end) ((end)->text + ((end)->bytes > 120 ? (end)->bytes - 120 : 0))

#define twt_ok(end, call)                                                                          \
	do {                                                                                       \
		int twt_status = (call);                                                           \
		if (twt_status != TOW_OK)                                                          \
			twt_wrong((end)->cell, "%s: %s: %s", #call, tow_status_name(twt_status),   \
				  tow_error_message());                                            \
	} while (0)

__attribute__((format(printf, 2, 3))) static inline void twt_say(struct twt_end *end,
								 const char *format, ...)
{
	size_t room = sizeof(end->text) - end->bytes;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(end->text + end->bytes, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n + 1 >= room)
		twt_wrong(end->cell, "the transcript is too long");
	end->bytes += (size_t)n;
	end->text[end->bytes++] = '\n';
	end->text[end->bytes] = '\0';
}

uint64_t twt_cell_now(void);

/* Whether the library is left to drive by itself. */
bool twt_by_itself(const struct twt_cell *cell);

/* A turn of an end that waits for something else than an operation. */
void twt_idle(struct twt_end *end);

void twt_meet(struct twt_end *end);

#endif
