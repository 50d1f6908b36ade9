/*
 * trace_signal.h - a capture begun by a signal: kill -USR2 PID, where the knob trace_signal is that
 * number. The library installs no handler otherwise, and one of the process at most.
 *
 *	handler --- eventfd --- a thread of ours: capture, write the file
 *
 * The file is <dir>/plugins/profile/<time>/<host>-<rank>.xplane.pb, where TensorBoard and XProf
 * look for it. The handler that was there before is called too, and is put back at the end, unless
 * somebody has set another one meanwhile.
 */
#ifndef TWI_TRACE_SIGNAL_H
#define TWI_TRACE_SIGNAL_H

#include <stdint.h>

struct twi_diag;
struct twi_trace_signal;

struct twi_trace_signal_options {
	int signal;
	uint32_t seconds;
	const char *dir; /* must live as long; "": the working directory */
};

/* TOW_OK; TOW_EINVAL for a number that can have no handler; TOW_EBUSY: another runtime of this
 * process has it; TOW_ENOMEM; TOW_ESYSTEM. */
int twi_trace_signal_open(struct twi_diag *diag, const struct twi_trace_signal_options *options,
			  struct twi_trace_signal **out);

/* A capture that is under way is ended without a file. NULL is legal. */
void twi_trace_signal_close(struct twi_trace_signal *signal);

#endif
