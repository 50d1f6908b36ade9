/*
 * job_name.c - names a job where the knob `job` is not set: its launcher, and the launcher's
 * number. So the stats sockets of two jobs on one host differ.
 *
 * The name is for people and tools alone. The session of a process is made of the knob and the
 * launcher's number as they are (bootstrap.h), as ranks of other versions compare these.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/hash.h"
#include "transport/job/bootstrap.h"

static bool is_legal(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
}

bool twi_job_name(const struct twi_bootstrap *found, char out[TWI_JOB_NAME])
{
	const char *id = strchr(found->job, '/');
	/* torchrun's own name for a job without a name. */
	bool none = id == NULL || strcmp(id, "/torchrun-none") == 0;
	size_t bytes = 0;

	if (none && found->own_port == 0)
		return false;
	if (none) {
		snprintf(out, TWI_JOB_NAME, "%s-%u", twi_launcher_name(found->launcher),
			 found->own_port);
		return true;
	}
	for (id++; id[bytes] != '\0' && bytes < TWI_JOB_NAME - 1; bytes++)
		out[bytes] = is_legal(id[bytes]) ? id[bytes] : '-';
	out[bytes] = '\0';
	if (id[bytes] != '\0') /* two long names may differ only at their ends */
		snprintf(out + TWI_JOB_NAME - 10, 10, "-%08" PRIx32,
			 (uint32_t)(twi_hash_text(id) & UINT32_MAX));
	return true;
}
