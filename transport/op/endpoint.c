/*
 * endpoint.c - the public calls on endpoints and peers: they check their arguments and take the
 * engine, and the lane does the rest. Messages are started in message.c.
 */
#include "transport/op/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "diag/record/span.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/call.h"
#include "transport/op/lane_host.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/op/op_options.h"
#include "transport/op/op_table.h"
#include "transport/wire/rule.h"

static _Atomic uint64_t next_peer_id = 1;

void *twi_endpoint_alloc(size_t bytes)
{
	return twi_handle_alloc(TWI_HANDLE_ENDPOINT, bytes);
}

void twi_endpoint_free(struct tow_endpoint *endpoint)
{
	if (endpoint != NULL)
		twi_handle_free(&endpoint->handle, endpoint->address[0] != '\0');
}

void *twi_peer_alloc(size_t bytes)
{
	return twi_handle_alloc(TWI_HANDLE_PEER, bytes);
}

void twi_peer_free(struct tow_peer *peer)
{
	if (peer != NULL)
		twi_handle_free(&peer->handle, peer->shown);
}

void twi_endpoint_setup(struct tow_endpoint *endpoint, struct twi_lane *lane)
{
	endpoint->engine = lane->engine;
	endpoint->lane = lane;
	twi_list_init(&endpoint->accepts);
	twi_list_init(&endpoint->ready);
	twi_list_init(&endpoint->peers);
	twi_list_init(&endpoint->any);
	twi_list_push_back(&lane->engine->endpoints, &endpoint->link);
}

void twi_peer_setup(struct tow_peer *peer, struct twi_lane *lane, const char *address)
{
	peer->engine = lane->engine;
	peer->lane = lane;
	peer->id = atomic_fetch_add_explicit(&next_peer_id, 1, memory_order_relaxed);
	snprintf(peer->address, sizeof(peer->address), "%s", address);
	peer->latency_row = NULL;
	peer->span_peer = 0;
	peer->link_due_ns = UINT64_MAX;
	peer->job_rank = -1;
	twi_list_init(&peer->ready_link);
	twi_list_init(&peer->home_link);
	twi_peer_claims_init(&peer->claims);
	lane->peers++;
	lane->engine->memory_peers += lane->ops->memory_polled;
	twi_list_push_back(&lane->engine->peers, &peer->link);
}

/* The user has the peer from now on: adds it to the endpoint's peers. */
static void join_endpoint(struct tow_endpoint *endpoint, struct tow_peer *peer)
{
	if (endpoint == NULL || peer->home != NULL || peer->closed)
		return;
	peer->home = endpoint->parent != NULL ? endpoint->parent : endpoint;
	twi_list_push_back(&peer->home->peers, &peer->home_link);
	peer->engine->hooks.match->join(peer);
}

static void leave_endpoint(struct tow_peer *peer)
{
	if (peer->home == NULL)
		return;
	peer->engine->hooks.match->leave(peer);
	twi_list_remove(&peer->home_link);
	peer->home = NULL;
}

/* Whether it is a receive of any peer that is in flight, and has met no message. */
static bool is_unmatched_any_recv(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_relaxed) &
		(TWI_OP_USED | TWI_OP_DONE)) == TWI_OP_USED &&
	       op->kind == TWI_OP_RECV && op->match.any && op->peer == NULL &&
	       op->stage != TWI_STAGE_COMPLETING;
}

/* The endpoint closes: no peer and no operation names it any more. */
static void endpoint_forget(struct tow_endpoint *endpoint)
{
	struct twi_op_table *ops = endpoint->engine->ops;
	struct twi_list *entry;

	while ((entry = twi_list_first(&endpoint->peers)) != NULL)
		leave_endpoint(twi_container_of(entry, struct tow_peer, home_link));
	for (uint32_t i = 0; i < ops->made; i++) {
		struct tow_op *op = &ops->rows[i];

		if (op->kind == TWI_OP_SEND || op->endpoint != endpoint)
			continue;
		op->endpoint = NULL;
		if (is_unmatched_any_recv(op))
			twi_message_end_any(op, TOW_ECLOSED);
	}
}

