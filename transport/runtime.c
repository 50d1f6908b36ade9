/*
 * runtime.c - opens and closes a runtime, and has the calls that concern all of it.
 *
 * Opening builds the parts of one table from the bottom up. A failure takes down the parts that
 * stand, in the opposite order. Closing uses that order, too.
 */
#include "transport/engine/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/program.h"
#include "diag/base/sized.h"
#include "diag/bpf/bpf.h"
#include "diag/knob/environment.h"
#include "diag/knob/knob.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/record/span.h"
#include "diag/record/stacks.h"
#include "diag/serve/serve.h"
#include "diag/serve/socket.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/user/latecache.h"
#include "transport/coll/coll_account.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/coll_table.h"
#include "transport/device/device_copy.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/handle.h"
#include "transport/engine/remains.h"
#include "transport/foreign/foreign.h"
#include "transport/inquiry/flight.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_table.h"
#include "transport/rpc/rpc.h"
#include "transport/runtime_report.h"
#include "transport/runtime_share.h"
#include "transport/tracing.h"
#include "transport/wire/frame.h"

struct tow_runtime {
	struct twi_handle handle;
	struct twi_engine engine;
	struct twi_serve serve;
	const struct tow_options *options; /* the caller's, while the runtime is being opened */
	unsigned parts;                    /* how many parts of the table were opened */
	bool opened;                       /* its user has it */
	struct twi_latency notify_lag;     /* for the engine */
	char *texts;                       /* strings that text knobs point to */
	struct twi_job job;
	struct twi_tracing tracing;
	struct twi_remains *remains; /* what may be left of the pool */
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

/* --- the parts of a runtime, from the bottom up --- */

static struct tow_runtime *runtime_of(struct twi_engine *engine)
{
	return twi_container_of(engine, struct tow_runtime, engine);
}

/* Makes a key of the secret, and leaves stars of its text, for /v1/info to say that it is set. */
static int load_job_key(struct twi_engine *engine)
{
	char *texts = runtime_of(engine)->texts;
	int status = twi_job_key_load(&engine->knobs, &engine->job_key);

	twi_job_key_mask(texts + (engine->knobs.job_key - texts));
	return status;
}

static int open_knobs(struct twi_engine *engine)
{
	struct tow_runtime *runtime = runtime_of(engine);
	int status = twi_knob_resolve(runtime->options, &engine->knobs);

	/* The options' strings are the caller's and may go away. */
	if (status == TOW_OK)
		status = twi_knob_keep(&engine->knobs, &runtime->texts);
	return status == TOW_OK ? load_job_key(engine) : status;
}

static void close_knobs(struct twi_engine *engine)
{
	twi_job_key_wipe(&engine->job_key);
	free(runtime_of(engine)->texts);
}

static int open_job(struct twi_engine *engine)
{
	struct tow_runtime *runtime = runtime_of(engine);

	twi_job_init(&runtime->job, runtime->options, &engine->knobs);
	return TOW_OK;
}

static void close_job(struct twi_engine *engine)
{
	twi_job_fini(&runtime_of(engine)->job);
}

/* Fits eager_max_bytes into the credit: a peer that sends more at once would be refused. */
static void fit_eager(struct twi_engine *engine)
{
	struct twi_knobs *knobs = &engine->knobs;
	const uint64_t fits = (knobs->credit_bytes - twi_frame_cost(0)) & ~63ull;

	if (knobs->eager_max_bytes <= fits)
		return;
	twi_log(engine->diag, 2,
		"eager_max_bytes is %llu and not %llu: one message would need more than the "
		"credit_bytes of %llu; raise credit_bytes",
		(unsigned long long)fits, (unsigned long long)knobs->eager_max_bytes,
		(unsigned long long)knobs->credit_bytes);
	knobs->eager_max_bytes = fits;
}

static int open_diag(struct twi_engine *engine)
{
	int status = twi_diag_create(&engine->diag);

	if (status == TOW_OK)
		status = twi_runtime_log(engine, &runtime_of(engine)->job.bootstrap);
	if (status < 0)
		return status;
	fit_eager(engine);
	twi_environment_check(engine->diag, twi_program_environ());
	twi_span_sample(engine->diag, engine->knobs.span_sample);
	return TOW_OK;
}

static void close_diag(struct twi_engine *engine)
{
	if (engine->diag != NULL)
		twi_diag_destroy(engine->diag);
}

static int open_tracing(struct twi_engine *engine)
{
	return twi_tracing_open(&runtime_of(engine)->tracing, engine);
}

static void close_tracing(struct twi_engine *engine)
{
	twi_tracing_close(&runtime_of(engine)->tracing, engine);
}

static void stop_tracing(struct twi_engine *engine)
{
	twi_tracing_stop(&runtime_of(engine)->tracing);
}

/* Opens the pool, and at most a quarter of it for copies that cannot be avoided. */
static int open_pool(struct twi_engine *engine)
{
	const struct twi_knobs *knobs = &engine->knobs;
	struct twi_pool_options pool = {
		.bytes = knobs->premap_memory_bytes,
		.huge_pages = knobs->huge_pages,
		.strict = knobs->strict_premap,
		.limit_bytes = knobs->premap_limit_bytes,
		.exhaust = knobs->exhaust,
		.require_zero_copy = knobs->require_zero_copy,
		.numa = knobs->numa,
		.progress = knobs->premap_progress,
		.progress_user = knobs->premap_progress_user,
		.late_cache_bytes = knobs->late_cache_bytes,
		.late_cache_entries = knobs->late_cache_entries,
		.late = &twi_latecache_ops,
		.diag = engine->diag,
	};
	uint64_t staging = twi_min(knobs->staging_bytes, pool.bytes / 4);
	int status = twi_runtime_words(engine);

	if (status == TOW_OK)
		status = twi_pool_create(&pool, &engine->pool);
	if (status == TOW_OK)
		status = twi_remains_create(&runtime_of(engine)->handle,
					    &runtime_of(engine)->remains);
	if (status == TOW_OK)
		engine->regions_clock = twi_pool_regions_clock(engine->pool);
	if (status == TOW_OK)
		status = twi_staging_init(&engine->staging, engine->pool, staging);
	return status;
}

static void close_pool(struct twi_engine *engine)
{
	if (engine->pool == NULL)
		return;
	twi_staging_fini(&engine->staging);
	if (!twi_remains_end(runtime_of(engine)->remains, engine->pool, engine->diag))
		runtime_of(engine)->remains = NULL;
}

/* From here on tow_free finds no log and no counters. */
static void end_frees(struct twi_engine *engine)
{
	if (runtime_of(engine)->opened)
		twi_remains_begin(runtime_of(engine)->remains, engine->pool);
}

static int open_alloclog(struct twi_engine *engine)
{
	int status =
		twi_alloclog_create(engine->diag, engine->knobs.alloclog_events, &engine->alloclog);

	if (status < 0)
		return status;
	twi_alloclog_attach(engine->alloclog, engine->pool, engine->knobs.staging_bytes,
			    engine->staging.memory);
	return engine->knobs.alloclog ? twi_alloclog_open(engine->alloclog) : TOW_OK;
}

static void close_alloclog(struct twi_engine *engine)
{
	twi_alloclog_destroy(engine->alloclog);
	engine->alloclog = NULL;
}

static int open_engine(struct twi_engine *engine)
{
	engine->notify_lag = &runtime_of(engine)->notify_lag;
	twi_engine_init(engine);
	return twi_op_table_open(engine);
}

static void close_engine(struct twi_engine *engine)
{
	twi_engine_fini(engine);
	twi_op_table_close(engine);
	twi_step_free(engine);
}

static int open_colls(struct twi_engine *engine)
{
	return twi_coll_table_load(engine->knobs.coll_table, &engine->coll_table);
}

static void close_colls(struct twi_engine *engine)
{
	twi_coll_table_free(engine->coll_table);
	free(engine->coll_log);
	twi_coll_account_free(atomic_load_explicit(&engine->coll_account, memory_order_relaxed));
}

static int open_each_lane(struct twi_engine *engine)
{
	static const struct twi_lane_ops *const lanes[] = {
		&twi_lane_auto,
#define TWI_LANE(id, name, ...) &twi_lane_##name,
#include "diag/record/lane.def"
#undef TWI_LANE
	};
	int status = twi_lanes_check(engine->knobs.lanes);

	if (status == TOW_OK)
		status = twi_require_check(engine->knobs.require);
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

static int open_lanes(struct twi_engine *engine)
{
	int status;

	twi_engine_enter(engine);
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK)
		status = open_each_lane(engine);
	twi_engine_leave(engine);
	return status;
}

/* Takes the engine to close. Without a ring here, what other threads' rings hold is dropped. */
static void enter_to_close(struct twi_engine *engine)
{
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	engine->failing = true;
}

static void close_lanes(struct twi_engine *engine)
{
	enter_to_close(engine);
	for (unsigned i = 0; i < TWI_LANE_SLOTS; i++) {
		if (engine->lanes[i] != NULL)
			engine->lanes[i]->ops->close(engine->lanes[i]);
		engine->lanes[i] = NULL;
		twi_lanes_pack(engine);
	}
	twi_engine_leave(engine);
}

static void close_polled(struct twi_engine *engine)
{
	enter_to_close(engine);
	twi_parts_close(engine);
	twi_engine_leave(engine);
}

/* Ends operations, peers, endpoints. */
static void end_traffic(struct twi_engine *engine)
{
	struct twi_list *pos, *next;

	enter_to_close(engine);
	twi_list_for_each_safe (pos, next, &engine->endpoints)
		twi_endpoint_end_accepts(twi_container_of(pos, struct tow_endpoint, link));
	twi_connects_end(engine);
	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

		if (!peer->closed)
			twi_peer_end(peer);
	}
	/* While the callbacks run, all that they may name is still there. */
	twi_engine_run_callbacks(engine);
	while ((pos = twi_list_first(&engine->endpoints)) != NULL)
		twi_endpoint_drop(twi_container_of(pos, struct tow_endpoint, link));
	twi_engine_leave(engine);
}

