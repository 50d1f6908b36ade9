/*
 * coll_call.h - one rank's call of a case: its buffers, in the pool or not, with guards around
 * them, and its operation.
 */
#ifndef TWT_COLL_CALL_H
#define TWT_COLL_CALL_H

#include "coll_judge.h"

#include <towline/towline.h>

#include "transport/coll/coll.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"

struct twt_coll_call {
	const struct twt_coll_case *of;
	uint32_t rank; /* of the group */
	struct tow_group *group;
	struct tow_op *op;
	struct twt_plan_memory memory;
	bool pool[2];       /* owned[] is the runtime's */
	bool fused;         /* perhaps: it has no plan of its own */
	_Atomic int called; /* the callback, so many times */
	unsigned char *before;
};

/* Bytes in front of the guard, so that elements lie at any multiple of their size. */
#define TWT_COLL_SHIFTS 64u

void twt_coll_call_init(struct twt_coll_call *call, const struct twt_coll_case *c, uint32_t rank,
			struct tow_group *group, uint64_t random);

void twt_coll_call_fini(struct twt_coll_call *call);

int twt_coll_call_start(struct twt_coll_call *call);

/* The same, where the caller counts `called`: it has the options but for the case's own. */
int twt_coll_call_start_by(struct twt_coll_call *call, struct tow_coll_options *options);

/* The operation has ended with TOW_OK. Returns the hash of its result; says what is wrong. */
uint64_t twt_coll_call_end(struct twt_coll_call *call, const struct twt_coll_truth *truth,
			   bool *wrong);

#endif
