/*
 * bootstrap_scan.h - functions that the readers of the launchers' variables share.
 *
 * Each launcher is a row of two functions. `present` returns the name of the variable that shows
 * that this launcher started the process. `read` takes the values of the launcher's variables. It
 * refuses a wrong one with the variable's name, its value and what was expected.
 */
#ifndef TWI_BOOTSTRAP_SCAN_H
#define TWI_BOOTSTRAP_SCAN_H

#include "transport/job/bootstrap.h"

struct twi_scan {
	const struct twi_bootstrap_input *in;
	struct twi_bootstrap *out;
	const char *who;    /* the launcher's name, for messages */
	int64_t world_size; /* from the options or TOW_WORLD_SIZE; 0: not set */
	const char *store;  /* from the options or TOW_STORE; NULL: not set */
};

/* Returns the value of a variable. NULL: it is not set. "": it is set, and empty. */
const char *twi_scan_get(const struct twi_scan *scan, const char *name);

/* Reads a number that must be there and in range. */
int twi_scan_number(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		    int64_t *out);

/* Reads a number that may be missing: then *out keeps its value. */
int twi_scan_maybe(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		   int64_t *out);

/* Reads a text that must be there and not empty. */
int twi_scan_text(const struct twi_scan *scan, const char *name, const char *expected,
		  const char **out);

/* Sets the store's address. An address from the user replaces it later (finish_scan). */
int twi_scan_store(const struct twi_scan *scan, const char *host, uint16_t port);

/* Sets the job's identity: the knob, then `id`. An id that is too long is cut, and gets a hash. */
void twi_scan_job(const struct twi_scan *scan, const char *id);

/* The store's port beside a port of another library; see TWI_PORT_BESIDE. */
uint16_t twi_scan_port_beside(uint16_t port);

/* bootstrap_launch.c */
const char *twi_torchrun_present(const struct twi_scan *scan);
int twi_torchrun_read(const struct twi_scan *scan);
const char *twi_megascale_present(const struct twi_scan *scan);
int twi_megascale_read(const struct twi_scan *scan);
const char *twi_openmpi_present(const struct twi_scan *scan);
int twi_openmpi_read(const struct twi_scan *scan);
const char *twi_pmix_present(const struct twi_scan *scan);
int twi_pmix_read(const struct twi_scan *scan);
const char *twi_pmi_present(const struct twi_scan *scan);
int twi_pmi_read(const struct twi_scan *scan);

/* bootstrap_cluster.c */
const char *twi_slurm_present(const struct twi_scan *scan);
int twi_slurm_read(const struct twi_scan *scan);
const char *twi_kubernetes_present(const struct twi_scan *scan);
int twi_kubernetes_read(const struct twi_scan *scan);

#endif
