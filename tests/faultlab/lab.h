/*
 * lab.h - what the parts of the fault laboratory's job share: the options of a rank, the page where
 * all ranks write how long their steps take, and the shapes that a step can have.
 *
 * The job is an ordinary user of the library: public headers and the shared library alone. A rank
 * is in a phase, which faultlab.py writes into the page: before the fault, while it is there, and
 * after it was mended. So the truth, by how much a fault slows the job, is known without asking
 * Towline.
 */
#ifndef LAB_H
#define LAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/towline.h>

#define LAB_RANKS    8
#define LAB_BUFFERS  16
#define LAB_MESSAGES 64
#define LAB_KEPT     4096 /* steps of each rank that the page remembers */
#define LAB_US       1000u
#define LAB_MS       1000000u

enum lab_phase { LAB_BEFORE, LAB_FAULT, LAB_MENDED, LAB_PHASES };

/* Of one rank. faultlab.py reads it by these offsets (lab_job.py). */
struct lab_steps {
	_Atomic uint64_t count;
	_Atomic uint64_t last_ns;      /* when the newest ended, by CLOCK_MONOTONIC */
	_Atomic uint32_t us[LAB_KEPT]; /* how long each took; the phase in the two highest bits */
};

struct lab_page {
	_Atomic uint32_t phase, stop;
	uint32_t unused[14];
	struct lab_steps ranks[LAB_RANKS];
};

/* X(name, default, what it is) - the numbers that a command line may set, as name=value. */
#define LAB_NUMBERS(X)                                                                             \
	X(buckets, 1, "collectives of a step, calls at once, micro-batches")                       \
	X(bytes, 65536, "of the largest collective, of a message")                                 \
	X(equal, 0, "1: all collectives of a step have one size; 0: each half of the last")        \
	X(step_us, 20000, "computing in a step")                                                   \
	X(gap_us, 0, "between two collectives of a step")                                          \
	X(spread, 0, "1: computing is spread between the collectives of a step")                   \
	X(marks, 0, "1: the program says its steps to the library")                                \
	X(root, 0, "1: a broadcast ends each step")                                                \
	X(groups, 0, "1: each step ends with an all-reduce in another group of all")               \
	X(messages, 4, "that a rank sends to another in a step")                                   \
	X(serve_us, 1000, "that a call, or a message of a flow, costs who serves it")              \
	X(input_kib, 0, "that a step reads")                                                       \
	X(pipe, 0, "1: the input comes through a pipe, else from a file")                          \
	X(no_registration, 0, "1: the kernel registers no memory for io_uring")                    \
	X(rank, 1, "that has the fault")                                                           \
	X(pct, 100, "by which it is slower")                                                       \
	X(ms, 0, "that a pause takes")                                                             \
	X(every, 20, "steps between two pauses")                                                   \
	X(at_s, 0, "seconds after which the fault begins by itself; 0: as the page says")          \
	X(limit_s, 60, "after which a rank ends itself")

struct lab {
#define LAB_FIELD(name, initial, what) int64_t name;
	LAB_NUMBERS(LAB_FIELD)
#undef LAB_FIELD
	const char *shape, *how, *way, *fault, *page_path, *address;
	int me, size;
	bool done; /* what happens once has happened */
	uint64_t begun_ns, paused_at;
	struct lab_page *page;
	struct tow_runtime *runtime;
	struct tow_group *group, *other_group;
	struct tow_peer *server;
	float *buffers[LAB_BUFFERS];
	float *heap; /* as large as a buffer, and not in the pool */
	char *input;
	int input_fd;
};

struct lab_shape {
	const char *name;
	int (*open)(struct lab *lab);             /* NULL: there is nothing to prepare */
	int (*step)(struct lab *lab, uint64_t n); /* a status, as the library's */
	bool (*counts)(const struct lab *lab);    /* whether this rank has steps; NULL: all have */
};

extern const struct lab_shape lab_coll, lab_fused, lab_pool, lab_ring, lab_pipe, lab_flow, lab_rpc;

uint64_t lab_now(void);

/* Whether this rank has the fault of that name just now. */
bool lab_has(const struct lab *lab, const char *fault);

/* The same, and once only. */
bool lab_once(struct lab *lab, const char *fault);

enum lab_phase lab_phase_now(const struct lab *lab);

bool lab_stops(const struct lab *lab);

/* Computes for so long, and for longer where this rank is the slow one. */
void lab_compute(const struct lab *lab, int64_t us);

void lab_sleep(int64_t us);

/* Says on stderr how an operation has failed; why may be NULL. */
void lab_tell(int status, const char *why);

/* The ways of lab->way: wait, test, fd, call and queue (lab_way.c). */
bool lab_way_known(const struct lab *lab);
int lab_way_open(struct lab *lab);

/* How a start says that the rank is to hear of the end in its way. */
struct tow_op_options lab_op_options(const struct lab *lab);
struct tow_coll_options lab_coll_options(const struct lab *lab);
struct tow_call_options lab_call_options(const struct lab *lab);

/* The status with which it has ended, or TOW_ETIMEDOUT; it is not released. */
int lab_await(struct lab *lab, struct tow_op *op, uint64_t within_ns);

/* Waits for all operations that the rank has started, releases them: the first failure. */
int lab_finish(struct lab *lab, struct tow_op **ops, int count);

/* One message, to its end. */
int lab_send(struct lab *lab, uint32_t to, const void *data, uint64_t bytes, uint64_t tag);
int lab_recv(struct lab *lab, uint32_t from, void *data, uint64_t bytes, uint64_t tag);

/* From now on the kernel refuses to register memory of this process; false: it lets nobody ask. */
bool lab_refuse_registration(void);

/* Reads what a step needs. */
int lab_input_open(struct lab *lab);
int lab_input_read(struct lab *lab);

#endif
