/*
 * perf_side.c - one side of a measurement: a runtime, one peer, and blocking messages on them.
 *
 * Every wait ends after the time limit of the options. So a lost message or a dead partner fails
 * the run and never hangs it. Two sides of the loop lane share the runtime of rank 0.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/common/drive.h"
#include "bench/perf/perf.h"

/* Pool memory beyond our buffers, for the library's own. */
#define HEADROOM  (UINT64_C(64) << 20)
#define CANCEL_NS UINT64_C(1000000000)

double perf_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* CPU seconds of all threads of this process. */
double perf_cpu(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec * 1e-6 +
	       (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec * 1e-6;
}

/* Pins the calling thread and the threads that it makes later, also those of the library. */
void perf_pin(int rank)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)(rank % (int)(cpus > 0 ? cpus : 1)), &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		perror("tow-perf: not pinned: sched_setaffinity");
}

int perf_failed(const struct perf_side *side, const char *what, int status)
{
	fprintf(stderr, "tow-perf: rank %d: %s: %s (%s)%s%s\n", side->rank, what,
		tow_status_name(status), tow_status_text(status),
		status < 0 && tow_error_message()[0] != '\0' ? ": " : "",
		status < 0 ? tow_error_message() : "");
	return PERF_FAILED;
}

static int open_runtime(struct perf_side *side)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	uint64_t need = perf_need(side->options);
	int rc;

	/*
	 * A variable of the environment must win, but a field that is set here would win over it.
	 */
	if (getenv("TOW_PREMAP_MEMORY_BYTES") == NULL)
		options.premap_memory_bytes =
			(int64_t)(need * (side->options->loop ? 2 : 1) + HEADROOM);
	if (getenv("TOW_JOB") == NULL)
		options.job = "tow-perf";
	if (getenv("TOW_RANK") == NULL)
		options.rank = side->rank;
	rc = tow_runtime_open(&options, &side->runtime);
	return rc < 0 ? perf_failed(side, "opening the runtime", rc) : 0;
}

/* Opens the endpoint, and first the runtime unless the side already has the other rank's. */
int perf_side_open(struct perf_side *side, const char *address)
{
	int rc = side->runtime == NULL ? open_runtime(side) : 0;

	if (rc != 0)
		return rc;
	rc = tow_endpoint_open(side->runtime, address, &side->endpoint);
	return rc < 0 ? perf_failed(side, address, rc) : 0;
}

/* Waits for a connect or an accept, and releases the operation. */
static int take_peer(struct perf_side *side, struct tow_op *op, const char *what,
		     uint64_t timeout_ns)
{
	struct tow_result result = { .size = sizeof(result) };
	int rc = tow_op_wait(op, timeout_ns);

	if (rc == TOW_OK)
		rc = tow_op_result(op, &result);
	tow_op_release(op);
	if (rc < 0)
		return perf_failed(side, what, rc);
	side->peer = result.peer;
	rc = tow_runtime_seal(side->runtime);
	return rc < 0 ? perf_failed(side, "sealing the runtime", rc) : 0;
}

int perf_side_accept(struct perf_side *side, uint64_t timeout_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;
	int rc;

	options.timeout_ns = timeout_ns;
	rc = tow_accept_start(side->endpoint, &options, &op);
	if (rc < 0)
		return perf_failed(side, "accepting", rc);
	return take_peer(side, op, "accepting", timeout_ns);
}

int perf_side_connect(struct perf_side *side, const char *address)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;
	int rc;

	options.timeout_ns = side->options->timeout_ns;
	rc = tow_connect_start(side->endpoint, address, &options, &op);
	if (rc < 0)
		return perf_failed(side, address, rc);
	return take_peer(side, op, address, options.timeout_ns);
}

void perf_side_part(struct perf_side *side)
{
	perf_view_drop(side);
	perf_interval_close(side);
	if (side->area != NULL)
		tow_free(side->runtime, side->area);
	if (side->peer != NULL)
		tow_peer_close(side->peer);
	side->area = NULL;
	side->peer = NULL;
}

/* Closes the side but not the runtime, which two sides may share. */
void perf_side_close(struct perf_side *side)
{
	perf_side_part(side);
	if (side->endpoint != NULL)
		tow_endpoint_close(side->endpoint);
	side->endpoint = NULL;
}

static int drive_op(const struct perf_side *side, struct tow_op *op)
{
	return bench_drive(op, side->options->tests, side->options->timeout_ns);
}

int perf_send_start(struct perf_side *side, const void *data, uint64_t bytes, uint64_t tag,
		    struct tow_op **op_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	/* The buffer does not change while the other side views it. */
	options.flags =
		(side->options->at_once ? TOW_OP_AT_ONCE : 0) | (side->lends ? TOW_OP_LEND : 0);
	return tow_send_start(side->peer, data, bytes, tag, options.flags != 0 ? &options : NULL,
			      op_out);
}

int perf_recv_start(struct perf_side *side, void *data, uint64_t bytes, uint64_t tag,
		    struct tow_op **op_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;

	options.flags = TOW_OP_AT_ONCE;
	options.result = &result;
	return tow_recv_start(side->peer, data, bytes, tag,
			      side->options->at_once ? &options : NULL, op_out);
}

/*
 * TOW_COPIED is a success, and no operation means a complete one. The counters (--stats) say what
 * was copied, and why.
 */
static int finish_op(struct perf_side *side, struct tow_op *op, const char *what)
{
	int rc = op == NULL ? TOW_OK : drive_op(side, op);

	if (rc == TOW_ETIMEDOUT) { /* the caller's buffer may end when it returns */
		tow_op_cancel(op);
		tow_op_wait(op, CANCEL_NS);
	}
	tow_op_release(op);
	return rc == TOW_OK || rc == TOW_COPIED ? 0 : perf_failed(side, what, rc);
}

int perf_send(struct perf_side *side, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;
	int rc = perf_send_start(side, data, bytes, tag, &op);

	return rc < 0 ? perf_failed(side, "send", rc) : finish_op(side, op, "send");
}

int perf_recv(struct perf_side *side, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;
	int rc = perf_recv_start(side, data, bytes, tag, &op);

	return rc < 0 ? perf_failed(side, "receive", rc) : finish_op(side, op, "receive");
}

int perf_view(struct perf_side *side, uint64_t bytes, uint64_t tag, const uint8_t **data_out)
{
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op;
	int rc = tow_recv_view_start(side->peer, tag, NULL, &op);

	if (rc < 0)
		return perf_failed(side, "view", rc);
	rc = drive_op(side, op);
	if (rc == TOW_OK || rc == TOW_COPIED)
		rc = tow_op_result(op, &result);
	if (rc == TOW_OK && result.bytes != bytes)
		rc = TOW_ETRUNCATED;
	if (rc != TOW_OK) {
		tow_op_cancel(op);
		tow_view_release(op);
		return perf_failed(side, "view", rc);
	}
	perf_view_drop(side);
	side->view = op;
	*data_out = result.data;
	return 0;
}

void perf_view_drop(struct perf_side *side)
{
	tow_view_release(side->view);
	side->view = NULL;
}

int perf_wait_one(struct perf_side *side, uint64_t i)
{
	return finish_op(side, side->ops[i], "message of a window");
}

int perf_wait_all(struct perf_side *side, uint64_t count)
{
	int rc = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (rc == 0)
			rc = finish_op(side, side->ops[i], "message of a window");
		else
			tow_op_release(side->ops[i]);
	}
	return rc;
}
