/*
 * coll_local.h - collectives in the memory of one host: who has come how far, and where buffers
 * are.
 */
#ifndef TWI_COLL_LOCAL_H
#define TWI_COLL_LOCAL_H

#include "transport/coll/coll_run.h"

struct twi_window_hold;
struct twi_window_ops;

/*
 * What a rank shows to the others of its host: a slot for each seq modulo TWI_COLL_SLOTS. Only its
 * owner writes it. `phase` is written last: seq << 8 | SYNCs come to; with the first of them all
 * else in the slot is there.
 */
struct twi_coll_slot {
	_Alignas(64) _Atomic uint64_t phase;
	_Atomic uint64_t signature;
	uint8_t cell[TWI_COLL_CELL];
	_Atomic uint64_t in_where, out_where; /* extent << 56 | offset; UINT64_MAX: not shown */
	_Atomic uint64_t left; /* seq that this rank reads and writes no memory of others for */
	/*
	 * coll_pipeline.h. Seq that this rank has memory outside the pool for; that its input is
	 * shown in a ring for; seq << 16 | step that it has come to, written last.
	 */
	_Atomic uint64_t outside, ring, step;
};

/* What is younger lies where there was room, so that versions without it find the rest. */
_Static_assert(sizeof(struct twi_coll_slot) == 2112, "ranks of other versions read it");

struct twi_coll_region {
	_Alignas(64) _Atomic uint64_t finished; /* all seqs up to this one are over here */
	_Atomic uint32_t cpu; /* on which it was last, where ranks share CPUs; a hint */
	struct twi_coll_slot slots[TWI_COLL_SLOTS];
	struct twi_coll_region *older; /* its owner's: engine->coll_regions */
};

/* Another rank of this host. */
struct twi_coll_local {
	uint32_t rank; /* of the group */
	bool self;
	bool gone; /* lost */
	bool left; /* it has closed the group, and reads nothing of it any more */
	struct tow_peer *peer;
	const struct twi_coll_region *region;
	const struct twi_window_ops *windows;
	struct twi_window_hold *hold; /* on its mappings (window.h) */
	uint64_t finished;            /* as last read */
	/* While it is set up: where its region is. */
	bool told;
	uint32_t extent;
	uint64_t offset;
};

/* Shows IN and OUT, and comes to the next SYNC. TOW_OK, TOW_AGAIN or a failure. */
int twi_coll_sync_post(struct twi_coll_run *run);
/* TOW_OK: all have come to it; TOW_AGAIN; TOW_EMISMATCH. */
int twi_coll_sync_test(struct twi_coll_run *run);
/*
 * Where ranks share CPUs: whether those that have not come to it run elsewhere, so that it pays to
 * wait for them. Else one of them may need this CPU.
 */
bool twi_coll_sync_elsewhere(const struct twi_coll_run *run);
/* Where a ref is. TOW_OK; TOW_AGAIN: not to be seen yet; or a failure. */
int twi_coll_resolve(struct twi_coll_run *run, const struct twi_coll_chain *chain,
		     const struct twi_plan_ref *ref, uint64_t bytes, bool write, void **out);
/* The same of IN or OUT of another rank, `further` bytes on. */
int twi_coll_resolve_window(struct twi_coll_run *run, const struct twi_coll_local *local,
			    const struct twi_plan_ref *ref, uint64_t further, uint64_t bytes,
			    bool write, void **out);
/* A rank of this host; NULL: it is none. */
struct twi_coll_local *twi_coll_local_of(struct twi_coll_group *coll, uint32_t rank);
/* Writes where memory of the pool is for every other rank of the host. TOW_OK or TOW_AGAIN. */
int twi_coll_show_memory(struct twi_coll_group *coll, const void *memory, uint64_t bytes,
			 _Atomic uint64_t *where);
/* A word was written that they may sleep on. */
void twi_coll_wake_locals(struct twi_coll_group *coll);
/* Whether the slot of this seq may be written. */
bool twi_coll_slot_free(struct twi_coll_group *coll, uint64_t seq);
/* The run is over here: others may go on without it. */
void twi_coll_slot_leave(struct twi_coll_run *run);
/* Whether others may still be at work on this rank's memory for it. */
bool twi_coll_slot_in_use(const struct twi_coll_run *run);
void twi_coll_finished(struct twi_coll_group *coll);

#endif
