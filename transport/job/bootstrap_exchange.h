/*
 * bootstrap_exchange.h - telling the store's address to all ranks by what their launcher serves:
 * PMIx and PMI 2 by their libraries, which are loaded when they are needed, and PMI 1 as text.
 *
 * All of it blocks, until a deadline. The libraries have no deadlines of their own, so their calls
 * run in a thread that is left to itself when time is up.
 */
#ifndef TWI_BOOTSTRAP_EXCHANGE_H
#define TWI_BOOTSTRAP_EXCHANGE_H

#include "transport/job/bootstrap.h"
#include "transport/job/store_net.h"

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
