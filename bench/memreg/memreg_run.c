/*
 * memreg_run.c - one real run of a job, counted by the library.
 *
 * A run has a runtime with a pool of some size, and a connection to itself over tcp. It makes the
 * allocations, frees and sends of the job. One process holds both ends, so each receive is posted
 * before its send, and nothing waits in a buffer. Before a block is freed, the messages in flight
 * have ended. So the block is free when the log says so. A block that the pool refuses
 * (exhaust=fail) comes from the heap.
 *
 * A log says what was allocated, not what was sent. Its runs therefore send what they allocate, the
 * first half of a block to its second. So the memory is used as payload, and no further allocation
 * changes what fits.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/memreg/tow_size.h"
#include "diag/base/clock.h"
#include "memreg/sizing/replay_slim.h"
#include <internal/base.h>
#include <towline/towline.h>

#define MIB        ((uint64_t)1 << 20)
#define WINDOW     16
#define TIMEOUT_NS UINT64_C(20000000000)
#define SEND_MOST  ((uint64_t)1 << 30) /* payload of one step */
#define QUICK_MOST ((uint64_t)4 << 30) /* memory that can be mapped and used in a few seconds */

#define LOG_SEND_MIN  (UINT64_C(128) << 10)
#define LOG_SEND_MOST 64 /* messages of a log's run */

struct runner {
	const struct memreg_job *job;
	struct memreg_run *run;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint[2];
	struct tow_peer *peer[2];
	void **block;
	bool *heap;
	struct tow_op *op[2 * WINDOW];
	uint32_t flying;
	uint64_t tag, step_bytes, deadline_ns;
};

static uint64_t number_in(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	uint64_t value = UINT64_MAX;
	char line[256];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, key, strlen(key)) == 0 &&
		    sscanf(line + strlen(key), "%lu", &value) == 1)
			break;
	}
	if (file != NULL)
		fclose(file);
	return value;
}

/* The limit of the control group. */
static uint64_t group_limit(void)
{
	return number_in("/sys/fs/cgroup/memory.max", "");
}

uint64_t memreg_ram_total(void)
{
	uint64_t kib = number_in("/proc/meminfo", "MemTotal:");

	return twi_min(kib == UINT64_MAX ? UINT64_MAX : kib << 10, group_limit());
}

uint64_t memreg_ram_available(void)
{
	uint64_t kib = number_in("/proc/meminfo", "MemAvailable:"), limit = group_limit();
	uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");

	if (limit != UINT64_MAX && used != UINT64_MAX)
		limit -= twi_min(limit, used);
	return twi_min(kib == UINT64_MAX ? UINT64_MAX : kib << 10, limit);
}

static int run_failed(struct runner *runner, const char *what, int status)
{
	snprintf(runner->run->why, sizeof(runner->run->why), "%s: %s%s%s", what,
		 tow_status_name(status), tow_error_message()[0] ? ": " : "", tow_error_message());
	return -1;
}

static int take_peer(struct runner *runner, struct tow_op *op, struct tow_peer **peer_out)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_wait(op, TIMEOUT_NS);

	if (status == TOW_OK)
		status = tow_op_result(op, &result);
	*peer_out = status == TOW_OK ? result.peer : NULL;
	tow_op_release(op);
	return status == TOW_OK ? 0 : run_failed(runner, "connecting to itself", status);
}

static int connect_self(struct runner *runner)
{
	struct tow_op *accept = NULL, *connect = NULL;
	char address[TOW_ADDRESS_MAX];
	int status = TOW_OK;

	for (int i = 0; i < 2 && status == TOW_OK; i++)
		status = tow_endpoint_open(runner->runtime, "tcp://127.0.0.1:0",
					   &runner->endpoint[i]);
	if (status == TOW_OK)
		status = tow_endpoint_address(runner->endpoint[0], address, sizeof(address));
	if (status == TOW_OK)
		status = tow_accept_start(runner->endpoint[0], NULL, &accept);
	if (status == TOW_OK)
		status = tow_connect_start(runner->endpoint[1], address, NULL, &connect);
	if (status < 0) {
		tow_op_release(accept);
		return run_failed(runner, "an endpoint on the loopback", status);
	}
	if (take_peer(runner, connect, &runner->peer[1]) != 0) {
		tow_op_release(accept);
		return -1;
	}
	return take_peer(runner, accept, &runner->peer[0]);
}

