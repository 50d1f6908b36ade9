/*
 * coll.h - collectives: what all ranks of a group do together, started and awaited separately.
 *
 *	tow_coll_all_reduce_start(group, in, out, count, TOW_F32, TOW_SUM, NULL, &op);
 *	...compute...
 *	tow_op_wait(op, TOW_FOREVER);
 *	tow_op_release(op);
 *
 * Every rank of the group starts the same collectives in the same order, any number of them, and
 * they may be awaited in any order. Those beyond TOW_COLL_IN_FLIGHT are held back, in their order,
 * until one before them has ended. They move while the caller computes (the knob background). Ranks
 * that disagree about a call end it with TOW_EMISMATCH, and the message names both sides. A rank
 * that dies, or never comes, ends it with TOW_EPEER or TOW_EDEADLINE at all others, and the message
 * names it; then the group is broken, and every later call of it fails with TOW_EPEER until
 * tow_group_shrink. What is in flight in a group when it breaks ends with it, collectives before
 * the one that failed included.
 * docs/collectives.md.
 *
 * Counts are in elements of `type`. They may be zero, and need not be multiples of anything.
 * Buffers may lie anywhere; between ranks of one host those in the pool (tow_alloc) are read and
 * written in place by the other ranks, and others are copied once each way, which is counted with
 * its reason. `in` and `out` may be the same where that is said; otherwise they must not overlap.
 *
 * The result is bitwise the same on every rank, and from run to run with the same ranks, lanes and
 * knobs; the knob reproducible makes it the same on every lane and with every plan, too.
 */
#ifndef TOWLINE_COLL_H
#define TOWLINE_COLL_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>
#include <towline/group.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_COLL_IN_FLIGHT 64u /* of one group; what is started beyond is held back */

/*
 * X(name, value, bytes, text). F8E4M3 and F8E5M2 are those of the OCP 8-bit floating point
 * specification, revision 1.0: the first has no infinities. A BOOL is a byte, 0 or 1. C64 and C128
 * are complex numbers: two of f32 and of f64, the real part first.
 */
#define TOW_TYPE_MAP(X)                                                                            \
	X(TOW_F32, 0, 4, "f32")                                                                    \
	X(TOW_F64, 1, 8, "f64")                                                                    \
	X(TOW_F16, 2, 2, "f16")                                                                    \
	X(TOW_BF16, 3, 2, "bf16")                                                                  \
	X(TOW_F8E4M3, 4, 1, "f8e4m3")                                                              \
	X(TOW_F8E5M2, 5, 1, "f8e5m2")                                                              \
	X(TOW_S8, 6, 1, "s8")                                                                      \
	X(TOW_S16, 7, 2, "s16")                                                                    \
	X(TOW_S32, 8, 4, "s32")                                                                    \
	X(TOW_S64, 9, 8, "s64")                                                                    \
	X(TOW_U8, 10, 1, "u8")                                                                     \
	X(TOW_U16, 11, 2, "u16")                                                                   \
	X(TOW_U32, 12, 4, "u32")                                                                   \
	X(TOW_U64, 13, 8, "u64")                                                                   \
	X(TOW_BOOL, 14, 1, "bool")                                                                 \
	X(TOW_C64, 15, 8, "c64")                                                                   \
	X(TOW_C128, 16, 16, "c128")

/* The type of the elements of a collective. */
enum tow_type {
#define TOW_TYPE_ENUM(name, value, bytes, text) name = value,
	TOW_TYPE_MAP(TOW_TYPE_ENUM)
#undef TOW_TYPE_ENUM
		TOW_TYPE_COUNT = 17
};

