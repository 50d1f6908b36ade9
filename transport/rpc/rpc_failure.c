/*
 * rpc_failure.c - texts of failed calls. See rpc_failure.h.
 */
#include "transport/rpc/rpc_failure.h"

#include <stdio.h>

#include "diag/base/error.h"
#include "transport/op/endpoint.h"

/* X(refusal, status, text with the request's value and the limit) */
#define REFUSAL_MAP(X)                                                                             \
	X(METHOD, TOW_ENOTSUP, "the server has no method of that name")                            \
	X(FULL, TOW_EBUSY, "the server can take no more calls; %llu of this peer are in service",  \
	  have)                                                                                    \
	X(METHOD_FULL, TOW_EBUSY, "%llu calls of the method are in service, its limit is %llu",    \
	  have, limit)                                                                             \
	X(TOO_LONG, TOW_EINVAL,                                                                    \
	  "the request has %llu bytes, request_bytes_max of the method is %llu", have, limit)      \
	X(HELD, TOW_EBUSY,                                                                         \
	  "requests of the method would hold %llu bytes, its held_bytes_max is %llu", have, limit) \
	X(POOL, TOW_EEXHAUSTED, "the server's pool has no room for the request's %llu bytes",      \
	  have)                                                                                    \
	X(LATE, TOW_EDEADLINE, "the deadline had passed when the request came")                    \
	X(BROKEN, TOW_EINVAL, "the body failed, or differs from the %llu bytes of its header", have)

int twi_refused_text(const struct twi_refused *refused, char text[TOW_CALL_TEXT_MAX])
{
	const unsigned long long have = refused->have, limit = refused->limit;

	switch (refused->why) {
#define REFUSAL_CASE(name, status, ...)                                                            \
	case TWI_REFUSAL_##name:                                                                   \
		snprintf(text, TOW_CALL_TEXT_MAX, __VA_ARGS__);                                    \
		return status;
		REFUSAL_MAP(REFUSAL_CASE)
#undef REFUSAL_CASE
	}
	twi_assert(false);
}

static const char *stage_of(const struct twi_call *call)
{
	switch (call->state) {
	case TWI_CALL_QUEUED:
		return "it was still waiting to be sent";
	case TWI_CALL_BODY:
		return "the response was on its way";
	default:
		return "the server had not answered";
	}
}

void twi_call_explain(const struct twi_call *call, int status)
{
	const struct tow_call_result *result = &call->result;
	const struct tow_peer *peer = call->rp->peer;
	const char *where = peer != NULL ? peer->address : "a peer that has gone";
	char head[256];

	snprintf(head, sizeof(head), "call of %s with %llu bytes to %s", call->wish.name,
		 (unsigned long long)call->wish.request_bytes, where);
	if (status == TOW_EREMOTE)
		twi_error(status, "%s: the handler failed with code %d%s%s", head, result->code,
			  result->text[0] != '\0' ? ": " : "", result->text);
	else if (result->text[0] != '\0')
		twi_error(status, "%s: the server refused it: %s", head, result->text);
	else if (status == TOW_ETRUNCATED)
		twi_error(status, "%s: the response has %llu bytes, and the buffer %llu", head,
			  (unsigned long long)result->bytes,
			  (unsigned long long)call->wish.response_bytes);
	else if (status == TOW_EDEADLINE)
		twi_error(status, "%s: its deadline has passed, and %s", head, stage_of(call));
	else if (status == TOW_ECANCELED)
		twi_error(status, "%s: canceled by tow_op_cancel; %s", head, stage_of(call));
}
