/*
 * hunt_messages.c - an act: messages between all ranks, in the side's group, from peer to peer and
 * on channels, sent and received in every form. Some are given up by their sender, or by the
 * receive that waits for them, which a second receive then has to replace; some are too long.
 */
#include "hunt.h"

#include <string.h>

#define MESSAGES 10u
#define GUARD    16u
#define SPECIAL  0x80u
#define TOLD     0x40u

enum space { IN_GROUP, OF_PEER, ON_CHANNEL, SPACES };
enum fate { PLAIN, CANCELED_SEND, LATE_RECEIVE, CANCELED_RECEIVE, TOO_LONG, FATES };
enum mode { EXACT, ANY_RANK, ANY_TAG, MODES };

struct message {
	uint32_t src, dst;
	enum space space;
	enum fate fate;
	uint64_t bytes, tag, id;
	bool taken; /* by a receive of any rank */
};

struct half {
	struct message *message;
	struct hunt_pend pend, told;
	struct hunt_memory memory;
	struct tow_part parts[3];
	uint64_t room;
	bool sends, view, truncates;
	uint8_t word; /* that tells how the send has ended */
};

struct round {
	struct message messages[MESSAGES];
	struct half halves[2 * MESSAGES];
	uint32_t count, half_count;
	enum mode mode;
};

static bool given_up(const struct message *one)
{
	return one->fate == CANCELED_SEND || one->fate == LATE_RECEIVE ||
	       one->fate == CANCELED_RECEIVE;
}

static void draw(struct hunt_side *side, struct round *round)
{
	uint32_t ranks = side->hunt->ranks;

	round->count = 1 + (uint32_t)hunt_shared(side, MESSAGES);
	for (uint32_t i = 0; i < round->count; i++) {
		struct message *one = &round->messages[i];

		one->src = (uint32_t)hunt_shared(side, ranks);
		one->dst = (uint32_t)hunt_shared(side, ranks);
		one->space =
			one->src == one->dst ? IN_GROUP : (enum space)hunt_shared(side, SPACES);
		one->fate = hunt_shared(side, 3) == 0 ? (enum fate)hunt_shared(side, FATES) : PLAIN;
		one->bytes = hunt_bytes(side);
		one->tag = side->round << 8 |
			   (one->fate == PLAIN ? hunt_shared(side, 4) : SPECIAL | i);
		if (one->space == OF_PEER)
			one->tag |= (uint64_t)(side->index + 1) << 48;
		one->id = twt_random(&side->shared);
	}
	round->mode = (enum mode)hunt_own(side, MODES);
}

static struct tow_peer *peer_of(struct hunt_side *side, uint32_t rank)
{
	struct tow_peer *peer = NULL;

	if (!hunt_said(side, tow_group_connect(side->hunt->all, rank, 20 * HUNT_NS, &peer),
		       "connect"))
		return NULL;
	return peer;
}

/* The peer, and in the options the channel; NULL: the side is lost. */
static struct tow_peer *way_to(struct hunt_side *side, const struct message *message, uint32_t rank,
			       struct tow_op_options *options)
{
	struct tow_peer *peer = peer_of(side, rank);

	if (peer != NULL && message->space == ON_CHANNEL) {
		if (side->channels[rank] == NULL &&
		    !hunt_said(side, tow_channel_open(peer, 1 + side->index, &side->channels[rank]),
			       "channel"))
			return NULL;
		options->channel = side->channels[rank];
	}
	return peer;
}

/* Cuts the memory into up to three parts; how many. */
static uint32_t cut(struct hunt_side *side, struct half *half, uint64_t bytes)
{
	uint64_t first = hunt_own(side, bytes + 1), second = hunt_own(side, bytes - first + 1);

	half->parts[0] = (struct tow_part){ half->memory.data, first };
	half->parts[1] = (struct tow_part){ half->memory.data + first, second };
	half->parts[2] =
		(struct tow_part){ half->memory.data + first + second, bytes - first - second };
	return 3;
}

#define UNTOLD 99

static void leave_at_once(struct hunt_side *side, struct tow_op_options *options,
			  struct tow_result *result)
{
	result->status = UNTOLD;
	if (hunt_own(side, 3) != 0)
		return;
	options->flags |= TOW_OP_AT_ONCE;
	options->result = result;
}

static void started(struct hunt_pend *pend, int status, const struct tow_result *at_once)
{
	hunt_started(pend, status);
	if (at_once->status == UNTOLD)
		return;
	pend->result = *at_once;
	pend->ended = true;
}

