/*
 * test_views.c - views in every cell of the conformance suite (conform.h): sizes, several held at
 * once and given back in another order, views that nothing comes for.
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE (1048576 + 3)
#define SHORT 50000000ull /* a deadline that passes */

static const uint32_t sizes[] = { 0, 8, 1024, 4096, 65536, LARGE };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint64_t unexpected; /* what end 1 has been sent unasked so far */

static void view_one(struct twt_end *end, struct twt_doing *doing, uint64_t tag,
		     uint64_t timeout_ns)
{
	twt_ok(end,
	       tow_recv_view_start(end->peer, tag, twt_begin(end, doing, timeout_ns), &doing->op));
}

static void start_send(struct twt_end *end, struct twt_doing *doing, const void *data,
		       uint32_t bytes, uint64_t tag, bool lends)
{
	twt_begin(end, doing, TOW_FOREVER);
	doing->options.flags = lends ? TOW_OP_LEND : 0;
	twt_ok(end, tow_send_start(end->peer, data, bytes, tag, &doing->options, &doing->op));
}

static void send_size(struct twt_end *end, uint32_t bytes, unsigned seed, bool lends)
{
	struct tow_result result;
	struct twt_doing doing;

	start_send(end, &doing, end->out, bytes, 3, lends);
	twt_await(end, &doing, &result);
	atomic_store(&end->cell->ids[seed], result.rpc_id);
	twt_say(end, "%u bytes: send %s %llu", bytes, tow_status_name(result.status),
		(unsigned long long)result.bytes);
}

static void look(struct twt_end *end, const struct tow_result *result, const char *how,
		 unsigned seed)
{
	twt_say(end, "%s: %s %llu tag %llu, id %s, data %s", how, tow_status_name(result->status),
		(unsigned long long)result->bytes, (unsigned long long)result->tag,
		result->rpc_id == atomic_load(&end->cell->ids[seed]) ? "the same" : "ANOTHER",
		twt_data_judge(result->data, result->bytes, seed));
}

/*
 * What is lent may be what is looked at: it is written again when the view has gone. Other memory
 * is written as soon as the send is complete.
 */
static void view_sizes(struct twt_end *end, bool lends)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 1)
		unexpected = twt_counter(end, "unexpected_messages");
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		bool posted = i % 2 == 0;

		twt_meet(end);
		if (end->which == 0) {
			twt_data_fill(end->out, sizes[i / 2], i);
			if (posted)
				twt_meet(end);
			send_size(end, sizes[i / 2], i, lends);
			if (!lends)
				twt_data_fill(end->out, sizes[i / 2], i + 1);
			twt_meet(end);
			continue;
		}
		if (!posted)
			twt_until(end, "/v1/counters", "counters", "unexpected_messages",
				  ++unexpected);
		view_one(end, &doing, 3, TOW_FOREVER);
		if (posted)
			twt_meet(end);
		twt_await_kept(end, &doing, &result);
		twt_meet(end);
		look(end, &result, posted ? "posted" : "unexpected", i);
		twt_ok(end, tow_view_release(doing.op));
	}
}

/*
 * Views of several messages at once, small and large, given back from the last to the first. Where
 * the sender does not lend it sends them all from one place.
 */
static void hold_several(struct twt_end *end, bool lends)
{
	enum { COUNT = 6, STEP = 300000 };
	struct tow_result results[COUNT];
	struct twt_doing doing[COUNT];

	if (end->which == 1)
		for (unsigned i = 0; i < COUNT; i++)
			view_one(end, &doing[i], 4, TOW_FOREVER);
	twt_meet(end);
	for (unsigned i = 0; i < COUNT; i++) {
		uint8_t *at = end->out + (lends ? (size_t)i * STEP : 0);
		uint32_t bytes = i % 2 == 0 ? 200000 + i : 30 + i;

		if (end->which == 1) {
			twt_await_kept(end, &doing[i], &results[i]);
			continue;
		}
		twt_data_fill(at, bytes, 40 + i);
		start_send(end, &doing[i], at, bytes, 4, lends);
		twt_await(end, &doing[i], &results[i]);
		atomic_store(&end->cell->ids[40 + i], results[i].rpc_id);
	}
	twt_meet(end);
	for (unsigned i = COUNT; end->which == 1 && i-- > 0;) {
		look(end, &results[i], "held", 40 + i);
		twt_ok(end, tow_view_release(doing[i].op));
	}
	twt_meet(end);
}

static void give_up(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	view_one(end, &doing, 5, TOW_FOREVER);
	twt_ok(end, tow_op_cancel(doing.op));
	twt_await(end, &doing, &result);
	twt_say(end, "canceled view: %s %llu", tow_status_name(result.status),
		(unsigned long long)result.bytes);
	view_one(end, &doing, 5, SHORT);
	twt_await(end, &doing, &result);
	twt_say(end, "view past its deadline: %s %llu", tow_status_name(result.status),
		(unsigned long long)result.bytes);
	twt_ok(end,
	       tow_recv_start(end->peer, end->in, 8, 6, twt_begin(end, &doing, SHORT), &doing.op));
	twt_say(end, "a receive given back as a view: %s",
		tow_status_name(tow_view_release(doing.op)));
	twt_await(end, &doing, &result);
	twt_say(end, "no view: %s", tow_status_name(tow_view_release(NULL)));
}

static void play(struct twt_end *end)
{
	for (int lends = 0; lends < 2; lends++) {
		view_sizes(end, lends);
		hold_several(end, lends);
	}
	give_up(end);
}

/* The sender's memory cannot be read: there is nothing to look at, and the next one comes. */
static void bad_view(struct twt_end *end, enum twt_bad bad, bool posted)
{
	uint64_t before = twt_counter(end, "unexpected_messages");
	struct tow_result result;
	struct twt_doing doing;
	uint8_t *at;

	twt_meet(end);
	if (end->which == 0) {
		at = twt_bad_take(end, bad, false);
		if (posted)
			twt_meet(end);
		twt_ok(end, tow_send_start(end->peer, at, TWT_BAD_BYTES - 1, 7,
					   twt_begin(end, &doing, TOW_FOREVER), &doing.op));
		twt_await_kept(end, &doing, &result);
	} else {
		at = NULL;
		if (!posted)
			twt_until(end, "/v1/counters", "counters", "unexpected_messages",
				  before + 1);
		view_one(end, &doing, 7, TOW_FOREVER);
		if (posted)
			twt_meet(end);
		twt_await_kept(end, &doing, &result);
	}
	twt_say(end, "%s, %s: %s, memory is %s", twt_bad_names[bad],
		posted ? "posted" : "unexpected", tow_status_name(result.status),
		twt_bad_told(&result, at, TWT_BAD_BYTES - 1));
	twt_ok(end, end->which == 0 ? tow_op_release(doing.op) : tow_view_release(doing.op));
	if (end->which == 0)
		twt_bad_give(at, bad);
	twt_meet(end);
}

static void play_bad(struct twt_end *end)
{
	twt_bad_each(end, bad_view);
	view_sizes(end, true);
}

int main(void)
{
	return twt_conform(TWT_VIEWS, play, play_bad);
}
