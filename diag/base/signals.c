/* signals.c - see signals.h. */
#include "diag/base/signals.h"

#include <signal.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/error.h"

static const int faults[] = { SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS };

int twi_signal_check(const char *knob, int number)
{
	for (size_t i = 0; i < twi_array_count(faults); i++) {
		if (number == faults[i])
			return twi_error(TOW_EINVAL,
					 "%s = %d is not valid: SIG%s is the signal of a fault; "
					 "use another, such as %d (SIGUSR2)",
					 knob, number, sigabbrev_np(number), SIGUSR2);
	}
	return TOW_OK;
}
