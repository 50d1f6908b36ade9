/*
 * test_messages.c - messages in every cell of the conformance suite (conform.h): sizes, tags and
 * order, what does not fit, what is taken back, what comes too late, what is left when a side goes.
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE (1048576 + 3)
#define SHORT 50000000ull /* a deadline that passes */

static const uint32_t sizes[] = { 0, 8, 1024, 4096, 65536, LARGE };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* One message from end 0 to end 1, which has room for `room`. */
struct message {
	const char *name;
	uint32_t bytes, room;
	bool posted; /* before it is sent; else when it has come */
};

static const char *name_of(int status)
{
	return tow_status_name(status);
}

static void send_one(struct twt_end *end, struct twt_doing *doing, uint32_t bytes, uint64_t tag)
{
	twt_ok(end, tow_send_start(end->peer, end->out, bytes, tag,
				   twt_begin(end, doing, TOW_FOREVER), &doing->op));
}

static void recv_one(struct twt_end *end, struct twt_doing *doing, uint32_t room, uint64_t tag)
{
	twt_ok(end, tow_recv_start(end->peer, end->in, room, tag,
				   twt_begin(end, doing, TOW_FOREVER), &doing->op));
}

/* Until so many messages have come to this end for which nobody had posted. */
static void await_unexpected(struct twt_end *end, uint64_t count)
{
	twt_until(end, "/v1/counters", "counters", "unexpected_messages", count);
}

static uint64_t unexpected; /* end 1's count of them: what the case has sent so far */

static void exchange(struct twt_end *end, const struct message *m, unsigned seed)
{
	_Atomic uint64_t *id = &end->cell->ids[seed];
	struct tow_result result;
	struct twt_doing doing;
	int status;

	twt_meet(end);
	if (end->which == 0) {
		twt_data_fill(end->out, m->bytes, seed);
		if (m->posted)
			twt_meet(end);
		send_one(end, &doing, m->bytes, 7);
		status = twt_await(end, &doing, &result);
		atomic_store(id, result.rpc_id);
		twt_say(end, "%s: send %s %llu tag %llu", m->name, name_of(status),
			(unsigned long long)result.bytes, (unsigned long long)result.tag);
		twt_meet(end);
		return;
	}
	memset(end->in, 0, m->room);
	end->in[m->room] = 0xa5; /* what is too long is not written beyond the room */
	if (m->posted) {
		recv_one(end, &doing, m->room, 7);
		twt_meet(end);
	} else {
		await_unexpected(end, ++unexpected);
		recv_one(end, &doing, m->room, 7);
	}
	status = twt_await(end, &doing, &result);
	if (end->in[m->room] != 0xa5)
		twt_wrong(end->cell, "%s: written beyond the buffer", m->name);
	twt_meet(end);
	twt_say(end, "%s: recv %s %llu tag %llu, id %s, data %s", m->name, name_of(status),
		(unsigned long long)result.bytes, (unsigned long long)result.tag,
		result.rpc_id != 0 && result.rpc_id == atomic_load(id) ? "the same" : "ANOTHER",
		status == TOW_OK ? twt_data_judge(end->in, m->bytes, seed) : "none");
}

static void exchange_all(struct twt_end *end)
{
	char name[64];

	for (unsigned i = 0; i < 2 * SIZES; i++) {
		const struct message m = { name, sizes[i / 2], sizes[i / 2], i % 2 == 0 };

		snprintf(name, sizeof(name), "%u bytes, %s", m.bytes,
			 m.posted ? "posted" : "unexpected");
		exchange(end, &m, 10 + i);
	}
}

static void exchange_others(struct twt_end *end)
{
	static const struct message others[] = {
		{ "small into larger", 100, 200, true },
		{ "large into larger", LARGE, LARGE + 100, true },
		{ "small too long, posted", 100, 50, true },
		{ "small too long, unexpected", 100, 50, false },
		{ "large too long, posted", LARGE, 1000, true },
		{ "large too long, unexpected", LARGE, 1000, false },
		{ "after those", 100, 100, true },
	};

	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		exchange(end, &others[i], 40 + i);
}

