/*
 * state_process.h - parts of a rank's state (rank_state.h): the CPU time of a thread, and when the
 * process was held from outside.
 */
#ifndef TWI_STATE_PROCESS_H
#define TWI_STATE_PROCESS_H

#include <stdint.h>

/* Times of a thread up to at_ns: on a CPU, and waiting for one. */
struct twi_state_cpu {
	uint64_t at_ns, on_cpu_ns, run_queue_ns;
};

/*
 * In one second: how often the process was held from outside and continued (SIGSTOP and SIGCONT, a
 * debugger, a freezer), and for how long. The length of the first hold in a while is not known.
 */
struct twi_state_held {
	uint16_t times, ms;
};

#endif
