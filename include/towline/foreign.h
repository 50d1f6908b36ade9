/*
 * foreign.h - what another library of this process has done, said by a layer above it: collectives
 * and messages that did not go through this one. They appear where its own do: as spans in traces,
 * in /v1/coll (`foreign_groups`), in slack, and in verdicts on the job. The plugin for NCCL's
 * profiler says with it what NCCL does (docs/nccl.md).
 *
 *	tow_foreign_open(runtime, &options, &group);    a communicator: name, number, rank
 *	tow_foreign_coll_begin(group, &coll, &seq);     it was called here
 *	tow_foreign_coll_enter(group, seq, 0);          its device has begun with it
 *	tow_foreign_message(group, &message);           a part of it went to, or came from, a rank
 *	tow_foreign_coll_end(group, seq, 0, TOW_OK);
 *
 * Ranks are compared by what they all know: the number of the group, and the place of a collective
 * in the order in which all ranks of the group call them. A verdict needs a runtime in each
 * process, of one job, and no group of this library: docs/verdict.md says who is asked then.
 *
 * Times are those of tow_foreign_clock; 0 stands for now. A call takes a lock of its group alone,
 * which nobody holds for longer than it takes to copy some 30 KiB. Nothing grows with the number of
 * collectives or messages.
 */
#ifndef TOWLINE_FOREIGN_H
#define TOWLINE_FOREIGN_H

#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_FOREIGN_GROUPS   1024 /* that a runtime can have open */
#define TOW_FOREIGN_PEERS    64   /* of a group, by direction, whose messages are told apart */
#define TOW_FOREIGN_NAME_MAX 48   /* with the NUL; of longer names that much is kept */

struct tow_foreign_group;

/* The kinds of collectives that can be told of. */
enum tow_foreign_kind {
	TOW_FOREIGN_ALL_REDUCE = 0,
	TOW_FOREIGN_REDUCE_SCATTER = 1,
	TOW_FOREIGN_ALL_GATHER = 2,
	TOW_FOREIGN_ALL_GATHER_V = 3,
	TOW_FOREIGN_BROADCAST = 4,
	TOW_FOREIGN_REDUCE = 5,
	TOW_FOREIGN_GATHER = 6,
	TOW_FOREIGN_SCATTER = 7,
	TOW_FOREIGN_ALL_TO_ALL = 8,
	TOW_FOREIGN_ALL_TO_ALL_V = 9,
	TOW_FOREIGN_PERMUTE = 10,
	TOW_FOREIGN_BARRIER = 11,
	TOW_FOREIGN_SEND_RECEIVE = 12,
	TOW_FOREIGN_KINDS = 13
};

/* A group of the other library: what NCCL calls a communicator. */
struct tow_foreign_options {
	size_t size;      /* sizeof(struct tow_foreign_options) of the caller */
	const char *name; /* printable ASCII, other bytes become '?'; NULL: made of the number */
	uint64_t id;      /* the same at all ranks of the group, and no other group's */
	uint32_t rank;    /* of this process in the group */
	uint32_t ranks;   /* in the group; at least 1 */
};

/* The initial value of struct tow_foreign_options. */
#define TOW_FOREIGN_OPTIONS_INIT                                                                   \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_foreign_options)), TOW_MEMBER(name, NULL),      \
			TOW_MEMBER(id, 0), TOW_MEMBER(rank, 0), TOW_MEMBER(ranks, 1)               \
	}

/* A collective that begins. */
struct tow_foreign_coll {
	size_t size;       /* sizeof(struct tow_foreign_coll) of the caller */
	uint64_t bytes;    /* of this rank's result, or what it gives where that is more */
	uint64_t start_ns; /* when it was called; 0: now */
	const char
		*plan;  /* how it is carried out, "ring/simple"; 23 bytes are kept; NULL: unknown */
	int32_t kind;   /* enum tow_foreign_kind */
	int32_t type;   /* enum tow_type; -1: not known */
	int32_t reduce; /* enum tow_reduce; -1: none, or not known */
	int32_t root;   /* rank in the group; -1: none */
};

/* The initial value of struct tow_foreign_coll. */
#define TOW_FOREIGN_COLL_INIT                                                                      \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_foreign_coll)), TOW_MEMBER(bytes, 0),           \
			TOW_MEMBER(start_ns, 0), TOW_MEMBER(plan, NULL), TOW_MEMBER(kind, 0),      \
			TOW_MEMBER(type, -1), TOW_MEMBER(reduce, -1), TOW_MEMBER(root, -1)         \
	}

/*
 * A message that has ended, with what it waited for. A sender waits for its device to have the
 * bytes, for the receiver to be ready, for the network to take them; a receiver waits for the bytes
 * to come, and for its device to take them.
 */