/* Small and large ones in turns with one tag come in the order in which they were sent. */
static void keep_order(struct twt_end *end)
{
	enum { COUNT = 8, STEP = 200000 };
	struct twt_doing doing[COUNT];
	struct tow_result result;

	if (end->which == 1) {
		for (unsigned i = 0; i < COUNT; i++)
			twt_ok(end, tow_recv_start(end->peer, end->in + (size_t)i * STEP, STEP, 5,
						   twt_begin(end, &doing[i], TOW_FOREVER),
						   &doing[i].op));
	}
	twt_meet(end);
	if (end->which == 0) {
		for (unsigned i = 0; i < COUNT; i++) {
			uint8_t *at = end->out + (size_t)i * STEP;
			uint32_t bytes = i % 2 == 0 ? 16 + i : 150000 + i;

			twt_data_fill(at, bytes, 60 + i);
			twt_ok(end, tow_send_start(end->peer, at, bytes, 5,
						   twt_begin(end, &doing[i], TOW_FOREVER),
						   &doing[i].op));
		}
	}
	for (unsigned i = 0; i < COUNT; i++) {
		int status = twt_await(end, &doing[i], &result);

		twt_say(end, "order %u: %s %llu %s", i, name_of(status),
			(unsigned long long)result.bytes,
			end->which == 0
				? "sent"
				: twt_data_judge(end->in + (size_t)i * STEP, result.bytes, 60 + i));
	}
}

/* A send that may complete in the call: if it did, it has left its memory, which is spoiled. */
static void send_at_once(struct twt_end *end, struct twt_doing *doing, uint8_t *at, uint32_t bytes)
{
	twt_begin(end, doing, TOW_FOREVER);
	doing->options.flags = TOW_OP_AT_ONCE;
	twt_ok(end, tow_send_start(end->peer, at, bytes, 6, &doing->options, &doing->op));
	if (doing->op == NULL)
		memset(at, 0xee, bytes);
}

/* A receive that may complete in the call, as a message that is here lets it. */
static void recv_at_once(struct twt_end *end, struct twt_doing *doing, uint8_t *at, uint64_t room,
			 struct tow_result *result)
{
	*result = (struct tow_result)TOW_RESULT_INIT;
	twt_begin(end, doing, TOW_FOREVER);
	doing->options.flags = TOW_OP_AT_ONCE;
	doing->options.result = result;
	twt_ok(end, tow_recv_start(end->peer, at, room, 6, &doing->options, &doing->op));
}

static uint32_t bytes_of(unsigned i, unsigned from)
{
	return i == 3 ? 90000 + from : (from + i) * 50;
}

/* Those that complete in the call are in order with those that do not, posted for or not. */
static void keep_order_at_once(struct twt_end *end, unsigned from, bool posted)
{
	enum { COUNT = 6, STEP = 100000 };
	struct twt_doing doing[COUNT];
	struct tow_result results[COUNT] = { { .status = TOW_OK } };
	bool with[COUNT]; /* an operation */

	twt_meet(end);
	if (end->which == 1 && !posted)
		await_unexpected(end, unexpected += COUNT);
	for (unsigned i = 0; end->which == 1 && i < COUNT; i++)
		recv_at_once(end, &doing[i], end->in + (size_t)i * STEP, STEP, &results[i]);
	if (posted)
		twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < COUNT; i++) {
		uint8_t *at = end->out + (size_t)i * STEP;

		twt_data_fill(at, bytes_of(i, from), from + i);
		send_at_once(end, &doing[i], at, bytes_of(i, from));
	}
	for (unsigned i = 0; i < COUNT; i++)
		with[i] = doing[i].op != NULL;
	for (unsigned i = 0; i < COUNT; i++) {
		if (with[i])
			twt_await(end, &doing[i], &results[i]);
		else if (atomic_load(&doing[i].called) != 0)
			twt_wrong(end->cell, "a result came of what gave no operation");
		if (end->which == 1 && results[i].bytes != bytes_of(i, from))
			twt_wrong(end->cell, "a receive has another length");
		twt_say(end, "at once %u: %s %s", i, name_of(results[i].status),
			end->which == 0 ? "sent"
					: twt_data_judge(end->in + (size_t)i * STEP,
							 bytes_of(i, from), from + i));
	}
}

/* Each receive gets the message of its tag, in whatever order they came. */
static void match_tags(struct twt_end *end)
{
	static const uint64_t tags[] = { 1, UINT64_MAX, 0 };
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		for (unsigned i = 0; i < 3; i++) {
			send_one(end, &doing, 100 + i, tags[i]);
			twt_say(end, "tag %u: %s", i, name_of(twt_await(end, &doing, &result)));
		}
		return;
	}
	unexpected += 3;
	await_unexpected(end, unexpected);
	for (unsigned i = 3; i-- > 0;) {
		recv_one(end, &doing, 1000, tags[i]);
		twt_await(end, &doing, &result);
		twt_say(end, "tag %u: %s %llu tag %llx", i, name_of(result.status),
			(unsigned long long)result.bytes, (unsigned long long)result.tag);
	}
}

