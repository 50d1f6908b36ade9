/*
 * plan.h - a plan: what one rank does in one collective, as data. Builders are pure functions of a
 * twi_plan_case. The executor (coll_run.c) and the interpreter of the tests walk the result.
 *
 *	plan --> programs --> steps, in stages
 *
 * A *program* is a list of steps that is walked `repeats` times. Run k works on the k-th segment of
 * the payload: k * stride is added to every offset in IN and OUT. Runs are independent of each
 * other, so several of them are under way at once (`depth`), in order of program, then k. This
 * fills a link and overlaps reductions with transfers. A run has a scratch slot to itself while it
 * is under way. Offsets in SCRATCH are within this slot of scratch_bytes, which starts at a cache
 * line. All ranks of the group have the same programs with the same `repeats`, so all runs have a
 * common numbering. A rank may have no steps in some runs. When no rank has anything to do (a count
 * of zero), there are no programs at all.
 *
 * The steps of a run are grouped in *stages* (0, 1, 2, ...). All steps of one stage may be done at
 * once and in any order; the next stage begins when all of it is complete. A SEND is complete when
 * its bytes may be overwritten, and a RECV when its bytes are there. A SYNC is complete when every
 * rank of `locals` has come to it. The executor lets a SEND last longer, and a RECV begin earlier,
 * where that changes nothing (coll_early.c).
 *
 * Messages are matched by sender, receiver, (program, k) and `tag`. Within a run, the builder gives
 * each message of one pair and direction a tag of its own, the same on both sides. A message may be
 * sent long before its receiver comes to the RECV. A RECV writes only the bytes of its message, so
 * it writes after all that the sender did before the SEND. A rank sends nothing to itself. Only the
 * messages of barriers have no bytes; other steps without bytes are left out.
 *
 * A *ref* names memory: the rank that owns it, the buffer, and the offset in it. A builder names
 * other ranks only if they are among `locals`, and only after a SYNC that they are in, too.
 *	IN, OUT   the caller's buffers. Where in-place makes them one, a builder knows (in_place).
 *	          A broadcast has IN at the root and OUT at the others, both are its `data`. No plan
 *	          touches OUT of a reduce or a gather, nor IN of a scatter, but at the root.
 *	SCRATCH   of the run, this rank's own, not seen by others
 *	CELL      small memory of a rank that the ranks of its host read: a builder has cell_bytes
 *	          of each rank. Only its owner writes it (COPY to the own CELL), in the first
 *	          stage; others read it after a SYNC. There is no second SYNC after the reads: the
 *	          executor makes sure that a cell is not written again too early.
 *
 * A result of a REDUCE may lie where one of its own sources does, maybe under another name (OUT and
 * IN in place). Otherwise, no step that may be under way at the same time touches what a step
 * writes. This holds for steps of the stage, of other runs and of other ranks.
 *
 * Every plan of a case must give every element the same operands in the same order at all ranks.
 * `canonical` says that this order is that of the ranks (rank 0 first, all in one REDUCE).
 * Canonical plans agree bitwise with each other: the knob reproducible chooses among them.
 */
#ifndef TWI_PLAN_H
#define TWI_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/coll.h>

#include "diag/record/coll_kind.h"

/* Whether the kind computes. For the other kinds every plan gives bitwise the same result. */
bool twi_coll_kind_reduces(enum twi_coll_kind kind);

#define TWI_PLAN_RUNS_MAX    65535u /* of all programs together */
#define TWI_PLAN_SOURCES_MAX 1024u  /* sources of a REDUCE; the same bound holds for its results */

enum twi_plan_space { TWI_PLAN_IN, TWI_PLAN_OUT, TWI_PLAN_SCRATCH, TWI_PLAN_CELL };

struct twi_plan_ref {
	uint32_t rank;
	uint8_t space; /* enum twi_plan_space */
	uint64_t offset;
};

enum twi_plan_step_kind {
	TWI_PLAN_SEND,   /* sends refs[0], own memory, to `peer` */
	TWI_PLAN_RECV,   /* receives into refs[0], own memory, from `peer` */
	TWI_PLAN_COPY,   /* refs[0] <- refs[1] */
	TWI_PLAN_REDUCE, /* the first results_n refs <- the sources_n that follow, in their order */
	TWI_PLAN_ZERO,   /* refs[0] becomes zeros */
	TWI_PLAN_SYNC,   /* meets all ranks of `locals`; each of them counts the same SYNCs */
};

struct twi_plan_step {
	uint8_t kind;
	bool divide;    /* REDUCE with AVG: it is the last one of its elements, so it divides */
	uint16_t stage; /* within the run, from 0, ascending along the list */
	uint16_t tag;   /* SEND, RECV */
	uint32_t peer;  /* SEND, RECV: rank of the group */
	uint32_t ref;   /* index of its first ref in plan->refs */
	uint32_t results_n, sources_n;
	uint64_t bytes; /* bytes of each ref; a multiple of the type's size */
};

