/*
 * runtime.c - opening and closing a runtime, and the calls that concern all of it.
 *
 * Opening builds from the bottom up (knobs, diag, pool, engine, ring, lanes, stats socket) and a
 * failure takes down in the opposite order what stands. Closing is that same order.
 */
#include "transport/engine/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/bpf/bpf.h"
#include "diag/knob/environment.h"
#include "diag/knob/knob.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/serve/registry.h"
#include "diag/serve/report.h"
#include "diag/serve/serve.h"
#include "diag/serve/socket.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool_regions.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/coll_table.h"
#include "transport/device/device_copy.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/handle.h"
#include "transport/engine/poller.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/rpc/rpc.h"
#include "transport/tracing.h"
#include "transport/wire/feature.h"

struct tow_runtime {
	struct twi_handle handle;
	struct twi_engine engine;
	struct twi_serve serve;
	bool sources;
	bool opened; /* its user has it */
	char *texts; /* what the knobs that are text point to */
	struct twi_job job;
	struct twi_tracing tracing;
};

struct twi_engine *twi_runtime_engine(struct tow_runtime *runtime)
{
	return &runtime->engine;
}

struct twi_job *twi_runtime_job(struct tow_runtime *runtime)
{
	return &runtime->job;
}

struct twi_tracing *twi_runtime_tracing(struct tow_runtime *runtime)
{
	return &runtime->tracing;
}

int twi_runtime_check(struct tow_runtime *runtime, const char *call)
{
	int status = twi_handle_check(runtime, TWI_HANDLE_RUNTIME, call);

	if (twi_unlikely(status < 0))
		return status;
	if (twi_engine_forked(&runtime->engine))
		return twi_error(TOW_EFORKED,
				 "%s: this process is a forked child; open a runtime of its own",
				 call);
	return TOW_OK;
}

static void describe_peers(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_list *pos, *next;

	twi_engine_enter(engine);
	twi_emit_array_begin(emit, "peers");
	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

		if (!peer->shown)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "id", peer->id);
		twi_emit_str(emit, "address", peer->address);
		twi_emit_str(emit, "lane", peer->lane->ops->scheme);
		if (peer->why[0] != '\0')
			twi_emit_str(emit, "why", peer->why);
		twi_emit_bool(emit, "closed_here", peer->closed);
		twi_features_describe(peer->features, emit);
		twi_claims_describe(peer, emit);
		twi_link_describe(peer, emit);
		peer->lane->ops->peer_describe(peer, emit);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "endpoints");
	twi_list_for_each_safe (pos, next, &engine->endpoints) {
		twi_emit_str(emit, NULL, twi_container_of(pos, struct tow_endpoint, link)->address);
	}
	twi_emit_array_end(emit);
	twi_engine_leave(engine);
}

/* How long the kernel keeps what was sent zero-copy, beyond the send's completion. */
static void describe_lag(void *arg, struct twi_emit *emit)
{
	const struct twi_engine *engine = arg;
	struct twi_latency_sum sum;

	twi_latency_read(&engine->notify_lag, &sum);
	twi_emit_object_begin(emit, "zerocopy_notification_lag");
	twi_latency_emit(emit, &sum);
	twi_emit_object_end(emit);
}

/* The values that this runtime runs with, by the names of the knob table. */
static void describe_knobs(const struct twi_engine *engine, struct twi_emit *emit)
{
	struct tow_knob_info knob = { .size = sizeof(knob) };

	twi_emit_object_begin(emit, "knobs");
	for (size_t i = 0; i < tow_knob_count(); i++) {
		const void *field = twi_knob_field(&engine->knobs, i);

		tow_knob_info(i, &knob);
		if (strcmp(knob.name, "job_key") == 0 ||
		    strcmp(knob.name, "stats_token") == 0) /* secrets */
			twi_emit_str(emit, knob.name, **(const char *const *)field ? "(set)" : "");
		else if (strcmp(knob.unit, "text") == 0)
			twi_emit_str(emit, knob.name, *(const char *const *)field);
		else
			twi_emit_i64(emit, knob.name, *(const int64_t *)field);
	}
	twi_emit_object_end(emit);
}

