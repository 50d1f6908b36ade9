/*
 * netlab_plan.h - what two sides are to do to each other, and how they tell the parent what they
 * did. All of it follows from the seed: sizes, contents, and which messages are taken back.
 */
#ifndef TWT_NETLAB_PLAN_H
#define TWT_NETLAB_PLAN_H

#include "netlab.h"

#include <towline/towline.h>

/* What both sides are to do. */
struct twt_nl_plan {
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
struct twt_nl_count {
	uint64_t sent, sent_bytes, received, received_bytes, withdrawn, refused, pings;
	uint64_t late; /* arrived, and its sender's deadline had passed */
	uint64_t connected_ns, gone_ns, ended_ns; /* of the monotonic clock; 0: not yet */
	uint64_t lost_after_gone;                 /* operations that ended with TOW_EPEER */
	char failure[400];                        /* "": none */
};

struct twt_nl_job {
	struct twt_nl_plan plan;
	struct twt_nl_count count[2];
};

uint64_t twt_nl_mix(uint64_t seed, int sender, uint64_t number);

uint64_t twt_nl_bytes(const struct twt_nl_plan *plan, int sender, uint64_t number);

enum twt_nl_fate { NL_ARRIVES, NL_CANCELED, NL_HURRIED, NL_REFUSED };

enum twt_nl_fate twt_nl_fate_of(const struct twt_nl_plan *plan, int sender, uint64_t number);

/* Words of a message, which no other message has at that place. */
uint64_t twt_nl_word(uint64_t key, uint64_t at);

void twt_nl_fill(uint8_t *data, uint64_t bytes, uint64_t key);

bool twt_nl_is(const uint8_t *data, uint64_t bytes, uint64_t key);

uint64_t twt_nl_key(const struct twt_nl_plan *plan, int sender, uint64_t number);

#endif
