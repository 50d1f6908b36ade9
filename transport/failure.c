/*
 * failure.c - why operations have failed. See failure.h.
 */
#include "transport/failure.h"

#include <stdio.h>

#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/op.h"

static const char *kind_name(const struct tow_op *op)
{
	static const char *const names[] = {
		[TWI_OP_CONNECT] = "connect", [TWI_OP_ACCEPT] = "accept",    [TWI_OP_SEND] = "send",
		[TWI_OP_RECV] = "receive",    [TWI_OP_COPY] = "device copy", [TWI_OP_CALL] = "call"
	};

	return names[op->kind];
}

void twi_failures_init(struct twi_failures *failures)
{
	pthread_mutex_init(&failures->lock, NULL);
}

void twi_failures_fini(struct twi_failures *failures)
{
	pthread_mutex_destroy(&failures->lock);
}

static void say(const struct tow_op *op, char text[TWI_ERROR_BYTES])
{
	const char *peer = op->peer != NULL ? op->peer->address : NULL;

	if (twi_error_since_poll && twi_error_status == op->status)
		snprintf(text, TWI_ERROR_BYTES, "%s", tow_error_message());
	else if (op->peer != NULL && op->peer->ended == op->status)
		snprintf(text, TWI_ERROR_BYTES, "%s", op->peer->ended_why);
	else
		snprintf(text, TWI_ERROR_BYTES, "%s of %llu bytes%s%.150s: %s", kind_name(op),
			 (unsigned long long)op->bytes, peer != NULL ? ", peer " : "",
			 peer != NULL ? peer : "", tow_status_text(op->status));
}

void twi_failure_keep(struct tow_op *op)
{
	struct twi_failures *failures = &op->engine->failures;
	char text[TWI_ERROR_BYTES];

	say(op, text);
	pthread_mutex_lock(&failures->lock);
	op->failure = ++failures->last;
	failures->rows[op->failure % TWI_FAILURES].number = op->failure;
	snprintf(failures->rows[op->failure % TWI_FAILURES].text, TWI_ERROR_BYTES, "%s", text);
	pthread_mutex_unlock(&failures->lock);
}

int twi_failure_recall(const struct tow_op *op)
{
	struct twi_failures *failures = &op->engine->failures;
	unsigned row = (unsigned)(op->failure % TWI_FAILURES);
	char text[TWI_ERROR_BYTES] = "";

	pthread_mutex_lock(&failures->lock);
	if (failures->rows[row].number == op->failure)
		snprintf(text, sizeof(text), "%s", failures->rows[row].text);
	pthread_mutex_unlock(&failures->lock);
	if (text[0] != '\0')
		return twi_error(op->status, "%s", text);
	return twi_error(op->status,
			 "%s; why is not known any more: %u operations have failed since",
			 tow_status_text(op->status), TWI_FAILURES);
}