static void send_one(struct hunt_side *side, struct half *half)
{
	struct message *one = half->message;
	struct tow_op_options options;
	struct tow_peer *peer = NULL;
	struct tow_result at_once = TOW_RESULT_INIT;
	int status;

	half->sends = true;
	side->what = "send";
	hunt_take(side, &half->memory, one->bytes);
	hunt_fill(half->memory.data, one->bytes, one->id);
	hunt_way(side, &half->pend, one->fate == CANCELED_SEND);
	options = hunt_options(side, &half->pend);
	leave_at_once(side, &options, &at_once);
	if (half->memory.kind == HUNT_POOL && hunt_own(side, 3) == 0)
		options.flags |= TOW_OP_LEND;
	if (one->space != IN_GROUP && (peer = way_to(side, one, one->dst, &options)) == NULL) {
		half->pend.ended = true;
		half->pend.result.status = TOW_EPEER;
		return;
	}
	if (one->space == IN_GROUP)
		status = tow_group_send_start(side->group, one->dst, half->memory.data, one->bytes,
					      one->tag, &options, hunt_out(&half->pend));
	else if (hunt_own(side, 3) == 0)
		status = tow_send_parts_start(peer, half->parts, cut(side, half, one->bytes),
					      one->tag, &options, hunt_out(&half->pend));
	else
		status = tow_send_start(peer, half->memory.data, one->bytes, one->tag, &options,
					hunt_out(&half->pend));
	started(&half->pend, status, &at_once);
	if (status == TOW_OK && half->memory.kind == HUNT_POOL && hunt_own(side, 3) == 0)
		hunt_give(side, &half->memory);
}

/* --- receives --- */

static bool may_be_any(const struct message *one)
{
	return one->space == IN_GROUP && one->fate == PLAIN;
}

static bool is_any(const struct round *round, const struct message *one)
{
	return round->mode != EXACT && may_be_any(one);
}

/* How much room a receive needs for whatever message it may get. */
static uint64_t most_bytes(const struct hunt_side *side, const struct round *round,
			   const struct message *one)
{
	uint64_t most = one->bytes;

	for (uint32_t i = 0; is_any(round, one) && i < round->count; i++) {
		const struct message *other = &round->messages[i];

		if (other->dst == side->hunt->rank && may_be_any(other) && other->bytes > most)
			most = other->bytes;
	}
	return most;
}

static int receive_in_group(struct hunt_side *side, struct round *round, struct half *half,
			    const struct tow_op_options *options)
{
	struct message *one = half->message;
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	uint32_t parts = 0;

	match.rank = one->src;
	match.tag = one->tag;
	if (is_any(round, one))
		match.rank = TOW_RANK_ANY;
	if (is_any(round, one) && round->mode == ANY_TAG) {
		match.tag &= ~(uint64_t)(SPECIAL - 1);
		match.tag_mask = ~(uint64_t)(SPECIAL - 1);
	}
	if (!half->view && !is_any(round, one) && hunt_own(side, 2) == 0)
		return tow_group_recv_start(side->group, one->src, half->memory.data, half->room,
					    one->tag, options, hunt_out(&half->pend));
	if (!half->view)
		parts = cut(side, half, half->room);
	return tow_group_recv_match_start(side->group, &match, half->parts, parts, options,
					  hunt_out(&half->pend));
}

static void start_receive(struct hunt_side *side, struct round *round, struct half *half,
			  struct tow_op_options *options)
{
	struct message *one = half->message;
	struct tow_result at_once = TOW_RESULT_INIT;
	struct tow_peer *peer = NULL;
	int status;

	leave_at_once(side, options, &at_once);
	if (half->truncates)
		options->flags |= TOW_OP_TRUNCATE;
	if (one->space != IN_GROUP && (peer = way_to(side, one, one->src, options)) == NULL) {
		half->pend.ended = true;
		half->pend.result.status = TOW_EPEER;
		return;
	}
	if (one->space == IN_GROUP)
		status = receive_in_group(side, round, half, options);
	else if (half->view)
		status = tow_recv_view_start(peer, one->tag, options, hunt_out(&half->pend));
	else
		status = tow_recv_start(peer, half->memory.data, half->room, one->tag, options,
					hunt_out(&half->pend));
	started(&half->pend, status, &at_once);
}