struct tow_foreign_message {
	size_t size;        /* sizeof(struct tow_foreign_message) of the caller */
	uint64_t seq;       /* of the collective that it is a part of; 0: none */
	uint64_t bytes;     /* that were moved */
	uint64_t start_ns;  /* began */
	uint64_t end_ns;    /* 0: now */
	uint64_t device_ns; /* of it: waited for the own device */
	uint64_t peer_ns;   /* waited for the other rank to be ready */
	uint64_t wire_ns;   /* the bytes were on their way, or awaited */
	uint32_t peer;      /* the other rank, in the group */
	uint32_t sends;     /* 1: to it; 0: from it */
};

/* The initial value of struct tow_foreign_message. */
#define TOW_FOREIGN_MESSAGE_INIT                                                                   \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_foreign_message)), TOW_MEMBER(seq, 0),          \
			TOW_MEMBER(bytes, 0), TOW_MEMBER(start_ns, 0), TOW_MEMBER(end_ns, 0),      \
			TOW_MEMBER(device_ns, 0), TOW_MEMBER(peer_ns, 0), TOW_MEMBER(wire_ns, 0),  \
			TOW_MEMBER(peer, 0), TOW_MEMBER(sends, 0)                                  \
	}

/*
 * The library's clock, by which all times here are: ns. It runs as CLOCK_MONOTONIC does, and may
 * have drifted from it by 100 ppm.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint64_t tow_foreign_clock(void);

/*
 * Opens a group of another library, of which this process is a rank. A process that is several
 * ranks of one group opens it for each. Verdicts are on processes: there the last of its ranks
 * counts, of at most 16.
 * Ownership: *group_out is the caller's, until tow_foreign_close; the name is copied.
 * Copies: no payload.
 * Blocks: never for long; takes the engine.
 * Threads: any; not from a completion callback.
 * Returns: TOW_OK; TOW_EINVAL for NULL, a rank that is not below `ranks`, members of options that
 * are not known, or a number and rank that are open already; TOW_EEXHAUSTED when
 * TOW_FOREIGN_GROUPS are open; TOW_ENOMEM; TOW_EFORKED.
 */
int tow_foreign_open(struct tow_runtime *runtime, const struct tow_foreign_options *options,
		     struct tow_foreign_group **group_out);

/*
 * Closes a group of another library: it is no part of verdicts and documents any more; spans stay.
 * NULL is legal. It ends with its runtime, too; after that this call does nothing.
 * Ownership: takes the group.
 * Copies: none.
 * Blocks: never for long; takes the engine.
 * Threads: any, while no other call uses the group.
 */
void tow_foreign_close(struct tow_foreign_group *group);

/*
 * Says that a collective was called here. All ranks of a group must tell of the same ones in one
 * order.
 * Ownership: the texts are copied.
 * Copies: no payload.
 * Blocks: never for long; takes the group's lock.
 * Threads: any; the order of the calls is that of the collectives.
 * Returns: TOW_OK, and *seq_out is its place in the order, from 1; TOW_EINVAL for NULL, a kind,
 * type or operator that is none, or members that are not known; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_foreign_coll_begin(struct tow_foreign_group *group, const struct tow_foreign_coll *coll,
			   uint64_t *seq_out);

/*
 * Says that this rank takes part in the collective from now on: its device has begun. By this time
 * ranks are compared. The first time counts; later calls do nothing. Where it is not known, call it
 * at once.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never for long; takes the group's lock.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL or a seq that was never begun; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_foreign_coll_enter(struct tow_foreign_group *group, uint64_t seq, uint64_t at_ns);

/*
 * Says that the collective is over here. One that was not entered is taken to have been when it
 * began. The first time counts. Of one that ended late, after 256 others were begun, the span alone
 * is lost, and counted (foreign_late).
 * status: TOW_OK or a negative status.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never for long; takes the group's lock.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL, a seq that was never begun or a status that is none;
 * TOW_ECLOSED; TOW_EFORKED.
 */
int tow_foreign_coll_end(struct tow_foreign_group *group, uint64_t seq, uint64_t at_ns, int status);

/*
 * Says that a message of the other library's has ended. Of a group TOW_FOREIGN_PEERS peers and
 * directions are told apart; the messages of further ones are spans only.
 * Ownership: none passes.
 * Copies: no payload.
 * Blocks: never for long; takes the group's lock.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL, a peer that is no other rank of the group, or members that
 * are not known; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_foreign_message(struct tow_foreign_group *group, const struct tow_foreign_message *message);

#ifdef __cplusplus
}
#endif
#endif