static int runner_open(struct runner *runner, uint64_t bytes)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	uint64_t begin = twi_now_ns();
	int status;

	options.premap_memory_bytes = (int64_t)bytes;
	options.job = "tow-size";
	options.rank = (int64_t)(getpid() & 0xffffff);
	options.stats = 0;
	if (runner->job->staging_bytes >= 0)
		options.staging_bytes = runner->job->staging_bytes;
	status = tow_runtime_open(&options, &runner->runtime);
	if (status < 0)
		return run_failed(runner, "opening a runtime", status);
	runner->run->open_ms = (double)(twi_now_ns() - begin) / 1e6;
	if (connect_self(runner) != 0)
		return -1;
	status = tow_runtime_seal(runner->runtime);
	return status == TOW_OK ? 0 : run_failed(runner, "sealing the runtime", status);
}

static void runner_close(struct runner *runner)
{
	for (uint32_t i = 0; i < runner->flying; i++)
		tow_op_release(runner->op[i]);
	for (int i = 0; i < 2; i++)
		if (runner->peer[i] != NULL)
			tow_peer_close(runner->peer[i]);
	for (int i = 0; i < 2; i++)
		if (runner->endpoint[i] != NULL)
			tow_endpoint_close(runner->endpoint[i]);
	if (runner->runtime != NULL)
		tow_runtime_close(runner->runtime);
	for (uint32_t i = 0; runner->heap != NULL && i < runner->job->blocks; i++)
		if (runner->heap[i])
			free(runner->block[i]);
	free(runner->block);
	free(runner->heap);
}

static int settle_sends(struct runner *runner)
{
	int bad = TOW_OK;

	for (uint32_t i = 0; i < runner->flying; i++) {
		int status = tow_op_wait(runner->op[i], TIMEOUT_NS);

		if (status != TOW_OK && status != TOW_COPIED && bad == TOW_OK)
			bad = status;
		tow_op_release(runner->op[i]);
	}
	runner->flying = 0;
	return bad == TOW_OK ? 0 : run_failed(runner, "a message", bad);
}

static int take_block(struct runner *runner, const struct memreg_op *op)
{
	size_t align = op->align_log2 != 0 ? (size_t)1 << op->align_log2 : 0;
	int status = tow_alloc(runner->runtime, op->bytes, align, &runner->block[op->block]);

	if (status == TOW_OK)
		return 0;
	if (status != TOW_EEXHAUSTED)
		return run_failed(runner, "tow_alloc", status);
	if (posix_memalign(&runner->block[op->block], twi_max(align, (size_t)4096),
			   twi_max(op->bytes, (uint64_t)1)) != 0) {
		runner->block[op->block] = NULL;
		return run_failed(runner, "heap in place of the pool", TOW_ENOMEM);
	}
	runner->heap[op->block] = true;
	return 0;
}

static int give_block(struct runner *runner, uint32_t block)
{
	int status = TOW_OK;

	if (runner->flying > 0 && settle_sends(runner) != 0)
		return -1;
	if (runner->heap[block])
		free(runner->block[block]);
	else
		status = tow_free(runner->runtime, runner->block[block]);
	runner->heap[block] = false;
	runner->block[block] = NULL;
	return status == TOW_OK ? 0 : run_failed(runner, "tow_free", status);
}

static int transfer_block(struct runner *runner, const struct memreg_op *op)
{
	char *from = runner->block[op->block], *to = runner->block[op->to];
	int status;

	if (runner->step_bytes + op->bytes > SEND_MOST || twi_now_ns() > runner->deadline_ns) {
		runner->run->cut = true;
		return 0;
	}
	if (op->to == op->block)
		to += op->bytes;
	if (runner->flying == 2 * WINDOW && settle_sends(runner) != 0)
		return -1;
	status = tow_recv_start(runner->peer[1], to, op->bytes, runner->tag, NULL,
				&runner->op[runner->flying]);
	if (status < 0)
		return run_failed(runner, "a receive", status);
	runner->flying++;
	status = tow_send_start(runner->peer[0], from, op->bytes, runner->tag++, NULL,
				&runner->op[runner->flying]);
	if (status < 0)
		return run_failed(runner, "a send", status);
	runner->flying++;
	runner->step_bytes += op->bytes;
	runner->run->sent_bytes += op->bytes;
	return 0;
}

