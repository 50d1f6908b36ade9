/*
 * session_fault.h - how a session ends faults that would come again and again. These are payload
 * whose memory cannot be read or written, and streams that are resumed in vain.
 */
#ifndef TWI_SESSION_FAULT_H
#define TWI_SESSION_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/frame.h"

#define TWI_FAULTS_MAX 16u

struct twi_session;

/*
 * The last messages of this side that could not be read. The peer may have to get the reason once
 * more.
 */
struct twi_session_faults {
	struct {
		uint64_t seq, offset;
	} rows[TWI_FAULTS_MAX]; /* number n lies in row n % TWI_FAULTS_MAX */
	uint64_t count;         /* since the start */
	struct twi_session_resumed {
		uint32_t said, now_said, heard; /* checksums of the records of the last resume */
		bool awaits;                    /* the record of this side expects bytes */
		unsigned fruitless;
	} resumed[1 + TWI_BULK_MAX]; /* by line: 0 is control, 1 + c is bulk channel c */
};

/*
 * The lane could not read the payload that twi_session_bulk_out has named, or could not write the
 * payload that _want has named. No request of the lane uses that memory any more. The operation
 * ends with TOW_EFAULT, at the other side too, and the channel goes on: ask again. False: there is
 * no such payload, so the fault is another.
 */
bool twi_session_out_faulted(struct twi_session *session, unsigned channel);
bool twi_session_in_faulted(struct twi_session *session, unsigned channel);

/*
 * How often in a row a stream (line 0: control; line 1 + c: channel c) was resumed in vain. That
 * is, no byte had moved on it since the resume before, while bytes were to move. Then the cause
 * that breaks it comes back each time.
 */
unsigned twi_session_fruitless(const struct twi_session *session, unsigned line);

/*
 * For session_retain.c and session_resume.c. said: the record of this side is written. heard: the
 * other side's record has come, and the stream is resumed.
 */
void twi_session_resume_said(struct twi_session *session, unsigned line, const uint8_t *record,
			     size_t bytes, bool awaits);
void twi_session_resume_heard(struct twi_session *session, unsigned line, const uint8_t *record,
			      size_t bytes, bool awaits);

#endif
