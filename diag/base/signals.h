/*
 * signals.h - which signals a user may choose for a handler of the library.
 */
#ifndef TWI_SIGNALS_H
#define TWI_SIGNALS_H

/*
 * Checks the signal that the knob named `knob` has. TOW_EINVAL: the signal reports a fault of the
 * program. A handler that returns would run the fault again for ever, and would prevent a core dump
 * or the program's own handler.
 */
int twi_signal_check(const char *knob, int number);

#endif
