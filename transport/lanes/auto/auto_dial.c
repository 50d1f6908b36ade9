/*
 * auto_dial.c - connects by the best lane that both sides have and that works. See auto.h.
 *
 * A dial lives until its outer operation has ended and no inner one is under way. The callback of
 * an inner connect runs with the engine held. It goes on with the next route, or ends the outer
 * operation.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/lanes/auto/auto.h"
#include "transport/op/lane_host.h"

static void try_next(struct twi_auto_dial *dial);

/* "shm: another host; ofi: ..." */
static void refuse_way(struct twi_auto_dial *dial, enum twi_lane_id lane, const char *why)
{
	size_t fill = strlen(dial->refused);

	snprintf(dial->refused + fill, sizeof(dial->refused) - fill, "%s%s: %.100s",
		 fill > 0 ? "; " : "", twi_lane_name(lane), why);
}

__attribute__((format(printf, 3, 4))) static void
add_way(struct twi_auto_dial *dial, enum twi_lane_id lane, const char *fmt, ...)
{
	struct twi_auto_way *way = &dial->ways[dial->count];
	va_list args;

	if (dial->count == TWI_AUTO_WAYS_MAX)
		return;
	way->lane = lane;
	va_start(args, fmt);
	vsnprintf(way->address, sizeof(way->address), fmt, args);
	va_end(args);
	dial->count++;
}

/* Does this side have the lane, and does the other side's address have it? */
static bool both_have(struct twi_auto_dial *dial, enum twi_lane_id lane, bool there)
{
	if (twi_auto_sub(dial->endpoint, lane) == NULL)
		refuse_way(dial, lane, "not available here");
	else if (!there)
		refuse_way(dial, lane, "not in the other side's address");
	else
		return true;
	return false;
}

