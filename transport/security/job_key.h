/*
 * job_key.h - the key that the members of a job share, made from the user's secret.
 *
 * The secret is read once, hashed and forgotten. No message, log line or page ever shows it. The
 * hash is a fast one (BLAKE2b): it makes a key of any text, but it does not make a guessable text
 * safe. So the secret must be random (docs/security.md), and a short one is refused.
 */
#ifndef TWI_JOB_KEY_H
#define TWI_JOB_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/knob/knob.h"

#define TWI_JOB_KEY_BYTES      32
#define TWI_JOB_KEY_SECRET_MIN 16   /* the least characters of a secret */
#define TWI_JOB_KEY_FILE_MAX   4096 /* the most bytes of a job_key_file */

struct twi_job_key {
	bool set;
	bool encrypt; /* network traffic is encrypted; never without a key */
	uint8_t bytes[TWI_JOB_KEY_BYTES];
};

/*
 * Makes the key from resolved knobs: from job_key, else from the content of job_key_file, else
 * none. TOW_OK; TOW_EINVAL: encrypt without a key, or the secret is too short or too long;
 * TOW_EPERM: the file is a symbolic link, or may not hold a secret (diag/serve/secret_file.h);
 * TOW_ENOTSUP: libsodium is absent; TOW_ESYSTEM: the file cannot be read. *out is all zero after a
 * failure.
 */
int twi_job_key_load(const struct twi_knobs *knobs, struct twi_job_key *out);

/* Overwrites the key with zeros. */
void twi_job_key_wipe(struct twi_job_key *key);

/* Overwrites a secret's characters with stars, so that it still shows that there was one. */
void twi_job_key_mask(char *secret);

#endif
