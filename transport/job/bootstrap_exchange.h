/*
 * bootstrap_exchange.h - passes the store's address to all ranks by a service of their launcher.
 *
 * The services are PMIx and PMI 2, whose libraries are loaded on demand, and PMI 1 as text. A
 * caller may bring its own instead: the two callbacks of tow_group_options.
 *
 * All of these calls block, until a deadline. The libraries have no deadlines of their own, so
 * their calls run in a thread. When the deadline has passed, that thread is abandoned.
 */
#ifndef TWI_BOOTSTRAP_EXCHANGE_H
#define TWI_BOOTSTRAP_EXCHANGE_H

#include "transport/job/bootstrap.h"
#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

/* Asks PMIx for the number of ranks, where the variables do not give it. */
int twi_exchange_size(struct twi_bootstrap *bootstrap, const struct twi_until *until);

/*
 * Collective. Passes rank 0's address, `mine`, to all ranks. At the others `mine` is NULL, and the
 * address is put into bootstrap->store. TOW_OK; TOW_ENOTSUP: the library is missing; TOW_EDEADLINE;
 * TOW_EPROTOCOL, TOW_ESYSTEM: failures of the launcher; TOW_ENOMEM.
 */
int twi_exchange(struct twi_bootstrap *bootstrap, const char *mine, const struct twi_until *until);

/*
 * Closes what was opened for the exchange. Called when the last group closes, not before: neither
 * PMIx nor PMI can be initialized again for the program's own MPI_Init.
 */
void twi_exchange_done(struct twi_bootstrap *bootstrap, const struct twi_until *until);

/* --- the caller's exchange --- */

#define TWI_EXCHANGE_KEY   "towline/store"
#define TWI_EXCHANGE_VALUE 2048u

/*
 * The record that rank 0 passes to the others: its store's address and the job's key, or its
 * failure.
 */
struct twi_exchange_note {
	int failed; /* below 0: rank 0 has failed, and `why` is its message */
	char why[TWI_BOOTSTRAP_ERROR];
	char job[TWI_JOB_BYTES];
	uint32_t restarts;
	char store[TWI_STORE_BYTES];
	struct twi_job_key key; /* not set: every rank has the key already */
};

/*
 * Both call the caller's function in a thread, which is abandoned when the deadline has passed. For
 * `get`, note->job and note->restarts must be set: the value is compared with them. TOW_OK; the
 * status of the caller's function; TOW_EDEADLINE; TOW_EPROTOCOL: the value is not one of this
 * library; TOW_EMISMATCH: it is of another version, job or restart; or the status with which rank 0
 * has failed.
 */
int twi_exchange_put(const struct twi_exchange_caller *caller, const struct twi_exchange_note *note,
		     const struct twi_until *until);
int twi_exchange_get(const struct twi_exchange_caller *caller, struct twi_exchange_note *note,
		     const struct twi_until *until);

/* exchange_note.c: writes and parses the value. put returns the bytes written, without a NUL. */
size_t twi_exchange_note_put(const struct twi_exchange_note *note, char out[TWI_EXCHANGE_VALUE]);
int twi_exchange_note_take(const char *value, size_t bytes, struct twi_exchange_note *note);

/* exchange_pmi.c: PMI 1 over a descriptor. */
int twi_pmi_exchange(int fd, bool first, char address[TWI_STORE_BYTES],
		     const struct twi_until *until);
void twi_pmi_finish(int fd, const struct twi_until *until);

/* exchange_library.c. These block without a deadline. */
int twi_pmix_size(int64_t rank, int64_t *size_out);
int twi_pmix_exchange(int64_t rank, char address[TWI_STORE_BYTES]);
int twi_pmix_finish(void);
int twi_pmi2_exchange(int64_t rank, char address[TWI_STORE_BYTES]);

#endif
