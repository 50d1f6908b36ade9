/*
 * hunt_peers.c - an act: endpoints and connections of the side's own, outside of any group. Each
 * rank accepts some of its left neighbour and connects to the right one; messages go both ways over
 * all of them. In some rounds peers and endpoints are closed in the middle.
 */
#include "hunt.h"

#include <string.h>

#define LINKS    3u
#define MESSAGES 4u
#define ENDS     (2 * LINKS * MESSAGES)

struct end {
	struct hunt_pend pend;
	struct hunt_memory memory;
	uint32_t number; /* of the message */
	bool sends, view;
};

struct round {
	uint64_t bytes[MESSAGES], ids[MESSAGES];
	struct tow_endpoint *endpoint;
	struct tow_peer *peers[2 * LINKS];
	bool closed[2 * LINKS];
	struct end ends[2 * ENDS];
	uint32_t links, messages, count;
	bool orderly;
};

static uint32_t beside(const struct hunt_side *side, int way)
{
	return (side->hunt->rank + side->hunt->ranks + (uint32_t)way) % side->hunt->ranks;
}

/* A word for one neighbour, and one of the other; both have come to this place then. */
static bool exchange(struct hunt_side *side, int to, void *out, void *in, uint64_t bytes,
		     uint64_t tag)
{
	struct hunt_pend sent, got;
	struct tow_op_options options;
	bool well;

	hunt_way(side, &got, true);
	options = hunt_options(side, &got);
	hunt_started(&got, tow_group_recv_start(side->group, beside(side, -to), in, bytes, tag,
						&options, hunt_out(&got)));
	hunt_way(side, &sent, true);
	options = hunt_options(side, &sent);
	hunt_started(&sent, tow_group_send_start(side->group, beside(side, to), out, bytes, tag,
						 &options, hunt_out(&sent)));
	well = hunt_well(side, &sent, hunt_finish(side, &sent), "word to a neighbour");
	well &= hunt_well(side, &got, hunt_finish(side, &got), "word of a neighbour");
	hunt_drop(&sent);
	hunt_drop(&got);
	return well;
}

/* Both neighbours have come as far. */
static bool meet(struct hunt_side *side, uint64_t tag)
{
	uint8_t out[2] = { 1, 1 }, in[2];

	side->what = "meeting the neighbours";
	return exchange(side, 1, &out[0], &in[0], 1, tag) &&
	       exchange(side, -1, &out[1], &in[1], 1, tag + 1);
}

static bool join(struct hunt_side *side, struct round *round, const char *address)
{
	struct hunt_pend pends[2 * LINKS];
	bool well = true;

	side->what = "connecting";
	for (uint32_t i = 0; i < 2 * round->links; i++) {
		struct tow_op_options options;

		hunt_way(side, &pends[i], true);
		options = hunt_options(side, &pends[i]);
		if (i % 2 == 0)
			hunt_started(&pends[i], tow_accept_start(round->endpoint, &options,
								 hunt_out(&pends[i])));
		else
			hunt_started(&pends[i], tow_connect_start(round->endpoint, address,
								  &options, hunt_out(&pends[i])));
	}
	for (uint32_t i = 0; i < 2 * round->links; i++) {
		well &= hunt_well(side, &pends[i], hunt_finish(side, &pends[i]),
				  i % 2 == 0 ? "accept" : "connect");
		round->peers[i] = pends[i].result.status >= 0 ? pends[i].result.peer : NULL;
		hunt_drop(&pends[i]);
	}
	return well;
}

static void start_end(struct hunt_side *side, struct round *round, struct tow_peer *peer,
		      uint32_t number, bool sends)
{
	struct end *end = &round->ends[round->count++];
	struct tow_op_options options;
	uint64_t bytes = round->bytes[number];
	int status;

	*end = (struct end){ .number = number,
			     .sends = sends,
			     .view = !sends && hunt_own(side, 3) == 0 };
	if (!end->view)
		hunt_take(side, &end->memory, bytes);
	hunt_way(side, &end->pend, true);
	options = hunt_options(side, &end->pend);
	if (sends) {
		hunt_fill(end->memory.data, bytes, round->ids[number]);
		status = tow_send_start(peer, end->memory.data, bytes, number, &options,
					hunt_out(&end->pend));
	} else if (end->view) {
		status = tow_recv_view_start(peer, number, &options, hunt_out(&end->pend));
	} else {
		status = tow_recv_start(peer, end->memory.data, bytes, number, &options,
					hunt_out(&end->pend));
	}
	hunt_started(&end->pend, status);
}

