/*
 * bootstrap.h - finds this process's rank, its job's world size, and the address of rank 0's store.
 *
 * Each launcher sets environment variables of its own. The library believes exactly one launcher:
 * the first in the order of TWI_LAUNCHER_MAP that has set a variable that names a rank. The
 * variables of that launcher must be complete and consistent. A gap is an error that names the
 * variable, its value and what was expected. The library never tries the next launcher then: a job
 * that silently became eight jobs of one rank would be the worst outcome. Later launchers are not
 * read, only reported.
 *
 *	options, TOW_*, launchers' variables
 *	      |  twi_bootstrap_detect   pure: an environment table in, a struct out
 *	      v
 *	rank, world size, the store's address or how to exchange it
 *	      |  twi_exchange           asks PMIx or PMI, where the variables have no address
 *	      v
 *	the address of the store
 *
 * docs/bootstrap.md has the rules for users.
 */
#ifndef TWI_BOOTSTRAP_H
#define TWI_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/group.h>
#include <towline/runtime.h>

struct twi_emit;

/* X(name in capitals, name), in the order in which the launchers are tried. */
#define TWI_LAUNCHER_MAP(X)                                                                        \
	X(OPTIONS, "options")                                                                      \
	X(TOW, "tow")                                                                              \
	X(TORCHRUN, "torchrun")                                                                    \
	X(MEGASCALE, "megascale")                                                                  \
	X(OPENMPI, "openmpi")                                                                      \
	X(PMIX, "pmix")                                                                            \
	X(PMI, "pmi")                                                                              \
	X(SLURM, "slurm")                                                                          \
	X(KUBERNETES, "kubernetes")                                                                \
	X(SINGLE, "single")

enum twi_launcher {
#define TWI_LAUNCHER_ENUM(id, name) TWI_LAUNCHER_##id,
	TWI_LAUNCHER_MAP(TWI_LAUNCHER_ENUM)
#undef TWI_LAUNCHER_ENUM
		TWI_LAUNCHER_COUNT
};

/* How the ranks learn the store's address. */
enum twi_exchange {
	TWI_EXCHANGE_NONE,    /* not needed: the job has one rank */
	TWI_EXCHANGE_ADDRESS, /* the address is in `store`; rank 0 binds it */
	TWI_EXCHANGE_PMIX,    /* rank 0 publishes the address by libpmix */
	TWI_EXCHANGE_PMI2,    /* the same by libpmi2 */
	TWI_EXCHANGE_PMI,     /* the same by the text protocol of PMI 1 on the descriptor PMI_FD */
	TWI_EXCHANGE_CALLER,  /* the same by the callbacks of tow_group_options */
};

/*
 * A launcher may hand out a port that another library binds: MASTER_PORT of torch's own store, or
 * the port of Megascale's coordinator. The store's port is then higher by this number, or lower
 * where that exceeds the largest port.
 */
#define TWI_PORT_BESIDE 101
/* The store's port where nothing names one. */
#define TWI_STORE_PORT 29407
/* The store's port under Slurm: this, plus a number below 4096 made of the job and the step. */
#define TWI_SLURM_PORT 20480

#define TWI_WORLD_MAX       (1 << 16)
#define TWI_JOB_BYTES       192
#define TWI_JOB_NAME        49
#define TWI_STORE_BYTES     512 /* several addresses of rank 0, separated by commas */
#define TWI_BOOTSTRAP_ERROR 512
#define TWI_VERDICT_BYTES   128

struct twi_bootstrap_input {
	const char *const *env; /* like environ: "NAME=value", NULL last */
	const char *hostname;   /* from gethostname; "" when not known */
	const char *fqdn;       /* the host's full name; "" when not known */
	int64_t rank;           /* from the options; -1: not set */
	int64_t world_size;     /* from the options; 0 and -1: not set */
	const char *store;      /* from the options; "" and NULL: not set */
	const char *job;        /* the knob `job` */
	bool caller;            /* the caller has an exchange, so no store is looked for */
};

/* The callbacks of tow_group_options. */
struct twi_exchange_caller {
	tow_exchange_put put; /* NULL: there are no callbacks */
	tow_exchange_get get;
	void *user;
};

struct twi_bootstrap {
	int status;                    /* result; below 0, most of the rest is not set */
	char why[TWI_BOOTSTRAP_ERROR]; /* the reason when status is below 0 */
	enum twi_launcher launcher;
	enum twi_exchange exchange;
	int64_t rank;
	int64_t world_size;             /* 0: to be asked of PMIx */
	int64_t local_rank, local_size; /* on this host; -1: not known */
	uint32_t restarts;              /* restarts of the job */
	char job[TWI_JOB_BYTES];        /* the job: its knob and launcher's id */
	uint16_t own_port;              /* port of the store of launcher or program; 0: none */
	char store[TWI_STORE_BYTES];    /* HOST:PORT */
	char pmi[24];                   /* PMI_FD, as in the environment */
	struct twi_exchange_caller caller;
	int pmi_fd; /* used by bootstrap_exchange.c; -1: none */
	bool pmix;  /* the same: libpmix has been initialized */
	char verdicts[TWI_LAUNCHER_COUNT][TWI_VERDICT_BYTES]; /* why each was taken or not */
};

const char *twi_launcher_name(enum twi_launcher launcher);

/* Fills *out in any case. Returns out->status: TOW_OK or TOW_EINVAL. Pure. */
int twi_bootstrap_detect(const struct twi_bootstrap_input *in, struct twi_bootstrap *out);

/*
 * Does the same for this process, from its environment, its names and the knobs. caller: NULL, or
 * the callbacks by which the ranks find the store.
 */
int twi_bootstrap_self(const struct tow_options *options, const char *job,
		       const struct twi_exchange_caller *caller, struct twi_bootstrap *out);

/*
 * job_name.c: makes a name for the job where the user has set none. The name has letters, digits,
 * -, _ and dots. False: the launcher has no number for the job. Pure.
 */
bool twi_job_name(const struct twi_bootstrap *found, char out[TWI_JOB_NAME]);

/* Emits the members of /v1/bootstrap. arg is a struct twi_bootstrap that is constant by now. */
void twi_bootstrap_describe(void *arg, struct twi_emit *emit);

/*
 * Returns the first host of a list in Slurm's notation, "n[01-03,7],gpu5", and the number of hosts.
 * False: it is no such list, or the host does not fit.
 */
bool twi_hostlist(const char *list, char *first_out, size_t first_size, uint64_t *count_out);

/*
 * Parses "HOST", "HOST:PORT", "[HOST]:PORT" or "[HOST]" to the host without brackets and the port.
 * `port` is the default port. False: the text is none of these, or the host does not fit.
 */
bool twi_host_port(const char *text, uint16_t port, char *host_out, size_t host_size,
		   uint16_t *port_out);

/* Writes "HOST:PORT", with brackets around a host that has a colon. False: it does not fit. */
bool twi_host_port_put(const char *host, uint16_t port, char *out, size_t bytes);

#endif