void twi_peer_ended(struct tow_peer *peer, int status)
{
	if (peer->ended != 0)
		return;
	peer->ended = status;
	snprintf(peer->ended_why, sizeof(peer->ended_why), "%s", tow_error_message());
}

void twi_peer_teardown(struct tow_peer *peer)
{
	if (peer->waiting_at != NULL) {
		twi_assert(peer->waiting_at->ready_count > 0);
		peer->waiting_at->ready_count--;
	}
	peer->lane->peers--;
	peer->engine->memory_peers -= peer->lane->ops->memory_polled;
	if (peer->link_state != NULL)
		peer->engine->hooks.link->detach(peer);
	twi_peer_claims_fini(&peer->claims);
	twi_latency_leave(peer->engine->diag, &peer->latency_row);
	twi_list_remove(&peer->ready_link);
	leave_endpoint(peer);
	twi_list_remove(&peer->link);
}

void twi_peer_end(struct tow_peer *peer)
{
	twi_assert_held(peer->engine);
	twi_handle_close(&peer->handle);
	leave_endpoint(peer);
	peer->engine->hooks.match->close(peer);
	peer->closed = true;
	peer->lane->ops->peer_close(peer);
}

bool twi_endpoint_full(const struct tow_endpoint *endpoint)
{
	if (endpoint->parent != NULL)
		endpoint = endpoint->parent;
	return twi_list_empty(&endpoint->accepts) && endpoint->ready_count >= TWI_READY_PEERS_MAX;
}

int twi_endpoint_refused(const char *address)
{
	return twi_error(TOW_EREFUSED,
			 "connect to %s: %d peers wait there to be accepted, which is the "
			 "limit; connect again when its program has called tow_accept_start",
			 address, TWI_READY_PEERS_MAX);
}

void twi_peer_tell_lost(const struct tow_peer *peer, const char *why)
{
	twi_count(peer->engine->diag, TWI_C_peers_lost, !peer->passing);
	/* Every job ends with peers that close in order, so that is no warning. */
	twi_log(peer->engine->diag, peer->passing || twi_rule_is_goodbye(why) ? 3 : 2, "%s", why);
}

bool twi_peer_has_process(const struct tow_peer *peer)
{
	return peer->lane->ops->process_ended != NULL;
}

void twi_peer_process_ended(struct tow_peer *peer)
{
	twi_assert_held(peer->engine);
	peer->lane->ops->process_ended(peer);
}

void twi_endpoint_ready(struct tow_endpoint *endpoint, struct tow_peer *peer)
{
	struct twi_list *entry;

	const struct tow_endpoint *through = endpoint;

	if (endpoint->parent != NULL)
		endpoint = endpoint->parent;
	entry = twi_list_first(&endpoint->accepts);
	peer->passing = endpoint->ranks != NULL;
	peer->shown = true;
	if (through->parent != NULL)
		snprintf(peer->why, sizeof(peer->why), "%s chosen by the other side",
			 peer->lane->ops->scheme);
	if (entry != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);

		op->peer = peer;
		twi_op_complete(op, TOW_OK, 0);
	} else { /* the lane has asked twi_endpoint_full before */
		twi_list_push_back(&endpoint->ready, &peer->ready_link);
		peer->waiting_at = endpoint;
		endpoint->ready_count++;
	}
}

static struct tow_peer *take_ready(struct tow_endpoint *endpoint)
{
	struct twi_list *entry = twi_list_first(&endpoint->ready);
	struct tow_peer *peer;

	if (entry == NULL)
		return NULL;
	peer = twi_container_of(entry, struct tow_peer, ready_link);
	twi_list_remove(entry);
	peer->waiting_at = NULL;
	twi_assert(endpoint->ready_count > 0);
	endpoint->ready_count--;
	return peer;
}

void twi_endpoint_end_accepts(struct tow_endpoint *endpoint)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&endpoint->accepts)) != NULL)
		twi_op_complete(twi_container_of(entry, struct tow_op, link), TOW_ECLOSED, 0);
}

