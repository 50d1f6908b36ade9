/*
 * group.h - ranks: the processes of a job, numbered, and connections between them by number.
 *
 * A launcher starts the processes and says in environment variables who is who; tow_group_open
 * finds that out, meets the others at a small store that rank 0 serves, checks that all mean the
 * same job, and learns where each can be reached. Nothing is connected yet: two ranks are when one
 * of them first asks for it. docs/bootstrap.md says which variables of which launcher are read;
 * `towrun -n N program` is one for this machine, and /v1/bootstrap says what was found and why.
 *
 *	tow_group_open(runtime, NULL, &group);
 *	tow_group_connect_start(group, 1, NULL, &op);       any rank, at any time, from either side
 *	tow_op_wait(op, TOW_FOREVER);
 *	tow_group_peer(group, 1, &peer);                    then messages, as in endpoint.h
 *
 * Messages by the numbers of ranks, which connect by themselves, are in group_message.h.
 *
 * Without a group the same can be built by hand: the text of at most TOW_ADDRESS_MAX bytes that
 * tow_endpoint_address gives is a *handle*; whoever gets it, by whatever way, can connect to it.
 */
#ifndef TOWLINE_GROUP_H
#define TOWLINE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>
#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_group;

#define TOW_GROUP_NONE      (-1) /* the colour of who is in none of the new groups */
#define TOW_GROUP_LABEL_MAX 48   /* bytes of a group's label, with the NUL */

/*
 * The caller's own exchange, by which ranks find rank 0: a store that the program has already, as
 * c10d's, PMIx or XLA's key-value service. Rank 0 calls put once, with its address or with why it
 * has failed; every other rank calls get once, which waits until the key is there. Rank 0's port is
 * one that the system chooses, and a store that a launcher's variables name is not used.
 * Keys begin with "towline/", and values are text of less than 2048 bytes. Every opening of a group
 * is to have a key space of its own, by a prefix: what an earlier one has put is of no use.
 * Without job_key rank 0 puts a random key with its address: whoever can read it is a member
 * (docs/security.md). A job_key that is set is not put, and every rank must have it.
 * Ownership: key and value are the library's, until the call returns. `user` must stay until the
 * call has returned, also when tow_group_open has given it up.
 * Copies: the value.
 * Blocks: get at most timeout_ns. A call that does not return in time is left to itself.
 * Threads: a thread of the library's own, one call at a time for a group.
 * Returns: TOW_OK; a status below 0, which tow_group_open returns, naming the call. *bytes_out is
 * the length of the value, also where it is above `room`.
 */
typedef int (*tow_exchange_put)(void *user, const char *key, const void *value, size_t bytes);
typedef int (*tow_exchange_get)(void *user, const char *key, void *value_out, size_t room,
				size_t *bytes_out, uint64_t timeout_ns);

/* How to open the group of all ranks. Begin with TOW_GROUP_OPTIONS_INIT. */
struct tow_group_options {
	size_t size;          /* sizeof(struct tow_group_options) of the caller */
	int64_t rank;         /* -1: of the runtime's options, or as the launcher says */
	int64_t world_size;   /* likewise */
	const char *store;    /* HOST:PORT where rank 0 serves the store; NULL: likewise */
	const char *address;  /* of the endpoint to open; NULL: one that others can reach */
	uint64_t timeout_ns;  /* for all of it; TOW_FOREVER: none */
	tow_exchange_put put; /* with get, and without store; NULL: no exchange of the caller's */
	tow_exchange_get get;
	void *user; /* for put and get */
};

/* The initial value of struct tow_group_options. */
#define TOW_GROUP_OPTIONS_INIT                                                                     \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_group_options)), TOW_MEMBER(rank, -1),          \
			TOW_MEMBER(world_size, -1), TOW_MEMBER(store, NULL),                       \
			TOW_MEMBER(address, NULL), TOW_MEMBER(timeout_ns, 120000000000u),          \
			TOW_MEMBER(put, NULL), TOW_MEMBER(get, NULL), TOW_MEMBER(user, NULL)       \
	}

/* Who this process is. What is not known is -1. */
struct tow_job_info {
	size_t size;          /* sizeof(struct tow_job_info) of the caller */
	const char *launcher; /* "tow", "torchrun", "slurm", ...; "single" when there is none */
	const char *job;      /* which job: its name and the launcher's number of it */
	int64_t rank, world_size;
	int64_t local_rank, local_size; /* on this host */
	int64_t restarts;               /* of the job */
};

