/*
 * test_parts.c - messages of several parts in every cell of the conformance suite (conform.h): cut
 * in one way where they are sent and in another where they are received, in one piece, in a view;
 * too long, of tags by a mask and of any peer, at once, taken back, too late; one part that is bad.
 */
#include "bytes.h"
#include "cell_bad.h"
#include "conform.h"

#define LARGE   (1048576 + 3)
#define CUTS    40
#define GAP     24
#define BLANK   0xa5
#define SHORT   50000000ull /* a deadline that passes */
#define ANY_TAG 0ull

/* A row of bytes in so many parts of an end's memory. */
struct cut {
	struct tow_part parts[CUTS];
	uint32_t count;
	uint64_t bytes;
};

/* One message from end 0 to end 1. */
struct message {
	uint32_t bytes, room;
	uint32_t out, in; /* how many parts; in 0: a view */
	uint64_t flags;   /* of the receive */
	bool posted;      /* before it is sent; else when it has come */
	bool any;         /* of any peer and tag */
};

static const char *name_of(int status)
{
	return tow_status_name(status);
}

/*
 * Parts of unlike lengths, every fifth empty, in pairs that change places in memory, with gaps; the
 * last two lie one behind the other.
 */
static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void cut_make(struct cut *cut, uint8_t *base, uint64_t bytes, uint32_t count)
{
	uint64_t left = bytes, at[CUTS], next = 8;

	*cut = (struct cut){ .count = count, .bytes = bytes };
	for (uint32_t i = 0; i < count; i++) {
		uint64_t even = bytes / count,
			 n = lesser(left, i % 2 == 0 ? even + even / 3 : even / 2);

		if (i % 5 == 3)
			n = 0;
		if (i + 1 == count)
			n = left;
		cut->parts[i].bytes = n;
		left -= n;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t part = i + 2 >= count ? i : (i ^ 1) + 2 < count ? i ^ 1 : i;

		at[part] = next;
		next += cut->parts[part].bytes + (i + 2 == count ? 0 : GAP);
	}
	for (uint32_t i = 0; i < count; i++)
		cut->parts[i].data = cut->parts[i].bytes > 0 ? base + at[i] : NULL;
}

static void cut_fill(const struct cut *cut, unsigned seed)
{
	uint8_t *row = malloc(cut->bytes + 1), *from = row;

	twt_data_fill(row, cut->bytes, seed);
	for (uint32_t i = 0; i < cut->count; from += cut->parts[i++].bytes) {
		if (cut->parts[i].bytes > 0)
			memcpy(cut->parts[i].data, from, cut->parts[i].bytes);
	}
	free(row);
}

/* The first `bytes` of the row, whose memory is blank afterwards. */
static const char *cut_judge(const struct cut *cut, uint64_t bytes, unsigned seed)
{
	uint8_t *row = malloc(bytes + 1), *to = row;
	const char *verdict;
	uint64_t left = bytes;

	for (uint32_t i = 0; i < cut->count; i++) {
		uint64_t n = lesser(left, cut->parts[i].bytes);

		if (n > 0) {
			memcpy(to, cut->parts[i].data, n);
			memset(cut->parts[i].data, BLANK, n);
		}
		to += n;
		left -= n;
	}
	verdict = twt_data_judge(row, bytes, seed);
	free(row);
	return verdict;
}

/* What was received has been judged: nothing else may have been written. */
static const char *rest_judge(const struct twt_end *end)
{
	return twt_all(end->in, TWT_CELL_BYTES, BLANK) ? "blank" : "WRITTEN";
}

static void send_cut(struct twt_end *end, struct twt_doing *doing, const struct cut *cut,
		     uint64_t tag)
{
	twt_ok(end, tow_send_parts_start(end->peer, cut->parts, cut->count, tag,
					 twt_begin(end, doing, TOW_FOREVER), &doing->op));
}

static void recv_cut(struct twt_end *end, struct twt_doing *doing, const struct cut *cut,
		     const struct message *m, uint64_t timeout_ns)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = m->any ? NULL : end->peer;
	match.tag = m->any ? ANY_TAG : 7;
	match.tag_mask = m->any ? 0 : UINT64_MAX;
	twt_begin(end, doing, timeout_ns);
	doing->options.flags = m->flags;
	twt_ok(end, tow_recv_match_start(end->endpoint, &match, cut->parts, cut->count,
					 &doing->options, &doing->op));
}

/* Until so many messages have come to this end for which nobody had posted. */
static void await_unexpected(struct twt_end *end, uint64_t count)
{
	twt_until(end, "/v1/counters", "counters", "unexpected_messages", count);
}

