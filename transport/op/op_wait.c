/*
 * op_wait.c - see op_wait.h.
 */
#include "transport/op/op_wait.h"

#include "diag/base/error.h"
#include "transport/op/failure.h"
#include "transport/op/op_describe.h"
#include "transport/op/op_span.h"
#include "transport/op/polled.h"

#define LONG_WAIT_NS  2000000000ull /* a wait of this length gets a verdict at its end */
#define ASK_BEFORE_NS 1100000000ull

int twi_op_refuse(const char *call)
{
	return twi_error(TOW_EINVAL, "%s: the operation is NULL, or was released before", call);
}

int twi_op_tell(const struct tow_op *op)
{
	return twi_unlikely(op->status < 0) ? twi_failure_recall(op) : op->status;
}

/*
 * The send has ended before it is sent, as it waits for others. Who waits for the last one has no
 * others. Who waits for an earlier one, of a window, has. A thread that has the engine may keep it
 * for long, in a callback; then it sends.
 */
static void push_held(struct twi_engine *engine)
{
	if (twi_engine_forked(engine) || !twi_engine_try_enter(engine))
		return;
	if (twi_engine_bind_ring(engine) == TOW_OK) { /* else other threads drive, and send */
		twi_engine_flush_messages(engine);
		twi_handoff_sent(&engine->handoff);
	}
	twi_engine_leave(engine);
}

int twi_op_end_test(const struct tow_op *op)
{
	uint64_t held_ns = twi_handoff_held_ns(&op->engine->handoff);

	if (twi_unlikely(held_ns != 0) && op->start_ns >= held_ns)
		push_held(op->engine);
	twi_polled_ended(op);
	return twi_op_tell(op);
}

TOW_PUBLIC int tow_op_test(struct tow_op *op)
{
	struct twi_engine *engine;

	if (!twi_op_valid(op))
		return twi_op_refuse("tow_op_test");
	twi_op_waited(op, 0);
	if (twi_op_is_done(op))
		return twi_op_end_test(op);
	engine = op->engine;
	if (twi_engine_forked(engine))
		return twi_error(TOW_EFORKED, "tow_op_test in a forked child");
	twi_polled_begin(engine);
	if (twi_engine_try_enter(engine)) { /* fails in a callback, where the engine is held */
		int status = twi_engine_bind_ring(engine);
		unsigned events = status == TOW_OK ? twi_engine_poll(engine) : 0;

		twi_polled_news(events);
		twi_polled_leave(engine, events, twi_op_is_done(op));
		twi_engine_leave(engine);
		if (status < 0 && status != TOW_EBUSY) /* other threads drive then */
			return status;
	}
	if (twi_op_is_done(op))
		return twi_op_end_test(op);
	twi_polled_vain(engine, true);
	return TOW_AGAIN;
}

int twi_op_end_wait(const struct tow_op *op, uint64_t since_ns)
{
	uint64_t end_ns = op->start_ns + op->latency_ns;

	twi_polled_hear(op);
	twi_polled_reset(twi_polled_mine());
	if (end_ns > since_ns) {
		twi_op_blocked_ns += end_ns - since_ns;
		twi_op_note_wait(op, end_ns - since_ns);
		if (twi_op_span_waited(op, end_ns - since_ns))
			twi_op_span_wait(op, since_ns, end_ns, op->status);
	}
	return twi_op_tell(op);
}

uint64_t twi_op_end_in_vain(const struct tow_op *op, uint64_t since_ns, int status)
{
	struct twi_engine *engine = op->engine;
	uint64_t end_ns = twi_engine_clock(engine);

	twi_polled_reset(twi_polled_mine());
	twi_op_note_wait(op, end_ns - since_ns);
	if (twi_op_span_waited(op, end_ns - since_ns)) {
		twi_engine_enter(engine); /* the operation goes on: only the holder may read it */
		twi_op_span_wait(op, since_ns, end_ns,
				 status == TOW_AGAIN ? TOW_ETIMEDOUT : status);
		twi_engine_leave(engine);
	}
	return end_ns;
}

/* The wait has failed, or has timed out. */
static int end_in_vain(const struct tow_op *op, uint64_t since_ns, int status)
{
	uint64_t end_ns = twi_op_end_in_vain(op, since_ns, status);

	return status == TOW_AGAIN ? twi_op_timed_out(op, end_ns - since_ns, "") : status;
}

/*
 * A wait that will have been long when it times out. The other ranks are asked early enough for the
 * message to say why. That takes none of the wait's own time.
 */
static int wait_asking(struct tow_op *op, uint64_t ask_ns, uint64_t until_ns)
{
	struct twi_engine *engine = op->engine;
	int status = twi_op_wait_until(op, twi_engine_clock(engine), ask_ns);

	if (status != TOW_AGAIN || twi_op_is_done(op))
		return status;
	twi_engine_enter(engine);
	engine->hooks.inquiry->begin(engine);
	twi_engine_leave(engine);
	return twi_op_wait_until(op, twi_engine_clock(engine), until_ns);
}

static int wait_long(struct tow_op *op, uint64_t now_ns, uint64_t until_ns)
{
	int status = wait_asking(op, until_ns - ASK_BEFORE_NS, until_ns);
	struct twi_engine *engine = op->engine;
	char why[TWI_ERROR_BYTES];

	if (status != TOW_AGAIN || twi_op_is_done(op))
		return status;
	engine->hooks.inquiry->brief(engine, "; ", why, sizeof(why));
	return twi_op_timed_out(op, until_ns - now_ns, why);
}

TOW_PUBLIC int tow_op_wait(struct tow_op *op, uint64_t timeout_ns)
{
	struct twi_engine *engine;
	uint64_t now, until;
	int status;

	if (!twi_op_valid(op))
		return twi_op_refuse("tow_op_wait");
	if (twi_op_is_done(op)) {
		twi_op_waited(op, 0);
		return twi_op_end_test(op);
	}
	engine = op->engine;
	if (twi_engine_forked(engine))
		return twi_error(TOW_EFORKED, "tow_op_wait in a forked child");
	if (twi_engine_in_callback(engine))
		return twi_error(TOW_EINVAL, "tow_op_wait in a completion callback");
	now = twi_engine_clock(engine);
	twi_op_waited(op, now);
	until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
	if (twi_unlikely(until != UINT64_MAX && timeout_ns >= LONG_WAIT_NS &&
			 engine->inquiry != NULL))
		status = wait_long(op, now, until);
	else
		status = twi_op_wait_until(op, now, until);
	return twi_op_is_done(op) ? twi_op_end_wait(op, now) : end_in_vain(op, now, status);
}

int twi_op_wait_told(struct tow_op *op, char *why, size_t room)
{
	struct twi_engine *engine = op->engine;
	uint64_t now = twi_engine_clock(engine), until = op->deadline_ns;
	int status;

	why[0] = '\0';
	if (until == UINT64_MAX || until < now + LONG_WAIT_NS / 2 || engine->inquiry == NULL ||
	    until - op->start_ns < LONG_WAIT_NS || twi_op_is_done(op) ||
	    twi_engine_in_callback(engine))
		return tow_op_wait(op, TOW_FOREVER);
	status = wait_asking(op, until - ASK_BEFORE_NS, UINT64_MAX);
	if (!twi_op_is_done(op))
		return end_in_vain(op, now, status);
	if (op->status == TOW_EDEADLINE)
		engine->hooks.inquiry->brief(engine, "; ", why, room);
	return twi_op_end_wait(op, now);
}
