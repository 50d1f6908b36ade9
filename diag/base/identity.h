/*
 * identity.h - identifies this process, so that another one of the same host can look at it. The
 * PID in its namespace is not enough, as numbers are reused, so the start time is part of it.
 */
#ifndef TWI_IDENTITY_H
#define TWI_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* A member that could not be read is zero. */
struct twi_identity {
	uint64_t boot; /* a hash of the kernel's boot_id */
	uint64_t pid_namespace, pid;
	uint64_t pid_start; /* in clock ticks since the boot, from /proc */
	uint64_t time_namespace;
};

enum twi_process { TWI_PROCESS_UNKNOWN, TWI_PROCESS_RUNS, TWI_PROCESS_STOPPED, TWI_PROCESS_GONE };

/* The calling process. */
void twi_identity_self(struct twi_identity *out);

/* Are both of one host and PID namespace, so that each can see the other? */
bool twi_identity_is_near(const struct twi_identity *self, const struct twi_identity *other);

/* Do both read one CLOCK_MONOTONIC, which twi_now_ns follows? */
bool twi_identity_shares_clock(const struct twi_identity *self, const struct twi_identity *other);

/* Does /proc show that the process, of this PID namespace, has another CLOCK_MONOTONIC? */
bool twi_identity_time_differs(const struct twi_identity *self, uint64_t pid);

/*
 * The condition of the other process, and its state from /proc. UNKNOWN, with state 0, unless it is
 * near and can be seen. GONE with the state Z: other threads of the process may still run, if only
 * its first thread has ended (pthread_exit(3)).
 */
enum twi_process twi_identity_look(const struct twi_identity *self,
				   const struct twi_identity *other, char *state_out);

/*
 * Does /proc show that the process was killed, or that its number has another process now? Threads
 * of a killed process may still be on their way out in the kernel, where its code no longer runs.
 * Until the last one is out, neither wait(2) nor its descriptor (pidfd_open(2)) reports the end.
 * False: it was not killed, or this process may not see that.
 */
bool twi_identity_was_killed(const struct twi_identity *self, const struct twi_identity *other);

#endif
