/*
 * identity.h - which process this is, so that another one of the same host can look at it: by its
 * number in its PID namespace and when it began, as numbers are used again.
 */
#ifndef TWI_IDENTITY_H
#define TWI_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Zero stands for what could not be read. */
struct twi_identity {
	uint64_t boot; /* a hash of the kernel's boot_id */
	uint64_t pid_namespace, pid;
	uint64_t pid_start; /* in clock ticks since the boot, as /proc says */
	uint64_t time_namespace;
};

enum twi_process { TWI_PROCESS_UNKNOWN, TWI_PROCESS_RUNS, TWI_PROCESS_STOPPED, TWI_PROCESS_GONE };

/* The calling process. */
void twi_identity_self(struct twi_identity *out);

/* Are both of one host and PID namespace, so that each can see the other? */
bool twi_identity_is_near(const struct twi_identity *self, const struct twi_identity *other);

/* Do both read one CLOCK_MONOTONIC, which twi_now_ns follows? */
bool twi_identity_shares_clock(const struct twi_identity *self, const struct twi_identity *other);

/*
 * How the other one is, and its state as /proc says; UNKNOWN, and 0, unless it is near and can be
 * seen. GONE with the state Z may be one whose other threads go on (pthread_exit(3) in the first).
 */
enum twi_process twi_identity_look(const struct twi_identity *self,
				   const struct twi_identity *other, char *state_out);

/*
 * Has it been killed, as far as /proc says, or is there another process of its number? Its threads
 * may still be on their way out in the kernel, where nothing of it runs any more; until the last
 * one is through, neither wait(2) nor a descriptor of it (pidfd_open(2)) tells. False: it was not
 * killed, or that may not be seen.
 */
bool twi_identity_was_killed(const struct twi_identity *self, const struct twi_identity *other);

#endif