void twi_endpoint_drop(struct tow_endpoint *endpoint)
{
	struct tow_peer *peer;

	twi_assert_held(endpoint->engine);
	twi_handle_close(&endpoint->handle);
	twi_endpoint_end_accepts(endpoint);
	while ((peer = take_ready(endpoint)) != NULL)
		twi_peer_end(peer);
	endpoint_forget(endpoint);
	twi_list_remove(&endpoint->link);
	endpoint->lane->ops->endpoint_close(endpoint);
}

/* Looks up names, while other threads may drive. */
static int resolve_address(const struct twi_lane *lane, const char *address, bool passive,
			   char out[TOW_ADDRESS_MAX])
{
	if (lane->ops->resolve != NULL)
		return lane->ops->resolve(address, passive, out);
	if (strlen(address) >= TOW_ADDRESS_MAX)
		return twi_error(TOW_EINVAL, "address %s://%.100s...: it has over %d bytes",
				 lane->ops->scheme, address, TOW_ADDRESS_MAX - 1);
	snprintf(out, TOW_ADDRESS_MAX, "%s", address);
	return TOW_OK;
}

/* Writes the schemes of the lanes that this runtime has: "loop://, tcp://, ..., tow://". */
static void known_schemes(const struct twi_engine *engine, char *out, size_t room)
{
	size_t fill = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < TWI_LANE_SLOTS && fill < room; i++) {
		if (engine->lanes[i] != NULL)
			fill += (size_t)snprintf(out + fill, room - fill, "%s%s://",
						 fill > 0 ? ", " : "",
						 engine->lanes[i]->ops->scheme);
	}
}

/* The lane that has the address's scheme; *rest_out is the text behind "://". */
static struct twi_lane *lane_of(struct twi_engine *engine, const char *address,
				const char **rest_out)
{
	char schemes[20 * TWI_LANE_SLOTS];

	for (unsigned i = 0; i < TWI_LANE_SLOTS; i++) {
		struct twi_lane *lane = engine->lanes[i];
		size_t n = lane == NULL ? 0 : strlen(lane->ops->scheme);

		if (lane != NULL && strncmp(address, lane->ops->scheme, n) == 0 &&
		    strncmp(address + n, "://", 3) == 0) {
			*rest_out = address + n + 3;
			return lane;
		}
	}
	known_schemes(engine, schemes, sizeof(schemes));
	twi_error(TOW_EINVAL,
		  "address %.100s: its scheme is none of %s, the lanes of this runtime (knob "
		  "lanes)",
		  address, schemes);
	return NULL;
}

TOW_PUBLIC int tow_endpoint_open(struct tow_runtime *runtime, const char *address,
				 struct tow_endpoint **endpoint_out)
{
	TWI_UNCANCELED;
	struct twi_error_kept kept;
	struct twi_engine *engine;
	struct twi_lane *lane;
	char numbers[TOW_ADDRESS_MAX];
	const char *rest;
	bool started;
	int status;

	if (address == NULL || endpoint_out == NULL)
		return twi_error(TOW_EINVAL, "tow_endpoint_open: an argument is NULL");
	*endpoint_out = NULL;
	status = twi_runtime_check(runtime, "tow_endpoint_open");
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	status = twi_call_check(engine, "tow_endpoint_open");
	if (status < 0)
		return status;
	lane = lane_of(engine, address, &rest);
	status = lane == NULL ? TOW_EINVAL : resolve_address(lane, rest, true, numbers);
	if (status < 0)
		return status;
	twi_error_keep(&kept); /* tow:// opens without the lanes that fail */
	twi_call_enter(engine);
	twi_lane_use(lane);
	status = lane->ops->endpoint_open(lane, numbers, endpoint_out);
	started = status == TOW_OK && twi_background_start(engine);
	twi_engine_leave(engine);
	if (started)
		twi_background_settle(engine);
	return twi_error_settle(&kept, status);
}

