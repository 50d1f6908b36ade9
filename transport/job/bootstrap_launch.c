/*
 * bootstrap_launch.c - reads the variables of launchers that start processes: torchrun, Megascale,
 * Open MPI, PMIx and PMI. bootstrap_cluster.c has the schedulers of clusters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/bootstrap_scan.h"

/*
 * torchrun. Users export MASTER_ADDR and MASTER_PORT alone for other launchers, and these name no
 * rank. MASTER_PORT belongs to torch's own store, which is served by torch's agent
 * (TORCHELASTIC_USE_AGENT_STORE) or by the program's rank 0.
 */

const char *twi_torchrun_present(const struct twi_scan *scan)
{
	static const char *const names[] = { "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE" };

	for (unsigned i = 0; i < twi_array_count(names); i++) {
		if (twi_scan_get(scan, names[i]) != NULL)
			return names[i];
	}
	return NULL;
}

int twi_torchrun_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *run = twi_scan_get(scan, "TORCHELASTIC_RUN_ID"), *host;
	int64_t port = 0, restarts = 0;
	int status = twi_scan_number(scan, "RANK", 0, TWI_WORLD_MAX - 1, &out->rank);

	if (status == TOW_OK)
		status = twi_scan_number(scan, "WORLD_SIZE", 1, TWI_WORLD_MAX, &out->world_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "LOCAL_RANK", 0, TWI_WORLD_MAX - 1, &out->local_rank);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "LOCAL_WORLD_SIZE", 1, TWI_WORLD_MAX,
					&out->local_size);
	if (status == TOW_OK)
		status =
			twi_scan_maybe(scan, "TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX, &restarts);
	if (status < 0)
		return status;
	out->restarts = (uint32_t)restarts;
	twi_scan_job(scan, run == NULL ? "" : run);
	if (twi_scan_maybe(scan, "MASTER_PORT", 1, UINT16_MAX, &port) == TOW_OK)
		out->own_port = (uint16_t)port;
	if (out->world_size == 1 || scan->store != NULL)
		return TOW_OK;
	status = twi_scan_text(scan, "MASTER_ADDR", "the host of rank 0", &host);
	if (status == TOW_OK)
		status = twi_scan_number(scan, "MASTER_PORT", 1, UINT16_MAX, &port);
	return status < 0 ? status
			  : twi_scan_store(scan, host, twi_scan_port_beside((uint16_t)port));
}

/*
 * Megascale: slices of TPU workers. An empty coordinator means that there is none. Then, and
 * without Megascale, the workers of one slice are a job if TPU_WORKER_HOSTNAMES names several.
 */

static bool megascale_on(const struct twi_scan *scan)
{
	const char *coordinator = twi_scan_get(scan, "MEGASCALE_COORDINATOR_ADDRESS");

	if (coordinator != NULL)
		return *coordinator != '\0';
	return twi_scan_get(scan, "MEGASCALE_SLICE_ID") != NULL ||
	       twi_scan_get(scan, "MEGASCALE_NUM_SLICES") != NULL;
}

const char *twi_megascale_present(const struct twi_scan *scan)
{
	const char *hosts = twi_scan_get(scan, "TPU_WORKER_HOSTNAMES");

	if (megascale_on(scan))
		return twi_scan_get(scan, "MEGASCALE_COORDINATOR_ADDRESS") != NULL
			       ? "MEGASCALE_COORDINATOR_ADDRESS"
		       : twi_scan_get(scan, "MEGASCALE_SLICE_ID") != NULL ? "MEGASCALE_SLICE_ID"
									  : "MEGASCALE_NUM_SLICES";
	return hosts != NULL && strchr(hosts, ',') != NULL ? "TPU_WORKER_HOSTNAMES" : NULL;
}

