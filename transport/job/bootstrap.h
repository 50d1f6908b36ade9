/*
 * bootstrap.h - who this process is in its job: rank, world size, and where rank 0's store is.
 *
 * Launchers say it in environment variables, each in its own. Exactly one is believed: the first,
 * in the order of TWI_LAUNCHER_MAP, of which a variable that names a rank is there. What it says
 * must be whole and must agree with itself; a hole is an error that names the variable, its value
 * and what was expected, and never a reason to go on to the next one: a job that silently became
 * eight jobs of one rank would be the worst outcome. Variables of launchers further down are not
 * looked into, but reported.
 *
 *	options, TOW_*, launchers' variables
 *	      |  twi_bootstrap_detect   pure: an environment table in, a struct out
 *	      v
 *	rank, world size, store or how to exchange it
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

/* X(name in capitals, name). In the order in which they are tried. */
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

/* How the ranks learn where the store is. */
enum twi_exchange {
	TWI_EXCHANGE_NONE,    /* there is one rank only */
	TWI_EXCHANGE_ADDRESS, /* it is in `store`; rank 0 binds it */
	TWI_EXCHANGE_PMIX,    /* rank 0 publishes it, by libpmix */
	TWI_EXCHANGE_PMI2,    /* likewise, by libpmi2 */
	TWI_EXCHANGE_PMI,     /* likewise, by the text protocol of PMI 1 on the descriptor PMI_FD */
	TWI_EXCHANGE_CALLER,  /* likewise, by the callbacks of tow_group_options */
};

/*
 * Of a port that a launcher hands out, but that another library binds (torch's own store on
 * MASTER_PORT, Megascale's coordinator): ours is this much further up, or down where that ends.
 */
#define TWI_PORT_BESIDE 101
/* Where nothing names one. */
#define TWI_STORE_PORT 29407
/* A job's port under Slurm: this, plus a number below 4096 made of job and step. */
#define TWI_SLURM_PORT 20480

#define TWI_WORLD_MAX       (1 << 16)
#define TWI_JOB_BYTES       192
#define TWI_JOB_NAME        49
#define TWI_STORE_BYTES     512 /* several addresses of rank 0, with commas between them */
#define TWI_BOOTSTRAP_ERROR 512
#define TWI_VERDICT_BYTES   128

struct twi_bootstrap_input {
	const char *const *env; /* as environ: "NAME=value", NULL last */
	const char *hostname;   /* as gethostname says; "" when not known */
	const char *fqdn;       /* its full name; "" when not known */
	int64_t rank;           /* of the options: -1 not set */
	int64_t world_size;     /* likewise; 0 and -1: not set */
	const char *store;      /* likewise; "" and NULL: not set */
	const char *job;        /* the knob */
	bool caller;            /* there is an exchange of the caller's: no store is looked for */
};

/* The callbacks of tow_group_options. */
struct twi_exchange_caller {
	tow_exchange_put put; /* NULL: there are none */
	tow_exchange_get get;
	void *user;
};

struct twi_bootstrap {
	int status;                    /* of the detection; the others are set when it is TOW_OK */
	char why[TWI_BOOTSTRAP_ERROR]; /* it is not */
	enum twi_launcher launcher;
	enum twi_exchange exchange;
	int64_t rank;
	int64_t world_size;             /* 0: PMIx is to be asked */
	int64_t local_rank, local_size; /* on this host; -1: not known */
	uint32_t restarts;              /* of the job */
	char job[TWI_JOB_BYTES];        /* which job: that of the knob, and the launcher's */
	uint16_t own_port;              /* of the launcher's or the program's own store; 0: none */
	char store[TWI_STORE_BYTES];    /* HOST:PORT */
	char pmi[24];                   /* PMI_FD, as it stands */
	struct twi_exchange_caller caller;
	int pmi_fd; /* of bootstrap_exchange.c; -1: none */
	bool pmix;  /* likewise: libpmix has been initialized */
	char verdicts[TWI_LAUNCHER_COUNT][TWI_VERDICT_BYTES]; /* why it was taken or not */
};

const char *twi_launcher_name(enum twi_launcher launcher);

/* Fills *out in any case. TOW_OK, or TOW_EINVAL, which is out->status too. Pure. */
int twi_bootstrap_detect(const struct twi_bootstrap_input *in, struct twi_bootstrap *out);

/*
 * The same of this process: its environment and names, and what the knobs say. caller: NULL, or the
 * callbacks by which ranks find the store.
 */
int twi_bootstrap_self(const struct tow_options *options, const char *job,
		       const struct twi_exchange_caller *caller, struct twi_bootstrap *out);

/*
 * job_name.c: what to call the job where the user has not said it, of letters, digits, - _ and
 * dots. False: the launcher has no number for it. Pure.
 */
bool twi_job_name(const struct twi_bootstrap *found, char out[TWI_JOB_NAME]);

/* Members of /v1/bootstrap. arg is a struct twi_bootstrap that does not change any more. */
void twi_bootstrap_describe(void *arg, struct twi_emit *emit);

/*
 * The first host of a list as Slurm writes them, "n[01-03,7],gpu5", and how many there are. False:
 * it is none, or the host does not fit.
 */
bool twi_hostlist(const char *list, char *first_out, size_t first_size, uint64_t *count_out);

/*
 * Host (without brackets) and port of "HOST", "HOST:PORT", "[HOST]:PORT" or "[HOST]"; the port is
 * `port` where there is none. False: it is none of them, or the host does not fit.
 */
bool twi_host_port(const char *text, uint16_t port, char *host_out, size_t host_size,
		   uint16_t *port_out);

/* "HOST:PORT", with brackets around what has a colon. False: it does not fit. */
bool twi_host_port_put(const char *host, uint16_t port, char *out, size_t bytes);

#endif