/* Receives that nothing comes for: canceled, and past their deadline, small and large. */
static void give_up_receives(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	for (int large = 0; large < 2; large++) {
		recv_one(end, &doing, large ? LARGE : 64, 11);
		twt_ok(end, tow_op_cancel(doing.op));
		twt_await(end, &doing, &result);
		twt_say(end, "canceled receive: %s %llu", name_of(result.status),
			(unsigned long long)result.bytes);
		twt_ok(end, tow_recv_start(end->peer, end->in, large ? LARGE : 64, 12,
					   twt_begin(end, &doing, SHORT), &doing.op));
		twt_await(end, &doing, &result);
		twt_say(end, "receive past its deadline: %s %llu", name_of(result.status),
			(unsigned long long)result.bytes);
	}
}

/* Large sends that nobody takes: canceled, and past their deadline. Nothing of them is left. */
static void give_up_sends(struct twt_end *end)
{
	const struct message after = { "after sends given up", LARGE, LARGE, true };
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		send_one(end, &doing, LARGE, 7);
		twt_meet(end);
		twt_ok(end, tow_op_cancel(doing.op));
		twt_await(end, &doing, &result);
		twt_say(end, "canceled send: %s %llu", name_of(result.status),
			(unsigned long long)result.bytes);
		twt_ok(end, tow_send_start(end->peer, end->out, LARGE, 7,
					   twt_begin(end, &doing, SHORT), &doing.op));
		twt_await(end, &doing, &result);
		twt_say(end, "send past its deadline: %s %llu", name_of(result.status),
			(unsigned long long)result.bytes);
		twt_meet(end);
	} else {
		await_unexpected(end, ++unexpected);
		twt_meet(end);
		await_unexpected(end, ++unexpected);
		twt_meet(end);
		twt_until_none_waits(end); /* else the receive below meets what was taken back */
	}
	exchange(end, &after, 80);
}

/* Nobody has its handle, so it needs no end. */
static void forget_one(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		twt_data_fill(end->out, 100, 90);
		twt_meet(end);
		twt_ok(end, tow_send_start(end->peer, end->out, 100, 13, NULL, NULL));
		twt_meet(end);
		return;
	}
	recv_one(end, &doing, 100, 13);
	twt_meet(end);
	twt_await(end, &doing, &result);
	twt_say(end, "forgotten send: %s %s", name_of(result.status),
		twt_data_judge(end->in, 100, 90));
	twt_meet(end);
}

static void misuse(struct twt_end *end)
{
	struct twt_doing doing;

	twt_begin(end, &doing, TOW_FOREVER);
	twt_say(end, "no data: %s",
		name_of(tow_send_start(end->peer, NULL, 8, 1, NULL, &doing.op)));
	twt_say(end, "too long: %s",
		name_of(tow_send_start(end->peer, end->out, UINT64_MAX, 1, NULL, &doing.op)));
	twt_say(end, "nobody to tell: %s",
		name_of(tow_recv_start(end->peer, end->in, 8, 1, NULL, NULL)));
}

/* One side goes while both wait for messages. */
static void part(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;
	struct tow_peer *peer;
	int status;

	recv_one(end, &doing, 64, 20);
	twt_meet(end);
	if (end->which == 0)
		twt_ok(end, tow_peer_close(end->peer));
	peer = end->peer;
	end->peer = NULL;
	twt_await(end, &doing, &result);
	twt_say(end, "receive when the connection ends: %s", name_of(result.status));
	if (end->which == 0)
		return;
	status = tow_send_start(peer, end->out, 10, 21, twt_begin(end, &doing, TOW_FOREVER),
				&doing.op);
	if (status == TOW_OK)
		status = twt_await(end, &doing, &result);
	twt_say(end, "send to who has gone: %s", name_of(status));
	twt_ok(end, tow_peer_close(peer));
}

static void play(struct twt_end *end)
{
	exchange_all(end);
	exchange_others(end);
	keep_order(end);
	keep_order_at_once(end, 80, true);
	keep_order_at_once(end, 90, false);
	match_tags(end);
	give_up_receives(end);
	give_up_sends(end);
	forget_one(end);
	misuse(end);
	part(end);
}

/* --- memory that cannot be read or written --- */

#define BATCH 5

/* Of a batch the second and the fourth are bad at one side; the third is small. */
struct bad_message {
	struct twt_doing doing;
	uint8_t *at;
	uint32_t bytes;
	bool mine; /* the bad memory is this side's */
};

