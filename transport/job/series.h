/*
 * series.h - the calls that all ranks of a group make in one order: its collectives; and its
 * barriers (tow_group_barrier), which are counted by themselves. Each rank writes down how far it
 * is in each series: for others, which ask why the job does not go on (inquiry/inquiry.h), and for
 * the flight recorder. The engine is held for all of it.
 */
#ifndef TWI_SERIES_H
#define TWI_SERIES_H

#include <internal/list.h>

#include "diag/judge/rank_state.h"

struct twi_series {
	struct twi_list link; /* of engine->series */
	uint32_t ctx;         /* the group's number; of its barriers with TWI_STATE_BARRIERS */
	uint32_t rank, size;
	const uint32_t *members; /* their ranks in the job */
	uint32_t in_flight;
	uint64_t next_seq;   /* of the next call, from 1 */
	uint64_t finished;   /* collectives: all up to this one are over; barriers: the last is */
	int broken;          /* how; 0: it is whole */
	uint64_t broken_seq; /* at which it broke */
	const char *why;     /* in words; "": none */
	struct twi_state_past past[TWI_STATE_PAST]; /* the last ones, by seq */
};

static inline struct twi_state_past *twi_series_past(struct twi_series *series, uint64_t seq)
{
	return &series->past[seq % TWI_STATE_PAST];
}

static inline bool twi_series_is_barriers(const struct twi_series *series)
{
	return (series->ctx & TWI_STATE_BARRIERS) != 0;
}

#endif