static uint64_t unexpected; /* end 1's count of them: what the case has sent so far */

static void describe_message(const struct message *m, char *text, size_t room)
{
	snprintf(text, room, "%u bytes in %u parts to %u in %u, %s%s%s", m->bytes, m->out, m->room,
		 m->in, m->posted ? "posted" : "unexpected",
		 (m->flags & TOW_OP_TRUNCATE) != 0 ? ", cut" : "", m->any ? ", of any" : "");
}

static void receive_one(struct twt_end *end, const struct message *m, const char *name,
			unsigned seed)
{
	struct tow_result result;
	struct twt_doing doing;
	struct cut cut = { .count = 0 };

	memset(end->in, BLANK, TWT_CELL_BYTES);
	if (m->in > 0)
		cut_make(&cut, end->in, m->room, m->in);
	if (!m->posted)
		await_unexpected(end, ++unexpected);
	recv_cut(end, &doing, &cut, m, TOW_FOREVER);
	if (m->posted)
		twt_meet(end);
	twt_await_kept(end, &doing, &result);
	twt_meet(end);
	twt_say(end, "%s: recv %s %llu, dropped %llu, tag %llu, data %s", name,
		name_of(result.status), (unsigned long long)result.bytes,
		(unsigned long long)result.dropped_bytes, (unsigned long long)result.tag,
		result.status < 0 ? "none"
		: m->in > 0       ? cut_judge(&cut, result.bytes, seed)
				  : twt_data_judge(result.data, result.bytes, seed));
	twt_say(end, "%s: the rest is %s", name, rest_judge(end));
	twt_ok(end, m->in > 0 ? tow_op_release(doing.op) : tow_view_release(doing.op));
}

static void exchange(struct twt_end *end, const struct message *m, unsigned seed)
{
	struct tow_result result;
	struct twt_doing doing;
	struct cut cut;
	char name[96];

	describe_message(m, name, sizeof(name));
	twt_meet(end);
	if (end->which == 1) {
		receive_one(end, m, name, seed);
		return;
	}
	cut_make(&cut, end->out, m->bytes, m->out);
	cut_fill(&cut, seed);
	if (m->posted)
		twt_meet(end);
	send_cut(end, &doing, &cut, 7);
	twt_await(end, &doing, &result);
	twt_say(end, "%s: send %s %llu tag %llu", name, name_of(result.status),
		(unsigned long long)result.bytes, (unsigned long long)result.tag);
	twt_meet(end);
}

static void exchange_all(struct twt_end *end)
{
	static const uint32_t sizes[] = { 0, 8, 100, 4096, 65536, LARGE };
	static const uint32_t counts[][2] = { { 3, 3 }, { 1, 4 }, { 5, 1 }, { 40, 7 }, { 2, 40 } };
	unsigned seed = 10;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
			const struct message m = { .bytes = sizes[i],
						   .room = sizes[i],
						   .out = counts[j][0],
						   .in = counts[j][1],
						   .posted = (i + j) % 2 == 0 };

			exchange(end, &m, seed++);
		}
	}
}

static void exchange_others(struct twt_end *end)
{
	static const struct message others[] = {
		{ 100, 200, 3, 4, 0, true, false },
		{ LARGE, LARGE + 100, 3, 4, 0, false, false },
		{ 100, 50, 3, 4, 0, true, false },
		{ 100, 50, 3, 4, 0, false, false },
		{ LARGE, 1000, 3, 4, 0, true, false },
		{ LARGE, 1000, 3, 4, 0, false, false },
		{ 100, 50, 3, 4, TOW_OP_TRUNCATE, true, false },
		{ 100, 50, 3, 4, TOW_OP_TRUNCATE, false, false },
		{ LARGE, 1000, 6, 6, TOW_OP_TRUNCATE, true, false },
		{ LARGE, 600001, 7, 40, TOW_OP_TRUNCATE, false, false },
		{ LARGE, LARGE, 5, 0, 0, true, false },
		{ LARGE, LARGE, 5, 0, 0, false, false },
		{ 100, 100, 5, 0, 0, true, false },
		{ 100, 100, 4, 5, 0, true, true },
		{ 100, 100, 4, 5, 0, false, true },
		{ LARGE, LARGE, 4, 5, 0, true, true },
		{ LARGE, 600001, 4, 5, TOW_OP_TRUNCATE, false, true },
	};

	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		exchange(end, &others[i], 60 + i);
}

