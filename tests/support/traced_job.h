/*
 * traced_job.h - the trace of a made-up training job, for what draws traces: all ranks compute,
 * reduce three buckets of gradients over the network, and send activations to the next.
 *
 * What is planted: rank `slow` computes a third longer; transfers from rank 0 to rank 1 take three
 * times as long; rank 0 copies and registers late; names that no page may take for markup.
 */
#ifndef TWT_TRACED_JOB_H
#define TWT_TRACED_JOB_H

#include "diag/record/coll_kind.h"
#include "diag/record/counter.h"
#include "diag/record/lane_id.h"
#include "traced.h"
#include "twt_random.h"

#define TWT_JOB_STEP_NS 24000000u
#define TWT_JOB_HOSTILE "</style><script>alert(1)</script>\"'&\xff\xe2\x80\xae"

struct twt_job {
	struct twt_build *b;
	uint64_t random;
	size_t ranks, slow;
};

/* At most 64 ranks. End it with twt_build_fini. */
void twt_job_make(struct twt_build *b, uint64_t seed, size_t ranks, unsigned steps);

#endif
