/*
 * top_ranks.h - reads all ranks of this host for towstat top, each on its own.
 *
 *	socket file --> rank --> one ask at a time: /v1, /v1/info, /v1/counters, ... --> reading
 *
 * A round asks every rank that has no ask under way. Each rank has the round's timeout for itself,
 * so a stuck rank delays no other. No function blocks: the owner polls.
 */
#ifndef TOWSTAT_TOP_RANKS_H
#define TOWSTAT_TOP_RANKS_H

#include <poll.h>
#include <stddef.h>

#include "tools/towstat/top_table.h"

struct top_ranks;

struct top_ranks_options {
	const char *job; /* NULL: all */
	long long timeout_ms;
};

/* NULL without memory. */
struct top_ranks *top_ranks_open(const struct top_ranks_options *options);
void top_ranks_close(struct top_ranks *ranks);

/* Begins a round. Looks for new sockets every two seconds, and drops ranks that ended long ago. */
void top_ranks_round(struct top_ranks *ranks);

/* Fills `out` with the descriptors to poll, at most `room`. Returns how many. */
size_t top_ranks_poll(const struct top_ranks *ranks, struct pollfd *out, size_t room);

/* Continues all asks after the poll. Returns how many are still under way. */
size_t top_ranks_step(struct top_ranks *ranks);

/* The first deadline of an ask under way, as http_now_ms counts; 0: none is under way. */
long long top_ranks_deadline(const struct top_ranks *ranks);

/* The rows to show, unsorted. The caller may change them until the next call. NULL: no memory. */
struct top_row *top_ranks_rows(struct top_ranks *ranks, size_t *count_out);

/* The number of sockets without room. */
size_t top_ranks_missed(const struct top_ranks *ranks);

#endif