static void describe_runtime(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct utsname host = { 0 };

	uname(&host);
	twi_emit_str(emit, "job", engine->knobs.job);
	twi_emit_i64(emit, "rank", engine->knobs.rank);
	twi_emit_str(emit, "kernel", host.release);
	describe_knobs(engine, emit);
	twi_engine_enter(engine);
	twi_poller_describe(engine, emit);
	twi_emit_array_begin(emit, "rings");
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		const struct twi_ring *ring = engine->rings[i];

		if (ring == NULL)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "poller", ring->poller->name);
		if (ring->poller == &twi_poller_uring)
			twi_emit_bool(emit, "single_issuer_defer_taskrun", ring->deferred);
		twi_emit_bool(emit, "pool_registered", ring->registrar);
		twi_emit_bool(emit, "send_zerocopy", ring->zerocopy);
		twi_emit_bool(emit, "background", i == TWI_RING_BACKGROUND);
		twi_emit_bool(emit, "asleep",
			      atomic_load_explicit(&ring->sleeping, memory_order_relaxed) != 0);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
	twi_engine_leave(engine);
}

static int add_sources(struct tow_runtime *runtime)
{
	const struct twi_source sources[] = {
		{ "/v1/peers", "connections, their lane, state and credit", describe_peers,
		  &runtime->engine },
		{ "/v1/rpc", "calls: their latencies in parts, by method and peer; who is served",
		  twi_rpc_describe, &runtime->engine },
		{ "/metrics", "", twi_rpc_metrics, &runtime->engine },
		{ "/v1/coll", "collectives: plans and why, who shares memory, times, the last ones",
		  twi_coll_describe, &runtime->engine },
		{ "/v1/devices", "devices: memory, what is mapped for them, copies and their rates",
		  twi_devices_describe, &runtime->engine },
		{ "/v1/latency", "and how long after a zero-copy send its memory comes back",
		  describe_lag, &runtime->engine },
		{ "/v1/bootstrap", "rank and world size: which launcher said it, and which did not",
		  twi_bootstrap_describe, &runtime->job.bootstrap },
		{ "/v1/info", "the job, the kernel, the knobs and what the rings can do",
		  describe_runtime, &runtime->engine },
	};

	for (unsigned i = 0; i < twi_array_count(sources); i++) {
		int status = twi_registry_add(runtime->engine.diag, &sources[i]);

		if (status < 0)
			return status;
	}
	runtime->sources = true;
	return TOW_OK;
}

static int open_lanes(struct twi_engine *engine)
{
	static const struct twi_lane_ops *const lanes[] = {
		&twi_lane_auto,
#define TWI_LANE(id, name, ...) &twi_lane_##name,
#include "diag/record/lane.def"
#undef TWI_LANE
	};
	int status = twi_lanes_check(engine->knobs.lanes);

	if (status < 0)
		return status;
	for (unsigned i = 0; i < twi_array_count(lanes); i++) {
		if ((engine->virtual_clock && !twi_lane_is_inner(lanes[i]->id)) ||
		    !twi_lanes_allow(engine->knobs.lanes, lanes[i]->id))
			continue;
		status = lanes[i]->open(engine, &engine->lanes[lanes[i]->id]);
		if (status < 0)
			return status;
		twi_lanes_pack(engine);
	}
	return TOW_OK;
}

/* The pool, and its part for copies that cannot be avoided: at most a quarter. */
static int open_pool(struct twi_engine *engine)
{
	const struct tow_options *knobs = &engine->knobs;
	struct twi_pool_options pool = {
		.bytes = (uint64_t)knobs->premap_memory_bytes,
		.huge_pages = knobs->huge_pages != 0,
		.strict = knobs->strict_premap != 0,
		.limit_bytes = (uint64_t)knobs->premap_limit_bytes,
		.require_zero_copy = knobs->require_zero_copy != 0,
		.numa = knobs->numa,
		.progress = knobs->premap_progress,
		.progress_user = knobs->premap_progress_user,
		.late_cache_bytes = (uint64_t)knobs->late_cache_bytes,
		.late_cache_entries = (uint32_t)knobs->late_cache_entries,
		.diag = engine->diag,
	};
	uint64_t staging = twi_min((uint64_t)knobs->staging_bytes, pool.bytes / 4);
	int status = twi_runtime_words(engine, &pool.exhaust);

	if (status == TOW_OK)
		status = twi_pool_create(&pool, &engine->pool);
	if (status == TOW_OK)
		engine->regions_clock = twi_pool_regions_clock(engine->pool);
	if (status == TOW_OK)
		status = twi_staging_init(&engine->staging, engine->pool, staging);
	return status;
}

