/*
 * test_matches.c - receives that take a part of a longer message, and messages of more than one
 * tag, and probes, in every cell of the conformance suite (conform.h).
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE (1048576 + 3)

/* One message from end 0 to end 1, which takes at most `room` of it. */
struct cut {
	uint32_t bytes, room;
};

static const struct cut cuts[] = {
	{ 100, 50 },          { 100, 0 },    { 4096, 4095 },    { 65536, 1000 },
	{ LARGE, LARGE - 1 }, { LARGE, 10 }, { LARGE, 600001 }, { LARGE, 0 },
	{ LARGE, LARGE + 1 }, { 100, 100 },
};

#define CUTS (sizeof(cuts) / sizeof(cuts[0]))

static const char *name_of(int status)
{
	return tow_status_name(status);
}

static void send_one(struct twt_end *end, struct twt_doing *doing, uint32_t bytes, uint64_t tag)
{
	twt_ok(end, tow_send_start(end->peer, end->out, bytes, tag,
				   twt_begin(end, doing, TOW_FOREVER), &doing->op));
}

static void recv_cut(struct twt_end *end, struct twt_doing *doing, uint32_t room, uint64_t tag)
{
	twt_begin(end, doing, TOW_FOREVER);
	doing->options.flags = TOW_OP_TRUNCATE;
	twt_ok(end, tow_recv_start(end->peer, room > 0 ? end->in : NULL, room, tag, &doing->options,
				   &doing->op));
}

/* Until so many messages have come to this end for which nobody had posted. */
static void await_unexpected(struct twt_end *end, uint64_t count)
{
	twt_until(end, "/v1/counters", "counters", "unexpected_messages", count);
}

static uint64_t unexpected; /* end 1's count of them: what the case has sent so far */

/* Nothing is written beyond the room, and the sender hears nothing of what was dropped. */
static void cut_one(struct twt_end *end, const struct cut *cut, bool posted, unsigned seed)
{
	struct tow_result result;
	struct twt_doing doing;
	int status;

	twt_meet(end);
	if (end->which == 0) {
		twt_data_fill(end->out, cut->bytes, seed);
		if (posted)
			twt_meet(end);
		send_one(end, &doing, cut->bytes, 7);
		status = twt_await(end, &doing, &result);
		twt_say(end, "%u of %u: send %s %llu, dropped %llu", cut->room, cut->bytes,
			name_of(status), (unsigned long long)result.bytes,
			(unsigned long long)result.dropped_bytes);
		twt_meet(end);
		return;
	}
	memset(end->in, 0, cut->room);
	end->in[cut->room] = 0xa5;
	if (!posted)
		await_unexpected(end, ++unexpected);
	recv_cut(end, &doing, cut->room, 7);
	if (posted)
		twt_meet(end);
	status = twt_await(end, &doing, &result);
	if (end->in[cut->room] != 0xa5)
		twt_wrong(end->cell, "%u of %u: written beyond the buffer", cut->room, cut->bytes);
	twt_meet(end);
	twt_say(end, "%u of %u, %s: recv %s %llu, dropped %llu, tag %llu, data %s", cut->room,
		cut->bytes, posted ? "posted" : "unexpected", name_of(status),
		(unsigned long long)result.bytes, (unsigned long long)result.dropped_bytes,
		(unsigned long long)result.tag, twt_data_judge(end->in, result.bytes, seed));
}

