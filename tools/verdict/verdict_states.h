/*
 * verdict_states.h - the verdict on ranks that no group of Towline joins. It judges the states of
 * /v1/state from two looks, by the rules of the library (diag/judge/verdict.h). It serves jobs
 * whose bytes another library carries, where each rank has a runtime of its own (docs/verdict.md).
 */
#ifndef VERDICT_STATES_H
#define VERDICT_STATES_H

#include <stddef.h>
#include <stdint.h>

/* One answer of /v1/state, with the times of request and answer, by CLOCK_MONOTONIC. */
struct states_look {
	const unsigned char *bytes; /* NULL: no answer */
	size_t count;
	uint64_t asked_ns, came_ns;
};

struct states_rank {
	uint32_t rank; /* from the name of its socket; the rank in its state has priority */
	struct states_look looks[2];
	uint64_t pid;       /* of the listening process; 0: unknown */
	char process_state; /* as in /proc; 0: unknown, or no process */
};

/*
 * True: the first looks show a job of this kind. Some ranks have a group of another library with
 * several ranks, and none is in a group of Towline.
 */
int states_are_joined(const struct states_rank *ranks, size_t count);

/*
 * Returns the document of /v1/verdict with two more members: `joined`, and `ranks_elsewhere`, the
 * number of ranks of the largest group that are not among these. The caller frees it with free().
 * NULL: no memory.
 */
char *states_verdict(const struct states_rank *ranks, size_t count);

#endif
