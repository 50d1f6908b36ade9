/*
 * grads_check.c - payload of any transfer that identifies its source, and the check of it.
 *
 * Payload that is only moved has a pattern of its own for each step, transfer, sender and part.
 * Payload that is summed has whole numbers below four. Their sum over GRADS_RANKS ranks is exact in
 * f32 and bf16, in any order of the additions. So every byte is known without a second computation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/pattern.h"
#include "bench/grads/grads.h"

/* The pattern of part `part` of the data that rank `owner` gives to a transfer. */
static struct pattern part_of(uint64_t step, uint64_t number, uint64_t owner, uint64_t part)
{
	return pattern_bytes(((step << 24 | number) * GRADS_RANKS + owner) * GRADS_RANKS + part);
}

static bool is_summed(const struct strategy_event *event)
{
	return event->transfer == STRATEGY_ALL_REDUCE || event->transfer == STRATEGY_REDUCE_SCATTER;
}

/* A whole number from 0 to 3. */
static float whole_at(const struct pattern *p, uint64_t index)
{
	return (float)(pattern_word(p, index / 16) >> (index % 16 * 4) & 3);
}

/* Whole numbers up to 256 are the same in bf16, which is the upper half of the f32. */
static void put_whole(void *data, uint64_t index, float value, enum tow_type type)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (type == TOW_BF16)
		((uint16_t *)data)[index] = (uint16_t)(bits >> 16);
	else
		((float *)data)[index] = value;
}

static float get_whole(const void *data, uint64_t index, enum tow_type type)
{
	uint32_t bits;
	float value;

	if (type != TOW_BF16)
		return ((const float *)data)[index];
	bits = (uint32_t)((const uint16_t *)data)[index] << 16;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The elements of the vector that a rank gives to a sum. */
static uint64_t summed_count(const struct strategy_event *event, uint32_t ranks)
{
	uint64_t count = event->bytes / tow_type_bytes(grads_type(event));

	return event->transfer == STRATEGY_REDUCE_SCATTER ? count * ranks : count;
}

void grads_check_fill(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
		      uint64_t number)
{
	uint32_t ranks = strategy_ranks(&rank->plan);
	uint64_t own = (uint64_t)rank->rank;
	uint8_t *from;

	if (event->transfer == STRATEGY_RECEIVE)
		return;
	from = rank->buffer[event->buffer];
	if (is_summed(event)) {
		struct pattern p = part_of(step, number, own, 0);
		uint64_t count = summed_count(event, ranks);

		for (uint64_t i = 0; i < count; i++)
			put_whole(from, i, whole_at(&p, i), grads_type(event));
	} else if (event->transfer == STRATEGY_ALL_TO_ALL) {
		for (uint32_t part = 0; part < ranks; part++)
			pattern_fill(from + event->bytes / ranks * part, event->bytes / ranks,
				     part_of(step, number, own, part));
	} else {
		bool message = event->transfer == STRATEGY_MESSAGE;

		pattern_fill(from, event->bytes,
			     part_of(step, message ? event->tag : number, own, 0));
	}
}

static int say_wrong(const struct grads_rank *rank, const struct strategy_event *event,
		     uint64_t step, const char *what, uint64_t at)
{
	fprintf(stderr,
		"tow-grads: WRONG PAYLOAD at rank %d: step %" PRIu64
		", buffer %u, first at %s %" PRIu64 "\n",
		rank->rank, step, event->to, what, at);
	return GRADS_MISMATCH;
}

static int check_sum(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
		     uint64_t number)
{
	uint32_t ranks = strategy_ranks(&rank->plan);
	uint64_t count = event->bytes / tow_type_bytes(grads_type(event));
	uint64_t first =
		event->transfer == STRATEGY_REDUCE_SCATTER ? count * (uint64_t)rank->rank : 0;
	const void *sum = rank->buffer[event->to];
	struct pattern p[GRADS_RANKS];

	for (uint32_t r = 0; r < ranks; r++)
		p[r] = part_of(step, number, r, 0);
	for (uint64_t i = 0; i < count; i++) {
		float want = 0;

		for (uint32_t r = 0; r < ranks; r++)
			want += whole_at(&p[r], first + i);
		if (get_whole(sum, i, grads_type(event)) != want)
			return say_wrong(rank, event, step, "element", i);
	}
	return 0;
}

/* Checks parts that were moved, one of each rank; in an all-to-all, the parts for this rank. */
static int check_parts(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
		       uint64_t number)
{
	uint32_t ranks = strategy_ranks(&rank->plan);
	bool all = event->transfer == STRATEGY_ALL_TO_ALL;
	uint64_t bytes = all ? event->bytes / ranks : event->bytes;
	const uint8_t *to = rank->buffer[event->to];

	for (uint32_t r = 0; r < ranks; r++) {
		uint64_t at =
			pattern_check(to + bytes * r, bytes,
				      part_of(step, number, r, all ? (uint64_t)rank->rank : 0));

		if (at != PATTERN_SAME)
			return say_wrong(rank, event, step, "byte", bytes * r + at);
	}
	return 0;
}

int grads_check_payload(struct grads_rank *rank, const struct strategy_event *event, uint64_t step,
			uint64_t number)
{
	uint64_t at, bytes = event->bytes;
	int rc = 0;

	if (event->transfer == STRATEGY_MESSAGE)
		return 0;
	if (event->transfer == STRATEGY_RECEIVE) {
		at = pattern_check(rank->buffer[event->to], bytes,
				   part_of(step, event->tag, event->peer, 0));
		rc = at == PATTERN_SAME ? 0 : say_wrong(rank, event, step, "byte", at);
	} else if (is_summed(event)) {
		rc = check_sum(rank, event, step, number);
	} else {
		rc = check_parts(rank, event, step, number);
		if (event->transfer == STRATEGY_ALL_GATHER)
			bytes *= strategy_ranks(&rank->plan);
	}
	rank->outcome.verified_bytes += rc == 0 ? bytes : 0;
	return rc;
}