/* Several at once, of which some are cut: each is right, and so is what comes behind. */
static void cut_several(struct twt_end *end)
{
	enum { COUNT = 6, STEP = 200000, BYTES = 190001 };
	struct twt_doing doing[COUNT];
	struct tow_result result;

	for (unsigned i = 0; end->which == 1 && i < COUNT; i++) {
		twt_begin(end, &doing[i], TOW_FOREVER);
		doing[i].options.flags = TOW_OP_TRUNCATE;
		twt_ok(end, tow_recv_start(end->peer, end->in + (size_t)i * STEP,
					   i % 2 == 0 ? 1000 * (i + 1) : STEP, 5, &doing[i].options,
					   &doing[i].op));
	}
	twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < COUNT; i++) {
		uint8_t *at = end->out + (size_t)i * STEP;

		twt_data_fill(at, BYTES, 60 + i);
		twt_ok(end, tow_send_start(end->peer, at, i == 4 ? 9000 : BYTES, 5,
					   twt_begin(end, &doing[i], TOW_FOREVER), &doing[i].op));
	}
	for (unsigned i = 0; i < COUNT; i++) {
		int status = twt_await(end, &doing[i], &result);

		twt_say(end, "several, %u: %s %llu, dropped %llu %s", i, name_of(status),
			(unsigned long long)result.bytes, (unsigned long long)result.dropped_bytes,
			end->which == 0
				? "sent"
				: twt_data_judge(end->in + (size_t)i * STEP, result.bytes, 60 + i));
	}
}

/* --- receives of some tags, and of any --- */

#define SOME_LARGE 150001

/* How a receive is started. */
#define VIEW 1u
#define ANY  2u /* of any peer */

static struct tow_match match_of(struct twt_end *end, unsigned how, uint64_t tag, uint64_t mask)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = (how & ANY) != 0 ? NULL : end->peer;
	match.tag = tag;
	match.tag_mask = mask;
	return match;
}

static const char *whose(const struct twt_end *end, const struct tow_peer *peer)
{
	return peer == NULL ? "none" : peer == end->peer ? "right" : "WRONG";
}

/* Into a place of its own; a view: without one. */
static void recv_match(struct twt_end *end, struct twt_doing *doing, unsigned place, unsigned how,
		       uint64_t tag, uint64_t mask, uint64_t timeout_ns)
{
	const struct tow_part part = { end->in + (size_t)place * 200000, 200000 };
	const struct tow_match match = match_of(end, how, tag, mask);

	twt_begin(end, doing, timeout_ns);
	twt_ok(end, tow_recv_match_start(end->endpoint, &match, &part, (how & VIEW) == 0,
					 &doing->options, &doing->op));
}

static void say_match(struct twt_end *end, struct twt_doing *doing, const char *name, unsigned how)
{
	struct tow_result result;
	int status = twt_await_kept(end, doing, &result);

	twt_say(end, "%s: %s %llu tag %llu, peer %s, data %s", name, name_of(status),
		(unsigned long long)result.bytes, (unsigned long long)result.tag,
		whose(end, result.peer),
		status < 0 ? "none"
			   : twt_data_judge(result.data, result.bytes, (unsigned)result.tag));
	twt_ok(end, (how & VIEW) != 0 ? tow_view_release(doing->op) : tow_op_release(doing->op));
}

/* Messages of these tags, of which each second one is large, all of them under way at once. */
static void send_tags(struct twt_end *end, const uint64_t *tags, unsigned count)
{
	struct tow_result result;
	struct twt_doing doing[8];

	for (unsigned i = 0; i < count; i++) {
		uint8_t *at = end->out + (size_t)i * 200000;
		uint32_t bytes = i % 2 == 0 ? 40 + i : SOME_LARGE + i;

		twt_data_fill(at, bytes, (unsigned)tags[i]);
		twt_ok(end, tow_send_start(end->peer, at, bytes, tags[i],
					   twt_begin(end, &doing[i], TOW_FOREVER), &doing[i].op));
	}
	twt_meet(end);
	for (unsigned i = 0; i < count; i++)
		twt_say(end, "tag %llu: send %s", (unsigned long long)tags[i],
			name_of(twt_await(end, &doing[i], &result)));
	twt_meet(end);
}

