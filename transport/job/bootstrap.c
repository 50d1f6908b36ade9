/*
 * bootstrap.c - finds the launcher that gave this process its rank. See bootstrap.h.
 */
#include "transport/job/bootstrap.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/base/program.h"
#include "transport/job/bootstrap_scan.h"

const char *twi_launcher_name(enum twi_launcher launcher)
{
	static const char *const names[] = {
#define TWI_LAUNCHER_NAME(id, name) name,
		TWI_LAUNCHER_MAP(TWI_LAUNCHER_NAME)
#undef TWI_LAUNCHER_NAME
	};

	return (unsigned)launcher < twi_array_count(names) ? names[launcher] : "unknown";
}

const char *twi_scan_get(const struct twi_scan *scan, const char *name)
{
	size_t length = strlen(name);

	for (const char *const *at = scan->in->env; at != NULL && *at != NULL; at++) {
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	}
	return NULL;
}

static bool parse_number(const char *text, int64_t *out)
{
	int64_t value = 0;

	if (*text == '\0' || strlen(text) > 18)
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (*text - '0');
	}
	*out = value;
	return true;
}

int twi_scan_maybe(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		   int64_t *out)
{
	const char *text = twi_scan_get(scan, name);
	int64_t value;

	if (text == NULL)
		return TOW_OK;
	if (!parse_number(text, &value) || value < least || value > most)
		return twi_error(TOW_EINVAL,
				 "%s: %s = '%.64s', expected a number from %" PRId64 " to %" PRId64,
				 scan->who, name, text, least, most);
	*out = value;
	return TOW_OK;
}

int twi_scan_number(const struct twi_scan *scan, const char *name, int64_t least, int64_t most,
		    int64_t *out)
{
	if (twi_scan_get(scan, name) == NULL)
		return twi_error(TOW_EINVAL,
				 "%s: %s is not set, expected a number from %" PRId64 " to %" PRId64
				 "; %s is there, and what belongs to it must be, too",
				 scan->who, name, least, most,
				 scan->out->verdicts[scan->out->launcher]);
	return twi_scan_maybe(scan, name, least, most, out);
}

int twi_scan_text(const struct twi_scan *scan, const char *name, const char *expected,
		  const char **out)
{
	const char *text = twi_scan_get(scan, name);

	if (text == NULL || *text == '\0')
		return twi_error(TOW_EINVAL, "%s: %s is %s, expected %s", scan->who, name,
				 text == NULL ? "not set" : "empty", expected);
	*out = text;
	return TOW_OK;
}

uint16_t twi_scan_port_beside(uint16_t port)
{
	return (uint16_t)(port > UINT16_MAX - TWI_PORT_BESIDE ? port - TWI_PORT_BESIDE
							      : port + TWI_PORT_BESIDE);
}

int twi_scan_store(const struct twi_scan *scan, const char *host, uint16_t port)
{
	scan->out->exchange = TWI_EXCHANGE_ADDRESS;
	if (!twi_host_port_put(host, port, scan->out->store, sizeof(scan->out->store)))
		return twi_error(TOW_EINVAL, "%s: '%.64s' is too long for a host's name", scan->who,
				 host);
	return TOW_OK;
}

void twi_scan_job(const struct twi_scan *scan, const char *id)
{
	const char *job = scan->in->job == NULL ? "" : scan->in->job;
	char *out = scan->out->job;

	if (*id == '\0')
		snprintf(out, TWI_JOB_BYTES, "%.64s", job);
	else if (strlen(id) < 96)
		snprintf(out, TWI_JOB_BYTES, "%.64s/%s-%s", job, scan->who, id);
	else
		snprintf(out, TWI_JOB_BYTES, "%.64s/%s-%.64s~%016" PRIx64, job, scan->who, id,
			 twi_hash_text(id));
}

