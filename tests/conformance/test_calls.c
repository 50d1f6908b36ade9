/*
 * test_calls.c - calls in every cell of the conformance suite (conform.h): requests and responses
 * of all sizes, failures of the handler and of the server, deadlines and cancels.
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE (1048576 + 3)
#define SHORT 50000000ull /* a deadline that passes */

static const uint32_t sizes[] = { 0, 8, 1024, 4096, 65536, LARGE };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct tow_call_in *_Atomic held; /* by the method that does not answer */

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	twt_ok((struct twt_end *)user, tow_reply_start(call, 0, request, bytes, NULL, NULL));
}

static void refuse(struct tow_call_in *call, void *user)
{
	twt_ok((struct twt_end *)user, tow_reply_start(call, 7, "not today", 9, NULL, NULL));
}

static void hold(struct tow_call_in *call, void *user)
{
	(void)user;
	atomic_store(&held, call);
}

static struct tow_op *start(struct twt_end *end, struct twt_doing *doing, const char *method,
			    uint64_t bytes, uint64_t room, uint64_t timeout_ns, uint32_t flags)
{
	const struct tow_op_options *like = twt_begin(end, doing, timeout_ns);
	const struct tow_call_options options = { .size = sizeof(options),
						  .timeout_ns = like->timeout_ns,
						  .done = like->done,
						  .user = like->user,
						  .queue = like->queue,
						  .flags = flags };

	twt_ok(end, tow_call_start(end->peer, method, end->out, bytes, end->in, room, &options,
				   &doing->op));
	return doing->op;
}

/* The call has ended, and is given back. */
static void tell(struct twt_end *end, struct twt_doing *doing, const char *what, unsigned seed)
{
	struct tow_call_result call = { .size = sizeof(call) };
	struct tow_result result;

	twt_await_kept(end, doing, &result);
	twt_ok(end, tow_call_result(doing->op, &call));
	twt_say(end, "%s: %s %llu code %d \"%s\"%s %s", what, tow_status_name(call.status),
		(unsigned long long)call.bytes, call.code, call.text,
		call.status == result.status && call.bytes == result.bytes ? "" : " TWO RESULTS",
		call.status == TOW_OK ? twt_data_judge(call.data, call.bytes, seed) : "none");
	twt_ok(end, tow_op_release(doing->op));
}

static void call_sizes(struct twt_end *end)
{
	struct twt_doing doing;
	char name[64];

	for (unsigned i = 0; i < 2 * SIZES; i++) {
		uint32_t bytes = sizes[i / 2];

		twt_data_fill(end->out, bytes, i);
		memset(end->in, 0, bytes);
		start(end, &doing, "echo", bytes, i % 2 == 0 ? bytes : 0, TOW_FOREVER,
		      i % 2 == 0 ? 0 : TOW_CALL_VIEW);
		snprintf(name, sizeof(name), "%u bytes%s", bytes, i % 2 == 0 ? "" : ", a view");
		tell(end, &doing, name, i);
	}
}

/* Many at once, of all sizes. */
static void call_many(struct twt_end *end)
{
	enum { COUNT = 24, STEP = 80000 };
	struct twt_doing doing[COUNT];
	uint64_t sum = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		const struct tow_op_options *like = twt_begin(end, &doing[i], TOW_FOREVER);
		const struct tow_call_options options = { .size = sizeof(options),
							  .timeout_ns = like->timeout_ns,
							  .done = like->done,
							  .user = like->user,
							  .queue = like->queue };
		uint32_t bytes = i % 3 == 0 ? 70000 + i : 10 * i;

		twt_data_fill(end->out + (size_t)i * STEP, bytes, i);
		twt_ok(end,
		       tow_call_start(end->peer, "echo", end->out + (size_t)i * STEP, bytes,
				      end->in + (size_t)i * STEP, bytes, &options, &doing[i].op));
	}
	for (unsigned i = 0; i < COUNT; i++) {
		struct tow_result result;

		if (twt_await(end, &doing[i], &result) == TOW_OK &&
		    *twt_data_judge(end->in + (size_t)i * STEP, result.bytes, i) == 'r')
			sum += result.bytes;
	}
	twt_say(end, "%d at once: %llu bytes", COUNT, (unsigned long long)sum);
}

static void call_in_vain(struct twt_end *end)
{
	struct twt_doing doing;

	start(end, &doing, "refuse", 100, 100, TOW_FOREVER, 0);
	tell(end, &doing, "the handler fails", 0);
	start(end, &doing, "nothing", 100, 100, TOW_FOREVER, 0);
	tell(end, &doing, "no such method", 0);
	start(end, &doing, "small", 2000, 2000, TOW_FOREVER, 0);
	tell(end, &doing, "a request that is too long", 0);
	start(end, &doing, "echo", 100, 50, TOW_FOREVER, 0);
	tell(end, &doing, "a small response that is too long", 0);
	start(end, &doing, "echo", LARGE, 50, TOW_FOREVER, 0);
	tell(end, &doing, "a large response that is too long", 0);
}

/*
 * A deadline that passes. The call is not answered: whether an answer still finds somebody who
 * wants it, or whether the call was served at all, is a matter of timing. It ends with its peer.
 */
static void expire(struct twt_end *end)
{
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 0) {
		start(end, &doing, "hold", 100, 100, SHORT, 0);
		tell(end, &doing, "past its deadline", 0);
	}
	twt_meet(end);
}

