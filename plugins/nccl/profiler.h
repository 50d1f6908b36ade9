/*
 * profiler.h - the core of NCCL's profiler plugin. The tables of all versions (profiler_tables.c)
 * call the core. It turns NCCL's events into collectives and messages of <towline/foreign.h>.
 *
 *	twp_comm     a communicator, from init to finalize
 *	  colls      its last TWP_COLLS calls by number: collectives, sends and receives. Events of
 *	             a stopped call may follow, so its row stays until a later call needs it
 *	  parts      the parts of calls that are under way: operations and steps of the proxy,
 *	             channels of the device. At most TWP_PARTS; events beyond them are counted
 *
 * The handles that NCCL gets are numbers and no pointers. A handle holds a kind, a communicator, a
 * row, and a number that no other event has. So a stale or invalid handle is detected, in whatever
 * order events stop. The proxy also reports operations of another process, whose GPU sends through
 * this one. Their context is a pointer of that process, so it is not read, and they get no event.
 *
 *	63      60 59              48 47            36 35                                 0
 *	+---------+------------------+----------------+-----------------------------------+
 *	|  kind   |  communicator    |      row       |              number               |
 *	+---------+------------------+----------------+-----------------------------------+
 *
 * Threads: each call takes the lock of its communicator. Only two threads of the communicator
 * contend for the lock: the launching thread and the proxy's thread.
 *
 * A collective is entered when its first channel runs on the device. It is also entered when the
 * device has given the bytes of the first step of a send. A collective is over when a channel has
 * run on the device, and no part is under way. If NCCL reports no channels, the collective is over
 * when all reported parts have stopped. (The number of channels that run is not always the number
 * that the call was given.)
 */
#ifndef TWP_PROFILER_H
#define TWP_PROFILER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugins/nccl/nccl_profiler_abi.h"
#include "plugins/nccl/plugin.h"

#define TWP_COMMS 4095u /* of a process; number 0 is no communicator */
#define TWP_COLLS 256u
#define TWP_PARTS 4096u
#define TWP_CHUNK 256u /* parts that are allocated at once */
#define TWP_NAME  TOW_FOREIGN_NAME_MAX

enum twp_kind { TWP_NONE, TWP_COLL, TWP_OP, TWP_STEP, TWP_KERNEL };

struct twp_coll {
	uint64_t number;  /* part of its handle; 0: none */
	uint64_t seq;     /* of the collective; 0: a send or a receive */
	uint64_t last_ns; /* when a part last stopped */
	uint32_t under_way, parts;
	bool stopped, entered, ran, over; /* ran: a channel on the device has stopped */
};

struct twp_part {
	uint64_t number; /* part of its handle; 0: free */
	uint64_t coll;   /* number of its call, as in a handle; 0: none */
	uint32_t coll_row;
	uint32_t next_free;
	uint32_t peer;
	enum twp_kind kind;
	bool sends;
	int state; /* enum nccl_state of a step; 0: none yet */
	uint64_t start_ns, since_ns, bytes;
	uint64_t device_ns, peer_ns, wire_ns;
};

struct twp_comm {
	pthread_mutex_t lock;
	uint64_t context; /* 0: the communicator is over, or not ready yet */
	uint32_t row;     /* in the table */
	uint32_t rank, ranks;
	uint64_t id, last_number, coll_count, first_open;
	struct tow_foreign_group *group;
	char name[TWP_NAME];
	bool kernels_told;              /* NCCL reports channels on the device */
	uint32_t part_count, free_part; /* free_part: row + 1; 0: none */
	uint64_t dropped;               /* number of events that found no room */
	struct twp_coll colls[TWP_COLLS];
	struct twp_part *chunks[TWP_PARTS / TWP_CHUNK];
};

/* profiler.c: communicators. *mask_out: the events that NCCL has to report. */
enum nccl_result twp_init(void **context, int *mask_out, const char *name, uint64_t id, int ranks,
			  int rank, nccl_logger logger);
enum nccl_result twp_finalize(void *context);
/* The communicator of a context, or of a row of the table, with its lock held. NULL: none. */
struct twp_comm *twp_comm_of(void *context);
struct twp_comm *twp_comm_take(uint32_t row, uint64_t context);
void twp_comm_give(struct twp_comm *comm);
/* Gets the name of the communicator `id` from its init. False: no init has named `id`. */
bool twp_comm_name(uint64_t id, char out[TWP_NAME]);

/* profiler_calls.c: calls and their parts. The lock of the communicator is held. */
struct twp_coll *twp_coll_begin(struct twp_comm *comm, const struct nccl_event_descriptor *what);
struct twp_coll *twp_coll_begin_p2p(struct twp_comm *comm);
void twp_coll_enter(struct twp_comm *comm, struct twp_coll *coll);
/* Called when a part or the call has stopped; ends the call if it is over. */
void twp_coll_settle(struct twp_comm *comm, struct twp_coll *coll);
/* Ends all open calls with what is known of them. */
void twp_colls_end(struct twp_comm *comm);

/* profiler_events.c. reset: frees all parts. */
void twp_parts_reset(struct twp_comm *comm);
enum nccl_result twp_start(void *context, void **event, uint64_t type,
			   const struct nccl_event_descriptor *what);
enum nccl_result twp_stop(void *event);
enum nccl_result twp_state(void *event, int state, const union nccl_state_arguments *arguments);

#endif