bool twi_host_port(const char *text, uint16_t port, char *host_out, size_t host_size,
		   uint16_t *port_out)
{
	const char *end, *rest;
	int64_t value = port;
	int length;

	if (*text == '[') {
		text++;
		end = strchr(text, ']');
		if (end == NULL)
			return false;
		rest = end + 1;
	} else {
		end = strrchr(text, ':');
		/* More than one colon without brackets: an IPv6 address whose port is not clear. */
		if (end != NULL && memchr(text, ':', (size_t)(end - text)) != NULL)
			return false;
		if (end == NULL)
			end = text + strlen(text);
		rest = end;
	}
	if (*rest == ':' && (!parse_number(rest + 1, &value) || value < 1 || value > UINT16_MAX))
		return false;
	if (*rest != ':' && *rest != '\0')
		return false;
	length = (int)(end - text);
	if (length <= 0 || (size_t)length >= host_size || value == 0)
		return false;
	snprintf(host_out, host_size, "%.*s", length, text);
	*port_out = (uint16_t)value;
	return true;
}

bool twi_host_port_put(const char *host, uint16_t port, char *out, size_t bytes)
{
	bool brackets = strchr(host, ':') != NULL;
	int length = snprintf(out, bytes, "%s%s%s:%u", brackets ? "[" : "", host,
			      brackets ? "]" : "", port);

	return length > 0 && (size_t)length < bytes;
}

/* Options and TOW_*: an option replaces the variable of the same meaning. */

static const char *options_present(const struct twi_scan *scan)
{
	return scan->in->rank >= 0 ? "the option rank" : NULL;
}

static const char *tow_present(const struct twi_scan *scan)
{
	return twi_scan_get(scan, "TOW_RANK") != NULL ? "TOW_RANK" : NULL;
}

static int explicit_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	int status = TOW_OK;

	if (scan->in->rank >= 0)
		out->rank = scan->in->rank;
	else
		status = twi_scan_number(scan, "TOW_RANK", 0, TWI_WORLD_MAX - 1, &out->rank);
	if (status < 0)
		return status;
	if (scan->world_size == 0)
		return twi_error(TOW_EINVAL,
				 "%s: this is rank %" PRId64
				 " and nothing says of how many; set TOW_WORLD_SIZE or the option "
				 "world_size, expected from 1 to %d",
				 scan->who, out->rank, TWI_WORLD_MAX);
	out->world_size = scan->world_size;
	if (scan->store == NULL && out->world_size > 1)
		return twi_error(TOW_EINVAL,
				 "%s: TOW_STORE is not set, expected HOST:PORT where rank 0 serves "
				 "the store; with it rank %" PRId64 " of %" PRId64 " is complete",
				 scan->who, out->rank, out->world_size);
	twi_scan_job(scan, "");
	out->exchange = TWI_EXCHANGE_ADDRESS;
	return TOW_OK;
}

static const char *single_present(const struct twi_scan *scan)
{
	(void)scan;
	return "nothing else";
}

static int single_read(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;

	if (scan->world_size > 1)
		return twi_error(TOW_EINVAL,
				 "the job has %" PRId64 " ranks (TOW_WORLD_SIZE or the option "
				 "world_size) and nothing says which one this is; set TOW_RANK",
				 scan->world_size);
	out->rank = 0;
	out->world_size = 1;
	out->local_rank = 0;
	out->local_size = 1;
	twi_scan_job(scan, "");
	return TOW_OK;
}

static const struct {
	const char *(*present)(const struct twi_scan *scan);
	int (*read)(const struct twi_scan *scan);
} launchers[TWI_LAUNCHER_COUNT] = {
	[TWI_LAUNCHER_OPTIONS] = { options_present, explicit_read },
	[TWI_LAUNCHER_TOW] = { tow_present, explicit_read },
	[TWI_LAUNCHER_TORCHRUN] = { twi_torchrun_present, twi_torchrun_read },
	[TWI_LAUNCHER_MEGASCALE] = { twi_megascale_present, twi_megascale_read },
	[TWI_LAUNCHER_OPENMPI] = { twi_openmpi_present, twi_openmpi_read },
	[TWI_LAUNCHER_PMIX] = { twi_pmix_present, twi_pmix_read },
	[TWI_LAUNCHER_PMI] = { twi_pmi_present, twi_pmi_read },
	[TWI_LAUNCHER_SLURM] = { twi_slurm_present, twi_slurm_read },
	[TWI_LAUNCHER_KUBERNETES] = { twi_kubernetes_present, twi_kubernetes_read },
	[TWI_LAUNCHER_SINGLE] = { single_present, single_read },
};

