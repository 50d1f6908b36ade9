/*
 * rpc_failure.h - texts of failed calls: method, peer, sizes, limits, the server's own text.
 */
#ifndef TWI_RPC_FAILURE_H
#define TWI_RPC_FAILURE_H

#include "transport/rpc/rpc_records.h"

/*
 * Sets the thread's error message for a call that ends with the failure `status`, before it ends.
 * If the call knows nothing more about a status, the message of the code that found it is kept. The
 * engine is held.
 */
void twi_call_explain(const struct twi_call *call, int status);

/* Writes the text that a server sends when it cannot take a request, and returns the status. */
int twi_refused_text(const struct twi_refused *refused, char text[TOW_CALL_TEXT_MAX]);

#endif
