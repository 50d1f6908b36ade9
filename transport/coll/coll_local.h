/*
 * coll_local.h - collectives in the memory of one host: how far each rank has come, and where its
 * buffers are.
 */
#ifndef TWI_COLL_LOCAL_H
#define TWI_COLL_LOCAL_H

#include "transport/coll/coll_run.h"

struct twi_window_hold;
struct twi_window_ops;

/*
 * What a rank shows to the other ranks of its host: a slot for each seq modulo TWI_COLL_SLOTS. Only
 * its owner writes it. `phase` is written last: seq << 8 | the number of SYNCs that the rank has
 * come to. A reader that sees the first of them sees all else in the slot.
 */
struct twi_coll_slot {
	_Alignas(64) _Atomic uint64_t phase;
	_Atomic uint64_t signature;
	uint8_t cell[TWI_COLL_CELL];
	_Atomic uint64_t in_where, out_where; /* extent << 56 | offset; UINT64_MAX: not shown */
	/* the last seq that failed here: this rank no longer touches others' memory for it */
	_Atomic uint64_t left;
	/*
	 * coll_pipeline.h. outside: the seq for which this rank has memory outside the pool. ring:
	 * the seq for which its input is shown in a ring. step: seq << 16 | the step that it has
	 * come to; written last. halved: seq << 8 | how often pieces are halved, for its pool.
	 */
	_Atomic uint64_t outside, ring, step, halved;
};

/* Newer members lie in the former padding, so that older versions find the other members. */
_Static_assert(sizeof(struct twi_coll_slot) == 2112, "ranks of other versions read it");

struct twi_coll_region {
	_Alignas(64) _Atomic uint64_t finished; /* all seqs up to this one are over at this rank */
	_Atomic uint32_t cpu; /* the CPU it was last seen on, where ranks share CPUs; a hint */
	struct twi_coll_slot slots[TWI_COLL_SLOTS];
	struct twi_coll_region *older; /* for its owner only: engine->coll_regions */
};

/* Another rank of this host. */
struct twi_coll_local {
	uint32_t rank; /* of the group */
	bool self;
	bool gone; /* lost */
	struct tow_peer *peer;
	const struct twi_coll_region *region;
	const struct twi_window_ops *windows;
	struct twi_window_hold *hold; /* keeps its mappings (window.h) */
	uint64_t finished;            /* as last read */
};

/* Shows IN and OUT, and announces the next SYNC. Returns TOW_OK, TOW_AGAIN or a failure. */
int twi_coll_sync_post(struct twi_coll_run *run);
/* TOW_OK: all ranks have come to the SYNC. Else TOW_AGAIN, or TOW_EPEER: a rank has gone. */
int twi_coll_sync_test(struct twi_coll_run *run);
/*
 * Where ranks share CPUs: whether the missing ranks run on other CPUs, so that spinning for them
 * pays. If not, one of them may need this CPU.
 */
bool twi_coll_sync_elsewhere(const struct twi_coll_run *run);
/* Finds the address of a ref. TOW_OK; TOW_AGAIN: the memory is not mapped yet; or a failure. */
int twi_coll_resolve(struct twi_coll_run *run, const struct twi_coll_chain *chain,
		     const struct twi_plan_ref *ref, uint64_t bytes, bool write, void **out);
/* The same for IN or OUT of another rank, `further` bytes behind the ref. */
int twi_coll_resolve_window(struct twi_coll_run *run, const struct twi_coll_local *local,
			    const struct twi_plan_ref *ref, uint64_t further, uint64_t bytes,
			    bool write, void **out);
/* Finds a rank of this host. NULL: the rank is on another host. */
struct twi_coll_local *twi_coll_local_of(struct twi_coll_group *coll, uint32_t rank);
/* Writes to *where the location of memory of the pool, for all other ranks of the host. Returns
 * TOW_OK or TOW_AGAIN. */
int twi_coll_show_memory(struct twi_coll_group *coll, const void *memory, uint64_t bytes,
			 _Atomic uint64_t *where);
/* Wakes the ranks of this host, which may sleep until a value of the region changes. */
void twi_coll_wake_locals(struct twi_coll_group *coll);
/* Whether the slot of this seq may be written. */
bool twi_coll_slot_free(struct twi_coll_group *coll, uint64_t seq);
/* The run has failed here: others may go on without it. */
void twi_coll_slot_leave(struct twi_coll_run *run);
/* Whether other ranks may still use this rank's memory for the run. */
bool twi_coll_slot_in_use(const struct twi_coll_run *run);
void twi_coll_finished(struct twi_coll_group *coll);

#endif