/*
 * X(name, value, text). Sums and products of f16, bf16 and f8 are computed in f32 and rounded to
 * nearest even once for each time that they are stored; integers wrap. AVG is the sum divided by
 * the number of ranks; of integers it is rounded toward zero. MIN and MAX of floats give a NaN when
 * any of the values is one, and hold -0 to be less than +0. AND, OR and XOR are for integers and
 * bool. Of bool, SUM and MAX are OR, PROD and MIN are AND, and there is no AVG. Complex numbers
 * have SUM, PROD and AVG: a product is (ac - bd) + (ad + bc)i, and each of its operations is
 * rounded.
 */
#define TOW_REDUCE_MAP(X)                                                                          \
	X(TOW_SUM, 0, "sum")                                                                       \
	X(TOW_PROD, 1, "prod")                                                                     \
	X(TOW_MIN, 2, "min")                                                                       \
	X(TOW_MAX, 3, "max")                                                                       \
	X(TOW_AVG, 4, "avg")                                                                       \
	X(TOW_AND, 5, "and")                                                                       \
	X(TOW_OR, 6, "or")                                                                         \
	X(TOW_XOR, 7, "xor")

/* The operator by which a collective reduces the elements of all ranks to one. */
enum tow_reduce {
#define TOW_REDUCE_ENUM(name, value, text) name = value,
	TOW_REDUCE_MAP(TOW_REDUCE_ENUM)
#undef TOW_REDUCE_ENUM
		TOW_REDUCE_COUNT = 8
};

/*
 * How many bytes an element has; 0 for a number that is no type.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint64_t tow_type_bytes(enum tow_type type);

/*
 * The name of a type, "f32"; "?" for a number that is none.
 * Ownership: the string is static.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
const char *tow_type_name(enum tow_type type);

/*
 * The name of an operator, "sum"; "?" for a number that is none.
 * Ownership: the string is static.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
const char *tow_reduce_name(enum tow_reduce reduce);

/*
 * How to start a collective. NULL in its place means TOW_COLL_OPTIONS_INIT. All ranks must give
 * the same plan and priority.
 */
struct tow_coll_options {
	size_t size;             /* sizeof(struct tow_coll_options) of the caller */
	uint64_t timeout_ns;     /* from now; 0: the knob coll_timeout_ns; TOW_FOREVER: none */
	tow_op_callback done;    /* or NULL */
	void *user;              /* handed back in the result */
	int32_t priority;        /* one of a higher goes first, at the next piece of a lower one */
	const char *plan;        /* the name of a plan, instead of the one that would be chosen */
	const char *name;        /* for diagnostics, of at most 31 bytes; NULL: none */
	struct tow_queue *queue; /* where the result goes; NULL: nowhere (queue.h) */
	/*
	 * Of all-reduce, reduce-scatter and reduce of floats and complex numbers: what this rank's
	 * elements are multiplied by, once, before they are reduced. Ranks may have different ones.
	 * 0: not set, as 1. The product is computed in f64 for f64 and c128, else in f32 with the
	 * factor rounded to f32, and is rounded to the type before the first operator.
	 */
	double scale;
};

/* The initial value of struct tow_coll_options. */
#define TOW_COLL_OPTIONS_INIT                                                                      \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_coll_options)), TOW_MEMBER(timeout_ns, 0),      \
			TOW_MEMBER(done, NULL), TOW_MEMBER(user, NULL), TOW_MEMBER(priority, 0),   \
			TOW_MEMBER(plan, NULL), TOW_MEMBER(name, NULL), TOW_MEMBER(queue, NULL),   \
			TOW_MEMBER(scale, 0)                                                       \
	}