static void close_some(struct hunt_side *side, struct round *round, uint64_t one_in)
{
	for (uint32_t i = 0; i < 2 * round->links; i++) {
		if (round->peers[i] == NULL || round->closed[i] || hunt_own(side, one_in) != 0)
			continue;
		round->closed[i] = true;
		HUNT_TRUE(side, tow_peer_close(round->peers[i]) == TOW_OK);
	}
}

static void judge(struct hunt_side *side, struct round *round, struct end *end)
{
	int status = hunt_finish(side, &end->pend);
	const void *data = end->view ? end->pend.result.data : end->memory.data;

	if (!round->orderly &&
	    (status == TOW_ECLOSED || status == TOW_EPEER || status == TOW_ECANCELED))
		return;
	if (!hunt_well(side, &end->pend, status, end->sends ? "send" : "receive") || end->sends)
		return;
	HUNT_TRUE(side, end->pend.result.bytes == round->bytes[end->number]);
	HUNT_TRUE(side, hunt_same(data, round->bytes[end->number], round->ids[end->number]));
}

static void play(struct hunt_side *side, struct round *round)
{
	side->what = "messages of own peers";
	/* A peer that is closed is not used again: other threads may end 256 handles meanwhile. */
	for (uint32_t i = 0; i < 2 * round->links; i++)
		for (uint32_t m = 0;
		     m < round->messages && round->peers[i] != NULL && !round->closed[i]; m++) {
			bool first = hunt_own(side, 2) == 0;

			start_end(side, round, round->peers[i], m, first);
			start_end(side, round, round->peers[i], m, !first);
			if (!round->orderly && hunt_own(side, 10) == 0)
				close_some(side, round, 4);
		}
	if (!round->orderly) {
		hunt_nap(side, 300000);
		close_some(side, round, 3);
		if (hunt_own(side, 2) == 0) {
			HUNT_TRUE(side, tow_endpoint_close(round->endpoint) == TOW_OK);
			round->endpoint = NULL;
		}
		close_some(side, round, 2);
		/* Who waits for what a closed neighbour does not send any more. */
		close_some(side, round, 1);
	}
	for (uint32_t i = 0; i < round->count; i++)
		judge(side, round, &round->ends[i]);
	for (uint32_t i = 0; i < round->count; i++) {
		hunt_drop(&round->ends[i].pend);
		hunt_give(side, &round->ends[i].memory);
	}
}

void hunt_peers(struct hunt_side *side)
{
	struct round round = { .links = 1 + (uint32_t)hunt_shared(side, LINKS),
			       .messages = 1 + (uint32_t)hunt_shared(side, MESSAGES),
			       .orderly = hunt_shared(side, 2) == 0 };
	char mine[TOW_ADDRESS_MAX] = "", theirs[TOW_ADDRESS_MAX] = "";
	uint64_t tag = side->round * 16;

	for (uint32_t m = 0; m < round.messages; m++) {
		round.bytes[m] = hunt_bytes(side);
		round.ids[m] = twt_random(&side->shared);
	}
	if (side->hunt->ranks < 2)
		return;
	side->what = "endpoint";
	if (!hunt_said(side, tow_endpoint_open(side->hunt->runtime, "tow://", &round.endpoint),
		       "endpoint"))
		return;
	HUNT_TRUE(side, tow_endpoint_address(round.endpoint, mine, sizeof(mine)) == TOW_OK);
	/* The right neighbour's address comes to the left. */
	if (exchange(side, -1, mine, theirs, sizeof(mine), tag) && join(side, &round, theirs) &&
	    meet(side, tag + 1)) {
		play(side, &round);
		meet(side, tag + 3);
	}
	close_some(side, &round, 1);
	if (round.endpoint != NULL)
		HUNT_TRUE(side, tow_endpoint_close(round.endpoint) == TOW_OK);
}