static void receive_one(struct hunt_side *side, struct round *round, struct half *half)
{
	struct message *one = half->message;
	struct tow_op_options options;

	side->what = "receive";
	half->sends = false;
	half->view = one->fate != TOO_LONG && hunt_own(side, 3) == 0;
	half->room = most_bytes(side, round, one) + hunt_own(side, 2) * hunt_own(side, 100);
	if (one->fate == TOO_LONG)
		half->room = one->bytes / 2;
	else if (!half->view && one->fate == PLAIN && hunt_own(side, 8) == 0) {
		half->truncates = true;
		half->room = hunt_own(side, half->room + 1);
	}
	if (!half->view) {
		hunt_take(side, &half->memory, half->room + GUARD);
		hunt_fill(half->memory.data + half->room, GUARD, one->id + 1);
	}
	hunt_way(side, &half->pend, half->view || given_up(one));
	options = hunt_options(side, &half->pend);
	if (one->fate == LATE_RECEIVE)
		options.timeout_ns = 1 + hunt_own(side, 500000);
	start_receive(side, round, half, &options);
}

/* --- those that are given up --- */

/* A receive that was given up has got the message, or leaves it to a second one. */
static void replace_receive(struct hunt_side *side, struct round *round, struct half *half)
{
	struct tow_op_options options;
	int status;

	side->what = "receive to be given up";
	if (half->message->fate == CANCELED_RECEIVE && !half->pend.ended) {
		hunt_nap(side, 200000);
		if (half->pend.op != NULL && !(half->pend.way == BY_QUEUE && half->pend.done))
			tow_op_cancel(half->pend.op);
	}
	status = hunt_finish(side, &half->pend);
	if (status != TOW_EDEADLINE && status != TOW_ECANCELED)
		return;
	hunt_drop(&half->pend);
	side->what = "second receive";
	hunt_way(side, &half->pend, true);
	options = hunt_options(side, &half->pend);
	start_receive(side, round, half, &options);
}

/*
 * A send that was given up, or its receive was, has ended well or has not; the receiver is told
 * which. (A receive that is given up while the bytes come, over tcp and in pieces, ends the send.)
 */
static void tell_end(struct hunt_side *side, struct half *half)
{
	struct message *one = half->message;
	struct tow_op_options options;
	int status;

	side->what = "send to be given up";
	if (one->fate == CANCELED_SEND && !half->pend.ended) {
		hunt_nap(side, 200000);
		if (half->pend.op != NULL && !(half->pend.way == BY_QUEUE && half->pend.done))
			tow_op_cancel(half->pend.op);
	}
	status = hunt_finish(side, &half->pend);
	half->word = status == TOW_ECANCELED;
	hunt_way(side, &half->told, false);
	options = hunt_options(side, &half->told);
	hunt_started(&half->told,
		     tow_group_send_start(side->group, one->dst, &half->word, 1, one->tag | TOLD,
					  &options, hunt_out(&half->told)));
}

static void hear_end(struct hunt_side *side, struct half *half)
{
	struct message *one = half->message;
	struct tow_op_options options;
	int status;

	side->what = "word on a send given up";
	hunt_way(side, &half->told, false);
	options = hunt_options(side, &half->told);
	hunt_started(&half->told,
		     tow_group_recv_start(side->group, one->src, &half->word, 1, one->tag | TOLD,
					  &options, hunt_out(&half->told)));
	status = hunt_finish(side, &half->told);
	hunt_well(side, &half->told, status, "word");
	hunt_drop(&half->told);
	if (half->word == 1 && !half->pend.ended && half->pend.op != NULL &&
	    !(half->pend.way == BY_QUEUE && half->pend.done))
		tow_op_cancel(half->pend.op);
}

/* --- what came --- */

/* Which message a receive has got: its own, or the first of that rank that none has got. */
static struct message *got(struct hunt_side *side, struct round *round, struct half *half)
{
	struct message *one = half->message;
	uint32_t src;

	if (!is_any(round, one))
		return one;
	src = tow_group_peer_rank(side->group, half->pend.result.peer);
	HUNT_TRUE(side, src < side->hunt->ranks);
	for (uint32_t i = 0; i < round->count; i++) {
		one = &round->messages[i];
		if (one->src != src || one->dst != side->hunt->rank || !may_be_any(one) ||
		    one->taken || (round->mode == ANY_RANK && one->tag != half->message->tag))
			continue;
		one->taken = true;
		return one;
	}
	hunt_bad(side, "a receive has a message of rank %u too much", src);
}

