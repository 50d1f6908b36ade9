/*
 * size_job.h - what the parts of the sizing laboratory's job share: a program of a few threads, as
 * sizelab.py has written it down, and how a thread plays it.
 *
 * The job is an ordinary user of the library: public headers and the shared library alone. Its file
 * has a line for each thing that a thread does:
 *
 *	slots 40           blocks of the rank, by number
 *	thread 0           what follows is this thread's
 *	setup              it does this once
 *	body               and this in each step
 *	a 3 1048576 12     allocates slot 3, aligned to 2^12
 *	f 3                frees it
 *
 * Threads hand blocks over by `p` and `q`; each slot is one thread's at a time.
 */
#ifndef SIZE_JOB_H
#define SIZE_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <towline/towline.h>

#define SIZE_THREADS  8
#define SIZE_SLOTS    8192
#define SIZE_ACTS     65536
#define SIZE_FLIGHT   256
#define SIZE_LIMIT_NS UINT64_C(8000000000)

/* X(letter, name, numbers behind it, what it does) */
#define SIZE_ACTS_MAP(X)                                                                           \
	X('a', alloc, 3, "SLOT BYTES LOG2: tow_alloc, aligned to 2^LOG2; 0: no alignment")         \
	X('f', free, 1, "SLOT: tow_free")                                                          \
	X('n', nap, 1, "US: sleeps")                                                               \
	X('h', hop, 1, "CPU: goes to the CPU of this number, modulo how many there are")           \
	X('t', tag, 1, "NUMBER: tow_tag_set")                                                      \
	X('s', step, 0, "tow_step_begin")                                                          \
	X('S', end_step, 0, "tow_step_end")                                                        \
	X('p', post, 1, "SLOT: hands it to another thread")                                        \
	X('q', take, 1, "SLOT: waits until it is handed over")                                     \
	X('x', exchange, 4, "SLOT SLOT BYTES TAG: sends the first, receives into the second")      \
	X('v', view, 3, "SLOT BYTES TAG: sends it and receives a view")                            \
	X('V', unview, 0, "gives all views back")                                                  \
	X('c', call, 3,                                                                            \
	  "SLOT SLOT BYTES: calls the other rank with the first, response in second")              \
	X('r', collect, 4, "KIND IN OUT COUNT: 0 all-reduce, 1 all-gather, 2 reduce-scatter")      \
	X('b', batch, 0, "tow_coll_batch_begin")                                                   \
	X('e', fused, 0, "tow_coll_batch_end")                                                     \
	X('w', wait, 0, "waits for all that this thread has started")

struct size_act {
	char letter;
	uint64_t number[4];
};

struct size_thread {
	struct size_job *job;
	pthread_t id;
	uint32_t index;
	struct size_act *act; /* [0, setup) once, [setup, count) in each step */
	uint32_t setup, count;
	struct tow_op *op[SIZE_FLIGHT], *view[SIZE_FLIGHT];
	uint32_t flying, views;
};

struct size_job {
	struct tow_runtime *runtime;
	struct tow_group *group;
	struct tow_peer *peer; /* the other rank; NULL: this one is alone */
	uint64_t steps;
	uint32_t other, slots, threads;
	void *slot[SIZE_SLOTS];
	_Atomic uint32_t handed[SIZE_SLOTS];
	struct size_thread thread[SIZE_THREADS];
};

/* Ends the program with why. */
_Noreturn void size_fail(const char *what, const char *why);
/* Likewise for a status that is a failure. */
void size_check(int status, const char *what);

/* Reads what the threads do. */
void size_read(struct size_job *job, const char *path);

/* Makes the other rank's calls be answered. */
void size_serve(struct size_job *job);

/* One of its acts, in step `step`. */
void size_play(struct size_thread *thread, const struct size_act *act, uint64_t step);

#endif
