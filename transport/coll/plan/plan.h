/*
 * plan.h - a plan: what one rank does in one collective, as data. Builders are pure functions of a
 * twi_plan_case; the executor (coll_run.c) walks the result, and so does the tests' interpreter.
 *
 *	plan --> programs --> steps, in stages
 *
 * A *program* is a list of steps that is walked `repeats` times: run k works on the k-th segment of
 * the payload, with k * stride added to every offset in IN and OUT. Runs are independent of each
 * other, so several of them are under way at once (`depth`), in order of program, then k; that is
 * what fills a link and overlaps reductions with transfers. A scratch slot belongs to a run while
 * it is under way: offsets in SCRATCH are within the slot of scratch_bytes, which starts at a cache
 * line. All ranks of the group have the same programs with the same `repeats`, so the runs can be
 * numbered through, though in some of them a rank may have no steps. With nothing to do at any rank
 * (a count of zero) there are no programs at all.
 *
 * Within a run steps are grouped in *stages* (0, 1, 2, ...): all steps of one stage may be done at
 * once and in any order; the next stage begins when all of it is complete. A SEND is complete when
 * its bytes may be overwritten, a RECV when they are there, a SYNC when every rank of `locals` has
 * come to it. (The executor lets a SEND last, and a RECV begin, where that changes nothing:
 * coll_early.c.)
 *
 * Messages are matched by sender, receiver, (program, k) and `tag`: the builder gives each message
 * of one pair and direction within a run a tag of its own, the same on both sides. It may be sent
 * long before its receiver comes to the RECV, and a RECV writes only what its message brings, so
 * after all that the sender has done before. A rank sends nothing to itself. Only the messages of
 * barriers have no bytes; of other steps those without bytes are left out.
 *
 * Memory is named by a *ref*: whose (a rank of the group; a builder names other ranks only where
 * they are among `locals`, after a SYNC that they are in, too), which buffer, and the offset in it.
 *	IN, OUT   the caller's buffers. Where in-place makes them one, a builder knows (in_place).
 *	          A broadcast has IN at the root and OUT at the others, both are its `data`. No plan
 *	          touches OUT of a reduce or a gather, nor IN of a scatter, but at the root.
 *	SCRATCH   of the run, this rank's own, not seen by others
 *	CELL      small memory of a rank that the ranks of its host read: a builder has cell_bytes
 *	          of each rank; only its owner writes it (COPY to the own CELL), in the first
 *	          stage; others read it after a SYNC. No second SYNC tells that they have: the
 *	          executor sees to it that a cell is not written again before that.
 *
 * A result of a REDUCE may lie where one of its own sources does (the same address, maybe by
 * another name: OUT and IN in place). Else what one step writes no other touches that may be under
 * way, of the stage, of another run or of another rank.
 *
 * Every plan of a case must give every element the same operands in the same order at all ranks.
 * `canonical` says that the order is that of the ranks (rank 0 first, all in one REDUCE), so that
 * plans that say so agree bitwise: the knob reproducible chooses among those.
 */
#ifndef TWI_PLAN_H
#define TWI_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/coll.h>

#include "diag/record/coll_kind.h"

/* Whether it computes: for the others every plan gives bitwise the same. */
bool twi_coll_kind_reduces(enum twi_coll_kind kind);

#define TWI_PLAN_RUNS_MAX    65535u /* of all programs together */
#define TWI_PLAN_SOURCES_MAX 1024u  /* of a REDUCE, and results */

enum twi_plan_space { TWI_PLAN_IN, TWI_PLAN_OUT, TWI_PLAN_SCRATCH, TWI_PLAN_CELL };

struct twi_plan_ref {
	uint32_t rank;
	uint8_t space; /* enum twi_plan_space */
	uint64_t offset;
};

enum twi_plan_step_kind {
	TWI_PLAN_SEND,   /* refs[0], own, to `peer` */
	TWI_PLAN_RECV,   /* into refs[0], own, from `peer` */
	TWI_PLAN_COPY,   /* refs[0] <- refs[1] */
	TWI_PLAN_REDUCE, /* the first results_n refs <- the sources_n that follow, in their order */
	TWI_PLAN_ZERO,   /* refs[0] becomes zeros */
	TWI_PLAN_SYNC,   /* with all ranks of `locals`; it is the same number-th at all of them */
};

struct twi_plan_step {
	uint8_t kind;
	bool divide;    /* REDUCE with AVG: this is the last one of the element, divide */
	uint16_t stage; /* within the run, from 0, ascending along the list */
	uint16_t tag;   /* SEND, RECV */
	uint32_t peer;  /* SEND, RECV: rank of the group */
	uint32_t ref;   /* index of the first of its refs in plan->refs */
	uint32_t results_n, sources_n;
	uint64_t bytes; /* of each ref; a multiple of the type's */
};

