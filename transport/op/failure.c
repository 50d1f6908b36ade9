/*
 * failure.c - keeps why operations have failed. See failure.h.
 */
#include "transport/op/failure.h"

#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/channel.h"
#include "transport/op/endpoint.h"

/* Whether the other side has closed the group; its lane may have set another message meanwhile. */
static bool was_left(const struct tow_op *op)
{
	return op->status == TOW_EPEER && op->channel >= TWI_CHANNEL_GROUPS && op->peer != NULL &&
	       op->peer->ended == 0;
}

static void say_failure(const struct tow_op *op, char text[TWI_ERROR_BYTES])
{
	const char *peer = op->peer != NULL ? op->peer->address : NULL;

	if (was_left(op) && op->engine->hooks.group->why(op, text, TWI_ERROR_BYTES))
		return;
	if (twi_error_thread.since_poll && twi_error_thread.status == op->status)
		snprintf(text, TWI_ERROR_BYTES, "%s", tow_error_message());
	else if (op->peer != NULL && op->peer->ended == op->status)
		snprintf(text, TWI_ERROR_BYTES, "%s", op->peer->ended_why);
	else if (op->channel < TWI_CHANNEL_GROUPS ||
		 !op->engine->hooks.group->why(op, text, TWI_ERROR_BYTES))
		snprintf(text, TWI_ERROR_BYTES, "%s of %llu bytes%s%.150s: %s", op->ops->noun,
			 (unsigned long long)op->bytes, peer != NULL ? ", peer " : "",
			 peer != NULL ? peer : "", tow_status_text(op->status));
}

void twi_failure_keep(struct tow_op *op)
{
	char text[TWI_ERROR_BYTES];

	twi_assert_held(op->engine);
	if (op->failure != NULL)
		return; /* noted before */
	say_failure(op, text);
	if (op->status == TOW_EPEER && op->space == TWI_SPACE_USER && op->peer != NULL &&
	    op->peer->job_rank >= 0)
		op->engine->hooks.inquiry->suffered(op, text, sizeof(text));
	op->failure = strdup(text);
}

void twi_failure_note(struct tow_op *op, int status)
{
	twi_assert_held(op->engine);
	if (op->failure == NULL && twi_error_thread.since_poll && twi_error_thread.status == status)
		op->failure = strdup(tow_error_message());
}

const char *twi_failure_text(const struct tow_op *op)
{
	return op->failure != NULL ? op->failure : tow_status_text(op->status);
}

int twi_failure_recall(const struct tow_op *op)
{
	op->engine->hooks.inquiry->settle(op->engine); /* the thread that learns of it may exit */
	return twi_error(op->status, "%s", twi_failure_text(op));
}

/* Logs the failure, as no thread learns of it otherwise. */
void twi_failure_tell(const struct tow_op *op, int status)
{
	if (twi_op_is_queued(op))
		return; /* the thread that takes the result learns of it */
	twi_count(op->engine->diag, TWI_C_ops_forgotten_failed, 1);
	twi_log(op->engine->diag, 2,
		"a %s of %llu bytes, peer %s, was started without a handle "
		"and failed: %s",
		op->ops->noun, (unsigned long long)op->bytes,
		op->peer != NULL ? op->peer->address : "?", tow_status_name(status));
}

void twi_failure_count(const struct tow_op *op, int status)
{
	struct twi_diag *diag = op->engine->diag;

	if (op->peer != NULL && op->peer->passing)
		return; /* two ranks have dialed each other, and this is the second connection */
	twi_count(diag, TWI_C_ops_failed, 1);
	if (status == TOW_ECANCELED)
		twi_count(diag, TWI_C_ops_canceled, 1);
	else if (status == TOW_EDEADLINE)
		twi_count(diag, TWI_C_ops_expired, 1);
}