static int open_alloclog(struct twi_engine *engine)
{
	int status = twi_alloclog_create(engine->diag, (uint64_t)engine->knobs.alloclog_events,
					 &engine->alloclog);

	if (status < 0)
		return status;
	twi_alloclog_attach(engine->alloclog, engine->pool);
	return engine->knobs.alloclog != 0 ? twi_alloclog_open(engine->alloclog) : TOW_OK;
}

/* What the kernel counts is no part of what anybody opens a runtime for: without it, it goes on. */
static void open_bpf(struct twi_engine *engine, const char *stats_path)
{
	if (twi_bpf_open(engine->diag, stats_path, &engine->bpf) < 0)
		twi_log(engine->diag, 2, "no figures of eBPF: %s", tow_error_message());
}

static int open_parts(struct tow_runtime *runtime)
{
	struct twi_engine *engine = &runtime->engine;
	int status = twi_diag_create(&engine->diag);

	if (status < 0)
		return status;
	status = twi_runtime_log(engine, &runtime->job.bootstrap);
	if (status < 0)
		return status;
	twi_environment_check(engine->diag, environ);
	twi_span_sample(engine->diag, (uint32_t)engine->knobs.span_sample);
	status = twi_engine_init(engine);
	if (status == TOW_OK)
		status = twi_tracing_open(&runtime->tracing, engine);
	if (status == TOW_OK)
		status = twi_coll_table_load(engine->knobs.coll_table, &engine->coll_table);
	if (status == TOW_OK)
		status = open_pool(engine);
	if (status == TOW_OK)
		status = open_alloclog(engine);
	if (status == TOW_OK) {
		twi_engine_enter(engine);
		status = twi_engine_bind_ring(engine);
		if (status == TOW_OK)
			status = open_lanes(engine);
		twi_engine_leave(engine);
	}
	if (status == TOW_OK)
		status = add_sources(runtime);
	if (status == TOW_OK)
		status = twi_inquiry_open(engine);
	if (status == TOW_OK && !engine->virtual_clock)
		status = twi_serve_open(engine->diag, &engine->knobs, &runtime->serve);
	twi_job_key_mask(runtime->texts + (engine->knobs.stats_token - runtime->texts));
	if (status == TOW_OK && runtime->serve.socket != NULL)
		open_bpf(engine, twi_socket_path(runtime->serve.socket));
	return status;
}

/* Ends operations, peers, endpoints; the engine is held. */
static void end_traffic(struct twi_engine *engine)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &engine->endpoints)
		twi_endpoint_end_accepts(twi_container_of(pos, struct tow_endpoint, link));
	for (uint32_t i = 0; i < engine->ops.made; i++) {
		struct tow_op *op = &engine->ops.rows[i];

		if (op->kind == TWI_OP_CONNECT && op->stage != TWI_STAGE_COMPLETING &&
		    atomic_load_explicit(&op->state, memory_order_relaxed) != 0 &&
		    op->lane_state != NULL)
			op->lane_ops->connect_abort(op, TOW_ECLOSED);
	}
	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

		if (!peer->closed)
			twi_peer_end(peer);
	}
	/* While the callbacks run everything they may name is still there. */
	twi_op_run_callbacks(engine);
	while ((pos = twi_list_first(&engine->endpoints)) != NULL)
		twi_endpoint_drop(twi_container_of(pos, struct tow_endpoint, link));
}

