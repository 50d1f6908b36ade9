/*
 * explain_host.h - asks towdoctor for what on this host concerns a running job.
 *
 * towdoctor is a separate program, so it is run as a child. It only reads files (--no-probe). It
 * uses the limits, control groups and CPUs of a rank (--pid), and the job's knobs.
 */
#ifndef TOWSTAT_EXPLAIN_HOST_H
#define TOWSTAT_EXPLAIN_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct host_question {
	long pid;      /* of a rank on this host */
	json_t *knobs; /* from /v1/info */
	bool network;  /* the job has TCP connections, so checks of the network count too */
};

/* The array of towdoctor's checks, which the caller owns. NULL: the reason is in why_out. */
json_t *ask_doctor(const struct host_question *question, char *why_out, size_t why_size);

#endif
