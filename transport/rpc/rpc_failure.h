/*
 * rpc_failure.h - why a call failed, in words: method, peer, sizes, limits, the server's own text.
 */
#ifndef TWI_RPC_FAILURE_H
#define TWI_RPC_FAILURE_H

#include "transport/rpc/rpc_records.h"

/*
 * Sets the thread's message for a call that ends with `status`, a failure, before it ends. A status
 * of which the call itself knows nothing more keeps the message of whoever found it. The engine is
 * held.
 */
void twi_call_explain(const struct twi_call *call, int status);

/*
 * What a server that cannot take a request says to its client: writes the text and returns the
 * status.
 */
int twi_refused_text(const struct twi_refused *refused, char text[TOW_CALL_TEXT_MAX]);

#endif
