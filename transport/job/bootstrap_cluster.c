/*
 * bootstrap_cluster.c - reads the variables of cluster schedulers: Slurm steps, and pods with an
 * index of Kubernetes. Neither gives the host of rank 0, so it is derived from names.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/bootstrap_scan.h"

/*
 * Reads a number of at most nine digits at *at, and moves *at behind it. The width keeps leading
 * zeros.
 */
static bool take_number(const char **at, uint64_t *value_out, unsigned *width_out)
{
	uint64_t value = 0;
	unsigned width = 0;

	for (; **at >= '0' && **at <= '9'; ++*at, width++)
		value = value * 10 + (uint64_t)(**at - '0');
	*value_out = value;
	*width_out = width;
	return width > 0 && width <= 9;
}

/*
 * Reads "[01-03,7]" at *at. Returns the first number as it is written, and how many numbers there
 * are.
 */
static bool take_ranges(const char **at, char *first_out, size_t first_size, uint64_t *count_out)
{
	uint64_t low, high, count = 0;
	unsigned width, other;

	do {
		++*at; /* '[' or ',' */
		if (!take_number(at, &low, &width))
			return false;
		if (count == 0)
			snprintf(first_out, first_size, "%0*" PRIu64, (int)width, low);
		high = low;
		if (**at == '-') {
			++*at;
			if (!take_number(at, &high, &other) || high < low)
				return false;
		}
		count += high - low + 1;
	} while (**at == ',');
	if (**at != ']')
		return false;
	++*at;
	*count_out = count;
	return true;
}

static bool append_text(char *out, size_t size, const char *text, size_t length)
{
	size_t used = strlen(out);

	if (used + length >= size)
		return false;
	snprintf(out + used, size - used, "%.*s", (int)length, text);
	return true;
}

/* Reads one item, "n[1-2]x[3-4]", up to a comma or the end, and moves *at there. */
static bool take_item(const char **at, char *first_out, size_t first_size, uint64_t *count_out)
{
	uint64_t count = 1, more;
	char number[16];
	bool any = false;

	*first_out = '\0';
	while (**at != '\0' && **at != ',') {
		size_t plain = strcspn(*at, "[],");

		if (**at == ']')
			return false;
		if (!append_text(first_out, first_size, *at, plain))
			return false;
		*at += plain;
		any = true;
		if (**at != '[')
			continue;
		if (!take_ranges(at, number, sizeof(number), &more) ||
		    !append_text(first_out, first_size, number, strlen(number)))
			return false;
		if (__builtin_mul_overflow(count, more, &count))
			return false;
	}
	*count_out = count;
	return any;
}

bool twi_hostlist(const char *list, char *first_out, size_t first_size, uint64_t *count_out)
{
	uint64_t total = 0, count;
	char host[256];

	for (;;) {
		if (!take_item(&list, host, sizeof(host), &count) ||
		    __builtin_add_overflow(total, count, &total))
			return false;
		if (total == count) { /* the first item */
			if (strlen(host) >= first_size)
				return false;
			snprintf(first_out, first_size, "%s", host);
		}
		if (*list == '\0')
			break;
		list++;
	}
	*count_out = total;
	return true;
}

/*
 * Slurm. The script of sbatch has SLURM_PROCID = 0, too, but it is no step and has no rank. A step
 * has variables of its own.
 */

const char *twi_slurm_present(const struct twi_scan *scan)
{
	const char *rank = twi_scan_get(scan, "SLURM_PROCID");

	if (twi_scan_get(scan, "SLURM_STEP_NODELIST") != NULL)
		return "SLURM_STEP_NODELIST";
	return rank != NULL && strcmp(rank, "0") != 0 ? "SLURM_PROCID" : NULL;
}

static int slurm_tasks(const struct twi_scan *scan, int64_t *out)
{
	/* A step may be smaller than its job. */
	const char *name = twi_scan_get(scan, "SLURM_STEP_NUM_TASKS") != NULL
				   ? "SLURM_STEP_NUM_TASKS"
				   : "SLURM_NTASKS";

	return twi_scan_number(scan, name, 1, TWI_WORLD_MAX, out);
}

static int slurm_store(const struct twi_scan *scan, int64_t job, int64_t step)
{
	int64_t nodes = -1;
	uint64_t count;
	const char *list;
	char host[256];
	int status = twi_scan_text(scan, "SLURM_STEP_NODELIST", "the step's hosts, n[1-4]", &list);

	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "SLURM_STEP_NUM_NODES", 1, TWI_WORLD_MAX, &nodes);
	if (status < 0)
		return status;
	if (!twi_hostlist(list, host, sizeof(host), &count))
		return twi_error(TOW_EINVAL,
				 "%s: SLURM_STEP_NODELIST = '%.64s', expected hosts as in "
				 "n[1-4,7],gpu5",
				 scan->who, list);
	if (nodes >= 0 && (uint64_t)nodes != count)
		return twi_error(TOW_EINVAL,
				 "%s: SLURM_STEP_NUM_NODES = %" PRId64 ", expected %" PRIu64
				 ", the hosts of SLURM_STEP_NODELIST = '%.64s'",
				 scan->who, nodes, count, list);
	/* Several steps of one job may share a host, so the port depends on the step, too. */
	return twi_scan_store(scan, host, (uint16_t)(TWI_SLURM_PORT + (job + 613 * step) % 4096));
}

