/*
 * signals.h - which signals a handler of the library may be for, where the user has named one.
 */
#ifndef TWI_SIGNALS_H
#define TWI_SIGNALS_H

/*
 * Of the knob of that name. TOW_EINVAL for the number of a signal that tells of a fault of the
 * program: a handler that returns would run the fault again, for ever, and what should have become
 * of it, a core or the program's own handler, would not.
 */
int twi_signal_check(const char *knob, int number);

#endif
