/*
 * top_ranks.h - all ranks of this host, each asked on its own: what towstat top shows.
 *
 *	socket file --> rank --> one ask at a time: /v1, /v1/info, /v1/counters, ... --> reading
 *
 * A round asks every rank that has no ask under way. Each has the round's time and no more, so that
 * one that is stuck keeps its own place and delays nobody. Nothing here blocks: the owner polls.
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

/* Looks for new sockets (not each round, unless at once), drops the long gone, asks the others. */
void top_ranks_round(struct top_ranks *ranks);

/* What is to be polled; room for top_ranks_poll_max. How many. */
size_t top_ranks_poll(const struct top_ranks *ranks, struct pollfd *out, size_t room);

/* After the poll: goes on with all asks. How many are still under way. */
size_t top_ranks_step(struct top_ranks *ranks);

/* When the first ask under way ends for want of time, by http_now_ms; 0: none is. */
long long top_ranks_deadline(const struct top_ranks *ranks);

/* The rows to be shown, unsorted; the caller's until the next call. NULL without memory. */
struct top_row *top_ranks_rows(struct top_ranks *ranks, size_t *count_out);

/* How many sockets there was no room for. */
size_t top_ranks_missed(const struct top_ranks *ranks);

#endif
