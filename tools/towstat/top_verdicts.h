/*
 * top_verdicts.h - the verdicts on the jobs of this host, for towstat top.
 *
 * Every rank gives the verdict on the whole job, and that costs questions to all of its ranks. So
 * one living rank of each job is asked, every few seconds. The rank's other documents do not wait
 * for it.
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

/* Asks for the verdict on the row's job if it is due. The row's rank lives and has /v1/verdict. */
void top_verdicts_ask(struct top_verdicts *verdicts, const struct top_row *row,
		      const char *socket_path);

/* As top_ranks_poll, top_ranks_step and top_ranks_deadline. */
size_t top_verdicts_poll(const struct top_verdicts *verdicts, struct pollfd *out, size_t room);
size_t top_verdicts_step(struct top_verdicts *verdicts);
long long top_verdicts_deadline(const struct top_verdicts *verdicts);

/*
 * Puts the verdict on a row's job into the row. `accused` is set when the first finding names the
 * rank.
 */
void top_verdicts_tell(const struct top_verdicts *verdicts, struct top_row *row);

#endif
