/*
 * trace_signal.h - a capture begun by a signal: kill -USR2 PID, where the knob trace_signal is that
 * number. The library installs no handler otherwise, and one of the process at most.
 *
 *	handler --- eventfd --- the thread of trace_writer.h
 *
 * The handler that was there before is called too, and is put back at the end, unless somebody has
 * set another one meanwhile.
 */
#ifndef TWI_TRACE_SIGNAL_H
#define TWI_TRACE_SIGNAL_H

struct twi_trace_signal;
struct twi_trace_writer;

/* TOW_OK; TOW_EINVAL for a number that can have no handler; TOW_EBUSY: another runtime of this
 * process has it; TOW_ENOMEM. The writer is closed later. */
int twi_trace_signal_open(struct twi_trace_writer *writer, int signal,
			  struct twi_trace_signal **out);

/* NULL is legal. */
void twi_trace_signal_close(struct twi_trace_signal *signal);

#endif