struct twi_plan_program {
	uint32_t first, count; /* steps */
	uint32_t repeats;
	bool fence; /* begins when every run of the earlier programs is complete */
	uint64_t in_stride, out_stride; /* of IN and OUT of every rank that a ref names */
};

/* The case that a plan is built for. Counts and offsets are in elements. */
struct twi_plan_case {
	enum twi_coll_kind kind;
	enum tow_type type;
	enum tow_reduce reduce;
	uint32_t rank, ranks, root;
	uint64_t count;
	bool in_place; /* `in` is `out`, or lies where the call allows it in place */
	/* A rank may write to OUT of other ranks of its host; the same at all ranks. */
	bool peers_write;
	/*
	 * For v kinds, else NULL. ALL_TO_ALL_V: those of this rank's own call. ALL_GATHER_V:
	 * recv_counts and recv_offsets have the parts of all ranks; `count` and send_* are not
	 * read. Offsets NULL: the parts lie one after another.
	 */
	const uint64_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
	const struct tow_coll_pair *pairs; /* PERMUTE */
	uint32_t pair_count;
	int64_t target, source; /* SEND_RECEIVE; TOW_GROUP_NONE: none */
	/*
	 * `locals` are the ranks that share this rank's host and memory, this one included,
	 * ascending. All ranks have the same picture of this. hosts[r] is the number of the host of
	 * rank r, from 0; NULL: every rank is alone.
	 */
	const uint32_t *locals;
	uint32_t locals_n;
	const uint32_t *hosts;
	uint32_t hosts_n;
	uint64_t cell_bytes; /* of one rank; 0: there are no cells */
	/*
	 * Bytes that a run works on, roughly. They count the vector (all-reduce, reduce,
	 * broadcast), all parts together (reduce-scatter), or each part where parts are only moved.
	 * A run works on more where 65,535 runs would not suffice, or messages would have less than
	 * 4 KiB. The same at all ranks.
	 */
	uint64_t segment_bytes;
	uint32_t depth; /* runs under way at once, from 1; the same at all ranks */
};

struct twi_plan {
	const char *name; /* of its row in the table */
	bool canonical;
	uint32_t depth;
	uint64_t scratch_bytes; /* of one slot; there are `depth` slots */
	uint32_t syncs;         /* in total; a program with a SYNC has one run, and is fenced */
	uint32_t messages_max;  /* SENDs and RECVs in the largest stage */
	uint32_t program_count, step_count, ref_count;
	struct twi_plan_program *programs;
	struct twi_plan_step *steps;
	struct twi_plan_ref *refs;
};

struct twi_plan_list; /* plan_list.h: what builders write a plan with */

/* One algorithm. The table has all of them; docs/collectives.md has a line for each. */
struct twi_plan_row {
	const char *name; /* "ring" */
	const char *what; /* one line of help */
	uint32_t kinds;   /* a bit for each enum twi_coll_kind */
	bool canonical;
	bool local; /* usable only where all ranks share one host's memory */
	/*
	 * Whether it can serve a case of its kinds with more than one rank, and with something to
	 * do. The answer is the same at all ranks for the same call. So it reads nothing that
	 * differs between ranks, such as rank, in_place and the counts of an all-to-all-v. NULL: it
	 * always can.
	 */
	bool (*fits)(const struct twi_plan_case *what);
	void (*build)(struct twi_plan_list *list); /* a failure is kept in the list */
};
extern const struct twi_plan_row twi_plan_rows[];
extern const unsigned twi_plan_row_count;

const struct twi_plan_row *twi_plan_find(const char *name);

/* The names of all plans, with commas, for messages. */
#define TWI_PLAN_NAMES_BYTES 256
void twi_plan_names(char out[TWI_PLAN_NAMES_BYTES]);

/* Whether the row can serve the case. Every row of the kind serves one rank, and a count of 0. */
bool twi_plan_fits(const struct twi_plan_row *row, const struct twi_plan_case *what);

/*
 * Returns TOW_OK; TOW_ENOMEM; TOW_ENOTSUP: the row does not fit the case; TOW_EINVAL: an impossible
 * case (a root beyond the ranks, sizes beyond 64 bits). The plan does not refer to the case.
 */
int twi_plan_build(const struct twi_plan_row *row, const struct twi_plan_case *what,
		   struct twi_plan **plan_out);
void twi_plan_free(struct twi_plan *plan);

/* The refs of a step. NULL in a plan that has none at all. */
static inline struct twi_plan_ref *twi_plan_refs(const struct twi_plan *plan,
						 const struct twi_plan_step *step)
{
	return plan->refs != NULL ? &plan->refs[step->ref] : NULL;
}

#endif