/* Each message goes to the receive that was started first of those that take it. */
static void masks_posted(struct twt_end *end, unsigned how)
{
	static const uint64_t tags[] = { 70, 50, 41, 71, 40, 70 };
	static const struct {
		uint64_t tag, mask;
		const char *name;
	} posts[] = {
		{ 50, UINT64_MAX, "50" },  { 0, 0, "any" },          { 40, ~1ull, "40 or 41" },
		{ 70, ~1ull, "70 or 71" }, { 70, UINT64_MAX, "70" }, { 0, 0, "any again" },
	};
	struct twt_doing doing[6];

	for (unsigned i = 0; end->which == 1 && i < 6; i++)
		recv_match(end, &doing[i], i, how, posts[i].tag, posts[i].mask, TOW_FOREVER);
	twt_meet(end);
	if (end->which == 0) {
		send_tags(end, tags, 6);
		return;
	}
	twt_meet(end);
	for (unsigned i = 0; i < 6; i++)
		say_match(end, &doing[i], posts[i].name, how);
	twt_meet(end);
}

/* A receive takes the message that was sent first of those that it takes. */
static void masks_unexpected(struct twt_end *end, unsigned how)
{
	static const uint64_t tags[] = { 90, 31, 90, 20, 30, 91 };
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		send_tags(end, tags, 6);
		return;
	}
	twt_meet(end);
	unexpected += 6;
	await_unexpected(end, unexpected);
	recv_match(end, &doing, 0, how, 0, 0, TOW_FOREVER);
	say_match(end, &doing, "the oldest", how);
	recv_match(end, &doing, 1, how, 20, UINT64_MAX, TOW_FOREVER);
	say_match(end, &doing, "20", how);
	recv_match(end, &doing, 2, how, 30, ~1ull, TOW_FOREVER);
	say_match(end, &doing, "30 or 31", how);
	recv_match(end, &doing, 3, how, 0, 1, TOW_FOREVER);
	say_match(end, &doing, "an even one", how);
	recv_match(end, &doing, 4, how, 0, 1, TOW_FOREVER);
	say_match(end, &doing, "another even one", how);
	recv_match(end, &doing, 5, how, 0, 0, TOW_FOREVER);
	say_match(end, &doing, "the last", how);
	twt_meet(end);
}

/* Looks until there is one. */
static void probe_one(struct twt_end *end, unsigned how, uint64_t tag, uint64_t mask,
		      const char *name)
{
	const struct tow_match match = match_of(end, how, tag, mask);
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t until = twt_cell_now() + TWT_CELL_NS;
	int status;

	while ((status = tow_probe(end->endpoint, &match, &result)) == TOW_AGAIN &&
	       twt_cell_now() < until)
		twt_idle(end);
	twt_say(end, "probe %s: %s %llu tag %llu, peer %s, id %s", name, name_of(status),
		(unsigned long long)result.bytes, (unsigned long long)result.tag,
		whose(end, result.peer), result.rpc_id != 0 ? "set" : "NONE");
}

static void probe(struct twt_end *end)
{
	static const uint64_t tags[] = { 8, 9 };
	const struct tow_match none = match_of(end, 0, 10, UINT64_MAX);
	struct tow_result result = TOW_RESULT_INIT;
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		send_tags(end, tags, 2);
		return;
	}
	twt_meet(end);
	probe_one(end, 0, 9, UINT64_MAX, "9");
	probe_one(end, 0, 0, 0, "any");
	probe_one(end, ANY, 0, 0, "any of any");
	probe_one(end, ANY, 9, UINT64_MAX, "9 of any");
	probe_one(end, 0, 8, UINT64_MAX, "8");
	twt_say(end, "probe 10: %s", name_of(tow_probe(end->endpoint, &none, &result)));
	unexpected += 2;
	await_unexpected(end, unexpected);
	recv_match(end, &doing, 0, 0, 0, 0, TOW_FOREVER);
	say_match(end, &doing, "what was probed", 0);
	recv_match(end, &doing, 0, 0, 8, ~1ull, TOW_FOREVER);
	say_match(end, &doing, "and the other", 0);
	twt_meet(end);
}

