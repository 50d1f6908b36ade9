/*
 * environment.h - variables that look like ours and are not: a misspelt TOW_JOBKEY
 * would leave a job open to everybody without a word.
 *
 * Only names are looked at, so no value, which may be a secret, reaches the log.
 */
#ifndef TWI_ENVIRONMENT_H
#define TWI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

struct twi_diag;

/* Whether a name, TOW_..., is a knob's or stands in environment.def. */
bool twi_environment_knows(const char *name, size_t bytes);

/* The knob's variable that is spelt most like it; NULL: none is. */
const char *twi_environment_nearest(const char *name, size_t bytes);

/* A warning in the log for each that nobody knows, sixteen at most. */
void twi_environment_check(struct twi_diag *diag, char *const *variables);

#endif