/* The initial value of struct tow_job_info. */
#define TOW_JOB_INFO_INIT                                                                          \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_job_info)), TOW_MEMBER(launcher, NULL),         \
			TOW_MEMBER(job, NULL), TOW_MEMBER(rank, 0), TOW_MEMBER(world_size, 0),     \
			TOW_MEMBER(local_rank, 0), TOW_MEMBER(local_size, 0),                      \
			TOW_MEMBER(restarts, 0)                                                    \
	}

/*
 * Who this process is, as the runtime found it when it was opened. Under PMIx alone world_size is
 * not known before tow_group_open.
 * Ownership: *info_out is the caller's, its size set by the caller; the strings are the runtime's.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument, an info_out whose size no header has, or with
 * the message which environment variable is missing or contradicts another; TOW_EFORKED.
 */
int tow_job_info(struct tow_runtime *runtime, struct tow_job_info *info_out);

/*
 * Opens the group of all ranks. Collective: every rank of the job calls it. Opens an endpoint, on
 * the interface that leads to the store unless options->address says another. options may be NULL.
 * When rank 0 fails, the others that have found its store end with its text.
 * Ownership: *group_out is the caller's until tow_group_close; options is only read. The job and
 * its ranks are one to a runtime: open it once, and split it. When all its groups are closed it may
 * be opened again, and waits until the other ranks have closed theirs.
 * Copies: none.
 * Blocks: until all ranks have come, at most options->timeout_ns (two minutes).
 * Threads: any; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL naming the variable or option; TOW_EMISMATCH at all ranks, naming
 * both sides, when they disagree about job, restart, world size or rank; TOW_EDEADLINE naming the
 * ranks that have not come; TOW_EAUTH: another job key; TOW_EPEER: a rank has gone, or the store
 * has; TOW_EBUSY: the store's address is in use; TOW_ENOTSUP; TOW_ENOMEM; TOW_EPERM; TOW_ESYSTEM;
 * TOW_EFORKED.
 */
int tow_group_open(struct tow_runtime *runtime, const struct tow_group_options *options,
		   struct tow_group **group_out);

/*
 * Starts to open the group of all ranks, in a thread of the library's own. When the operation has
 * ended with TOW_OK, *group_out is the group; until then it is NULL.
 * Ownership: *op_out is the caller's until tow_op_release; group_out must stay until the operation
 * has ended; options and its strings only until this returns.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_EBUSY when max_ops operations exist; TOW_ENOMEM;
 * TOW_ESYSTEM; TOW_EFORKED. The operation ends as tow_group_open returns, or with TOW_ECANCELED or
 * TOW_ECLOSED; of its failure /v1/info has the message, in the log.
 */
int tow_group_open_start(struct tow_runtime *runtime, const struct tow_group_options *options,
			 const struct tow_op_options *op_options, struct tow_group **group_out,
			 struct tow_op **op_out);

/*
 * This process' number in the group, from 0; UINT32_MAX for NULL or a group that was closed.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint32_t tow_group_rank(const struct tow_group *group);

/*
 * How many ranks the group has; 0 for NULL or a group that was closed.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint32_t tow_group_size(const struct tow_group *group);

/*
 * The address of a rank's endpoint: its handle, of at most TOW_ADDRESS_MAX bytes with the NUL.
 * Ownership: address_out is the caller's, of address_size bytes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument, a rank that is none, or a too small
 * address_size.
 */
int tow_group_address(const struct tow_group *group, uint32_t rank, char *address_out,
		      size_t address_size);

/*
 * Starts to connect to a rank; at once complete when it is connected. Either side may ask, or both:
 * there is one connection for each pair. The peer stands in the result and in tow_group_peer. The
 * other side needs to do nothing but to drive its runtime.
 * Ownership: *op_out is the caller's until tow_op_release; the peer is the group's, and is not to
 * be closed.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL, also for this process' own rank; TOW_EBUSY when max_ops
 * operations exist; TOW_ENOMEM; TOW_EFORKED. The operation ends as tow_connect_start's.
 */