/* Reads what the user may set beside any launcher. */
static int read_overrides(struct twi_scan *scan)
{
	const char *store = scan->in->store;
	char host[256];
	uint16_t port;
	int status = TOW_OK;

	scan->world_size = scan->in->world_size;
	if (scan->world_size <= 0) {
		scan->world_size = 0;
		status =
			twi_scan_maybe(scan, "TOW_WORLD_SIZE", 0, TWI_WORLD_MAX, &scan->world_size);
	}
	if (status < 0)
		return status;
	if (scan->world_size > TWI_WORLD_MAX)
		return twi_error(TOW_EINVAL, "world_size = %" PRId64 ", expected 1 to %d",
				 scan->world_size, TWI_WORLD_MAX);
	if (store == NULL || *store == '\0')
		store = twi_scan_get(scan, "TOW_STORE");
	if (scan->in->caller)
		scan->store = ""; /* the launcher's address of a store is not needed */
	if (scan->in->caller || store == NULL || *store == '\0')
		return TOW_OK;
	if (!twi_host_port(store, 0, host, sizeof(host), &port))
		return twi_error(TOW_EINVAL,
				 "TOW_STORE = '%.64s', expected HOST:PORT, with an IPv6 host in "
				 "brackets",
				 store);
	scan->store = store;
	return TOW_OK;
}

/* Checks what must hold for any launcher. */
static int check_job(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;

	if (scan->world_size != 0 && out->world_size != scan->world_size)
		return twi_error(TOW_EINVAL,
				 "%s says that the job has %" PRId64
				 " ranks, TOW_WORLD_SIZE or the option world_size %" PRId64
				 "; they must agree",
				 scan->who, out->world_size, scan->world_size);
	if (out->world_size != 0 && out->rank >= out->world_size)
		return twi_error(TOW_EINVAL,
				 "%s: rank %" PRId64 " of %" PRId64 ", expected 0 to %" PRId64,
				 scan->who, out->rank, out->world_size, out->world_size - 1);
	if (out->local_size > 0 && out->local_rank >= out->local_size)
		return twi_error(TOW_EINVAL,
				 "%s: local rank %" PRId64 " of %" PRId64
				 ", expected 0 to %" PRId64,
				 scan->who, out->local_rank, out->local_size, out->local_size - 1);
	if (out->world_size != 0 && out->local_size > out->world_size)
		return twi_error(TOW_EINVAL,
				 "%s: %" PRId64 " ranks on this host, expected at most the %" PRId64
				 " of the job",
				 scan->who, out->local_size, out->world_size);
	return TOW_OK;
}

static int finish_scan(const struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	int status = twi_scan_maybe(scan, "TOW_LOCAL_RANK", 0, TWI_WORLD_MAX - 1, &out->local_rank);

	if (status == TOW_OK)
		status = twi_scan_maybe(scan, "TOW_LOCAL_SIZE", 1, TWI_WORLD_MAX, &out->local_size);
	if (status == TOW_OK)
		status = check_job(scan);
	if (status < 0)
		return status;
	if (out->world_size == 1) {
		out->exchange = TWI_EXCHANGE_NONE;
		out->store[0] = '\0';
	} else if (scan->in->caller) {
		out->exchange = TWI_EXCHANGE_CALLER;
		out->store[0] = '\0';
	} else if (scan->store != NULL) {
		out->exchange = TWI_EXCHANGE_ADDRESS;
		snprintf(out->store, sizeof(out->store), "%s", scan->store);
	}
	return TOW_OK;
}