/*
 * Starts an all-reduce: every rank gets the reduction of all `in`, of `count` elements. in == out
 * is legal. What follows holds for all that start a collective.
 * Ownership: the buffers stay the caller's, and must not be touched (`in` not written, `out`
 * neither read nor written) until completion; arrays of counts, offsets and pairs, and options, are
 * only read before the call returns. *op_out is the caller's until tow_op_release; it may be NULL
 * where options->done is set.
 * Copies: docs/copies.md has a line for each plan.
 * Blocks: never.
 * Threads: any, not at once for one group: the order of calls is the order of the collectives.
 * Returns: TOW_OK when started, or held back; TOW_EINVAL naming the argument; TOW_EBUSY when all
 * max_ops operations are in use; TOW_EPEER: the group is broken; TOW_ENOMEM; TOW_EEXHAUSTED;
 * TOW_EFORKED. A plan that does not fit is TOW_EINVAL or TOW_ENOTSUP here, or of the operation
 * where it was held back. The operation ends with TOW_OK; TOW_EMISMATCH: ranks have called it
 * with other arguments, or another collective; TOW_EPEER: a rank has gone; TOW_EREFUSED: the knob
 * require of a rank refused a connection; TOW_EDEADLINE: ranks have not come, or not finished;
 * TOW_ECANCELED: some rank has canceled it; TOW_EEXHAUSTED, TOW_ENOMEM, TOW_EZEROCOPY: some rank
 * had no memory for it; TOW_ECLOSED. Every failure has a message at every rank (tow_error_message
 * after tow_op_wait or tow_op_test).
 */
int tow_coll_all_reduce_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			      enum tow_type type, enum tow_reduce reduce,
			      const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts a reduce-scatter: rank r gets elements r * count up to (r + 1) * count of the reduction.
 * `in` has count for each rank, `out` has count. `out` may be the rank's own part of `in`.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_reduce_scatter_start(struct tow_group *group, const void *in, void *out,
				  uint64_t count, enum tow_type type, enum tow_reduce reduce,
				  const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts an all-gather: every rank gets the `count` elements of every rank, one after another. `in`
 * may be the rank's own part of `out`.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_all_gather_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			      enum tow_type type, const struct tow_coll_options *options,
			      struct tow_op **op_out);

/*
 * Starts an all-gather of parts of any length. Rank r has counts[r] elements, which go to
 * offsets[r] of `out` (both in elements, the same at all ranks). offsets NULL: one after another.
 * Parts must not overlap.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_all_gather_v_start(struct tow_group *group, const void *in, void *out,
				const uint64_t *counts, const uint64_t *offsets, enum tow_type type,
				const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts a broadcast: every rank's `data` becomes that of rank `root`, whose own is only read: it
 * may be read-only memory.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_broadcast_start(struct tow_group *group, void *data, uint64_t count,
			     enum tow_type type, uint32_t root,
			     const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts a reduce: rank `root` gets the reduction. `out` of others is not used. in == out is legal
 * at the root.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_reduce_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			  enum tow_type type, enum tow_reduce reduce, uint32_t root,
			  const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts a gather: rank `root` gets the `count` elements of every rank. Its `in` may be its own
 * part of `out`.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_gather_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			  enum tow_type type, uint32_t root, const struct tow_coll_options *options,
			  struct tow_op **op_out);

/*
 * Starts a scatter: rank r gets part r, of `count` elements, of the root's `in`. The root's `out`
 * may be its own part.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_scatter_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			   enum tow_type type, uint32_t root,
			   const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Starts an all-to-all: part p, of `count` elements, of `in` goes to rank p, and part p of `out` is
 * rank p's. in == out is legal, at all ranks or none.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_all_to_all_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			      enum tow_type type, const struct tow_coll_options *options,
			      struct tow_op **op_out);

/* Parts of an all-to-all: for each rank how many elements, and where, in elements. */
struct tow_coll_parts {
	const uint64_t *counts;
	const uint64_t *offsets; /* NULL: one after another */
};

/*
 * Starts an all-to-all with parts of any length. What p sends q (send->counts[q] at p) and what q
 * receives of p (receive->counts[p] at q) must be the same, else TOW_EMISMATCH; where only one of
 * them is zero, TOW_EDEADLINE, or nothing if it is the receiver's. in and out must not overlap.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_all_to_all_v_start(struct tow_group *group, const void *in,
				const struct tow_coll_parts *send, void *out,
				const struct tow_coll_parts *receive, enum tow_type type,
				const struct tow_coll_options *options, struct tow_op **op_out);

/* One transfer of a permutation: rank source gives, rank target gets. */
struct tow_coll_pair {
	uint32_t source, target;
};