static void bad_start(struct twt_end *end, struct bad_message *m, unsigned i, bool sends,
		      enum twt_bad bad)
{
	const struct tow_op_options *options = twt_begin(end, &m->doing, TOW_FOREVER);
	uint8_t *good = (sends ? end->out : end->in) + (i == 4 ? TWT_BAD_BYTES : 0);

	m->bytes = i == 2 ? 300 : TWT_BAD_BYTES - 1000 + i;
	m->at = good + (i == 2 ? TWT_BAD_BYTES - 500 : 0);
	if (i == 3 && !m->mine)
		twt_ok(end, tow_alloc(end->runtime, m->bytes, 0, (void **)&m->at));
	else if (i % 2 == 1) /* what comes before the bad half is written */
		m->at = twt_bad_take(end, m->mine ? bad : TWT_GOOD, !sends);
	if (sends)
		twt_ok(end,
		       tow_send_start(end->peer, m->at, m->bytes, 30 + i, options, &m->doing.op));
	else
		twt_ok(end,
		       tow_recv_start(end->peer, m->at, m->bytes, 30 + i, options, &m->doing.op));
}

static void bad_end(struct twt_end *end, struct bad_message *m, unsigned i, bool sends,
		    const char *name)
{
	struct tow_result result;

	twt_await_kept(end, &m->doing, &result);
	if (i % 2 == 1)
		twt_say(end, "%s, %u: %s, memory is %s", name, i, name_of(result.status),
			twt_bad_told(&result, m->at, m->bytes));
	else
		twt_say(end, "%s, %u: %s %llu %s", name, i, name_of(result.status),
			(unsigned long long)result.bytes,
			sends ? "sent" : twt_data_judge(m->at, m->bytes, i));
	twt_ok(end, tow_op_release(m->doing.op));
}

static void bad_batch(struct twt_end *end, enum twt_bad bad, bool receives, bool posted)
{
	struct bad_message messages[BATCH];
	bool sends = end->which == (bad % 2 == 0);
	uint64_t before = twt_counter(end, "unexpected_messages");
	char name[64];

	snprintf(name, sizeof(name), "%s at who %s, %s", twt_bad_names[bad],
		 receives ? "receives" : "sends", posted ? "posted" : "unexpected");
	for (unsigned i = 0; i < BATCH; i++)
		messages[i].mine = i % 2 == 1 && sends != receives;
	if (sends) {
		twt_data_fill(end->out, TWT_BAD_BYTES - 1000, 0);
		twt_data_fill(end->out + TWT_BAD_BYTES - 500, 300, 2);
		twt_data_fill(end->out + TWT_BAD_BYTES, TWT_BAD_BYTES - 1000 + 4, 4);
	}
	twt_meet(end);
	if (sends == posted)
		twt_meet(end);
	if (!sends && !posted)
		await_unexpected(end, before + BATCH);
	for (unsigned i = 0; i < BATCH; i++)
		bad_start(end, &messages[i], i, sends, bad);
	if (!sends && posted)
		twt_meet(end);
	if (sends && !posted)
		twt_meet(end);
	for (unsigned i = 0; i < BATCH; i++)
		bad_end(end, &messages[i], i, sends, name);
	twt_bad_give(messages[1].at, messages[1].mine ? bad : TWT_GOOD);
	if (messages[3].mine)
		twt_bad_give(messages[3].at, bad);
	else
		twt_ok(end, tow_free(end->runtime, messages[3].at));
}

static void bad_posted(struct twt_end *end, enum twt_bad bad, bool receives)
{
	bad_batch(end, bad, receives, true);
}

static void bad_unexpected(struct twt_end *end, enum twt_bad bad, bool receives)
{
	bad_batch(end, bad, receives, false);
}

/* Of the runtimes of both ends. */
static unsigned long long of_both(struct twt_end *end, const char *name)
{
	unsigned long long sum = twt_counter(&end->cell->ends[0], name);

	if (!end->cell->lane->one_runtime)
		sum += twt_counter(&end->cell->ends[1], name);
	return sum;
}

static void play_bad(struct twt_end *end)
{
	twt_bad_each(end, bad_posted);
	twt_bad_each(end, bad_unexpected);
	twt_meet(end);
	if (end->which == 0)
		twt_say(end, "faults: %llu, broken connections: %llu",
			of_both(end, "memory_faults"), of_both(end, "connections_broken"));
	part(end);
}

int main(void)
{
	return twt_conform(TWT_MESSAGES, play, play_bad);
}