TOW_PUBLIC int tow_endpoint_address(struct tow_endpoint *endpoint, char *address_out,
				    size_t address_size)
{
	int status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, "tow_endpoint_address");

	if (status < 0)
		return status;
	if (address_out == NULL)
		return twi_error(TOW_EINVAL, "tow_endpoint_address: address_out is NULL");
	if (strlen(endpoint->address) >= address_size)
		return twi_error(
			TOW_EINVAL,
			"tow_endpoint_address: %zu bytes are too few; TOW_ADDRESS_MAX is %d",
			address_size, TOW_ADDRESS_MAX);
	snprintf(address_out, address_size, "%s", endpoint->address);
	return TOW_OK;
}

TOW_PUBLIC int tow_endpoint_close(struct tow_endpoint *endpoint)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;
	int status;

	status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, "tow_endpoint_close");
	if (status < 0)
		return status;
	engine = endpoint->engine;
	status = twi_call_check(engine, "tow_endpoint_close");
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, endpoint, TWI_HANDLE_ENDPOINT,
					     "tow_endpoint_close");
	if (status < 0)
		return status;
	twi_endpoint_drop(endpoint);
	twi_engine_leave(engine);
	return TOW_OK;
}

/* The connection is up: the user has the peer from now on. */
static void peer_up(struct tow_op *op)
{
	join_endpoint(op->endpoint, op->peer);
	op->engine->hooks.link->up(op->peer);
}

static void abort_connect(struct tow_op *op, int status)
{
	op->lane_ops->connect_abort(op, status);
}

static void abort_accept(struct tow_op *op, int status)
{
	twi_op_complete(op, status, 0);
}

static const struct twi_op_ops connect_ops = { .kind = TWI_OP_CONNECT,
					       .noun = "connect",
					       .span = TWI_SPAN_CALL,
					       .abort = abort_connect,
					       .ended = peer_up };
static const struct twi_op_ops accept_ops = { .kind = TWI_OP_ACCEPT,
					      .noun = "accept",
					      .span = TWI_SPAN_CALL,
					      .abort = abort_accept,
					      .ended = peer_up };

int twi_connect_start(struct tow_endpoint *endpoint, const char *address, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out)
{
	struct tow_op *op = twi_op_acquire(endpoint->engine, &connect_ops, options);
	int status;

	twi_assert_held(endpoint->engine);
	if (op == NULL)
		return TOW_EBUSY;
	op->endpoint = endpoint;
	op->space = (uint8_t)space;
	op->lane_ops = endpoint->lane->ops;
	status = endpoint->lane->ops->connect(endpoint, address, op);
	if (status < 0) {
		twi_op_discard(op);
		return status;
	}
	*op_out = op;
	twi_op_watch(op);
	return TOW_OK;
}

void twi_connect_measure(const struct tow_op *connect, struct twi_state_dial *out)
{
	twi_assert_held(connect->engine);
	if (connect->stage != TWI_STAGE_COMPLETING && connect->lane_ops->connect_measure != NULL)
		connect->lane_ops->connect_measure(connect, out);
}

void twi_connects_end(struct twi_engine *engine)
{
	twi_assert_held(engine);
	for (uint32_t i = 0; i < engine->ops->made; i++) {
		struct tow_op *op = &engine->ops->rows[i];

		if (atomic_load_explicit(&op->wait.state, memory_order_relaxed) != 0 &&
		    op->kind == TWI_OP_CONNECT && op->stage != TWI_STAGE_COMPLETING &&
		    op->lane_state != NULL)
			op->lane_ops->connect_abort(op, TOW_ECLOSED);
	}
}