static int run_section(struct runner *runner, uint64_t begin, uint64_t end)
{
	int rc = 0;

	for (uint64_t i = begin; i < end && rc == 0; i++) {
		const struct memreg_op *op = &runner->job->op[i];

		if (op->kind == STRATEGY_ALLOC)
			rc = take_block(runner, op);
		else if (op->kind == STRATEGY_FREE)
			rc = give_block(runner, op->block);
		else if (op->kind == STRATEGY_SEND)
			rc = transfer_block(runner, op);
	}
	return rc == 0 ? settle_sends(runner) : rc;
}

/* Runs the log as one step. Blocks that it never frees are freed at the end. */
static int run_log(struct runner *runner)
{
	const struct twi_replay *replay = runner->job->replay;
	struct twi_replay_cursor cursor;
	struct twi_replay_event from;
	uint64_t sends = 0;
	int rc = 0;

	if (twi_replay_cursor_init(&cursor, replay) < 0)
		return run_failed(runner, "the log", TOW_ENOMEM);
	while (rc == 0 && twi_replay_next(&cursor, &from)) {
		struct memreg_op op = { STRATEGY_SEND, from.slot, from.slot, from.bytes,
					from.align_log2 };

		if (from.kind == TWI_ALLOC_FREE)
			rc = give_block(runner, from.slot);
		if (from.kind != TWI_ALLOC_ALLOC)
			continue;
		rc = take_block(runner, &op);
		if (rc == 0 && op.bytes >= LOG_SEND_MIN && sends++ < LOG_SEND_MOST) {
			op.bytes /= 2;
			rc = transfer_block(runner, &op);
		}
	}
	twi_replay_cursor_fini(&cursor);
	rc = rc == 0 ? settle_sends(runner) : rc;
	for (uint32_t slot = 0; slot < replay->slots && rc == 0; slot++)
		if (runner->block[slot] != NULL)
			rc = give_block(runner, slot);
	return rc;
}

static int time_log(struct runner *runner)
{
	uint64_t begin = twi_now_ns();
	int rc = run_log(runner);

	runner->run->steps = 1;
	runner->run->first_step_us = (double)(twi_now_ns() - begin) / 1e3;
	runner->run->step_us = runner->run->first_step_us;
	return rc;
}

/* Times the first step with the set-up, as that is when a pool that is too small shows. */
static int run_steps(struct runner *runner, uint64_t count)
{
	const struct memreg_job *job = runner->job;
	struct memreg_run *run = runner->run;
	uint64_t begin = twi_now_ns(), end;
	double later_ns = 0;
	int rc = run_section(runner, 0, job->step_begin);

	while (rc == 0 && run->steps < count) {
		runner->step_bytes = 0;
		rc = run_section(runner, job->step_begin, job->step_end);
		end = twi_now_ns();
		if (run->steps++ == 0)
			run->first_step_us = (double)(end - begin) / 1e3;
		else
			later_ns += (double)(end - begin);
		begin = end;
		if (end > runner->deadline_ns) {
			run->cut = run->cut || run->steps < count;
			break;
		}
	}
	if (run->steps > 1)
		run->step_us = later_ns / 1e3 / (double)(run->steps - 1);
	else
		run->step_us = run->first_step_us;
	return rc == 0 ? run_section(runner, job->step_end, job->count) : rc;
}

/* A document of the runtime's; NULL: the reason is noted. */
static json_t *fetch_document(struct runner *runner, const char *path)
{
	char *text = NULL;
	json_t *json = NULL;
	int status = tow_stats_get(runner->runtime, path, &text);

	if (status == TOW_OK)
		json = json_loads(text, 0, NULL);
	tow_stats_release(text);
	if (json == NULL)
		run_failed(runner, path, status);
	return json;
}

