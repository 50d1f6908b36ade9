/*
 * top_verdicts.h - the verdicts of the jobs on this host, for towstat top.
 *
 * A verdict is of the whole job, whoever is asked, and costs questions to all its ranks. So one
 * living rank of each job is asked, rarely, and beside its other documents, which do not wait.
 */
#ifndef TOWSTAT_TOP_VERDICTS_H
#define TOWSTAT_TOP_VERDICTS_H

#include <poll.h>
#include <stddef.h>

#include "tools/towstat/top_table.h"

struct top_verdicts;

/* NULL without memory. */
struct top_verdicts *top_verdicts_open(void);
void top_verdicts_close(struct top_verdicts *verdicts);

/* `row` is of a living rank that has /v1/verdict: it is asked if its job's is due. */
void top_verdicts_ask(struct top_verdicts *verdicts, const struct top_row *row,
		      const char *socket_path);

/* As top_ranks_poll, top_ranks_step and top_ranks_deadline. */
size_t top_verdicts_poll(const struct top_verdicts *verdicts, struct pollfd *out, size_t room);
size_t top_verdicts_step(struct top_verdicts *verdicts);
long long top_verdicts_deadline(const struct top_verdicts *verdicts);

/* Puts what is known of its job into a row; accused is who is named by the first finding. */
void top_verdicts_tell(const struct top_verdicts *verdicts, struct top_row *row);

#endif
