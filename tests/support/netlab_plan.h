/*
 * netlab_plan.h - what two sides are to do to each other, and how they tell the parent what they
 * did. All of it follows from the seed: sizes, contents, and which messages are taken back.
 */
#ifndef TWT_NETLAB_PLAN_H
#define TWT_NETLAB_PLAN_H

#include "netlab.h"

#include <towline/towline.h>

/* What both sides are to do. */
struct nl_plan {
	uint64_t seed;
	uint32_t messages;      /* each way */
	uint32_t withdrawn_ppt; /* of a thousand messages: canceled, given a deadline, or refused */
	uint64_t largest;
	uint64_t huge;        /* side 0 sends one message of this size first; 0: none */
	uint64_t deadline_ns; /* of every operation that has no shorter one */
	bool may_go;          /* the peer may be lost: TOW_EPEER is right then, and the end */
	struct tow_options options;
};

/* What a side has done; in memory that the parent shares. */
struct nl_count {
	uint64_t sent, sent_bytes, received, received_bytes, withdrawn, refused, pings;
	uint64_t late; /* arrived, and its sender's deadline had passed */
	uint64_t connected_ns, gone_ns, ended_ns; /* of the monotonic clock; 0: not yet */
	uint64_t lost_after_gone;                 /* operations that ended with TOW_EPEER */
	char failure[400];                        /* "": none */
};

struct nl_job {
	struct nl_plan plan;
	struct nl_count count[2];
};

static inline uint64_t nl_mix(uint64_t seed, int sender, uint64_t number)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull + number * 2 + (uint64_t)sender;

	twt_random(&state);
	return twt_random(&state);
}

static inline uint64_t nl_bytes(const struct nl_plan *plan, int sender, uint64_t number)
{
	uint64_t r = nl_mix(plan->seed, sender, number), kind = r % 10;
	uint64_t bound = kind < 5 ? 2048 : kind < 8 ? 65536 : kind < 9 ? 262144 : plan->largest;

	if (number == 0 && sender == 0 && plan->huge != 0)
		return plan->huge;
	bound = bound < plan->largest ? bound : plan->largest;
	return (r >> 8) % (bound + 1);
}

enum nl_fate { NL_ARRIVES, NL_CANCELED, NL_HURRIED, NL_REFUSED };

static inline enum nl_fate nl_fate_of(const struct nl_plan *plan, int sender, uint64_t number)
{
	uint64_t r = nl_mix(plan->seed + 1, sender, number);

	if (r % 1000 >= plan->withdrawn_ppt || (number == 0 && plan->huge != 0))
		return NL_ARRIVES;
	return NL_CANCELED + (r >> 10) % 3;
}

/* Words of a message, which no other message has at that place. */
static inline uint64_t nl_word(uint64_t key, uint64_t at)
{
	return key + at * 0x9e3779b97f4a7c15ull;
}

static inline void nl_fill(uint8_t *data, uint64_t bytes, uint64_t key)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = nl_word(key, at);

		memcpy(data + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
}

static inline bool nl_is(const uint8_t *data, uint64_t bytes, uint64_t key)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = nl_word(key, at);

		if (memcmp(data + at, &word, bytes - at < 8 ? bytes - at : 8) != 0)
			return false;
	}
	return true;
}

static inline uint64_t nl_key(const struct nl_plan *plan, int sender, uint64_t number)
{
	return nl_mix(plan->seed + 2, sender, number);
}

#endif
