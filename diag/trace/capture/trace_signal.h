/*
 * trace_signal.h - begins a capture by a signal: kill -USR2 PID, if the knob trace_signal is that
 * number. Else the library installs no handler. A process has at most one handler.
 *
 *	handler --- eventfd --- the thread of trace_writer.h
 *
 * The earlier handler is called, too. It is restored at the end, unless the program has set another
 * one meanwhile.
 */
#ifndef TWI_TRACE_SIGNAL_H
#define TWI_TRACE_SIGNAL_H

struct twi_trace_signal;
struct twi_trace_writer;

/*
 * TOW_OK; TOW_EINVAL: the signal cannot have a handler; TOW_EBUSY: another runtime of this process
 * has the handler; TOW_ENOMEM. Close it before the writer.
 */
int twi_trace_signal_open(struct twi_trace_writer *writer, int signal,
			  struct twi_trace_signal **out);

/* NULL is legal. */
void twi_trace_signal_close(struct twi_trace_signal *signal);

#endif