static void add_raw(struct twi_auto_dial *dial, enum twi_lane_id lane,
		    const struct twi_auto_part *to)
{
	char text[2 * TWI_AUTO_RAW_MAX + 1];

	for (unsigned i = 0; i < to->raw_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", to->raw[i]);
	add_way(dial, lane, "%s/%s", to->name, text);
}

static void add_inet(struct twi_auto_dial *dial, enum twi_lane_id lane,
		     const struct twi_auto_part *to)
{
	char text[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < to->in4_count; i++)
		add_way(dial, lane, "%s:%u", inet_ntop(AF_INET, to->in4[i], text, sizeof(text)),
			to->in4_port);
	for (unsigned i = 0; i < to->in6_count; i++)
		add_way(dial, lane, "[%s]:%u", inet_ntop(AF_INET6, to->in6[i], text, sizeof(text)),
			to->in6_port);
}

static void add_ways(struct twi_auto_dial *dial, enum twi_lane_id lane,
		     const struct twi_auto_part *to)
{
	switch (twi_lane_describe(lane)->form) {
	case TWI_FORM_NAME:
		add_way(dial, lane, "%s", to->name);
		return;
	case TWI_FORM_INET:
		add_inet(dial, lane, to);
		return;
	case TWI_FORM_RAW:
		add_raw(dial, lane, to);
		return;
	case TWI_FORM_NONE:
		return;
	}
}

/* Could this lane lead there? If not, the reason is noted, unless no user would expect it to. */
static bool may_lead(struct twi_auto_dial *dial, const struct twi_auto_address *to,
		     enum twi_lane_id lane)
{
	const struct twi_lane_info *info = twi_lane_describe(lane);
	bool there = twi_auto_address_has(to, lane);
	const struct twi_lane *ours = dial->engine->lanes[lane];
	char why[TWI_REQUIRE_WHY];

	if (info->form == TWI_FORM_NONE)
		return false;
	if (ours != NULL && (there || info->reach != TWI_REACH_PROCESS) &&
	    !twi_require_lane(dial->engine->knobs.require, ours->ops, why)) {
		refuse_way(dial, lane, why);
		return false;
	}
	if (info->reach == TWI_REACH_PROCESS)
		return there && twi_auto_sub(dial->endpoint, lane) != NULL;
	if (info->reach == TWI_REACH_NETWORK || dial->same_host)
		return both_have(dial, lane, there);
	refuse_way(dial, lane, "another host");
	return false;
}

/* Finds the routes from here to there, the best first. */
static void find_ways(struct twi_auto_dial *dial, const struct twi_auto_address *to)
{
	dial->same_host = to->host == dial->endpoint->host;
	for (unsigned turn = 0; turn < TWI_LANE_COUNT; turn++) {
		enum twi_lane_id lane = twi_lane_at_turn(turn);

		if (may_lead(dial, to, lane))
			add_ways(dial, lane, &to->parts[lane]);
	}
}

static void dial_free(struct twi_auto_dial *dial)
{
	twi_list_remove(&dial->link);
	free(dial);
}

/* Lists the route that was tried last with those not taken: another has been tried since. */
static void list_last(struct twi_auto_dial *dial)
{
	if (dial->last_message[0] != '\0')
		refuse_way(dial, dial->last_lane, dial->last_brief);
	dial->last_message[0] = '\0';
}

/* A route has failed. The list gets `brief` up to a semicolon: the route's address follows. */
static void note_failure(struct twi_auto_dial *dial, int status, const char *brief,
			 const char *message)
{
	list_last(dial);
	dial->status = status;
	dial->last_lane = dial->ways[dial->next - 1].lane;
	snprintf(dial->last_brief, sizeof(dial->last_brief), "%.*s", (int)strcspn(brief, ";"),
		 brief);
	snprintf(dial->last_message, sizeof(dial->last_message), "%s", message);
}

/* Sets the message: the route that was tried last comes first, as long messages are cut. */
static int say_failure(const struct twi_auto_dial *dial, int status)
{
	if (dial->last_message[0] == '\0')
		return twi_error(status, "no lane reaches that address: %s", dial->refused);
	return twi_error(status, "no lane reaches that address: %s: %s%s%s",
			 twi_lane_name(dial->last_lane), dial->last_message,
			 dial->refused[0] != '\0' ? "; " : "", dial->refused);
}

/* Ends the outer operation, with the result of the route that was tried last. */
static void finish_dial(struct twi_auto_dial *dial, int status, struct tow_peer *peer)
{
	struct tow_op *op = dial->op;
	struct twi_engine *engine = dial->engine;

	if (peer != NULL) {
		list_last(dial);
		snprintf(peer->why, sizeof(peer->why), "%s%s%s",
			 dial->same_host ? "the same host" : "another host",
			 dial->refused[0] != '\0' ? "; not " : "", dial->refused);
		twi_log(engine->diag, 3, "peer %s by %s: %s", peer->address,
			peer->lane->ops->scheme, peer->why);
	} else {
		say_failure(dial, status);
		twi_log(engine->diag, 2, "%s", tow_error_message());
	}
	op->lane_state = NULL;
	op->moved = dial->error;
	op->peer = peer;
	dial_free(dial);
	twi_op_complete(op, status, 0);
}

/* An inner connect has ended, with success or not. */
static void inner_done(struct tow_op *inner, const struct tow_result *result)
{
	struct twi_auto_dial *dial = result->user;

	twi_assert_held(inner->engine);
	dial->error = inner->moved;
	dial->inner = NULL;
	if (dial->op == NULL) { /* the outer operation has ended */
		if (result->status == TOW_OK)
			twi_peer_end(result->peer);
		dial_free(dial);
		return;
	}
	if (result->status == TOW_OK) {
		finish_dial(dial, TOW_OK, result->peer);
		return;
	}
	note_failure(dial, result->status,
		     twi_require_said(result->message) ? result->message
						       : tow_status_name(result->status),
		     result->message);
	try_next(dial);
}

/* A share of the time that is left: a route that hangs must not take the chance of the others. */
static uint64_t share_ns(const struct twi_auto_dial *dial)
{
	uint64_t now = twi_engine_now(dial->engine);
	uint64_t left = dial->until_ns > now ? dial->until_ns - now : 0;

	return left / (dial->count - dial->next + 1);
}

/* Starts an inner connect. False: it was refused at once. */
static bool start_way(struct twi_auto_dial *dial, const struct twi_auto_way *way)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_endpoint *sub = twi_auto_sub(dial->endpoint, way->lane);
	struct tow_op *inner;
	int status;

	options.timeout_ns = share_ns(dial);
	options.done = inner_done;
	options.user = dial;
	status = twi_connect_start(sub, way->address, TWI_SPACE_LINK, &options, &inner);
	if (status < 0) {
		note_failure(dial, status, tow_error_message(), tow_error_message());
		return false;
	}
	dial->inner = inner; /* also when it has completed: its callback is still to come */
	twi_op_forget(inner);
	return true;
}