static int connect_for(enum twi_space space, struct tow_endpoint *endpoint, const char *address,
		       const struct tow_op_options *options, struct tow_op **op_out)
{
	struct twi_engine *engine;
	struct twi_lane *lane;
	struct tow_op_options known;
	struct tow_op *unused;
	char numbers[TOW_ADDRESS_MAX];
	const char *rest;
	int status;

	if (op_out != NULL)
		*op_out = NULL;
	status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, "tow_connect_start");
	if (status < 0)
		return status;
	engine = endpoint->engine;
	status = twi_call_check(engine, "tow_connect_start");
	if (status == TOW_OK)
		status = twi_op_options_in(engine, "tow_connect_start", &options, &known);
	if (status < 0)
		return status;
	op_out = twi_op_place(op_out, &unused, options);
	if (address == NULL || op_out == NULL)
		return twi_error(TOW_EINVAL, "tow_connect_start: an argument is NULL");
	lane = lane_of(engine, address, &rest);
	if (lane == NULL)
		return TOW_EINVAL;
	if (lane != endpoint->lane)
		return twi_error(TOW_EINVAL, "address %.100s is of another lane than endpoint %s",
				 address, endpoint->address);
	status = resolve_address(lane, rest, false, numbers);
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, endpoint, TWI_HANDLE_ENDPOINT,
					     "tow_connect_start");
	if (status < 0)
		return status;
	status = twi_connect_start(endpoint, numbers, space, options, op_out);
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_connect_start(struct tow_endpoint *endpoint, const char *address,
				 const struct tow_op_options *options, struct tow_op **op_out)
{
	TWI_UNCANCELED;
	return connect_for(TWI_SPACE_USER, endpoint, address, options, op_out);
}

int twi_connect_own(struct tow_endpoint *endpoint, const char *address,
		    const struct tow_op_options *options, struct tow_op **op_out)
{
	return connect_for(TWI_SPACE_LINK, endpoint, address, options, op_out);
}

static int accept_for(enum twi_space space, struct tow_endpoint *endpoint,
		      const struct tow_op_options *options, struct tow_op **op_out)
{
	struct tow_op_options known;
	struct twi_engine *engine;
	struct tow_peer *peer;
	struct tow_op *op, *unused;
	int status;

	if (op_out != NULL)
		*op_out = NULL;
	status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, "tow_accept_start");
	if (status < 0)
		return status;
	engine = endpoint->engine;
	status = twi_call_check(engine, "tow_accept_start");
	if (status == TOW_OK)
		status = twi_op_options_in(engine, "tow_accept_start", &options, &known);
	op_out = twi_op_place(op_out, &unused, options);
	if (status == TOW_OK && op_out == NULL)
		status = twi_error(TOW_EINVAL, "tow_accept_start: op_out is NULL");
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, endpoint, TWI_HANDLE_ENDPOINT,
					     "tow_accept_start");
	if (status < 0)
		return status;
	op = twi_op_acquire(engine, &accept_ops, options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	op->endpoint = endpoint;
	op->space = (uint8_t)space;
	*op_out = op;
	peer = take_ready(endpoint);
	if (peer != NULL) {
		op->peer = peer;
		twi_op_complete(op, TOW_OK, 0);
	} else {
		twi_list_push_back(&endpoint->accepts, &op->link);
		twi_op_watch(op);
	}
	twi_engine_leave(engine);
	return TOW_OK;
}

TOW_PUBLIC int tow_accept_start(struct tow_endpoint *endpoint, const struct tow_op_options *options,
				struct tow_op **op_out)
{
	TWI_UNCANCELED;
	return accept_for(TWI_SPACE_USER, endpoint, options, op_out);
}

int twi_accept_own(struct tow_endpoint *endpoint, const struct tow_op_options *options,
		   struct tow_op **op_out)
{
	return accept_for(TWI_SPACE_LINK, endpoint, options, op_out);
}

TOW_PUBLIC int tow_peer_close(struct tow_peer *peer)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;
	int status;

	status = twi_handle_check(peer, TWI_HANDLE_PEER, "tow_peer_close");
	if (status < 0)
		return status;
	engine = peer->engine;
	status = twi_call_check(engine, "tow_peer_close");
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, peer, TWI_HANDLE_PEER, "tow_peer_close");
	if (status < 0)
		return status;
	twi_peer_end(peer);
	twi_engine_leave(engine);
	return TOW_OK;
}
