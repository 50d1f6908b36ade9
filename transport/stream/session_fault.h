/*
 * session_fault.h - what a session keeps to get out of faults that would come again and again:
 * payload whose memory cannot be read or written, and lines that are resumed in vain.
 */
#ifndef TWI_SESSION_FAULT_H
#define TWI_SESSION_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/frame.h"

#define TWI_FAULTS_MAX 16u

struct twi_session;

/* The last messages of this side that could not be read: others may have to hear why once more. */
struct twi_session_faults {
	struct {
		uint64_t seq, offset;
	} rows[TWI_FAULTS_MAX]; /* number n lies in row n % TWI_FAULTS_MAX */
	uint64_t count;         /* since the start */
	struct twi_session_resumed {
		uint32_t said, now_said, heard; /* checksums of the records of the last resume */
		bool awaits;                    /* what is said now: something is to come */
		unsigned fruitless;
	} resumed[1 + TWI_BULK_MAX]; /* by line: control, then the channels */
};

/*
 * The lane could not read, or write, the payload that twi_session_bulk_out, or _want, has named; no
 * request of it uses that memory any more. The operation ends with TOW_EFAULT, at the other side,
 * too, and the channel goes on: ask again. False: there is no payload there, the fault is another.
 */
bool twi_session_out_faulted(struct twi_session *session, unsigned channel);
bool twi_session_in_faulted(struct twi_session *session, unsigned channel);

/*
 * How often in a row a line (0: control; 1 + channel) was resumed although nothing had moved on it
 * since it was resumed before, while something was to move: whatever breaks it does so each time.
 */
unsigned twi_session_fruitless(const struct twi_session *session, unsigned line);

/* session_retain.c, session_resume.c: the record of this side, and the other's: it is resumed. */
void twi_session_resume_said(struct twi_session *session, unsigned line, const uint8_t *record,
			     size_t bytes, bool awaits);
void twi_session_resume_heard(struct twi_session *session, unsigned line, const uint8_t *record,
			      size_t bytes, bool awaits);

#endif