/* A small send may complete in the call: it has left its parts then, which are spoiled. */
static void at_once(struct twt_end *end)
{
	enum { COUNT = 4 };
	const struct message m = { .room = 2000, .in = 3 };
	struct tow_result result;
	struct twt_doing doing;
	struct cut cut;

	twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < COUNT; i++) {
		cut_make(&cut, end->out, 2000, 3 + i);
		cut_fill(&cut, 90 + i);
		twt_begin(end, &doing, TOW_FOREVER);
		doing.options.flags = TOW_OP_AT_ONCE;
		twt_ok(end, tow_send_parts_start(end->peer, cut.parts, cut.count, 7, &doing.options,
						 &doing.op));
		if (doing.op != NULL)
			twt_await(end, &doing, &result);
		memset(end->out, BLANK, TWT_CELL_BYTES);
	}
	if (end->which == 1)
		await_unexpected(end, unexpected += COUNT);
	for (unsigned i = 0; end->which == 1 && i < COUNT; i++) {
		memset(end->in, BLANK, TWT_CELL_BYTES);
		cut_make(&cut, end->in, m.room, m.in);
		recv_cut(end, &doing, &cut, &m, TOW_FOREVER);
		twt_await(end, &doing, &result);
		twt_say(end, "at once %u: %s %s", i, name_of(result.status),
			cut_judge(&cut, result.bytes, 90 + i));
	}
}

/* Small and large ones in turns come in the order in which they were sent. */
static void keep_order(struct twt_end *end)
{
	enum { COUNT = 6, STEP = 250000 };
	const struct message m = { .room = 200000, .in = 5 };
	struct twt_doing doing[COUNT];
	struct tow_result result;
	struct cut cuts[COUNT];

	memset(end->in, BLANK, TWT_CELL_BYTES);
	for (unsigned i = 0; end->which == 1 && i < COUNT; i++) {
		cut_make(&cuts[i], end->in + (size_t)i * STEP, m.room, m.in);
		recv_cut(end, &doing[i], &cuts[i], &m, TOW_FOREVER);
	}
	twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < COUNT; i++) {
		cut_make(&cuts[i], end->out + (size_t)i * STEP, i % 2 == 0 ? 16 + i : 150000 + i,
			 3 + i);
		cut_fill(&cuts[i], 100 + i);
		send_cut(end, &doing[i], &cuts[i], 7);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		int status = twt_await(end, &doing[i], &result);

		twt_say(end, "order %u: %s %llu", i, name_of(status),
			(unsigned long long)result.bytes);
	}
	for (unsigned i = 0; end->which == 1 && i < COUNT; i++)
		twt_say(end, "order %u: data %s", i,
			cut_judge(&cuts[i], i % 2 == 0 ? 16 + i : 150000 + i, 100 + i));
	if (end->which == 1)
		twt_say(end, "order: the rest is %s", rest_judge(end));
}

/* Ends it before its time: late, by its deadline, which it has from the start. */
static void end_early(struct twt_end *end, struct twt_doing *doing, bool late)
{
	struct tow_result result;

	if (!late)
		twt_ok(end, tow_op_cancel(doing->op));
	twt_await(end, doing, &result);
	twt_say(end, "%s: %s %llu", late ? "past its deadline" : "canceled", name_of(result.status),
		(unsigned long long)result.bytes);
}

/* Receives that nothing comes for, then sends that nobody takes. */
static void give_up(struct twt_end *end)
{
	const struct message m = { .room = LARGE, .in = 9 };
	const struct message after = { LARGE, LARGE, 8, 9, 0, true, false };
	struct twt_doing doing;
	struct cut cut;

	twt_meet(end);
	cut_make(&cut, end->which == 0 ? end->out : end->in, LARGE, 9);
	for (int late = 0; late < 2; late++) {
		recv_cut(end, &doing, &cut, &m, late ? SHORT : TOW_FOREVER);
		end_early(end, &doing, late);
	}
	for (int late = 0; late < 2; late++) {
		twt_meet(end);
		if (end->which == 0) {
			twt_begin(end, &doing, late ? SHORT : TOW_FOREVER);
			twt_ok(end, tow_send_parts_start(end->peer, cut.parts, cut.count, 8,
							 &doing.options, &doing.op));
		} else {
			await_unexpected(end, ++unexpected);
		}
		if (!late)
			twt_meet(end);
		if (end->which == 0)
			end_early(end, &doing, late);
	}
	twt_meet(end);
	if (end->which == 1)
		twt_until_none_waits(end); /* else what follows meets what was taken back */
	exchange(end, &after, 120);
}