/* Returns the number of workers of a slice, and the first worker's host. */
static int read_workers(const struct twi_scan *scan, int64_t *count_out, char *first, size_t size)
{
	const char *hosts, *at;
	int status =
		twi_scan_text(scan, "TPU_WORKER_HOSTNAMES", "the slice's hosts, a,b,c", &hosts);

	if (status < 0)
		return status;
	*count_out = 1;
	for (at = hosts; *at != '\0'; at++) {
		if (*at == ',')
			++*count_out;
		if ((*at == ',' && (at == hosts || at[-1] == ',')) || (*at == ',' && at[1] == '\0'))
			return twi_error(TOW_EINVAL,
					 "%s: TPU_WORKER_HOSTNAMES = '%.64s', expected a host "
					 "before and after each comma",
					 scan->who, hosts);
	}
	if (strcspn(hosts, ",") >= size || *count_out > TWI_WORLD_MAX)
		return twi_error(TOW_EINVAL,
				 "%s: TPU_WORKER_HOSTNAMES begins '%.64s', expected at most %d "
				 "hosts of at most %zu bytes",
				 scan->who, hosts, TWI_WORLD_MAX, size - 1);
	snprintf(first, size, "%.*s", (int)strcspn(hosts, ","), hosts);
	return TOW_OK;
}

static int megascale_store(const struct twi_scan *scan, const char *first, int64_t port)
{
	const char *coordinator = twi_scan_get(scan, "MEGASCALE_COORDINATOR_ADDRESS");
	char host[256];
	uint16_t at = (uint16_t)port;

	if (!megascale_on(scan))
		snprintf(host, sizeof(host), "%s", first);
	else if (!twi_host_port(coordinator, (uint16_t)port, host, sizeof(host), &at))
		return twi_error(TOW_EINVAL,
				 "%s: MEGASCALE_COORDINATOR_ADDRESS = '%.64s', expected HOST or "
				 "HOST:PORT",
				 scan->who, coordinator);
	return twi_scan_store(scan, host, twi_scan_port_beside(at));
}

int twi_megascale_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	int64_t slices = 1, slice = 0, workers = 0, worker = 0, port = 8081;
	const char *coordinator;
	char first[256];
	int status = TOW_OK;

	if (megascale_on(scan)) {
		status = twi_scan_text(scan, "MEGASCALE_COORDINATOR_ADDRESS",
				       "HOST or HOST:PORT (empty where no other variable of "
				       "Megascale is set)",
				       &coordinator);
		if (status == TOW_OK)
			status = twi_scan_number(scan, "MEGASCALE_NUM_SLICES", 1, TWI_WORLD_MAX,
						 &slices);
		if (status == TOW_OK)
			status = twi_scan_number(scan, "MEGASCALE_SLICE_ID", 0, slices - 1, &slice);
		if (status == TOW_OK)
			status = twi_scan_maybe(scan, "MEGASCALE_PORT", 1, UINT16_MAX, &port);
	}
	if (status == TOW_OK)
		status = read_workers(scan, &workers, first, sizeof(first));
	if (status == TOW_OK)
		status = twi_scan_number(scan, "TPU_WORKER_ID", 0, workers - 1, &worker);
	if (status < 0)
		return status;
	if (slices * workers > TWI_WORLD_MAX)
		return twi_error(TOW_EINVAL,
				 "%s: MEGASCALE_NUM_SLICES = %" PRId64 " of %" PRId64
				 " workers each are more than %d ranks",
				 scan->who, slices, workers, TWI_WORLD_MAX);
	out->rank = slice * workers + worker;
	out->world_size = slices * workers;
	out->local_rank = 0;
	out->local_size = 1;
	twi_scan_job(scan, "");
	return out->world_size == 1 || scan->store != NULL ? TOW_OK
							   : megascale_store(scan, first, port);
}

/* Open MPI: ranks come from its own variables, the store's address by PMIx, which it serves. */

const char *twi_openmpi_present(const struct twi_scan *scan)
{
	return twi_scan_get(scan, "OMPI_COMM_WORLD_RANK") != NULL   ? "OMPI_COMM_WORLD_RANK"
	       : twi_scan_get(scan, "OMPI_COMM_WORLD_SIZE") != NULL ? "OMPI_COMM_WORLD_SIZE"
								    : NULL;
}

