/*
 * profiler.h - the inside of NCCL's profiler plugin: one core, over which the tables of all
 * versions stand (profiler_tables.c). What NCCL tells of becomes collectives and messages of
 * <towline/foreign.h>.
 *
 *	twp_comm     a communicator, from init to finalize
 *	  colls      its last TWP_COLLS calls, by their number: collectives, and sends and receives.
 *	             Of one that has stopped more may come, so a row stays until it is used again
 *	  parts      what belongs to a call and is under way: operations and steps of the proxy,
 *	             channels of the device. At most TWP_PARTS; what comes beyond is counted
 *
 * NCCL is given numbers in place of pointers: which communicator, what kind, which row, and a
 * number that no other event has. So an event that has ended, or never was, is found out, in
 * whichever order things stop. Of another process's operations (those that its GPU sends by this
 * one) even the context is a pointer there, which is not looked at: they get no event.
 *
 *	63      60 59              48 47            36 35                                 0
 *	+---------+------------------+----------------+-----------------------------------+
 *	|  kind   |  communicator    |      row       |              number               |
 *	+---------+------------------+----------------+-----------------------------------+
 *
 * Threads: a communicator's lock is taken for each call. Its own threads alone meet there: the one
 * that launches, and that of the proxy.
 *
 * When a collective is entered: its first channel runs on the device, or a send's first step has
 * been given its bytes by the device. When it is over: a channel has run on the device, and nothing
 * of it is under way any more; where NCCL does not tell of channels, all that was told of has
 * stopped. (How many channels run is not always the number that the call was given.)
 */
#ifndef TWP_PROFILER_H
#define TWP_PROFILER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugins/nccl/nccl_profiler_abi.h"
#include "plugins/nccl/plugin.h"

#define TWP_COMMS 4095u /* of a process; the number 0 is none's */
#define TWP_COLLS 256u
#define TWP_PARTS 4096u
#define TWP_CHUNK 256u /* parts that are allocated at once */
#define TWP_NAME  TOW_FOREIGN_NAME_MAX

enum twp_kind { TWP_NONE, TWP_COLL, TWP_OP, TWP_STEP, TWP_KERNEL };

struct twp_coll {
	uint64_t number;  /* of its handle; 0: none */
	uint64_t seq;     /* of the collective; 0: a send or a receive */
	uint64_t last_ns; /* when something of it stopped last */
	uint32_t under_way, parts;
	bool stopped, entered, ran, over; /* ran: a channel on the device has stopped */
};

struct twp_part {
	uint64_t number; /* of its handle; 0: free */
	uint64_t coll;   /* the number of its call, as in a handle; 0: none */
	uint32_t coll_row;
	uint32_t next_free;
	uint32_t peer;
	enum twp_kind kind;
	bool sends;
	int state; /* of a step, enum nccl_state; 0: none yet */
	uint64_t start_ns, since_ns, bytes;
	uint64_t device_ns, peer_ns, wire_ns;
};

struct twp_comm {
	pthread_mutex_t lock;
	uint64_t context; /* 0: it is over, or not there yet */
	uint32_t row;     /* in the table */
	uint32_t rank, ranks;
	uint64_t id, last_number, coll_count, first_open;
	struct tow_foreign_group *group;
	char name[TWP_NAME];
	bool kernels_told;              /* NCCL tells of channels on the device */
	uint32_t part_count, free_part; /* free_part: row + 1; 0: none */
	uint64_t dropped;               /* events for which there was no room */
	struct twp_coll colls[TWP_COLLS];
	struct twp_part *chunks[TWP_PARTS / TWP_CHUNK];
};

/* profiler.c: communicators. *mask_out: what NCCL is to tell of. */
enum nccl_result twp_init(void **context, int *mask_out, const char *name, uint64_t id, int ranks,
			  int rank, nccl_logger logger);
enum nccl_result twp_finalize(void *context);
/* The communicator of a context, or of a row of the table; with its lock held. NULL: none. */
struct twp_comm *twp_comm_of(void *context);
struct twp_comm *twp_comm_take(uint32_t row, uint64_t context);
void twp_comm_give(struct twp_comm *comm);
/* The name of the communicator `id`, where a profiler's init has said one. False: it has not. */
bool twp_comm_name(uint64_t id, char out[TWP_NAME]);

/* profiler_calls.c: calls and what they are made of. The communicator's lock is held. */
struct twp_coll *twp_coll_begin(struct twp_comm *comm, const struct nccl_event_descriptor *what);
struct twp_coll *twp_coll_begin_p2p(struct twp_comm *comm);
void twp_coll_enter(struct twp_comm *comm, struct twp_coll *coll);
/* Something of it has stopped: it may be over. */
void twp_coll_settle(struct twp_comm *comm, struct twp_coll *coll);
/* All that are open end with what is known of them. */
void twp_colls_end(struct twp_comm *comm);

/* profiler_events.c. reset: all parts are free. */
void twp_parts_reset(struct twp_comm *comm);
enum nccl_result twp_start(void *context, void **event, uint64_t type,
			   const struct nccl_event_descriptor *what);
enum nccl_result twp_stop(void *event);
enum nccl_result twp_state(void *event, int state, const union nccl_state_arguments *arguments);

#endif
