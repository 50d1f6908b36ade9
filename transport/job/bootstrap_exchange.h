/*
 * bootstrap_exchange.h - telling the store's address to all ranks by what their launcher serves:
 * PMIx and PMI 2 by their libraries, which are loaded when they are needed, and PMI 1 as text.
 *
 * Or by what the caller has: two callbacks of tow_group_options.
 *
 * All of it blocks, until a deadline. The libraries have no deadlines of their own, so their calls
 * run in a thread that is left to itself when time is up.
 */
#ifndef TWI_BOOTSTRAP_EXCHANGE_H
#define TWI_BOOTSTRAP_EXCHANGE_H

#include "transport/job/bootstrap.h"
#include "transport/job/store_net.h"
#include "transport/security/job_key.h"

/* Asks PMIx for the number of ranks, where the variables do not say it. */
int twi_exchange_size(struct twi_bootstrap *bootstrap, const struct twi_until *until);

/*
 * Collective. mine: rank 0's address, to be told; NULL at the others, where it is put into
 * bootstrap->store. TOW_OK; TOW_ENOTSUP: the library is missing; TOW_EDEADLINE; TOW_EPROTOCOL,
 * TOW_ESYSTEM: what the launcher answers; TOW_ENOMEM.
 */
int twi_exchange(struct twi_bootstrap *bootstrap, const char *mine, const struct twi_until *until);

/*
 * What was opened for the exchange is closed; when the last group is, not before, as neither PMIx
 * nor PMI can be begun anew for the program's own MPI_Init.
 */
void twi_exchange_done(struct twi_bootstrap *bootstrap, const struct twi_until *until);

/* --- the caller's exchange --- */

#define TWI_EXCHANGE_KEY   "towline/store"
#define TWI_EXCHANGE_VALUE 2048u

/* What rank 0 tells the others: its store's address and the job's key, or why it has failed. */
struct twi_exchange_note {
	int failed; /* below 0: it has, and `why` says how */
	char why[TWI_BOOTSTRAP_ERROR];
	char job[TWI_JOB_BYTES];
	uint32_t restarts;
	char store[TWI_STORE_BYTES];
	struct twi_job_key key; /* not set: every rank has it */
};

/*
 * Both call the caller back in a thread, which is left to itself when time is up. `get` knows job
 * and restarts, against which the value is judged. TOW_OK; what the call fails with; TOW_EDEADLINE;
 * TOW_EPROTOCOL: no value of ours; TOW_EMISMATCH: of another version, job or restart; or what
 * rank 0 has failed with.
 */
int twi_exchange_put(const struct twi_exchange_caller *caller, const struct twi_exchange_note *note,
		     const struct twi_until *until);
int twi_exchange_get(const struct twi_exchange_caller *caller, struct twi_exchange_note *note,
		     const struct twi_until *until);

/* exchange_note.c: the value. The bytes written, without a NUL. */
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
