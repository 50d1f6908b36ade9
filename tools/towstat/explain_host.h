/*
 * explain_host.h - what towdoctor finds on this host, of what bears on a job that runs.
 *
 * towdoctor is a program of its own, so it is run: it reads files alone then (--no-probe), with the
 * limits, control groups and CPUs of a rank (--pid) and the job's knobs.
 */
#ifndef TOWSTAT_EXPLAIN_HOST_H
#define TOWSTAT_EXPLAIN_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct host_question {
	long pid;      /* of a rank on this host */
	json_t *knobs; /* of /v1/info */
	bool network;  /* the job has connections by TCP: what concerns those counts, too */
};

/* The array of its checks, the caller's. NULL: why_out says why there is none. */
json_t *ask_doctor(const struct host_question *question, char *why_out, size_t why_size);

#endif
