/*
 * op_any.c - waits for the operation that ends first of several.
 *
 * The thread waits as in tow_op_wait, with an entry on the list of each operation (engine_wait.h).
 * A call costs a few nanoseconds for each operation that it names, once. Its sleep costs as little
 * as that of a wait for one operation.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/op/op.h"
#include "transport/op/op_describe.h"
#include "transport/op/op_wait.h"

#define FEW           32 /* up to this many operations, no memory is allocated */
#define LONG_WAIT_NS  2000000000ull
#define ASK_BEFORE_NS 1100000000ull /* as for one operation (op_wait.c) */

struct any {
	struct tow_op *const *ops;
	size_t count;
	struct twi_engine *engine; /* of all operations */
	size_t live;               /* entries that are not NULL */
	size_t first;              /* the index of the first of those */
};

/* Checks that all operations are of one runtime, and in use. */
static int check_ops(struct any *any)
{
	for (size_t i = 0; i < any->count; i++) {
		const struct tow_op *op = any->ops[i];

		if (op == NULL)
			continue;
		if (!twi_op_valid(op))
			return twi_error(TOW_EINVAL,
					 "tow_wait_any: operation %zu was released before", i);
		if (any->live++ == 0) {
			any->engine = op->engine;
			any->first = i;
		} else if (op->engine != any->engine) {
			return twi_error(TOW_EINVAL,
					 "tow_wait_any: operations %zu and %zu belong to "
					 "different runtimes, but a thread can drive only one "
					 "at a time",
					 any->first, i);
		}
	}
	if (any->live == 0)
		return twi_error(TOW_EINVAL,
				 "tow_wait_any: none of the %zu entries is an operation",
				 any->count);
	if (twi_engine_forked(any->engine))
		return twi_error(TOW_EFORKED, "tow_wait_any in a forked child");
	return TOW_OK;
}

/* The index of the first operation that is done, or any->count. */
static size_t find_done(const struct any *any)
{
	for (size_t i = any->first; i < any->count; i++) {
		if (any->ops[i] != NULL && twi_op_is_done(any->ops[i]))
			return i;
	}
	return any->count;
}

static int tell_timed_out(const struct any *any, uint64_t waited_ns, const char *why)
{
	char what[TWI_OP_WORDS_MAX];

	twi_op_describe(any->ops[any->first], what, sizeof(what));
	return twi_error(TOW_ETIMEDOUT,
			 "tow_wait_any: none of %zu operations ended within %.6g s; they go on; "
			 "the first is %s%s",
			 any->live, (double)waited_ns / 1e9, what, why);
}

static int wait_until(const struct any *any, struct twi_wait_entry *entries, uint64_t until_ns)
{
	struct twi_engine *engine = any->engine;

	return twi_engine_wait_any(engine, entries, any->live, twi_engine_clock(engine), until_ns);
}

/* Waits until one is done. TOW_AGAIN: timed out, and `why` says what the other ranks know. */
static int wait_round(const struct any *any, struct twi_wait_entry *entries, uint64_t now_ns,
		      uint64_t until_ns, char *why)
{
	struct twi_engine *engine = any->engine;
	size_t at = 0;
	int status;

	for (size_t i = any->first; i < any->count; i++) {
		if (any->ops[i] == NULL)
			continue;
		twi_op_waited(any->ops[i], now_ns);
		entries[at++] = (struct twi_wait_entry){ .what = &any->ops[i]->wait };
	}
	if (until_ns == UINT64_MAX || until_ns - now_ns < LONG_WAIT_NS || engine->inquiry == NULL)
		return wait_until(any, entries, until_ns);
	status = wait_until(any, entries, until_ns - ASK_BEFORE_NS);
	if (status != TOW_AGAIN || find_done(any) < any->count)
		return status;
	twi_engine_enter(engine);
	engine->hooks.inquiry->begin(engine);
	twi_engine_leave(engine);
	status = wait_until(any, entries, until_ns);
	if (status == TOW_AGAIN)
		engine->hooks.inquiry->brief(engine, "; ", why, TWI_ERROR_BYTES);
	return status;
}

static int wait_any(const struct any *any, struct twi_wait_entry *entries, uint64_t timeout_ns,
		    size_t *index_out)
{
	const struct tow_op *first = any->ops[any->first];
	uint64_t now = twi_engine_clock(any->engine), end;
	uint64_t until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
	char why[TWI_ERROR_BYTES] = "";
	int status = wait_round(any, entries, now, until, why);
	size_t at = find_done(any);

	if (at < any->count) {
		*index_out = at;
		return twi_op_end_wait(any->ops[at], now);
	}
	if (status == TOW_OK)
		return twi_error(TOW_EINVAL, "tow_wait_any: an operation was released meanwhile");
	end = twi_op_end_in_vain(first, now, status);
	return status == TOW_AGAIN ? tell_timed_out(any, end - now, why) : status;
}

TOW_PUBLIC int tow_wait_any(struct tow_op *const *ops, size_t count, uint64_t timeout_ns,
			    size_t *index_out)
{
	struct twi_wait_entry few[FEW], *many;
	struct any any = { .ops = ops, .count = count };
	size_t at;
	int status;

	if (index_out == NULL)
		return twi_error(TOW_EINVAL, "tow_wait_any: index_out is NULL");
	*index_out = SIZE_MAX;
	if (ops == NULL)
		return twi_error(TOW_EINVAL, "tow_wait_any: ops is NULL");
	status = check_ops(&any);
	if (status < 0)
		return status;
	at = find_done(&any);
	if (at < count) {
		twi_op_waited(ops[at], 0);
		*index_out = at;
		return twi_op_end_test(ops[at]);
	}
	if (twi_engine_in_callback(any.engine))
		return twi_error(TOW_EINVAL, "tow_wait_any in a completion callback");
	if (any.live <= FEW)
		return wait_any(&any, few, timeout_ns, index_out);
	many = calloc(any.live, sizeof(*many));
	if (many == NULL)
		return twi_error(TOW_ENOMEM, "tow_wait_any: no memory for %zu entries", any.live);
	status = wait_any(&any, many, timeout_ns, index_out);
	free(many);
	return status;
}
