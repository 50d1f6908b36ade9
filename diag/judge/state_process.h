/*
 * state_process.h - of a rank's state (rank_state.h): CPUs that a thread had, and when the process
 * was held from outside.
 */
#ifndef TWI_STATE_PROCESS_H
#define TWI_STATE_PROCESS_H

#include <stdint.h>

/* Of a thread, until then: on a CPU, and waiting for one. */
struct twi_state_cpu {
	uint64_t at_ns, on_cpu_ns, run_queue_ns;
};

/*
 * In one second: how often the process was held from outside and went on (SIGSTOP and SIGCONT, a
 * debugger, a freezer), and for how long. Of the first time in a while the length is not known.
 */
struct twi_state_held {
	uint16_t times, ms;
};

#endif