/*
 * Starts a permutation: each pair's target gets the `count` elements of its source, as XLA's
 * collective-permute has it. A rank is the source of at most one pair and the target of at most
 * one; `out` of a rank that is no target becomes zeros. The pairs, pair_count of them, are the same
 * at all ranks.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_permute_start(struct tow_group *group, const void *in, void *out, uint64_t count,
			   enum tow_type type, const struct tow_coll_pair *pairs,
			   uint32_t pair_count, const struct tow_coll_options *options,
			   struct tow_op **op_out);

/*
 * Starts a barrier, which ends when every rank has started it.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_barrier_start(struct tow_group *group, const struct tow_coll_options *options,
			   struct tow_op **op_out);

/*
 * Starts to send `in` to rank target and to receive `out` from rank source, `count` elements each.
 * TOW_GROUP_NONE as target or source: the rank does not send, or does not receive. Every rank of
 * the group calls it, and a rank that is named must name the other one back. Names are not
 * compared: a rank whose partner does not name it waits until its deadline (TOW_EDEADLINE).
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_all_reduce_start.
 */
int tow_coll_send_receive_start(struct tow_group *group, const void *in, int64_t target, void *out,
				int64_t source, uint64_t count, enum tow_type type,
				const struct tow_coll_options *options, struct tow_op **op_out);

/*
 * Begins a batch: what is started from now on is issued at tow_coll_batch_end. All-reduces of one
 * type, operator, plan and priority that follow each other are fused there as long as they have at
 * most combine_threshold_bytes together: each is copied into one buffer and its result out of it,
 * and has its own operation. They share the earliest of their deadlines; who cancels one cancels
 * all. One whose deadline passes, or that is canceled, before it is issued breaks the group. With
 * the knob combine the same is done without the calls: small all-reduces wait until a collective is
 * started that cannot be fused with them, one of them is awaited or tested, or tow_flush is called.
 * All ranks must fuse alike, else TOW_EMISMATCH.
 * Ownership: none passes.
 * Copies: of fused ones one in, one out, counted.
 * Blocks: never.
 * Threads: as the starts.
 * Returns: TOW_OK; TOW_EINVAL for a NULL group, an end without a start, or a start within a start;
 * TOW_EBUSY, TOW_ENOMEM; TOW_EFORKED. Failures to issue come as the operations' status.
 */
int tow_coll_batch_begin(struct tow_group *group);

/*
 * Issues what was started since tow_coll_batch_begin.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_coll_batch_begin.
 */
int tow_coll_batch_end(struct tow_group *group);

/*
 * Makes a group of those ranks that still live, in their order, out of one that is broken (or
 * whole). Collective among them. Operations of the old group have ended, or end with TOW_EPEER. The
 * ranks agree by themselves; a group that lives on without the job's rank 0, which serves the
 * store, cannot be split (TOW_EPEER). A rank that was in time for nobody (TOW_EDEADLINE) may call
 * again. Groups that share ranks are shrunk in the same order at all of those.
 * Ownership: *group_out is the caller's until tow_group_close; the old group is still to be closed.
 * Copies: none.
 * Blocks: until the survivors agree, at most timeout_ns and half a second.
 * Threads: any, once for a group; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL; TOW_EDEADLINE naming who has neither come nor gone; TOW_EMISMATCH:
 * the others hold this rank to be dead; TOW_EBUSY: the job has shrunk groups 4095 times, or in
 * different orders; TOW_ENOMEM; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_group_shrink(struct tow_group *group, uint64_t timeout_ns, struct tow_group **group_out);

#ifdef __cplusplus
}
#endif
#endif
