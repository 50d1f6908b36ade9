/*
 * test_matches.c - receives that take a part of a longer message, in every cell of the conformance
 * suite (conform.h).
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

static void play(struct twt_end *end)
{
	for (unsigned i = 0; i < 2 * CUTS; i++)
		cut_one(end, &cuts[i / 2], i % 2 == 0, 10 + i);
	cut_several(end);
}

/* --- memory that cannot be read or written --- */

/* The memory of one side is bad, and both hear of that; the next message comes. */
static void bad_cut(struct twt_end *end, enum twt_bad bad, bool receives)
{
	struct tow_result result;
	struct twt_doing doing;
	bool mine = receives == (end->which == 1);
	uint8_t *at = mine ? twt_bad_take(end, bad, end->which == 1)
			   : twt_bad_take(end, TWT_GOOD, end->which == 1);

	twt_meet(end);
	twt_begin(end, &doing, TOW_FOREVER);
	if (end->which == 1) {
		doing.options.flags = TOW_OP_TRUNCATE;
		twt_ok(end, tow_recv_start(end->peer, at, TWT_BAD_BYTES - 8, 7, &doing.options,
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