static void misuse(struct twt_end *end)
{
	static struct tow_part many[TOW_PARTS_MAX + 1];
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_part two[2] = { { end->out, 8 }, { NULL, 8 } };
	struct twt_doing doing;

	match.peer = end->peer;
	twt_begin(end, &doing, TOW_FOREVER);
	twt_say(end, "no data: %s, %s",
		name_of(tow_send_parts_start(end->peer, two, 2, 1, NULL, &doing.op)),
		name_of(tow_recv_match_start(end->endpoint, &match, two, 2, NULL, &doing.op)));
	two[1] = (struct tow_part){ end->out + 16, UINT64_MAX };
	twt_say(end, "too long: %s, %s",
		name_of(tow_send_parts_start(end->peer, two, 2, 1, NULL, &doing.op)),
		name_of(tow_recv_match_start(end->endpoint, &match, two, 2, NULL, &doing.op)));
	twt_say(end, "too many: %s, %s",
		name_of(tow_send_parts_start(end->peer, many, TOW_PARTS_MAX + 1, 1, NULL,
					     &doing.op)),
		name_of(tow_recv_match_start(end->endpoint, &match, many, TOW_PARTS_MAX + 1, NULL,
					     &doing.op)));
	two[1].bytes = 8;
	twt_say(end, "nobody to tell: %s",
		name_of(tow_recv_match_start(end->endpoint, &match, two, 2, NULL, NULL)));
	doing.options.flags = TOW_OP_TRUNCATE;
	twt_say(end, "a send that is cut: %s",
		name_of(tow_send_parts_start(end->peer, two, 2, 1, &doing.options, &doing.op)));
}

/* One side goes while the other waits for parts, and has some on their way. */
static void part(struct twt_end *end)
{
	const struct message m = { .room = 1000, .in = 9 };
	struct twt_doing doing[2];
	struct tow_result result;
	struct tow_peer *peer;
	struct cut cut;
	uint64_t before = twt_counter(end, "unexpected_messages");

	twt_meet(end);
	if (end->which == 1) {
		cut_make(&cut, end->in, m.room, m.in);
		recv_cut(end, &doing[0], &cut, &m, TOW_FOREVER);
		cut_make(&cut, end->out, LARGE, 9);
		send_cut(end, &doing[1], &cut, 20);
	} else {
		await_unexpected(end, before + 1);
	}
	twt_meet(end);
	peer = end->peer;
	end->peer = NULL;
	twt_ok(end, end->which == 0 ? tow_peer_close(peer) : TOW_OK);
	if (end->which == 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		twt_await(end, &doing[i], &result);
		twt_say(end, "%s when the connection ends: %s", i == 0 ? "receive" : "send",
			name_of(result.status));
	}
	twt_ok(end, tow_peer_close(peer));
}

static void play(struct twt_end *end)
{
	exchange_all(end);
	exchange_others(end);
	at_once(end);
	keep_order(end);
	give_up(end);
	misuse(end);
	part(end);
}

/* --- memory that cannot be read or written --- */

/* The second of three parts is bad at one side: both hear of it, and the next message comes. */
static void bad_part(struct twt_end *end, enum twt_bad bad, bool receives)
{
	const struct message after = { LARGE, LARGE, 3, 4, 0, true, false };
	const bool mine = receives == (end->which == 1);
	uint8_t *base = end->which == 0 ? end->out : end->in;
	uint8_t *at = twt_bad_take(end, mine ? bad : TWT_GOOD, end->which == 1);
	const struct tow_part parts[3] = { { base, 70000 },
					   { at, TWT_BAD_BYTES - 1000 },
					   { base + 80000, 30000 } };
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	twt_begin(end, &doing, TOW_FOREVER);
	if (end->which == 1) {
		struct tow_match match = TOW_MATCH_INIT;

		match.peer = end->peer;
		match.tag = 7;
		twt_ok(end, tow_recv_match_start(end->endpoint, &match, parts, 3, &doing.options,
						 &doing.op));
		twt_meet(end);
	} else {
		twt_meet(end);
		twt_ok(end,
		       tow_send_parts_start(end->peer, parts, 3, 7, &doing.options, &doing.op));
	}
	twt_await_kept(end, &doing, &result);
	twt_say(end, "%s at who %s: %s, memory is %s", twt_bad_names[bad],
		receives ? "receives" : "sends", name_of(result.status),
		twt_bad_told(&result, base, 70000));
	twt_ok(end, tow_op_release(doing.op));
	twt_bad_give(at, mine ? bad : TWT_GOOD);
	exchange(end, &after, 130);
}

static void play_bad(struct twt_end *end)
{
	twt_bad_each(end, bad_part);
	part(end);
}

int main(void)
{
	return twt_conform(TWT_PARTS, play, play_bad);
}