static uint64_t counter_value(json_t *counters, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(counters, name));
}

static int count_run(struct runner *runner)
{
	json_t *json = fetch_document(runner, "/v1/counters"),
	       *c = json_object_get(json, "counters");
	struct memreg_run *run = runner->run;

	if (json == NULL)
		return -1;
	run->late = counter_value(c, "late_registrations");
	run->late_bytes = counter_value(c, "late_registration_bytes");
	run->fallback = counter_value(c, "fallback_copies");
	run->fallback_bytes = counter_value(c, "fallback_copy_bytes");
	run->refused = counter_value(c, "pool_exhausted");
	run->grown = counter_value(c, "pool_grown");
	run->overflowed = counter_value(c, "pool_overflow_allocs");
	run->waited = counter_value(c, "pool_waits");
	json_decref(json);
	return 0;
}

/* Whether the machine can carry the run. Otherwise the kernel would kill a process. */
static bool is_affordable(const struct memreg_job *job, struct memreg_run *run)
{
	uint64_t most = twi_max(run->bytes, job->replay->all_rounded < job->replay->peak_rounded * 2
						    ? job->replay->all_rounded
						    : job->replay->peak_rounded);
	uint64_t need = most + most / 4 + 256 * MIB, have = memreg_ram_available();

	if (need <= have && (most <= QUICK_MOST || job->long_runs))
		return true;
	if (need <= have) {
		snprintf(run->why, sizeof(run->why),
			 "a run of a job of %.0f MiB takes more than a few seconds: --long does it",
			 (double)most / MEMREG_MIB);
		return false;
	}
	snprintf(run->why, sizeof(run->why),
		 "too little memory: a run with a pool of %.0f MiB needs %.0f MiB, %.0f MiB are "
		 "available",
		 (double)run->bytes / MEMREG_MIB, (double)need / MEMREG_MIB,
		 (double)have / MEMREG_MIB);
	return false;
}

void memreg_run_job(const struct memreg_job *job, uint64_t bytes, uint64_t wanted, double seconds,
		    struct memreg_run *out)
{
	struct runner runner = { .job = job, .run = out };

	*out = (struct memreg_run){ .bytes = bytes };
	if (!is_affordable(job, out))
		return;
	runner.block = calloc(job->blocks + 1u, sizeof(*runner.block));
	runner.heap = calloc(job->blocks + 1u, sizeof(*runner.heap));
	if (runner.block == NULL || runner.heap == NULL) {
		snprintf(out->why, sizeof(out->why), "no memory for %u blocks", job->blocks);
	} else if (runner_open(&runner, bytes) == 0) {
		runner.deadline_ns = twi_now_ns() + (uint64_t)(seconds * 1e9);
		out->ran =
			(job->op != NULL ? run_steps(&runner, wanted) : time_log(&runner)) == 0 &&
			count_run(&runner) == 0;
	}
	runner_close(&runner);
}

int memreg_probe(uint64_t pool_bytes, int64_t staging_bytes, struct memreg_own *out)
{
	const struct memreg_job none = { .staging_bytes = staging_bytes };
	struct memreg_run run = { .bytes = pool_bytes };
	struct runner runner = { .job = &none, .run = &run };
	json_t *pool = NULL;
	const char *arena;
	int rc = runner_open(&runner, pool_bytes);

	*out = (struct memreg_own){ 0 };
	if (rc == 0)
		pool = fetch_document(&runner, "/v1/pool");
	arena = json_string_value(json_object_get(pool, "arena"));
	out->bytes = counter_value(pool, "allocated_bytes");
	out->page_bytes =
		counter_value(json_array_get(json_object_get(pool, "extents"), 0), "page_bytes");
	snprintf(out->arena, sizeof(out->arena), "%s", arena != NULL ? arena : "?");
	rc = pool != NULL ? 0 : MEMREG_FAULT;
	json_decref(pool);
	runner_close(&runner);
	if (rc != 0)
		fprintf(stderr, "tow-size: no runtime can be opened here: %s\n", run.why);
	return rc;
}
