/*
 * verdict_rails.c - a stream between two ranks that takes a path of its own and is slower than the
 * others. A large message is cut into equal parts, one for each stream, so the whole message waits
 * for the slowest stream:
 *
 *	rank 0 ==eth0, 400 MB/s, busy for 10 % of the time==> rank 1
 *	       --eth1, 4 MB/s, busy for 98 %---------------->
 *
 * The rate of a stream counts only the time in which it had data on its way. So a stream with
 * little to carry does not look slow. Streams of one path share it, and one may get less by chance.
 * So a stream is compared only with streams of other paths. If those are as fast, they are busy for
 * as long.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#define MUCH     0.2   /* least share of the time, blocked */
#define TIMES    4.0   /* times as slow as the others of its connection */
#define BUSY     0.5   /* least share of the time with data on its way */
#define LESS     2.0   /* least ratio of that share to the others' */
#define FEW      65536 /* least bytes for a figure */
#define GRAIN_US 4000  /* granularity of the kernel's times */

/* What one stream did between the two looks. */
struct rail {
	const struct twi_state_stream *row;
	double bytes, busy_us, rate; /* rate: bytes a second of the busy time */
};

struct rails {
	uint32_t count;
	double window_us;
	struct rail rows[TWI_STATE_STREAMS];
};

static const struct twi_state_stream *row_before(const struct twi_verdict_rank *at,
						 const struct twi_state_stream *row)
{
	for (uint32_t i = 0; i < at->first->stream_count; i++) {
		const struct twi_state_stream *before = &at->first->streams[i];

		if (before->rank == row->rank && before->stream == row->stream &&
		    strcmp(before->way, row->way) == 0)
			return before;
	}
	return NULL;
}

/* Finds the rails to `to`. Time in which the other side has no room is not busy time. */
static void find_rails(const struct twi_verdict_rank *at, uint32_t to, struct rails *out)
{
	*out = (struct rails){ .window_us = (double)twi_since(at->last->now_ns, at->first->now_ns) /
					    1e3 };
	for (uint32_t i = 0; i < at->last->stream_count; i++) {
		const struct twi_state_stream *row = &at->last->streams[i], *before;
		struct rail *rail = &out->rows[out->count];

		before = row->rank == to && row->way[0] != '\0' ? row_before(at, row) : NULL;
		if (before == NULL)
			continue;
		*rail = (struct rail){
			.row = row,
			.bytes = (double)twi_since(row->acked_bytes, before->acked_bytes),
			.busy_us = (double)twi_since(
				twi_since(row->busy_us, before->busy_us),
				twi_since(row->rwnd_limited_us, before->rwnd_limited_us)),
		};
		rail->rate = rail->bytes * 1e6 / twi_max(rail->busy_us, (double)GRAIN_US);
		out->count++;
	}
}

static bool same_way(const struct rail *a, const struct rail *b)
{
	return strcmp(a->row->way, b->row->way) == 0;
}

/*
 * The median of the streams of other paths; of two middle values the one that says less against
 * `but`. Below 0: none of them has carried enough.
 */
static double middle_of(const struct rails *rails, const struct rail *but, bool busy)
{
	double sorted[TWI_STATE_STREAMS];
	uint32_t count = 0;

	for (uint32_t i = 0; i < rails->count; i++) {
		const struct rail *rail = &rails->rows[i];
		double value = busy ? rail->busy_us : rail->rate;
		uint32_t at = count;

		if (same_way(rail, but) || rail->bytes < FEW)
			continue;
		for (; at > 0 && sorted[at - 1] > value; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = value;
		count++;
	}
	return count == 0 ? -1 : sorted[(busy ? count : count - 1) / 2];
}

/* Whether another stream of the same path is nearly as fast as those of other paths. */
static bool way_is_free(const struct rails *rails, const struct rail *slow)
{
	for (uint32_t i = 0; i < rails->count; i++) {
		const struct rail *rail = &rails->rows[i];

		if (rail != slow && same_way(rail, slow) && rail->bytes >= FEW &&
		    rail->rate > TIMES / 2 * slow->rate)
			return true;
	}
	return false;
}

static bool is_slow_rail(const struct rails *rails, const struct rail *rail)
{
	double rate = middle_of(rails, rail, false), busy = middle_of(rails, rail, true);

	return rate > 0 && rail->bytes > 0 && rail->busy_us >= BUSY * rails->window_us &&
	       rail->rate * TIMES <= rate && rail->busy_us >= LESS * busy &&
	       !way_is_free(rails, rail);
}

static void blame_rail(struct twi_judge *judge, const struct twi_verdict_rank *at, uint32_t to,
		       const struct rails *rails, const struct rail *rail)
{
	const char *name = rail->row->from_if;
	double busy = middle_of(rails, rail, true);
	char leave[96] = "";

	if (name[0] != '\0')
		snprintf(leave, sizeof(leave), " (ethtool -S %s), or leave it out (interfaces=^%s)",
			 name, name);
	twi_judge_blame_link(
		judge, TWI_CAUSE_SLOW_LINK, at->rank, to, 0.8,
		"of the %u streams from rank %u to rank %u, the one over %s%s%s carries %.1f "
		"MB/s and was busy for %.0f %% of the time; the others carry %.1f MB/s and were "
		"idle for %.0f %%: messages wait for it; check that interface's speed and "
		"errors%s",
		rails->count, at->rank, to, name, name[0] != '\0' ? " " : "", rail->row->way,
		rail->rate / 1e6, 100 * twi_min(rail->busy_us / rails->window_us, 1.0),
		middle_of(rails, rail, false) / 1e6,
		100 * twi_max(1 - busy / rails->window_us, 0.0), leave);
}

/*
 * Whether the rank waits for `other` for a fifth of its time, in any operation. A busy stream has
 * data on its way to the rank meanwhile, so the rank is no idle server.
 */
static bool waits_for(const struct twi_judge *judge, uint32_t rank, uint32_t other)
{
	const struct twi_verdict_rank *at = twi_judge_rank(judge, rank);
	const struct twi_state_waited *waited = at != NULL ? twi_judge_waited(at) : NULL;

	for (uint32_t i = 0; waited != NULL && i < waited->awaited_count; i++) {
		if (waited->awaited[i].rank == other &&
		    (double)waited->awaited[i].ns >= MUCH * (double)waited->window_ns)
			return true;
	}
	return false;
}

void twi_judge_rails(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];

		for (uint32_t k = 0; at->first != NULL && k < at->last->link_count; k++) {
			uint32_t to = at->last->links[k].rank;
			struct rails rails;

			if (twi_judge_rank(judge, to) == NULL || twi_judge_was_held(at) ||
			    twi_judge_was_held(twi_judge_rank(judge, to)) ||
			    (!judge->out->waits.slow && !waits_for(judge, to, at->rank)))
				continue;
			find_rails(at, to, &rails);
			for (uint32_t r = 0; rails.window_us > 0 && r < rails.count; r++) {
				if (is_slow_rail(&rails, &rails.rows[r]))
					blame_rail(judge, at, to, &rails, &rails.rows[r]);
			}
		}
	}
}