int twi_openmpi_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *space = twi_scan_get(scan, "PMIX_NAMESPACE");
	int64_t other = -1;
	int status =
		twi_scan_number(scan, "OMPI_COMM_WORLD_RANK", 0, TWI_WORLD_MAX - 1, &out->rank);

	if (status == TOW_OK)
		status = twi_scan_number(scan, "OMPI_COMM_WORLD_SIZE", 1, TWI_WORLD_MAX,
					 &out->world_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "OMPI_COMM_WORLD_LOCAL_RANK", 0, TWI_WORLD_MAX - 1,
					&out->local_rank);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, TWI_WORLD_MAX,
					&out->local_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "PMIX_RANK", 0, UINT32_MAX, &other);
	if (status < 0)
		return status;
	if (other >= 0 && other != out->rank)
		return twi_error(TOW_EINVAL,
				 "%s: PMIX_RANK = %" PRId64 ", expected %" PRId64
				 " as OMPI_COMM_WORLD_RANK says",
				 scan->who, other, out->rank);
	twi_scan_job(scan, space == NULL ? "" : space);
	out->exchange = TWI_EXCHANGE_PMIX;
	if (out->world_size > 1 && scan->store == NULL && (space == NULL || other < 0))
		return twi_error(TOW_EINVAL,
				 "%s: %s is not set, expected as mpirun sets it; or set TOW_STORE",
				 scan->who, space == NULL ? "PMIX_NAMESPACE" : "PMIX_RANK");
	return TOW_OK;
}

const char *twi_pmix_present(const struct twi_scan *scan)
{
	return twi_scan_get(scan, "PMIX_RANK") != NULL        ? "PMIX_RANK"
	       : twi_scan_get(scan, "PMIX_NAMESPACE") != NULL ? "PMIX_NAMESPACE"
							      : NULL;
}

/* No variable gives the number of ranks: PMIx is asked, or the user sets it. */
int twi_pmix_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *space;
	int status = twi_scan_number(scan, "PMIX_RANK", 0, TWI_WORLD_MAX - 1, &out->rank);

	if (status == TOW_OK)
		status = twi_scan_text(scan, "PMIX_NAMESPACE", "the name of the job", &space);
	if (status < 0)
		return status;
	out->world_size = scan->world_size;
	out->exchange = TWI_EXCHANGE_PMIX;
	twi_scan_job(scan, space);
	return TOW_OK;
}

const char *twi_pmi_present(const struct twi_scan *scan)
{
	static const char *const names[] = { "PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT" };

	for (unsigned i = 0; i < twi_array_count(names); i++) {
		if (twi_scan_get(scan, names[i]) != NULL)
			return names[i];
	}
	return NULL;
}

/* MPICH and its relatives. srun --mpi=pmi2 sets the same variables, and serves PMI 2 there. */
int twi_pmi_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *job = twi_scan_get(scan, "PMI_JOBID");
	int64_t fd = -1;
	int status = twi_scan_number(scan, "PMI_RANK", 0, TWI_WORLD_MAX - 1, &out->rank);

	if (status == TOW_OK)
		status = twi_scan_number(scan, "PMI_SIZE", 1, TWI_WORLD_MAX, &out->world_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "MPI_LOCALRANKID", 0, TWI_WORLD_MAX - 1,
					&out->local_rank);
	if (status == TOW_OK)
		status =
			twi_scan_maybe(scan, "MPI_LOCALNRANKS", 1, TWI_WORLD_MAX, &out->local_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "PMI_FD", 0, INT32_MAX, &fd);
	if (status < 0)
		return status;
	twi_scan_job(scan, job == NULL ? "" : job);
	out->exchange =
		twi_scan_get(scan, "SLURM_PROCID") != NULL ? TWI_EXCHANGE_PMI2 : TWI_EXCHANGE_PMI;
	snprintf(out->pmi, sizeof(out->pmi), "%" PRId64, fd);
	if (fd < 0 && out->world_size > 1 && scan->store == NULL)
		return twi_error(TOW_EINVAL,
				 "%s: PMI_FD is not set, expected the descriptor that mpiexec "
				 "answers on; or set TOW_STORE",
				 scan->who);
	return TOW_OK;
}