static int open_serve(struct twi_engine *engine)
{
	struct tow_runtime *runtime = runtime_of(engine);
	int status = TOW_OK;

	if (!engine->virtual_clock)
		status = twi_serve_open(engine->diag, &engine->knobs, &runtime->serve);
	if (status == TOW_OK && runtime->serve.socket != NULL)
		twi_flight_set_home(engine, twi_socket_path(runtime->serve.socket));
	twi_job_key_mask(runtime->texts + (engine->knobs.stats_token - runtime->texts));
	return status;
}

static void close_serve(struct twi_engine *engine)
{
	twi_serve_close(&runtime_of(engine)->serve);
}

/* The kernel's figures are not what a user opens a runtime for: it goes on without them. */
static int open_bpf(struct twi_engine *engine)
{
	const struct twi_socket *socket = runtime_of(engine)->serve.socket;

	if (socket != NULL && twi_bpf_open(engine->diag, twi_socket_path(socket), &engine->bpf) < 0)
		twi_log(engine->diag, 2, "no figures of eBPF: %s", tow_error_message());
	return TOW_OK;
}

static void close_bpf(struct twi_engine *engine)
{
	twi_bpf_close(engine->bpf);
	engine->bpf = NULL;
}

static void describe_bootstrap(void *arg, struct twi_emit *emit)
{
	twi_bootstrap_describe(&runtime_of(arg)->job.bootstrap, emit);
}