static int detect_launcher(struct twi_scan *scan)
{
	struct twi_bootstrap *out = scan->out;
	bool taken = false;
	int status = read_overrides(scan);

	for (int i = 0; i < TWI_LAUNCHER_COUNT; i++) {
		const char *by = launchers[i].present(scan);
		char *verdict = out->verdicts[i];

		if (taken || status < 0) {
			snprintf(verdict, TWI_VERDICT_BYTES, "not used%s%s",
				 by == NULL || i == TWI_LAUNCHER_SINGLE ? "" : ", though there: ",
				 by == NULL || i == TWI_LAUNCHER_SINGLE ? "" : by);
			continue;
		}
		if (by == NULL) {
			snprintf(verdict, TWI_VERDICT_BYTES, "not there");
			continue;
		}
		taken = true;
		out->launcher = (enum twi_launcher)i;
		scan->who = twi_launcher_name(out->launcher);
		snprintf(verdict, TWI_VERDICT_BYTES, "%s", by);
		status = launchers[i].read(scan);
		snprintf(verdict, TWI_VERDICT_BYTES, "%s: %s", status < 0 ? "refused" : "taken",
			 by);
	}
	return status < 0 ? status : finish_scan(scan);
}

int twi_bootstrap_detect(const struct twi_bootstrap_input *in, struct twi_bootstrap *out)
{
	struct twi_scan scan = { .in = in, .out = out, .who = "TOW_*" };

	*out = (struct twi_bootstrap){ .local_rank = -1, .local_size = -1, .pmi_fd = -1 };
	out->status = detect_launcher(&scan);
	if (out->status < 0)
		snprintf(out->why, sizeof(out->why), "%s", tow_error_message());
	return out->status;
}

int twi_bootstrap_self(const struct tow_options *options, const char *job,
		       const struct twi_exchange_caller *caller, struct twi_bootstrap *out)
{
	int status;

	struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char hostname[256] = "", fqdn[256] = "";
	struct twi_bootstrap_input in = { .env = (const char *const *)twi_program_environ(),
					  .hostname = hostname,
					  .fqdn = fqdn,
					  .rank = -1,
					  .job = job,
					  .caller = caller != NULL };

	if (options != NULL) {
		in.rank = options->rank;
		in.world_size = options->world_size;
		in.store = options->store;
	}
	gethostname(hostname, sizeof(hostname) - 1);
	/* Only Kubernetes needs the full name, and elsewhere the look-up may take long. */
	if (getenv("KUBERNETES_SERVICE_HOST") != NULL &&
	    getaddrinfo(hostname, NULL, &hints, &found) == 0) {
		if (found->ai_canonname != NULL)
			snprintf(fqdn, sizeof(fqdn), "%s", found->ai_canonname);
		freeaddrinfo(found);
	}
	status = twi_bootstrap_detect(&in, out);
	if (caller != NULL)
		out->caller = *caller;
	return status;
}

void twi_bootstrap_describe(void *arg, struct twi_emit *emit)
{
	static const char *const exchanges[] = {
		"none", "address", "pmix", "pmi2", "pmi", "caller"
	};
	const struct twi_bootstrap *bootstrap = arg;

	twi_emit_str(emit, "status", tow_status_name(bootstrap->status));
	if (bootstrap->status < 0)
		twi_emit_str(emit, "why", bootstrap->why);
	twi_emit_str(emit, "launcher", twi_launcher_name(bootstrap->launcher));
	if (bootstrap->status == TOW_OK) {
		twi_emit_i64(emit, "rank", bootstrap->rank);
		twi_emit_i64(emit, "world_size", bootstrap->world_size);
		twi_emit_i64(emit, "local_rank", bootstrap->local_rank);
		twi_emit_i64(emit, "local_size", bootstrap->local_size);
		twi_emit_str(emit, "job", bootstrap->job);
		twi_emit_u64(emit, "restarts", bootstrap->restarts);
		twi_emit_str(emit, "exchange", exchanges[bootstrap->exchange]);
		twi_emit_str(emit, "store", bootstrap->store);
	}
	twi_emit_array_begin(emit, "considered");
	for (int i = 0; i < TWI_LAUNCHER_COUNT; i++) {
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "launcher", twi_launcher_name((enum twi_launcher)i));
		twi_emit_str(emit, "verdict", bootstrap->verdicts[i]);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}