struct twi_plan_program {
	uint32_t first, count; /* steps */
	uint32_t repeats;
	bool fence; /* begins when every run of the programs before it is complete */
	uint64_t in_stride, out_stride; /* of IN and OUT of every rank that a ref names */
};

/* What a plan is made for. Counts are in elements, parts in elements, too. */
struct twi_plan_case {
	enum twi_coll_kind kind;
	enum tow_type type;
	enum tow_reduce reduce;
	uint32_t rank, ranks, root;
	uint64_t count;
	bool in_place; /* `in` is `out`, or the part of it that the call allows */
	/* A rank may write to OUT of others of its host; the same at all ranks. */
	bool peers_write;
	/*
	 * v kinds, else NULL. ALL_TO_ALL_V: of this rank's own call. ALL_GATHER_V: recv_counts and
	 * recv_offsets, the parts of all ranks; `count` is not looked at, send_* neither. Offsets
	 * NULL: one after another.
	 */
	const uint64_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
	const struct tow_coll_pair *pairs; /* PERMUTE */
	uint32_t pair_count;
	int64_t target, source; /* SEND_RECEIVE; TOW_GROUP_NONE: none */
	/*
	 * Which ranks share this rank's host and memory, itself among them, ascending; all ranks
	 * have the same idea of it. hosts[r] is a number of the host of rank r, from 0; NULL: every
	 * rank is alone.
	 */
	const uint32_t *locals;
	uint32_t locals_n;
	const uint32_t *hosts;
	uint32_t hosts_n;
	uint64_t cell_bytes; /* of one rank; 0: there are no cells */
	/*
	 * A run works on about so much: of the vector (all-reduce, reduce, broadcast), of all parts
	 * together (reduce-scatter), of each part where they are moved only. It is more where
	 * 65,535 runs would not do, or messages would have less than 4 KiB. The same at all ranks.
	 */
	uint64_t segment_bytes;
	uint32_t depth; /* runs at once, from 1; the same at all ranks */
};

struct twi_plan {
	const char *name; /* of its row in the table */
	bool canonical;
	uint32_t depth;
	uint64_t scratch_bytes; /* of one slot; there are `depth` */
	uint32_t syncs;         /* in all; a program with SYNC has one run, and is fenced */
	uint32_t messages_max;  /* SENDs and RECVs in the largest stage */
	uint32_t program_count, step_count, ref_count;
	struct twi_plan_program *programs;
	struct twi_plan_step *steps;
	struct twi_plan_ref *refs;
};

struct twi_plan_list; /* plan_list.h: how builders write a plan */

/* One algorithm. The table is all there are; docs/collectives.md has a line for each. */
struct twi_plan_row {
	const char *name; /* "ring" */
	const char *what; /* one line of help */
	uint32_t kinds;   /* bit of enum twi_coll_kind */
	bool canonical;
	bool local; /* only where all ranks share one host's memory */
	/*
	 * Whether it can serve a case of its kinds with more than one rank, and something to do:
	 * the same answer at all ranks for the same call (it looks at nothing that differs between
	 * them, as rank, in_place and counts of an all-to-all-v do). NULL: always.
	 */
	bool (*fits)(const struct twi_plan_case *what);
	void (*build)(struct twi_plan_list *list); /* a failure stands in the list */
};
extern const struct twi_plan_row twi_plan_rows[];
extern const unsigned twi_plan_row_count;

const struct twi_plan_row *twi_plan_find(const char *name);

/* The names of all, with commas, for messages. */
#define TWI_PLAN_NAMES_BYTES 256
void twi_plan_names(char out[TWI_PLAN_NAMES_BYTES]);

/* Whether the row can serve the case. Every row of the kind serves one rank, and a count of 0. */
bool twi_plan_fits(const struct twi_plan_row *row, const struct twi_plan_case *what);

/*
 * TOW_OK; TOW_ENOMEM; TOW_ENOTSUP when the row does not fit the case; TOW_EINVAL for a case that is
 * none (a root beyond the ranks, sizes beyond 64 bits). The plan keeps nothing of the case.
 */
int twi_plan_build(const struct twi_plan_row *row, const struct twi_plan_case *what,
		   struct twi_plan **plan_out);
void twi_plan_free(struct twi_plan *plan);

/* The references of a step of it. NULL in a plan of barriers alone, which has none. */
static inline struct twi_plan_ref *twi_plan_refs(const struct twi_plan *plan,
						 const struct twi_plan_step *step)
{
	return plan->refs != NULL ? &plan->refs[step->ref] : NULL;
}

#endif