/* A document, or a family of metrics, of a part; `arg` is the engine. */
struct part_source {
	const char *path, *help;
	void (*snapshot)(void *arg, struct twi_emit *emit);
};

/*
 * A part of a runtime. Parts are opened from the first to the last, and closed from the last to the
 * first. A document is there while its part is. When an open has failed, the close of that part is
 * called as well, and takes back what was done. No open: the part is made at its first use.
 */
static const struct part {
	int (*open)(struct twi_engine *engine);
	void (*close)(struct twi_engine *engine);
	struct part_source sources[4]; /* a row without a path: none */
} parts[] = {
	{ open_knobs, close_knobs, { { 0 } } },
	{ open_job, close_job, { { 0 } } },
	{ open_diag,
	  close_diag,
	  { { "/v1/bootstrap", "rank and world size: which launcher gave them, which did not",
	      describe_bootstrap } } },
	{ open_tracing,
	  close_tracing,
	  { { "/v1/stacks", "threads: their state, what they sleep in, and their stacks",
	      twi_stacks_describe } } },
	{ open_pool, close_pool, { { 0 } } },
	{ open_alloclog, close_alloclog, { { 0 } } },
	{ NULL, end_frees, { { 0 } } },
	{ open_engine,
	  close_engine,
	  { { "/v1/latency", "and how long after a zero-copy send its memory comes back",
	      twi_lag_describe },
	    { "/v1/info", "the job, the kernel, the knobs and what the rings can do",
	      twi_runtime_describe },
	    { "/v1/steps", "steps of the program: how many, how long, and what of it were waits",
	      twi_step_describe },
	    { "/metrics", "", twi_step_metrics } } },
	{ NULL,
	  twi_rpc_destroy,
	  { { "/v1/rpc", "calls: their latencies in parts, by method and peer; peers served",
	      twi_rpc_describe },
	    { "/metrics", "", twi_rpc_metrics } } },
	{ open_colls,
	  close_colls,
	  { { "/v1/coll", "collectives: plans and why, who shares memory, times, the last ones",
	      twi_coll_describe },
	    { "/metrics", "", twi_coll_metrics } } },
	{ NULL,
	  twi_foreign_close_all,
	  { { "/v1/coll", "collectives that other libraries of this process have reported",
	      twi_foreign_describe } } },
	{ twi_inquiry_open, twi_inquiry_close, { { 0 } } },
	{ open_lanes,
	  close_lanes,
	  { { "/v1/peers", "connections, their lane, state and credit", twi_peers_describe } } },
	{ NULL,
	  close_polled,
	  { { "/v1/devices", "devices: memory, what is mapped for them, copies and their rates",
	      twi_devices_describe } } },
	{ NULL, end_traffic, { { 0 } } },
	{ open_serve, close_serve, { { 0 } } },
	{ open_bpf, close_bpf, { { 0 } } },
	{ NULL, twi_background_stop, { { 0 } } },
	{ twi_inquiry_thread_start, twi_inquiry_thread_stop, { { 0 } } },
	{ NULL, stop_tracing, { { 0 } } },
};