int twi_slurm_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	int64_t job = 0, step = 0, restarts = 0;
	char id[64];
	int status = twi_scan_number(scan, "SLURM_PROCID", 0, TWI_WORLD_MAX - 1, &out->rank);

	if (status == TOW_OK)
		status = slurm_tasks(scan, &out->world_size);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "SLURM_LOCALID", 0, TWI_WORLD_MAX - 1,
					&out->local_rank);
	if (status == TOW_OK)
		status = twi_scan_number(scan, "SLURM_JOB_ID", 0, UINT32_MAX, &job);
	if (status == TOW_OK)
		status = twi_scan_number(scan, "SLURM_STEP_ID", 0, UINT32_MAX, &step);
	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "SLURM_RESTART_COUNT", 0, INT32_MAX, &restarts);
	if (status < 0)
		return status;
	out->restarts = (uint32_t)restarts;
	snprintf(id, sizeof(id), "%" PRId64 ".%" PRId64, job, step);
	twi_scan_job(scan, id);
	return out->world_size == 1 || scan->store != NULL ? TOW_OK : slurm_store(scan, job, step);
}

/*
 * Kubernetes: a LeaderWorkerSet, a Job with indices, a StatefulSet. The latter two do not give the
 * number of pods, so TOW_WORLD_SIZE must. A pod of a StatefulSet has only the number at the end of
 * its name. Without TOW_WORLD_SIZE it is not taken for a rank.
 */

/* Returns the number behind the last '-' of the pod's name; NULL when there is none. */
static const char *ordinal_of(const char *hostname)
{
	const char *dash = strrchr(hostname, '-');

	return dash != NULL && dash != hostname && dash[1] != '\0' &&
			       dash[1 + strspn(dash + 1, "0123456789")] == '\0' &&
			       strlen(dash + 1) <= 9
		       ? dash + 1
		       : NULL;
}

static const char *pod_name(const struct twi_scan *scan)
{
	const char *name = twi_scan_get(scan, "HOSTNAME");

	return name != NULL && *name != '\0' ? name : scan->in->hostname;
}

const char *twi_kubernetes_present(const struct twi_scan *scan)
{
	static const char *const names[] = { "LWS_WORKER_INDEX", "LWS_GROUP_SIZE",
					     "LWS_LEADER_ADDRESS", "JOB_COMPLETION_INDEX" };

	if (twi_scan_get(scan, "KUBERNETES_SERVICE_HOST") == NULL)
		return NULL;
	for (unsigned i = 0; i < twi_array_count(names); i++) {
		if (twi_scan_get(scan, names[i]) != NULL)
			return names[i];
	}
	return scan->world_size > 1 && ordinal_of(pod_name(scan)) != NULL ? "HOSTNAME" : NULL;
}

static int read_leader_worker_set(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *leader;
	int status = twi_scan_number(scan, "LWS_GROUP_SIZE", 1, TWI_WORLD_MAX, &out->world_size);

	if (status == TOW_OK)
		status = twi_scan_number(scan, "LWS_WORKER_INDEX", 0, out->world_size - 1,
					 &out->rank);
	if (status == TOW_OK)
		status = twi_scan_text(scan, "LWS_LEADER_ADDRESS", "the leader's host name",
				       &leader);
	if (status < 0)
		return status;
	twi_scan_job(scan, leader);
	return scan->store != NULL ? TOW_OK : twi_scan_store(scan, leader, TWI_STORE_PORT);
}

/* The store is at "<name>-0" for the pod "<name>-<i>", in the domain of the pods' service. */
static int pod_store(const struct twi_scan *scan, const char *pod, const char *ordinal)
{
	const char *dot = strchr(scan->in->fqdn, '.');
	char host[256];
	int length;

	if (dot == NULL)
		return twi_error(
			TOW_EINVAL,
			"%s: the full name of pod %.64s is '%.64s', expected a domain in "
			"it; give the pods a headless service (subdomain), or set TOW_STORE",
			scan->who, pod, scan->in->fqdn);
	length = snprintf(host, sizeof(host), "%.*s0%s", (int)(ordinal - pod), pod, dot);
	if (length < 0 || (size_t)length >= sizeof(host))
		return twi_error(TOW_EINVAL, "%s: the name of pod %.64s is too long", scan->who,
				 pod);
	return twi_scan_store(scan, host, TWI_STORE_PORT);
}

int twi_kubernetes_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	const char *pod = pod_name(scan), *ordinal = ordinal_of(pod);
	char name[TWI_JOB_BYTES];
	int64_t index = -1;
	int status;

	if (twi_scan_get(scan, "LWS_WORKER_INDEX") != NULL ||
	    twi_scan_get(scan, "LWS_GROUP_SIZE") != NULL ||
	    twi_scan_get(scan, "LWS_LEADER_ADDRESS") != NULL)
		return read_leader_worker_set(scan);
	status = twi_scan_maybe(scan, "JOB_COMPLETION_INDEX", 0, TWI_WORLD_MAX - 1, &index);
	if (status < 0)
		return status;
	if (scan->world_size == 0)
		return twi_error(TOW_EINVAL,
				 "%s: JOB_COMPLETION_INDEX = %" PRId64
				 " does not say of how many; set TOW_WORLD_SIZE, expected what the "
				 "Job has as completions",
				 scan->who, index);
	if (ordinal == NULL ||
	    (index >= 0 && strtoull(ordinal, NULL, 10) != (unsigned long long)index))
		return twi_error(TOW_EINVAL,
				 "%s: HOSTNAME = '%.64s', expected a name that ends in -%" PRId64
				 " as JOB_COMPLETION_INDEX says",
				 scan->who, pod, index);
	out->rank = (int64_t)strtoull(ordinal, NULL, 10);
	out->world_size = scan->world_size;
	snprintf(name, sizeof(name), "%.*s", (int)(ordinal - pod - 1), pod);
	twi_scan_job(scan, name);
	return out->world_size == 1 || scan->store != NULL ? TOW_OK : pod_store(scan, pod, ordinal);
}
