/*
 * towdoctor_peer.c - measures the path to a serving peer: latency, then bandwidth to the peer, then
 * bandwidth back. Both ends describe themselves before and after each of the flows.
 *
 * Each step has a deadline. The total time is bounded by the phases and by one PATIENCE_NS for
 * calls in flight.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/towdoctor/towdoctor.h"

#define SECOND      1000000000ull
#define PATIENCE_NS (10 * SECOND) /* limit of one call */
#define SAMPLES_MAX 20000
#define CHUNK_FIRST ((size_t)64 << 10)
#define CHUNK_NS    (5 * 1000000ull)
#define INFO_BYTES  8192

struct path {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	char *chunks; /* CHUNKS times CHUNK_BYTES */
	uint64_t *samples;
	char *error; /* gets the reason of a failure */
	size_t error_size;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static bool path_failed(struct path *path, const char *what, int status)
{
	if (status == TOW_EDEADLINE || status == TOW_ETIMEDOUT)
		say(path->error, path->error_size, "%s: no answer within %llu s", what,
		    PATIENCE_NS / SECOND);
	else
		say(path->error, path->error_size, "%s: %s", what, tow_error_message());
	return false;
}

/* True: the lane of the address only joins processes of one host. *row: the lane. */
static bool on_one_host(const char *address, struct tow_lane_info *row)
{
	for (size_t i = 0; tow_lane_info(i, row) == TOW_OK; i++) {
		if (strncmp(address, row->name, strlen(row->name)) == 0 &&
		    address[strlen(row->name)] == ':')
			return strcmp(row->reach, "host") == 0;
	}
	return false;
}

/* Returns the wildcard address of the same lane and address family. */
static void own_address(const char *address, char out[TOW_ADDRESS_MAX])
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;

	if (strncmp(address, "tcp://", 6) == 0)
		say(out, TOW_ADDRESS_MAX, "%s",
		    strncmp(address, "tcp://127.", 10) == 0 ? "tcp://127.0.0.1:0"
		    : strchr(address, '[') != NULL          ? "tcp://[::]:0"
							    : "tcp://0.0.0.0:0");
	else if (on_one_host(address, &row))
		say(out, TOW_ADDRESS_MAX, "%s", row.local);
	else
		say(out, TOW_ADDRESS_MAX, "%.*s", (int)(strcspn(address, ":") + 3), address);
}

/* Connects. A refused connect is tried again until patience_ms is over. */
static bool connect_path(struct path *path, const struct measure_options *options)
{
	const uint64_t until = now_ns() + options->patience_ms * 1000000ull;
	struct tow_op_options limits = TOW_OP_OPTIONS_INIT;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op;
	int status;

	limits.timeout_ns = PATIENCE_NS;
	for (;;) {
		status = tow_connect_start(path->endpoint, options->address, &limits, &op);
		if (status < 0)
			return path_failed(path, options->address, status);
		status = tow_op_wait(op, PATIENCE_NS + SECOND);
		tow_op_result(op, &result);
		tow_op_release(op);
		if (status == TOW_OK) {
			path->peer = result.peer;
			return true;
		}
		if (status != TOW_EREFUSED || now_ns() >= until)
			return path_failed(path, options->address, status);
		usleep(50000);
	}
}

static bool open_path(struct path *path, const struct measure_options *options)
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];
	int status;

	knobs.premap_memory_bytes = PATH_POOL;
	knobs.stats = 0;
	path->samples = calloc(SAMPLES_MAX, sizeof(uint64_t));
	status = tow_runtime_open(&knobs, &path->runtime);
	if (status < 0 || path->samples == NULL)
		return path_failed(path, "cannot open a runtime", status);
	status = tow_alloc(path->runtime, CHUNKS * CHUNK_BYTES, 0, (void **)&path->chunks);
	if (status < 0)
		return path_failed(path, "no memory for the measurement", status);
	memset(path->chunks, 0x5a, CHUNKS * CHUNK_BYTES);
	own_address(options->address, address);
	status = tow_endpoint_open(path->runtime, address, &path->endpoint);
	if (status < 0)
		return path_failed(path, address, status);
	return connect_path(path, options);
}