/* Maps a status to one that a connect may end with; the failure of a call is not always one. */
static int as_outcome(int status)
{
	switch (status) {
	case TOW_EREFUSED:
	case TOW_EPEER:
	case TOW_EPROTOCOL:
	case TOW_EDEADLINE:
	case TOW_ECLOSED:
	case TOW_EAUTH:
		return status;
	default:
		return TOW_EREFUSED;
	}
}

static void try_next(struct twi_auto_dial *dial)
{
	while (dial->next < dial->count && dial->endpoint != NULL && !dial->engine->failing) {
		const struct twi_auto_way *way = &dial->ways[dial->next++];

		if (start_way(dial, way))
			return;
	}
	finish_dial(dial, dial->endpoint == NULL ? TOW_ECLOSED : as_outcome(dial->status), NULL);
}

int twi_auto_connect(struct tow_endpoint *base, const char *address, struct tow_op *op)
{
	struct twi_auto_endpoint *endpoint = (struct twi_auto_endpoint *)(void *)base;
	struct twi_engine *engine = base->engine;
	struct twi_auto_address to;
	struct twi_auto_dial *dial;
	uint64_t until;
	int status = twi_auto_address_get(address, &to);

	twi_assert_held(base->engine);
	if (status < 0)
		return status;
	dial = calloc(1, sizeof(*dial));
	if (dial == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connect");
	twi_list_push_back(&endpoint->dials, &dial->link);
	dial->engine = engine;
	dial->endpoint = endpoint;
	dial->op = op;
	dial->status = TOW_EREFUSED;
	until = twi_engine_now(engine) + engine->knobs.connect_timeout_ns;
	dial->until_ns = twi_min(until, op->deadline_ns);
	op->lane_state = dial;
	find_ways(dial, &to);
	try_next(dial);
	return TOW_OK;
}

void twi_auto_connect_measure(const struct tow_op *op, struct twi_state_dial *out)
{
	const struct twi_auto_dial *dial = op->lane_state;
	const struct tow_op *inner = dial != NULL ? dial->inner : NULL;

	if (inner != NULL && inner->stage != TWI_STAGE_COMPLETING &&
	    inner->lane_ops->connect_measure != NULL)
		inner->lane_ops->connect_measure(inner, out);
}

void twi_auto_connect_abort(struct tow_op *op, int status)
{
	struct twi_auto_dial *dial = op->lane_state;
	struct tow_op *inner;

	twi_assert_held(op->engine);
	if (dial == NULL) {
		twi_op_complete(op, status, 0);
		return;
	}
	inner = dial->inner;
	dial->op = NULL;
	op->lane_state = NULL;
	twi_op_complete(op, status, 0);
	if (inner->stage != TWI_STAGE_COMPLETING)
		inner->lane_ops->connect_abort(inner, TOW_ECANCELED);
}
