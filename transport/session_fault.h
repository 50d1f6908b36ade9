/*
 * session_fault.h - payload whose memory cannot be read or written: what a lane tells its session,
 * and what that keeps of it.
 */
#ifndef TWI_SESSION_FAULT_H
#define TWI_SESSION_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define TWI_FAULTS_MAX 16u

struct twi_session;

/* The last messages of this side that could not be read: others may have to hear why once more. */
struct twi_session_faults {
	struct {
		uint64_t seq, offset;
	} rows[TWI_FAULTS_MAX]; /* number n lies in row n % TWI_FAULTS_MAX */
	uint64_t count;         /* since the start */
};

/*
 * The lane could not read, or write, the payload that twi_session_bulk_out, or _want, has named; no
 * request of it uses that memory any more. The operation ends with TOW_EFAULT, at the other side,
 * too, and the channel goes on: ask again. False: there is no payload there, the fault is another.
 */
bool twi_session_out_faulted(struct twi_session *session, unsigned channel);
bool twi_session_in_faulted(struct twi_session *session, unsigned channel);

#endif