static json_t *ask_there(struct path *path)
{
	struct tow_call_result result = { .size = sizeof(result) };
	char text[INFO_BYTES];
	json_t *end = NULL;
	int status = tow_call(path->peer, METHOD_INFO, NULL, 0, text, sizeof(text), PATIENCE_NS,
			      &result);

	if (status == TOW_OK || status == TOW_COPIED)
		end = json_loadb(text, result.bytes, 0, NULL);
	else
		path_failed(path, METHOD_INFO, status);
	if (end != NULL && json_is_object(end))
		return end;
	if (status == TOW_OK || status == TOW_COPIED)
		say(path->error, path->error_size, "%s: the answer is no JSON", METHOD_INFO);
	json_decref(end);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* One-way times of the echo with the smallest error. */
struct one_way {
	int64_t there_ns, back_ns;
	uint64_t error_ns;
};

static bool measure_latency(struct path *path, unsigned ms, json_t *out)
{
	struct tow_call_result result = { .size = sizeof(result) };
	struct one_way best = { 0, 0, UINT64_MAX };
	const uint64_t until = now_ns() + ms * 1000000ull;
	char request[8] = "echo", response[64];
	size_t count = 0;

	while (count < SAMPLES_MAX && (now_ns() < until || count < 16)) {
		uint64_t start = now_ns();
		int status = tow_call(path->peer, METHOD_ECHO, request, sizeof(request), response,
				      sizeof(response), PATIENCE_NS, &result);

		if (status != TOW_OK && status != TOW_COPIED)
			return path_failed(path, METHOD_ECHO, status);
		path->samples[count++] = now_ns() - start;
		if (result.one_way_error_ns < best.error_ns)
			best = (struct one_way){ result.request_one_way_ns,
						 result.response_one_way_ns,
						 result.one_way_error_ns };
	}
	qsort(path->samples, count, sizeof(uint64_t), by_size);
	json_object_set_new(out, "latency_ns",
			    json_pack("{s:I,s:I,s:I,s:I,s:I}", "count", (json_int_t)count, "min",
				      (json_int_t)path->samples[0], "p50",
				      (json_int_t)path->samples[count / 2], "p99",
				      (json_int_t)path->samples[count * 99 / 100], "max",
				      (json_int_t)path->samples[count - 1]));
	json_object_set_new(out, "one_way_ns",
			    best.error_ns == UINT64_MAX
				    ? json_null()
				    : json_pack("{s:I,s:I,s:I}", "there", (json_int_t)best.there_ns,
						"back", (json_int_t)best.back_ns, "error",
						(json_int_t)best.error_ns));
	return true;
}

/* A flow of bytes in one direction, with CHUNKS calls at once. The rate excludes the first 30 %. */
struct flow {
	struct path *path;
	bool there;
	uint64_t chunk, asked[CHUNKS]; /* asked: the number of bytes, for METHOD_GIVE */
	struct tow_op *op[CHUNKS];
	uint64_t bytes[CHUNKS];
	uint64_t moved, first_ns, last_ns; /* without the first 30 % */
};

static int start_chunk(struct flow *flow, unsigned i)
{
	struct tow_call_options limits = TOW_CALL_OPTIONS_INIT;
	char *chunk = flow->path->chunks + i * CHUNK_BYTES;

	limits.timeout_ns = PATIENCE_NS;
	flow->bytes[i] = flow->asked[i] = flow->chunk;
	if (flow->there)
		return tow_call_start(flow->path->peer, METHOD_TAKE, chunk, flow->chunk,
				      &flow->asked[i], sizeof(flow->asked[i]), &limits,
				      &flow->op[i]);
	return tow_call_start(flow->path->peer, METHOD_GIVE, &flow->asked[i],
			      sizeof(flow->asked[i]), chunk, CHUNK_BYTES, &limits, &flow->op[i]);
}

static int end_chunk(struct flow *flow, unsigned i)
{
	int status = tow_op_wait(flow->op[i], PATIENCE_NS + SECOND);

	tow_op_release(flow->op[i]);
	flow->op[i] = NULL;
	return status == TOW_COPIED ? TOW_OK : status;
}

/* Waits for all chunks, each up to its own deadline. Returns the first failure. */
static int end_flow(struct flow *flow)
{
	int status = TOW_OK;

	for (unsigned i = 0; i < CHUNKS; i++) {
		int ended = flow->op[i] != NULL ? end_chunk(flow, i) : TOW_OK;

		status = status == TOW_OK ? ended : status;
	}
	return status;
}

/* The bytes that take CHUNK_NS at the rate so far, so that large chunks do not fill a slow path. */
static uint64_t next_chunk(uint64_t done, uint64_t elapsed_ns)
{
	double fits = (double)done * (double)CHUNK_NS / (double)elapsed_ns;

	return fits < (double)CHUNK_FIRST   ? CHUNK_FIRST
	       : fits > (double)CHUNK_BYTES ? CHUNK_BYTES
					    : (uint64_t)fits;
}

static bool run_flow(struct flow *flow, unsigned ms)
{
	const uint64_t start = now_ns(), until = start + ms * 1000000ull;
	const uint64_t going = start + ms * 300000ull, least = ms * 300000ull;
	uint64_t now = start, done = 0;
	int status = TOW_OK;

	flow->chunk = CHUNK_FIRST;
	for (unsigned i = 0; i < CHUNKS && status == TOW_OK; i++)
		status = start_chunk(flow, i);
	/* Each call has a deadline, so that a stopped path ends this loop, too. */
	for (unsigned i = 0;
	     status == TOW_OK && (now < until || flow->last_ns - flow->first_ns < least); i++) {
		const unsigned slot = i % CHUNKS;

		status = end_chunk(flow, slot);
		now = now_ns();
		done += flow->bytes[slot];
		if (flow->first_ns != 0)
			flow->moved += flow->bytes[slot];
		else if (now >= going)
			flow->first_ns = now;
		flow->last_ns = flow->first_ns != 0 ? now : 0;
		flow->chunk = next_chunk(done, now - start);
		if (status == TOW_OK)
			status = start_chunk(flow, slot);
	}
	if (status == TOW_OK)
		return true;
	return path_failed(flow->path, flow->there ? METHOD_TAKE : METHOD_GIVE, status);
}

/* Runs a flow, and stores both ends' views as {"here": {"before", "after"}, "there": ...}. */
static bool measure_flow(struct path *path, bool there, unsigned ms, json_t *rates, json_t *ends)
{
	struct flow flow = { .path = path, .there = there };
	json_t *here = describe_end(), *far = ask_there(path);
	bool good = far != NULL && run_flow(&flow, ms);
	/* The connection is still full here, so this round trip is the one under load. */
	json_t *here_after = describe_end(), *far_after = NULL;
	uint64_t took = flow.last_ns - flow.first_ns;

	if (end_flow(&flow) < 0)
		good = false;
	if (good)
		far_after = ask_there(path);
	json_object_set_new(ends, there ? "there" : "back",
			    json_pack("{s:{s:o,s:o},s:{s:o,s:o}}", "here", "before", here, "after",
				      here_after, "there", "before",
				      far != NULL ? far : json_null(), "after",
				      far_after != NULL ? far_after : json_null()));
	json_object_set_new(
		rates, there ? "there" : "back",
		json_integer(took == 0 ? 0
				       : (json_int_t)((double)flow.moved * 1e9 / (double)took)));
	return good && far_after != NULL;
}

static void close_path(struct path *path)
{
	if (path->peer != NULL)
		tow_peer_close(path->peer);
	if (path->runtime != NULL)
		tow_runtime_close(path->runtime);
	free(path->samples);
}

json_t *measure(const struct measure_options *options, char *error_out, size_t error_size)
{
	struct path path = { .error = error_out, .error_size = error_size };
	json_t *out = json_object(), *rates = json_object(), *ends = json_object();
	bool good;

	json_object_set_new(out, "address", json_string(options->address));
	json_object_set_new(out, "bandwidth_bytes_per_s", rates);
	json_object_set_new(out, "ends", ends);
	good = open_path(&path, options) && measure_latency(&path, options->latency_ms, out) &&
	       measure_flow(&path, true, options->phase_ms, rates, ends) &&
	       measure_flow(&path, false, options->phase_ms, rates, ends);
	close_path(&path);
	if (good)
		return out;
	json_decref(out);
	return NULL;
}