static void close_parts(struct tow_runtime *runtime)
{
	struct twi_engine *engine = &runtime->engine;

	twi_inquiry_thread_stop(engine);
	twi_background_stop(engine);
	twi_serve_close(&runtime->serve);
	twi_bpf_close(engine->bpf);
	engine->bpf = NULL;
	if (engine->diag != NULL)
		twi_tracing_close(&runtime->tracing, engine);
	if (runtime->sources) {
		twi_registry_remove(engine->diag, "/v1/peers", engine);
		twi_registry_remove(engine->diag, "/v1/bootstrap", &runtime->job.bootstrap);
		twi_registry_remove(engine->diag, "/v1/latency", engine);
		twi_registry_remove(engine->diag, "/v1/info", engine);
		twi_registry_remove(engine->diag, "/v1/devices", engine);
		twi_registry_remove(engine->diag, "/v1/rpc", engine);
		twi_registry_remove(engine->diag, "/v1/coll", engine);
		twi_registry_remove(engine->diag, "/metrics", engine);
	}
	if (engine->pool != NULL) {
		twi_engine_enter(engine);
		/* When this thread cannot have a ring, what the others' rings hold is dropped. */
		twi_engine_bind_ring(engine);
		engine->failing = true;
		end_traffic(engine);
		twi_devices_close(engine);
		for (unsigned i = 0; i < TWI_LANE_SLOTS; i++) {
			if (engine->lanes[i] != NULL)
				engine->lanes[i]->ops->close(engine->lanes[i]);
			engine->lanes[i] = NULL;
			twi_lanes_pack(engine);
		}
		twi_engine_leave(engine);
	}
	twi_inquiry_close(engine);
	twi_rpc_destroy(engine);
	twi_coll_table_free(engine->coll_table);
	free(engine->coll_log);
	twi_engine_fini(engine);
	twi_alloclog_destroy(engine->alloclog);
	if (engine->pool != NULL) {
		twi_staging_fini(&engine->staging);
		twi_pool_destroy(engine->pool);
	}
	if (engine->diag != NULL)
		twi_diag_destroy(engine->diag);
	twi_job_key_wipe(&engine->job_key);
	twi_job_fini(&runtime->job);
	free(runtime->texts);
	twi_handle_free(&runtime->handle, runtime->opened);
}