static void judge_receive(struct hunt_side *side, struct round *round, struct half *half)
{
	struct message *one = half->message;
	const struct tow_result *result = &half->pend.result;
	const uint8_t *data = half->view ? result->data : half->memory.data;
	uint64_t bytes;

	side->what = "judging a receive";
	if (one->fate == TOO_LONG && one->bytes > half->room) {
		if (result->status != TOW_ETRUNCATED)
			hunt_well(side, &half->pend, result->status, "too long");
		HUNT_TRUE(side, side->hunt->dying || result->status == TOW_ETRUNCATED);
	} else if (given_up(one) && half->word == 1) {
		HUNT_TRUE(side, side->hunt->dying || result->status == TOW_ECANCELED);
	} else if (hunt_well(side, &half->pend, result->status, "receive")) {
		one = got(side, round, half);
		bytes = half->truncates && one->bytes > half->room ? half->room : one->bytes;
		if (result->tag != one->tag || result->bytes != bytes ||
		    result->dropped_bytes != one->bytes - bytes)
			hunt_bad(
				side,
				"tag %llx bytes %llu dropped %llu, not tag %llx bytes %llu of %llu",
				(unsigned long long)result->tag, (unsigned long long)result->bytes,
				(unsigned long long)result->dropped_bytes,
				(unsigned long long)one->tag, (unsigned long long)bytes,
				(unsigned long long)one->bytes);
		if (!hunt_same(data, bytes, one->id))
			hunt_bad(side, "%llu bytes of rank %u in space %d are wrong (view %d)",
				 (unsigned long long)bytes, one->src, one->space, half->view);
	}
	if (!half->view)
		HUNT_TRUE(side,
			  hunt_same(half->memory.data + half->room, GUARD, half->message->id + 1));
}

static void judge(struct hunt_side *side, struct round *round, struct half *half)
{
	struct message *one = half->message;
	int status = half->pend.result.status;

	if (!half->sends)
		judge_receive(side, round, half);
	else if (!(one->fate == TOO_LONG && status == TOW_ETRUNCATED) &&
		 !(given_up(one) && status == TOW_ECANCELED))
		hunt_well(side, &half->pend, status, "send");
	if (half->sends && half->memory.data != NULL && status == TOW_OK)
		HUNT_TRUE(side, hunt_same(half->memory.data, one->bytes, one->id));
}

static void start_all(struct hunt_side *side, struct round *round)
{
	for (uint32_t i = 0; i < round->count; i++) {
		struct message *one = &round->messages[i];

		if (one->dst == side->hunt->rank && one->src == one->dst && hunt_own(side, 2)) {
			round->halves[round->half_count].message = one;
			receive_one(side, round, &round->halves[round->half_count++]);
			round->halves[round->half_count].message = one;
			send_one(side, &round->halves[round->half_count++]);
			continue;
		}
		if (one->src == side->hunt->rank) {
			round->halves[round->half_count].message = one;
			send_one(side, &round->halves[round->half_count++]);
		}
		if (one->dst == side->hunt->rank) {
			round->halves[round->half_count].message = one;
			receive_one(side, round, &round->halves[round->half_count++]);
		}
	}
}

void hunt_messages(struct hunt_side *side)
{
	struct round round = { .count = 0 };
	uint32_t from, n;

	draw(side, &round);
	start_all(side, &round);
	n = round.half_count;
	for (uint32_t i = 0; i < n; i++) {
		struct half *half = &round.halves[i];

		if (!half->sends && (half->message->fate == LATE_RECEIVE ||
				     half->message->fate == CANCELED_RECEIVE))
			replace_receive(side, &round, half);
	}
	for (uint32_t i = 0; i < n; i++)
		if (round.halves[i].sends && given_up(round.halves[i].message))
			tell_end(side, &round.halves[i]);
	for (uint32_t i = 0; i < n; i++)
		if (!round.halves[i].sends && given_up(round.halves[i].message))
			hear_end(side, &round.halves[i]);
	from = n > 0 ? (uint32_t)hunt_own(side, n) : 0;
	side->what = "the end of messages";
	for (uint32_t i = 0; i < n; i++) {
		struct half *half = &round.halves[(from + i) % n];

		hunt_finish(side, &half->pend);
		if (half->sends && given_up(half->message))
			hunt_well(side, &half->told, hunt_finish(side, &half->told), "told");
	}
	for (uint32_t i = 0; i < n; i++)
		judge(side, &round, &round.halves[i]);
	for (uint32_t i = 0; i < n; i++) {
		hunt_drop(&round.halves[i].pend);
		hunt_drop(&round.halves[i].told);
		hunt_give(side, &round.halves[i].memory);
	}
}
