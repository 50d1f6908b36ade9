/*
 * job_key.h - the key that the members of a job share, made from the secret that the user sets.
 *
 * The secret itself is read once, hashed and forgotten; no message, log line or page ever shows it.
 * The hash is a fast one (BLAKE2b): it makes a key of any text, it does not make a guessable text
 * safe. So the secret has to be random (docs/security.md), and a short one is refused.
 */
#ifndef TWI_JOB_KEY_H
#define TWI_JOB_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/knob/knob.h"

#define TWI_JOB_KEY_BYTES      32
#define TWI_JOB_KEY_SECRET_MIN 16   /* characters of a secret; fewer are refused */
#define TWI_JOB_KEY_FILE_MAX   4096 /* bytes of a job_key_file */

struct twi_job_key {
	bool set;
	bool encrypt; /* what goes over the network; never without a key */
	uint8_t bytes[TWI_JOB_KEY_BYTES];
};

/*
 * Makes the key of resolved knobs: of job_key, else of what stands in job_key_file, else none.
 * TOW_OK; TOW_EINVAL: encrypt without a key, or the secret is too short or too long; TOW_EPERM: the
 * file is no regular file of ours that nobody else may read; TOW_ESYSTEM: it cannot be read.
 * *out is all zero after a failure.
 */
int twi_job_key_load(const struct twi_knobs *knobs, struct twi_job_key *out);

/* Overwrites the key: nobody is a member any more. */
void twi_job_key_wipe(struct twi_job_key *key);

/* Overwrites a secret's characters by stars, so that it can still be told that there was one. */
void twi_job_key_mask(char *secret);

#endif