/* The answer comes when nobody wants it any more. */
static void cancel(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0) {
		start(end, &doing, "hold", 100, 100, TOW_FOREVER, 0);
		twt_meet(end);
		twt_ok(end, tow_op_cancel(doing.op));
		tell(end, &doing, "canceled", 0);
		twt_meet(end);
		return;
	}
	while (atomic_load(&held) == NULL)
		twt_idle(end);
	twt_meet(end);
	while (!tow_call_canceled(atomic_load(&held)))
		twt_idle(end);
	twt_ok(end, tow_reply_start(atomic_load(&held), 0, end->out, 100,
				    twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	twt_say(end, "an answer that nobody wants: %s",
		tow_status_name(twt_await(end, &doing, &result)));
	twt_meet(end);
}

/* A response that is looked at where it lies: whoever has not lent it may write there at once. */
static void view_reply(struct twt_end *end, bool lends)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0) {
		start(end, &doing, "hold", 100, 0, TOW_FOREVER, TOW_CALL_VIEW);
		twt_await_kept(end, &doing, &result);
		twt_meet(end);
		twt_say(end, "%s response, a view: %s %llu, data %s", lends ? "lent" : "other",
			tow_status_name(result.status), (unsigned long long)result.bytes,
			twt_data_judge(result.data, result.bytes, 90));
		twt_ok(end, tow_op_release(doing.op));
		twt_meet(end);
		return;
	}
	while (atomic_load(&held) == NULL)
		twt_idle(end);
	twt_data_fill(end->out, LARGE, 90);
	twt_begin(end, &doing, TOW_FOREVER);
	doing.options.flags = lends ? TOW_OP_LEND : 0;
	twt_ok(end, tow_reply_start(atomic_exchange(&held, NULL), 0, end->out, LARGE,
				    &doing.options, &doing.op));
	twt_await(end, &doing, &result);
	if (!lends)
		twt_data_fill(end->out, LARGE, 91);
	twt_meet(end);
	twt_meet(end);
}

static void play(struct twt_end *end)
{
	struct tow_method_options small = TOW_METHOD_OPTIONS_INIT;

	if (end->which == 1) {
		small.request_bytes_max = 1000;
		twt_ok(end, tow_method_register(end->runtime, "echo", echo, end, NULL));
		twt_ok(end, tow_method_register(end->runtime, "refuse", refuse, end, NULL));
		twt_ok(end, tow_method_register(end->runtime, "hold", hold, end, NULL));
		twt_ok(end, tow_method_register(end->runtime, "small", echo, end, &small));
	}
	twt_meet(end);
	if (end->which == 0) {
		call_sizes(end);
		call_many(end);
		call_in_vain(end);
	}
	view_reply(end, false);
	view_reply(end, true);
	cancel(end);
	atomic_store(&held, NULL);
	twt_meet(end);
	expire(end);
}

/* --- memory that cannot be read or written --- */

/* The request cannot be read, or the response not written. */
static void bad_call(struct twt_end *end, enum twt_bad bad, bool receives)
{
	uint8_t *good_out = end->out, *good_in = end->in, *at;
	struct twt_doing doing;
	char name[64];

	if (end->which == 1)
		return;
	at = twt_bad_take(end, bad, receives);
	*(receives ? &end->in : &end->out) = at;
	start(end, &doing, "echo", TWT_BAD_BYTES - 2, TWT_BAD_BYTES - 2, TOW_FOREVER, 0);
	snprintf(name, sizeof(name), "%s %s", twt_bad_names[bad],
		 receives ? "response" : "request");
	tell(end, &doing, name, 0);
	end->out = good_out;
	end->in = good_in;
	twt_bad_give(at, bad);
}

/* The answer lies in memory that cannot be read. */
static void bad_answer(struct twt_end *end, enum twt_bad bad, bool receives)
{
	struct tow_result result;
	struct twt_doing doing;
	uint8_t *at;

	if (receives)
		return;
	if (end->which == 0) {
		start(end, &doing, "hold", 8, TWT_BAD_BYTES, TOW_FOREVER, 0);
		tell(end, &doing, twt_bad_names[bad], 0);
		twt_meet(end);
		return;
	}
	while (atomic_load(&held) == NULL)
		twt_idle(end);
	at = twt_bad_take(end, bad, false);
	twt_ok(end, tow_reply_start(atomic_exchange(&held, NULL), 0, at, TWT_BAD_BYTES - 3,
				    twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	twt_say(end, "reply from memory that is %s: %s", twt_bad_names[bad],
		tow_status_name(twt_await(end, &doing, &result)));
	twt_bad_give(at, bad);
	twt_meet(end);
}

/*
 * The reply to a client that cannot write the response ends with TOW_EFAULT, or with TOW_ECANCELED
 * when the server hears first that the call is over.
 */
static void play_bad(struct twt_end *end)
{
	end->timed = "ops_canceled";
	if (end->which == 1) {
		twt_ok(end, tow_method_register(end->runtime, "echo", echo, end, NULL));
		twt_ok(end, tow_method_register(end->runtime, "hold", hold, end, NULL));
	}
	twt_meet(end);
	twt_bad_each(end, bad_call);
	twt_bad_each(end, bad_answer);
	if (end->which == 0)
		call_sizes(end);
}

int main(void)
{
	return twt_conform(TWT_CALLS, play, play_bad);
}
