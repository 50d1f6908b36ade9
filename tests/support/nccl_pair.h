/*
 * nccl_pair.h - the two sides of a test of plugins/nccl: two processes, or two threads of one, that
 * load the plugin as NCCL does and call its table of one version over one lane.
 *
 * Each run has fresh processes. What goes wrong in one is printed there; the run has failed then.
 */
#ifndef TWT_NCCL_PAIR_H
#define TWT_NCCL_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/nccl/net_table.h"

#define TWT_NCCL_WAIT_S 60

struct twt_nccl_side {
	struct net_table net;
	int side, fd;    /* 0 and 1; to the other side */
	uint64_t seed;   /* the same on both */
	uint64_t random; /* each side's own */
	void *context;
	const struct twt_nccl_run *run;
	bool loose; /* the part ends without the other side, and without finalize */
};

/* A part of a test, on both sides: whether all was as it should. */
typedef bool (*twt_nccl_part)(struct twt_nccl_side *side);

struct twt_nccl_run {
	twt_nccl_part part;
	int version;
	const char *lane; /* TOW_NCCL_LANE */
	bool threads;     /* of one process */
	bool one_may_die; /* side 1 is killed by the part: its status does not count */
	uint64_t seed;
	const char *interface; /* NCCL_SOCKET_IFNAME; NULL: lo */
	bool bare;             /* the part calls init and finalize */
	nccl_logger logger;    /* NULL: shows lines where TOW_TEST_NCCL_LOG is set */
};

/* Whether both sides ended well. */
bool twt_nccl_run(const struct twt_nccl_run *run);

/* The lanes, as TOW_NCCL_LANE takes them; NULL: there are no more. */
const char *twt_nccl_lane(size_t index);

/* What is printed when something is missed; false. */
bool twt_nccl_missed(const struct twt_nccl_side *side, const char *file, int line,
		     const char *what);
#define TWT_NEED(side, condition)                                                                  \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return twt_nccl_missed(side, __FILE__, __LINE__, #condition);              \
	} while (0)

bool twt_nccl_meet(const struct twt_nccl_side *side); /* both have come here */
bool twt_nccl_exchange(const struct twt_nccl_side *side, const void *mine, void *theirs,
		       size_t bytes);

/* Seconds since some time. */
double twt_nccl_now(void);

/* Between two steps in vain of who waits for the other side. */
void twt_nccl_give_way(void);

/* A comm in each direction, by a listen that is closed afterwards. */
bool twt_nccl_connect(struct twt_nccl_side *side, void **send, void **recv);
bool twt_nccl_close(struct twt_nccl_side *side, void *send, void *recv);

/* Posts, and again while the comm is busy. NULL: it has failed. */
void *twt_nccl_post_send(struct twt_nccl_side *side, void *comm, void *data, size_t bytes, int tag);
void *twt_nccl_post_recv(struct twt_nccl_side *side, void *comm, void *data, size_t bytes, int tag);

/* Tests until it is done. */
bool twt_nccl_wait(struct twt_nccl_side *side, void *request, int *sizes);

/* Bytes that say which message they are of. */
void twt_nccl_fill(void *data, size_t bytes, uint64_t which);
bool twt_nccl_is(const void *data, size_t bytes, uint64_t which);

#endif
