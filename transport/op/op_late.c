/*
 * op_late.c - logs that a thread waits for other ranks: after log_wait_ns, and again when it has
 * waited three times as long, nine times, and so on.
 *
 * Only operations that all ranks must take part in are logged: a receive may wait for days with
 * good reason. Before a log line is due the other ranks are asked, as before the end of a long wait
 * (inquiry.h). So the line can name the rank that is late. The waiting thread writes the line, and
 * holds nothing. A job whose thread only tests gets no line.
 */
#include "diag/base/error.h"
#include "diag/base/words.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/op/op_wait.h"

#define ASK_NS (TWI_INQUIRY_ROUND + 50000000ull) /* a round, and time for ranks that answer late */

static void tell_late(struct twi_engine *engine, const char *what, uint64_t waited_ns)
{
	char waited[TWI_WORDS_BYTES], why[TWI_ERROR_BYTES] = "";

	if (engine->inquiry != NULL)
		engine->hooks.inquiry->brief(engine, ": ", why, sizeof(why));
	twi_words_ns(waited_ns, waited);
	twi_log(engine->diag, 2, "%s for %s%s", what, waited, why);
}

/* Waits until tell_ns, and asks the other ranks shortly before. */
static int wait_asking(struct tow_op *op, uint64_t now_ns, uint64_t tell_ns)
{
	struct twi_engine *engine = op->engine;
	uint64_t ask_ns = tell_ns - now_ns > ASK_NS ? tell_ns - ASK_NS : now_ns;
	int status = twi_engine_wait(engine, &op->wait, now_ns, ask_ns);

	if (status != TOW_AGAIN || twi_op_is_done(op))
		return status;
	twi_engine_enter(engine);
	engine->hooks.inquiry->begin(engine);
	twi_engine_leave(engine);
	return twi_engine_wait(engine, &op->wait, twi_engine_clock(engine), tell_ns);
}

int twi_op_wait_late(struct tow_op *op, uint64_t now_ns, uint64_t until_ns)
{
	struct twi_engine *engine = op->engine;
	uint64_t late_ns = engine->knobs.log_wait_ns, begin_ns = now_ns;
	char what[64];
	int status;

	if (engine->virtual_clock || !op->ops->waits_for(op, what, sizeof(what)))
		return twi_engine_wait(engine, &op->wait, now_ns, until_ns);
	if (engine->inquiry != NULL)
		late_ns = twi_max(late_ns, ASK_NS);
	while (until_ns - now_ns > late_ns) {
		status = engine->inquiry != NULL
				 ? wait_asking(op, now_ns, now_ns + late_ns)
				 : twi_engine_wait(engine, &op->wait, now_ns, now_ns + late_ns);
		if (status != TOW_AGAIN || twi_op_is_done(op))
			return status;
		now_ns = twi_engine_clock(engine);
		if (op->ops->waits_for(op, what, sizeof(what))) /* it may have begun meanwhile */
			tell_late(engine, what, now_ns - begin_ns);
		late_ns = 2 * (now_ns - begin_ns);
		if (now_ns >= until_ns)
			return TOW_AGAIN;
	}
	return twi_engine_wait(engine, &op->wait, now_ns, until_ns);
}
