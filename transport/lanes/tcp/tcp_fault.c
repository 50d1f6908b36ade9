/*
 * tcp_fault.c - payload that the kernel cannot read or write (EFAULT). The message ends, at both
 * sides (session_fault.c). The stream has lost nothing and goes on.
 *
 * The kernel counts the bytes that it moved before the bad one. Only a request that has moved
 * nothing fails. So the stream stands where the session expects it.
 */
#include "transport/lanes/tcp/tcp.h"

/* Requests for other streams may use the same memory, so they run before the message ends. */
static void run_prepared(const struct twi_tcp_stream *stream)
{
	struct twi_ring *ring = stream->peer->base.engine->ring;

	if (ring != NULL)
		twi_ring_submit(ring);
}

static bool carries_payload(const struct twi_tcp_stream *stream)
{
	return stream->line > 0 && stream->seal == NULL && stream->state == TWI_TCP_UP;
}

bool twi_tcp_sent_fault(struct twi_tcp_stream *stream)
{
	if (!carries_payload(stream))
		return false;
	run_prepared(stream);
	if (!twi_session_out_faulted(&stream->peer->session, stream->line - 1u))
		return false;
	twi_tcp_mark_dirty(stream->peer);
	return true;
}

bool twi_tcp_received_fault(struct twi_tcp_stream *stream)
{
	if (!carries_payload(stream))
		return false;
	run_prepared(stream);
	if (!twi_session_in_faulted(&stream->peer->session, stream->line - 1u))
		return false;
	twi_tcp_mark_dirty(stream->peer);
	return true;
}
