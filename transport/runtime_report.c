/* runtime_report.c - writes what a runtime reports in /v1. See runtime_report.h. */
#include "transport/runtime_report.h"

#include <string.h>
#include <sys/utsname.h>

#include "diag/base/emit.h"
#include "diag/base/program.h"
#include "diag/knob/knob.h"
#include "diag/record/latency_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/require.h"
#include "transport/op/endpoint.h"
#include "transport/rpc/rpc.h"
#include "transport/wire/feature.h"

/* The knob `require`, where it is set, and the lanes that cannot meet it with any peer. */
static void describe_require(const struct twi_engine *engine, struct twi_emit *emit)
{
	const char *require = engine->knobs.require;
	char why[TWI_REQUIRE_WHY];

	if (require[0] == '\0')
		return;
	twi_emit_str(emit, "require", require);
	twi_emit_array_begin(emit, "refused_lanes");
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		const struct twi_lane *lane = engine->lanes[i];

		if (lane == NULL || twi_require_lane(require, lane->ops, why))
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "lane", lane->ops->scheme);
		twi_emit_str(emit, "why", why);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

void twi_peers_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_list *pos, *next;

	twi_engine_enter(engine);
	describe_require(engine, emit);
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
		twi_way_describe(peer, emit);
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

void twi_lag_describe(void *arg, struct twi_emit *emit)
{
	const struct twi_engine *engine = arg;
	struct twi_latency_sum sum;

	twi_latency_read(engine->notify_lag, &sum);
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
		const char *text = twi_knob_text(&engine->knobs, i);

		tow_knob_info(i, &knob);
		if (text == NULL)
			twi_emit_i64(emit, knob.name, twi_knob_number(&engine->knobs, i));
		else if (strcmp(knob.name, "job_key") == 0 ||
			 strcmp(knob.name, "stats_token") == 0) /* secrets */
			twi_emit_str(emit, knob.name, text[0] != '\0' ? "(set)" : "");
		else
			twi_emit_str(emit, knob.name, text);
	}
	twi_emit_object_end(emit);
}

void twi_runtime_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct utsname host = { 0 };
	char program[TWI_PROGRAM_BYTES];

	uname(&host);
	twi_emit_str(emit, "job", engine->knobs.job);
	twi_emit_i64(emit, "rank", engine->knobs.rank);
	twi_program_self(program);
	twi_emit_str(emit, "program", program);
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
