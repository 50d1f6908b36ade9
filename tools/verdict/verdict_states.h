/*
 * verdict_states.h - the verdict on ranks that no group joins: their states as /v1/state has them,
 * of two looks, judged as a rank of the library judges (diag/judge/verdict.h). For jobs whose bytes
 * another library carries, each rank with a runtime of its own (docs/verdict.md).
 */
#ifndef VERDICT_STATES_H
#define VERDICT_STATES_H

#include <stddef.h>
#include <stdint.h>

/* One answer of /v1/state, and when it was asked for and came, by CLOCK_MONOTONIC. */
struct states_look {
	const unsigned char *bytes; /* NULL: there was none */
	size_t count;
	uint64_t asked_ns, came_ns;
};

struct states_rank {
	uint32_t rank; /* as its socket is called; what it says of itself counts more */
	struct states_look looks[2];
	uint64_t pid;       /* of who listens there; 0: not known */
	char process_state; /* as /proc says; 0: not known, or there is none */
};

/*
 * Whether one look at each tells of a job of this kind: some have a group of another library with
 * several ranks, and none is in a group of ours.
 */
int states_are_joined(const struct states_rank *ranks, size_t count);

/*
 * The document of /v1/verdict, with two members more: `joined`, and `ranks_elsewhere`, ranks of the
 * largest group that are not among these. It goes to free(); NULL: no memory.
 */
char *states_verdict(const struct states_rank *ranks, size_t count);

#endif