static int open_part(struct twi_engine *engine, const struct part *part)
{
	int status = part->open != NULL ? part->open(engine) : TOW_OK;

	for (unsigned i = 0; i < twi_array_count(part->sources) && status == TOW_OK; i++) {
		const struct part_source *of = &part->sources[i];
		const struct twi_source source = { of->path, of->help, of->snapshot, engine };

		if (of->path != NULL)
			status = twi_registry_add(engine->diag, &source);
	}
	return status;
}

static void close_part(struct twi_engine *engine, const struct part *part)
{
	for (unsigned i = 0; i < twi_array_count(part->sources); i++) {
		if (part->sources[i].path != NULL && engine->diag != NULL)
			twi_registry_remove(engine->diag, part->sources[i].path, engine);
	}
	part->close(engine);
}

static int open_parts(struct tow_runtime *runtime, const struct tow_options *options)
{
	int status = TOW_OK;

	runtime->options = options;
	while (runtime->parts < twi_array_count(parts) && status == TOW_OK)
		status = open_part(&runtime->engine, &parts[runtime->parts++]);
	runtime->options = NULL;
	return status;
}

/* Closes the parts that open_parts has reached. */
static void close_parts(struct tow_runtime *runtime)
{
	while (runtime->parts > 0)
		close_part(&runtime->engine, &parts[--runtime->parts]);
	if (runtime->remains != NULL)
		twi_remains_settle(runtime->remains);
	else
		twi_handle_free(&runtime->handle, runtime->opened);
}

static int open_runtime(const struct tow_options *options, bool virtual_clock,
			struct tow_runtime **runtime_out)
{
	struct tow_runtime *runtime;
	struct tow_options known; /* for options of another size */
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
	status = open_parts(runtime, options);
	runtime->opened = status == TOW_OK;
	if (runtime->opened)
		*runtime_out = runtime;
	else
		close_parts(runtime);
	return status;
}

TOW_PUBLIC int tow_runtime_open(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	TWI_UNCANCELED;
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
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_runtime_close");

	if (status < 0)
		return status;
	if (twi_engine_in_callback(&runtime->engine))
		return twi_error(TOW_EINVAL, "tow_runtime_close in a completion callback");
	if (twi_log_is_thread(runtime->engine.diag))
		return twi_error(TOW_EINVAL, "tow_runtime_close in the runtime's log callback");
	if (twi_share_leave(runtime))
		return TOW_OK; /* others have it */
	twi_job_close(&runtime->job);
	close_parts(runtime);
	return TOW_OK;
}

TOW_PUBLIC const char *tow_stats_socket(struct tow_runtime *runtime)
{
	if (twi_handle_check(runtime, TWI_HANDLE_RUNTIME, "tow_stats_socket") < 0 ||
	    runtime->serve.socket == NULL)
		return "";
	return twi_socket_path(runtime->serve.socket);
}