/* Receives of any tag that nothing comes for; what comes later goes to the one that is left. */
static void give_up(struct twt_end *end)
{
	static const uint64_t tags[] = { 6 };
	struct twt_doing doing[3];

	if (end->which == 1) {
		recv_match(end, &doing[0], 0, 0, 0, 0, TOW_FOREVER);
		recv_match(end, &doing[1], 1, ANY, 6, ~1ull, 50000000);
		recv_match(end, &doing[2], 2, ANY, 0, 0, TOW_FOREVER);
		twt_ok(end, tow_op_cancel(doing[0].op));
		say_match(end, &doing[0], "canceled", 0);
		say_match(end, &doing[1], "past its deadline", 0);
	}
	twt_meet(end);
	if (end->which == 0) {
		send_tags(end, tags, 1);
		return;
	}
	twt_meet(end);
	say_match(end, &doing[2], "left", 0);
	twt_meet(end);
}

/* One side goes while the other waits for whatever comes. */
static void part(struct twt_end *end)
{
	const struct tow_match any = match_of(end, 0, 0, 0);
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_peer *peer = end->peer;
	struct twt_doing doing, others;

	if (end->which == 1) {
		recv_match(end, &doing, 0, 0, 0, 0, TOW_FOREVER);
		recv_match(end, &others, 1, ANY, 0, 0, TOW_FOREVER);
	}
	twt_meet(end);
	if (end->which == 0) {
		twt_ok(end, tow_peer_close(end->peer));
		end->peer = NULL;
		twt_say(end, "probe of a closed peer: %s",
			name_of(tow_probe(end->endpoint, &any, &result)));
		return;
	}
	say_match(end, &doing, "receive when the connection ends", 0);
	twt_say(end, "probe of who has gone: %s", name_of(tow_probe(end->endpoint, &any, &result)));
	end->peer = NULL;
	twt_say(end, "receive of any peer: %s", name_of(tow_op_test(others.op)));
	twt_ok(end, tow_peer_close(peer));
	twt_ok(end, tow_endpoint_close(end->endpoint));
	say_match(end, &others, "receive of any peer when the endpoint ends", 0);
}

static void play(struct twt_end *end)
{
	for (unsigned i = 0; i < 2 * CUTS; i++)
		cut_one(end, &cuts[i / 2], i % 2 == 0, 10 + i);
	cut_several(end);
	for (unsigned how = 0; how <= (VIEW | ANY); how++) {
		masks_posted(end, how);
		masks_unexpected(end, how);
	}
	probe(end);
	give_up(end);
	part(end);
}

/* --- memory that cannot be read or written --- */

/* The memory of one side is bad, and both hear of that; the next message comes. By a mask, of
 * any peer for two kinds of bad memory. */
static void bad_cut(struct twt_end *end, enum twt_bad bad, bool receives)
{
	const unsigned how = bad % 2 == 0 ? ANY : 0;
	struct tow_result result;
	struct twt_doing doing;
	bool mine = receives == (end->which == 1);
	uint8_t *at = mine ? twt_bad_take(end, bad, end->which == 1)
			   : twt_bad_take(end, TWT_GOOD, end->which == 1);

	twt_meet(end);
	twt_begin(end, &doing, TOW_FOREVER);
	if (end->which == 1) {
		const struct tow_match match = match_of(end, how, 6, ~1ull);
		const struct tow_part part = { at, TWT_BAD_BYTES - 8 };

		doing.options.flags = TOW_OP_TRUNCATE;
		twt_ok(end, tow_recv_match_start(end->endpoint, &match, &part, 1, &doing.options,
						 &doing.op));
		twt_meet(end);
	} else {
		twt_meet(end);
		twt_ok(end, tow_send_start(end->peer, at, TWT_BAD_BYTES - 1, 7, &doing.options,
					   &doing.op));
	}
	twt_await_kept(end, &doing, &result);
	twt_say(end, "%s at who %s: %s", twt_bad_names[bad], receives ? "receives" : "sends",
		name_of(result.status));
	twt_ok(end, tow_op_release(doing.op));
	twt_bad_give(at, mine ? bad : TWT_GOOD);
}

static void play_bad(struct twt_end *end)
{
	twt_bad_each(end, bad_cut);
	cut_several(end);
}

int main(void)
{
	return twt_conform(TWT_MATCHES, play, play_bad);
}
