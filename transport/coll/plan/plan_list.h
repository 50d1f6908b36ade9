/*
 * plan_list.h - how a builder writes a plan: it appends steps to the open program, in its present
 * stage. Everything is counted in elements here, and in bytes in the plan.
 *
 * After a failure (no memory, too many steps) appending does nothing. So builders need not check;
 * twi_plan_build does. The calls that append leave out steps without bytes. They do so on both
 * sides of a message, since both sides know its count. Empty stages vanish.
 *
 * A run works on the elements [first, first + count) of the vector or of every part ("columns").
 * twi_plan_segments writes the programs for all of them.
 */
#ifndef TWI_PLAN_LIST_H
#define TWI_PLAN_LIST_H

#include "transport/coll/plan/plan.h"

#define TWI_PLAN_STEPS_MAX (1u << 20)
#define TWI_PLAN_REFS_MAX  (1u << 22)
/* peers that a rank exchanges with at once; bounds the memory of the lanes */
#define TWI_PLAN_PEERS 32u
#define TWI_PLAN_LINE  64u /* bytes; slices are cut at cache lines */
/* Plans that hold the whole payload in SCRATCH serve at most this much. */
#define TWI_PLAN_SMALL_BYTES (8u << 20)

struct twi_plan_hosts;

struct twi_plan_list {
	const struct twi_plan_case *what;
	struct twi_plan *plan;
	uint64_t unit;  /* bytes of an element */
	uint32_t stage; /* stage of the next step; twi_plan_close renumbers the stages */
	int status;     /* of the first failure */
	bool muted;     /* the REDUCE that is written has no bytes */
	uint32_t programs_room, steps_room, refs_room;
	/* v kinds: the offsets of the case, or computed ones, which the list owns. */
	const uint64_t *send_offsets, *recv_offsets;
	uint64_t *owned_offsets[2];
	const struct twi_plan_hosts *hosts; /* plan_hier.c */
};

/* In elements. */
struct twi_plan_range {
	uint64_t first, count;
};

uint64_t twi_plan_type_bytes(enum tow_type type);

/* A ref at an offset in elements. */
struct twi_plan_ref twi_plan_of(const struct twi_plan_list *list, uint32_t rank,
				enum twi_plan_space space, uint64_t first);
/* The same for the own rank. */
struct twi_plan_ref twi_plan_own(const struct twi_plan_list *list, enum twi_plan_space space,
				 uint64_t first);

void twi_plan_open(struct twi_plan_list *list, uint32_t repeats, bool fence, uint64_t stride);
void twi_plan_close(struct twi_plan_list *list);
void twi_plan_stage(struct twi_plan_list *list); /* begins the next stage */

void twi_plan_send(struct twi_plan_list *list, struct twi_plan_ref from, uint64_t count,
		   uint32_t peer, uint32_t tag);
void twi_plan_recv(struct twi_plan_list *list, struct twi_plan_ref to, uint64_t count,
		   uint32_t peer, uint32_t tag);
/* A message without bytes, for barriers. */
void twi_plan_signal(struct twi_plan_list *list, enum twi_plan_step_kind kind, uint32_t peer,
		     uint32_t tag);
void twi_plan_copy(struct twi_plan_list *list, struct twi_plan_ref to, struct twi_plan_ref from,
		   uint64_t count);
void twi_plan_zero(struct twi_plan_list *list, struct twi_plan_ref to, uint64_t count);
void twi_plan_sync(struct twi_plan_list *list);
/* Appends a REDUCE. All its results must follow, then all its sources. */
void twi_plan_reduce(struct twi_plan_list *list, uint64_t count, bool divide);
void twi_plan_result(struct twi_plan_list *list, struct twi_plan_ref ref);
void twi_plan_source(struct twi_plan_list *list, struct twi_plan_ref ref);

/* slice: part `index` of `parts` of the range, cut at cache lines. slice_max: the largest size. */
struct twi_plan_range twi_plan_slice(const struct twi_plan_list *list, struct twi_plan_range of,
				     uint32_t parts, uint32_t index);
uint64_t twi_plan_slice_max(const struct twi_plan_list *list, uint64_t count, uint32_t parts);

/*
 * The part of the run's columns that belongs to `rank`, in the buffer that has all parts. It is a
 * slice of the vector for all-reduce, reduce and broadcast. For other kinds it is the columns of
 * the rank's part.
 */
struct twi_plan_range twi_plan_block(const struct twi_plan_list *list, struct twi_plan_range run,
				     uint32_t rank);
uint64_t twi_plan_block_max(const struct twi_plan_list *list, struct twi_plan_range run);

typedef void (*twi_plan_run_fn)(struct twi_plan_list *list, struct twi_plan_range run);
/*
 * Writes programs for all columns: runs of equal length and a shorter last one. A run handles
 * `weight` times its columns, and cuts them into `parts` messages. The first program gets `fence`.
 */
void twi_plan_segments(struct twi_plan_list *list, uint32_t weight, uint32_t parts, bool fence,
		       twi_plan_run_fn run);
/* Writes one program with one run over all columns. */
void twi_plan_whole(struct twi_plan_list *list, bool fence, twi_plan_run_fn run);

/* PERMUTE: the rank that this one receives from, and the one it sends to. Negative: none. */
int64_t twi_plan_pair_source(const struct twi_plan_case *what);
int64_t twi_plan_pair_target(const struct twi_plan_case *what);

/* For the `fits` of rows. */
/* all parts together have at most TWI_PLAN_SMALL_BYTES */
bool twi_plan_is_small(const struct twi_plan_case *what);
bool twi_plan_few_sources(const struct twi_plan_case *what); /* one REDUCE takes all ranks */
bool twi_plan_fits_binomial(const struct twi_plan_case *what);
bool twi_plan_fits_local(const struct twi_plan_case *what);
bool twi_plan_fits_hierarchical(const struct twi_plan_case *what);
bool twi_plan_fits_cell(const struct twi_plan_case *what);

/* The builders. */
void twi_plan_build_ring(struct twi_plan_list *list);
void twi_plan_build_direct(struct twi_plan_list *list);
void twi_plan_build_exchange(struct twi_plan_list *list);
void twi_plan_build_binomial(struct twi_plan_list *list);
void twi_plan_build_local(struct twi_plan_list *list);
void twi_plan_build_local_all(struct twi_plan_list *list);
void twi_plan_build_cell(struct twi_plan_list *list);
void twi_plan_build_halving(struct twi_plan_list *list);
void twi_plan_build_doubling(struct twi_plan_list *list);
void twi_plan_build_double_tree(struct twi_plan_list *list);
void twi_plan_build_bruck(struct twi_plan_list *list);
void twi_plan_build_dissemination(struct twi_plan_list *list);
void twi_plan_build_hierarchical(struct twi_plan_list *list);

#endif