/* The options' strings are the caller's and may go away. */
static int keep_texts(struct tow_runtime *runtime)
{
	struct tow_knob_info knob = { .size = sizeof(knob) };
	size_t room = 0, used = 0;

	for (size_t i = 0; i < tow_knob_count(); i++) {
		tow_knob_info(i, &knob);
		if (strcmp(knob.unit, "text") == 0)
			room += strlen(*twi_knob_text(&runtime->engine.knobs, i)) + 1;
	}
	runtime->texts = malloc(room);
	if (runtime->texts == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	for (size_t i = 0; i < tow_knob_count(); i++) {
		const char **field;

		tow_knob_info(i, &knob);
		if (strcmp(knob.unit, "text") != 0)
			continue;
		field = twi_knob_text(&runtime->engine.knobs, i);
		snprintf(runtime->texts + used, room - used, "%s", *field);
		*field = runtime->texts + used;
		used += strlen(*field) + 1;
	}
	return TOW_OK;
}

/* From here on the secret is a key; of its text only stars are left, for /v1/info to say so. */
static int load_job_key(struct tow_runtime *runtime)
{
	int status = twi_job_key_load(&runtime->engine.knobs, &runtime->engine.job_key);

	twi_job_key_mask(runtime->texts + (runtime->engine.knobs.job_key - runtime->texts));
	return status;
}

static int open_runtime(const struct tow_options *options, bool virtual_clock,
			struct tow_runtime **runtime_out)
{
	struct tow_runtime *runtime;
	struct tow_options known; /* where the caller's are of another size */
	int status;

	if (runtime_out == NULL)
		return twi_error(TOW_EINVAL, "tow_runtime_open: runtime_out is NULL");
	*runtime_out = NULL;
	status = TWI_SIZED_IN(tow_options, "tow_runtime_open", options, &known);
	if (status < 0)
		return status;
	runtime = twi_handle_alloc(TWI_HANDLE_RUNTIME, sizeof(*runtime));
	if (runtime == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	runtime->engine.virtual_clock = virtual_clock;
	runtime->engine.hooks = twi_runtime_hooks;
	twi_clock_init();
	status = twi_knob_resolve(options, &runtime->engine.knobs);
	if (status == TOW_OK)
		status = keep_texts(runtime);
	if (status == TOW_OK)
		status = load_job_key(runtime);
	if (status < 0) {
		free(runtime->texts);
		twi_handle_free(&runtime->handle, false);
		return status;
	}
	twi_job_init(&runtime->job, options, &runtime->engine.knobs);
	status = open_parts(runtime);
	if (status < 0) {
		close_parts(runtime);
		return status;
	}
	runtime->opened = true;
	*runtime_out = runtime;
	return TOW_OK;
}

TOW_PUBLIC int tow_runtime_open(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	struct twi_error_kept kept;

	twi_error_keep(&kept);
	return twi_error_settle(&kept, open_runtime(options, false, runtime_out));
}

int twi_runtime_open_sim(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	return open_runtime(options, true, runtime_out);
}

TOW_PUBLIC int tow_runtime_seal(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_runtime_seal");

	if (status == TOW_OK)
		twi_pool_seal(runtime->engine.pool);
	return status;
}

TOW_PUBLIC int tow_runtime_close(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_runtime_close");

	if (status < 0)
		return status;
	if (twi_engine_in_callback(&runtime->engine))
		return twi_error(TOW_EINVAL, "tow_runtime_close in a completion callback");
	if (twi_log_is_thread(runtime->engine.diag))
		return twi_error(TOW_EINVAL, "tow_runtime_close in the runtime's log callback");
	twi_job_close(&runtime->job);
	close_parts(runtime);
	return TOW_OK;
}

TOW_PUBLIC int tow_progress(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_progress");
	unsigned events = 0;

	if (status < 0)
		return status;
	if (twi_engine_in_callback(&runtime->engine) || !twi_engine_try_enter(&runtime->engine))
		return TOW_AGAIN;
	status = twi_engine_bind_ring(&runtime->engine);
	if (status == TOW_OK) {
		if (runtime->engine.ring != NULL)
			twi_fd_clear(&runtime->engine, runtime->engine.ring);
		events = twi_engine_poll(&runtime->engine);
	}
	twi_engine_leave(&runtime->engine);
	if (status < 0 && status != TOW_EBUSY)
		return status;
	return events > 0 ? TOW_OK : TOW_AGAIN;
}

TOW_PUBLIC int tow_flush(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_flush");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	engine = &runtime->engine;
	if (twi_unlikely(atomic_load_explicit(&engine->colls_held, memory_order_relaxed)))
		twi_coll_batch_issue_all(engine);
	if (twi_engine_in_callback(engine) || !twi_engine_try_enter(engine))
		return TOW_AGAIN;
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK)
		twi_engine_flush(engine);
	twi_engine_leave(engine);
	return status == TOW_EBUSY ? TOW_AGAIN : status;
}

TOW_PUBLIC int tow_fd(struct tow_runtime *runtime, int *fd_out)
{
	int status = twi_runtime_check(runtime, "tow_fd");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	if (fd_out == NULL)
		return twi_error(TOW_EINVAL, "tow_fd: fd_out is NULL");
	engine = &runtime->engine;
	twi_engine_enter(engine);
	status = twi_engine_bind_ring(engine);
	if (status == TOW_EBUSY)
		twi_error(TOW_EBUSY,
			  "tow_fd: %d other threads use their rings just now, or have a "
			  "descriptor",
			  TWI_RINGS_MAX);
	if (status == TOW_OK && engine->ring == NULL)
		status = twi_error(TOW_ENOTSUP, "a simulated runtime has no descriptor");
	if (status == TOW_OK)
		status = twi_fd_open(engine, fd_out);
	if (status == TOW_OK) {
		/* Arms in this thread's ring what it is to wait for, also what it read directly. */
		twi_engine_flush(engine);
		twi_engine_poll(engine);
	}
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC const char *tow_stats_socket(struct tow_runtime *runtime)
{
	if (twi_handle_check(runtime, TWI_HANDLE_RUNTIME, "tow_stats_socket") < 0 ||
	    runtime->serve.socket == NULL)
		return "";
	return twi_socket_path(runtime->serve.socket);
}
