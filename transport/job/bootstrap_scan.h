/*
 * bootstrap_scan.h - what the readers of the launchers' variables have in common.
 *
 * Each launcher is a row: `present` names the variable that shows that it started this process, and
 * `read` takes what it says, or refuses with the variable's name, its value, and what was expected.
 */
#ifndef TWI_BOOTSTRAP_SCAN_H
#define TWI_BOOTSTRAP_SCAN_H

#include "transport/job/bootstrap.h"

struct twi_scan {
	const struct twi_bootstrap_input *in;
	struct twi_bootstrap *out;
	const char *who;    /* for messages: the launcher */
	int64_t world_size; /* of options or TOW_WORLD_SIZE; 0: not set */
	const char *store;  /* of options or TOW_STORE; NULL: not set */
};

/* NULL: not set. Set to nothing is "". */
const char *twi_scan_get(const struct twi_scan *scan, const char *name);

/* A number that must be there and in range. */
int twi_scan_number(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		    int64_t *out);

/* A number that may be missing: *out stays as it is then. */
int twi_scan_maybe(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		   int64_t *out);

/* A text that must be there and not empty. */
int twi_scan_text(const struct twi_scan *scan, const char *name, const char *expected,
		  const char **out);

/* Puts the store's address, where the user has not said another one. */
int twi_scan_store(const struct twi_scan *scan, const char *host, uint16_t port);

/* The job's name: the knob's, then `id`. What does not fit is cut, and a hash of it is added. */
void twi_scan_job(const struct twi_scan *scan, const char *id);

/* The port that we take beside one that is another's. */
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
