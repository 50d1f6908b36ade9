/*
 * environment.h - finds variables that look like ours but are not. A misspelt TOW_JOBKEY, for
 * example, would silently leave a job open to every user.
 *
 * It reads only names. So no value, which may be a secret, reaches the log.
 */
#ifndef TWI_ENVIRONMENT_H
#define TWI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

struct twi_diag;

/* Is the name TOW_... a knob's, or in environment.def? */
bool twi_environment_knows(const char *name, size_t bytes);

/* The knob's variable with the most similar spelling; NULL: none is similar. */
const char *twi_environment_nearest(const char *name, size_t bytes);

/* Logs a warning for each unknown variable TOW_..., for at most sixteen. */
void twi_environment_check(struct twi_diag *diag, char *const *variables);

#endif
