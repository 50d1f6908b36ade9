/*
 * nccl_profiler_abi.h - the interface between NCCL and a profiler plugin: the tables
 * ncclProfiler_v4 to ncclProfiler_v6, the events that NCCL reports, and their states.
 *
 * NCCL takes the newest table that it knows: 2.27 knows version 4, 2.28 and 2.29 version 5, 2.30
 * version 6. Signatures, numbers and layouts are facts of NCCL 2.30.7 (github.com/NVIDIA/nccl,
 * src/include/plugin/profiler, src/include/plugin/nccl_profiler.h), written here in our own words.
 * The assertions below check the layout for 64-bit machines.
 *
 *	init(communicator)                           finalize
 *	   startEvent(COLL) ---- stopEvent           it was launched, and is not over
 *	      startEvent(KERNEL) ---- KERNEL_STOP, stopEvent         each channel on the device
 *	      startEvent(PROXY_OP) ---------------- stopEvent        each channel and peer
 *	         startEvent(PROXY_STEP) - states - stopEvent         each piece that travels
 *
 * A step goes through these states:
 *
 *	SEND_GPU_WAIT      until the device has the bytes
 *	SEND_PEER_WAIT     until the receiver is ready
 *	SEND_WAIT          until the bytes are sent
 *	RECV_WAIT          until the bytes have arrived
 *	RECV_FLUSH_WAIT    until the bytes are visible
 *	RECV_GPU_WAIT      until the device has taken the bytes
 *
 * Events of the device and of the proxy may begin and end long after the COLL has stopped. A
 * PROXY_OP may belong to another process, whose pointers are invalid here: `pid` names it.
 */
#ifndef NCCL_PROFILER_ABI_H
#define NCCL_PROFILER_ABI_H

#include "plugins/nccl/nccl_net_abi.h"

/* Types of events: bits of the mask that init returns. */
enum nccl_event {
	NCCL_EVENT_GROUP = 1 << 0,
	NCCL_EVENT_COLL = 1 << 1,
	NCCL_EVENT_P2P = 1 << 2,
	NCCL_EVENT_PROXY_OP = 1 << 3,
	NCCL_EVENT_PROXY_STEP = 1 << 4,
	NCCL_EVENT_PROXY_CONTROL = 1 << 5,
	NCCL_EVENT_KERNEL = 1 << 6,
	NCCL_EVENT_NET = 1 << 7,
	/* From version 5: the calls of the program. */
	NCCL_EVENT_GROUP_CALL = 1 << 8,
	NCCL_EVENT_COLL_CALL = 1 << 9,
	NCCL_EVENT_P2P_CALL = 1 << 10,
	NCCL_EVENT_LAUNCH = 1 << 11,
	/* From version 6: collectives by copy engines. */
	NCCL_EVENT_COPY_COLL = 1 << 12,
	NCCL_EVENT_COPY_SYNC = 1 << 13,
	NCCL_EVENT_COPY_BATCH = 1 << 14
};

enum nccl_state {
	NCCL_STATE_SEND_GPU_WAIT = 8,
	NCCL_STATE_SEND_WAIT = 9,
	NCCL_STATE_RECV_WAIT = 10,
	NCCL_STATE_RECV_FLUSH_WAIT = 11,
	NCCL_STATE_RECV_GPU_WAIT = 12,
	NCCL_STATE_OP_IN_PROGRESS = 19,
	NCCL_STATE_SEND_PEER_WAIT = 20,
	NCCL_STATE_KERNEL_STOP = 22
};

/* An event that begins. Version 4 writes one byte of the type, later versions all of it. */
struct nccl_event_descriptor {
	union {
		uint8_t type_v4;
		uint64_t type;
	};
	void *parent; /* the handle that startEvent returned for it */
	int rank;
	union {
		struct {
			uint64_t number; /* among the calls of this function */
			const char *function;
			const void *send;
			void *receive;
			size_t count; /* elements */
			int root;
			const char *type;
			uint8_t channels, warps;
			const char *algorithm, *protocol;
		} coll;
		struct {
			const char *function;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
			uint8_t channels;
		} p2p;
		struct {
			int32_t pid; /* of the process that has the communicator */
			uint8_t channel;
			int peer;
			int steps;
			int chunk_bytes;
			int sends;
		} op;
		struct {
			int step;
		} step;
		struct {
			uint8_t channel;
			uint64_t device_clock;
		} kernel;
	};
};

union nccl_state_arguments {
	size_t step_bytes;
	int control_ops;
	void *net_data;
	uint64_t device_clock;
};

typedef int (*nccl_event_start)(void *context, void **event,
				struct nccl_event_descriptor *descriptor);
typedef int (*nccl_event_stop)(void *event);
typedef int (*nccl_event_state)(void *event, int state, union nccl_state_arguments *arguments);

struct nccl_profiler_v4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, nccl_logger logger);
	nccl_event_start start;
	nccl_event_stop stop;
	nccl_event_state state;
	int (*finalize)(void *context);
};

/* Version 6 uses it, too. */
struct nccl_profiler_v5 {
	const char *name;
	int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
		    int rank, nccl_logger logger);
	nccl_event_start start;
	nccl_event_stop stop;
	nccl_event_state state;
	int (*finalize)(void *context);
};

#define NCCL_EVENT_AT(member, at)                                                                  \
	_Static_assert(offsetof(struct nccl_event_descriptor, member) == (at),                     \
		       "as NCCL lays events out")
NCCL_EVENT_AT(parent, 8);
NCCL_EVENT_AT(rank, 16);
NCCL_EVENT_AT(coll.count, 56);
NCCL_EVENT_AT(coll.type, 72);
NCCL_EVENT_AT(coll.channels, 80);
NCCL_EVENT_AT(coll.protocol, 96);
NCCL_EVENT_AT(p2p.peer, 56);
NCCL_EVENT_AT(op.peer, 32);
NCCL_EVENT_AT(op.sends, 44);
NCCL_EVENT_AT(kernel.device_clock, 32);
_Static_assert(sizeof(union nccl_state_arguments) == 8, "as NCCL lays states out");
_Static_assert(sizeof(struct nccl_profiler_v4) == 48, "a name and five functions");

#endif