int tow_group_connect_start(struct tow_group *group, uint32_t rank,
			    const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The connection to a rank. Sub-groups have the same one as the group they come from.
 * Ownership: the group's.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_AGAIN while there is none, and *peer_out is NULL; TOW_EINVAL; TOW_EFORKED.
 */
int tow_group_peer(struct tow_group *group, uint32_t rank, struct tow_peer **peer_out);

/*
 * Connects to a rank, and waits for it; tow_group_connect_start and tow_op_wait in one.
 * Ownership: *peer_out is the group's, and NULL after a failure; peer_out may be NULL.
 * Copies: none.
 * Blocks: until there is a connection, at most timeout_ns; TOW_FOREVER waits as long as
 * connect_timeout_ns allows.
 * Threads: any; not from a callback.
 * Returns: TOW_OK; tow_group_connect_start's and its operation's failures; TOW_EINVAL in a
 * callback.
 */
int tow_group_connect(struct tow_group *group, uint32_t rank, uint64_t timeout_ns,
		      struct tow_peer **peer_out);

/*
 * Sends a message of the group to a rank (group_message.h), which may be this process' own, and
 * waits: one call for programs that have nothing else in flight. tow_recv or tow_group_recv_start
 * of the same group takes it, at the other rank.
 * Ownership: data stays the caller's, and is not in use any more when this returns.
 * Copies: as tow_send_start.
 * Blocks: until the operation has ended (a small message's does when it is in the connection's
 * buffer), at most timeout_ns; then it has ended, too.
 * Threads: any; not from a callback.
 * Returns: the statuses of tow_group_send_start and of its operation; TOW_EDEADLINE when timeout_ns
 * passed first; TOW_EINVAL in a callback.
 */
int tow_send(struct tow_group *group, uint32_t rank, const void *data, uint64_t bytes, uint64_t tag,
	     uint64_t timeout_ns);

/*
 * Receives the next message with `tag` from a rank, and waits for it. *bytes_out is its length;
 * bytes_out may be NULL.
 * Ownership: data stays the caller's, and is not in use any more when this returns.
 * Copies: as tow_recv_start.
 * Blocks: until the message is there, at most timeout_ns; then nothing waits for it any more.
 * Threads: any; not from a callback.
 * Returns: as tow_send, with tow_group_recv_start's.
 */
int tow_recv(struct tow_group *group, uint32_t rank, void *data, uint64_t bytes, uint64_t tag,
	     uint64_t timeout_ns, uint64_t *bytes_out);

/*
 * Starts a barrier: it ends with TOW_OK when every rank of the group has started it. Several may be
 * in flight; the n-th of one rank is the n-th of all. Barriers are counted by themselves: a rank
 * may start collectives of the group before or after one, as it likes, and neither fails with the
 * other (tow_coll_barrier_start is one of the collectives). Connects the pairs that it needs.
 * Ownership: *op_out is the caller's until tow_op_release.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_EBUSY; TOW_ENOMEM; TOW_EFORKED. The operation ends
 * with TOW_OK, TOW_EPEER (a rank has gone, or has closed the group without it, or it has failed at
 * another rank), TOW_EREFUSED, TOW_EDEADLINE, TOW_ECANCELED, TOW_ECLOSED or TOW_EABORTED. After a
 * deadline or a cancel this rank still does its part, so that the others' barrier can end; it does
 * so for the last max_ops / 16 of its barriers, and one that is older may fail at the others.
 */
int tow_group_barrier_start(struct tow_group *group, const struct tow_op_options *options,
			    struct tow_op **op_out);

/*
 * Waits for a barrier.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: until every rank has come, at most timeout_ns; TOW_FOREVER waits as long as it takes.
 * Threads: any; not from a callback.
 * Returns: as the operation of tow_group_barrier_start, or as its start.
 */
int tow_group_barrier(struct tow_group *group, uint64_t timeout_ns);

/*
 * Makes groups of the group: ranks with the same color are one, ordered by key, then by rank.
 * Collective: every rank of the group calls it. color TOW_GROUP_NONE: *group_out is NULL.
 * Ownership: *group_out is the caller's until tow_group_close. The connections are the job's: they
 * stay until the last group is closed.
 * Copies: none.
 * Blocks: until all have called it, at most timeout_ns.
 * Threads: any; not from a callback; on one group one call at a time.
 * Returns: TOW_OK; TOW_EINVAL; TOW_EMISMATCH; TOW_EDEADLINE naming who has not come; TOW_EPEER;
 * TOW_EABORTED; TOW_EBUSY: the store is full; TOW_ENOMEM; TOW_ESYSTEM; TOW_EFORKED.
 */
int tow_group_split(struct tow_group *group, int64_t color, int64_t key, uint64_t timeout_ns,
		    struct tow_group **group_out);

/*
 * Makes a group of some ranks of the group by these alone: the others do not call it, and need not
 * know of it. ranks[i] is the rank in parent of rank i of the new group; all members say the same
 * list. The new group has its own collectives and barriers and may be a parent itself; the parent
 * may be broken.
 * The n-th creation of one list at one member is the n-th of all. Threads that make groups of the
 * same ranks at once, or a program that does so in no order, gives each a name; else name is NULL.
 * Members disagree when each waits for the other with another list: at once with one name, or with
 * the same ranks in another order; without a name when the time of one is over.
 * Ownership: *group_out is the caller's until tow_group_close; ranks and name only until this
 * returns. The connections are the job's, as after tow_group_split.
 * Copies: none.
 * Blocks: until all members have called it, at most timeout_ns.
 * Threads: any number; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL naming a rank that is out of range or listed twice, when this process
 * is not listed, or for a name above 200 bytes; TOW_EMISMATCH naming two members and their lists;
 * TOW_EDEADLINE naming who has not come; TOW_EPEER: a member has gone, or rank 0 of the job with
 * its store; TOW_EABORTED: the parent was aborted; TOW_EBUSY: the store is full; TOW_ENOTSUP:
 * rank 0 has an older library; TOW_ENOMEM; TOW_ESYSTEM; TOW_ECLOSED; TOW_EFORKED. After a failure
 * it may be called again.
 */
int tow_group_create(struct tow_group *parent, const uint32_t *ranks, uint32_t count,
		     const char *name, uint64_t timeout_ns, struct tow_group **group_out);

/*
 * Says what people call the group ("default_pg"): its label. It stands beside the group's number
 * wherever that is shown: in messages, the log, /v1/coll, verdicts, the flight recorder and traces.
 * Each rank says it for itself, and may say another one later. A group has none at first, but for
 * one that tow_group_create has given a name, whose label it is, and for one of tow_group_shrink,
 * whose label is that of the old group.
 * label: 1 to 47 bytes of printable ASCII; NULL: none.
 * Ownership: label only until this returns.
 * Copies: label.
 * Blocks: never for long; it takes a lock.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL naming what is wrong with the label; TOW_ENOMEM; TOW_ECLOSED;
 * TOW_EFORKED. After a failure the label is as before.
 */
int tow_group_set_label(struct tow_group *group, const char *label);

/*
 * The label that this rank has given the group; "" where it has none.
 * Ownership: label_out is the caller's.
 * Copies: the label.
 * Blocks: never for long; it takes a lock.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_group_label(const struct tow_group *group, char label_out[TOW_GROUP_LABEL_MAX]);

/*
 * Puts a value where every rank of the job can get it. For little things: names, not data.
 * Ownership: none passes.
 * Copies: value, of at most 64 KiB; key has at most 250 bytes.
 * Blocks: for a round trip to rank 0, at most timeout_ns.
 * Threads: any; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL; TOW_EDEADLINE; TOW_EPEER; TOW_EBUSY: the store is full; TOW_ENOTSUP:
 * the job has one rank; TOW_EABORTED; TOW_EFORKED.
 */
int tow_group_set(struct tow_group *group, const char *key, const void *value, size_t bytes,
		  uint64_t timeout_ns);

/*
 * Gets a value, and waits until it is there. *bytes_out is its length; what is beyond `room` is
 * cut.
 * Ownership: value_out is the caller's, of `room` bytes.
 * Copies: the value.
 * Blocks: until somebody has put it, at most timeout_ns.
 * Threads: any; not from a callback.
 * Returns: as tow_group_set.
 */
int tow_group_get(struct tow_group *group, const char *key, void *value_out, size_t room,
		  size_t *bytes_out, uint64_t timeout_ns);

/*
 * Aborts a group: what is in flight in it at this rank ends with TOW_EABORTED, and so it does at
 * the other ranks, which are told: collectives, barriers, messages of the group, and calls that
 * wait in the store (split, create, get). The message names the rank that has aborted, and
 * `reason`. All later calls on the group fail likewise, until tow_group_close; tow_group_shrink
 * makes a new one of all ranks that live.
 * When several abort at once, each rank has the text of one of them. Connections, messages of peers
 * and the other groups of the job go on. An operation whose result was there first keeps it.
 * reason may be NULL; what is beyond 250 bytes is cut.
 * Ownership: reason only until this returns.
 * Copies: reason.
 * Blocks: never. The other ranks hear of it when both sides are driven.
 * Threads: any; also from a callback.
 * Returns: TOW_OK, also when the group is aborted already; TOW_EINVAL; TOW_EBUSY: the group has a
 * number that can have no collectives; TOW_ENOMEM; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_group_abort(struct tow_group *group, const char *reason);

/*
 * Closes a group. Not collective, but a rank that still works with this one loses it: make a
 * barrier first. With the last group of the job its connections are closed: operations in flight
 * complete with TOW_ECLOSED, and rank 0's store serves on until all have said goodbye. Later calls
 * with the group get TOW_ECLOSED (tow_runtime_close says for how long).
 * Ownership: takes the group; NULL is legal.
 * Copies: none.
 * Blocks: the last one's, at rank 0, until the others have closed theirs or have died, at most two
 * seconds; at rank 0 of a group that was split, for a round trip to the store, at most one second.
 * Threads: any, while no other is inside a call with it; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL in a callback; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_group_close(struct tow_group *group);

#ifdef __cplusplus
}
#endif
#endif
