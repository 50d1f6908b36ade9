/*
 * view.c - views: receives whose memory the lane finds. See message.h.
 */
#include <towline/towline.h>

#include "diag/base/error.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/own_memory.h"
#include "transport/wire/frame.h"

#define LOOK_NS  1000000ull   /* how often views without room look for it */
#define WEIGH_NS 100000000ull /* how often they check whether any memory can be given back */

static void free_room(struct tow_op *op)
{
	twi_own_give(op->engine, op->view_state);
}

/*
 * Whether to ask the pool to grow, or for memory outside it. A view without room waits until other
 * views are given back, which slows a sender down to the pace of its receiver. If no view is given
 * back, it would wait for ever. So the pool is asked if no view has found room for exhaust_wait_ns.
 * If the pool as it is could never hold this view, the pool is asked at once, and then not again
 * for exhaust_wait_ns.
 */
static bool must_grow_pool(struct twi_engine *engine, uint64_t bytes, uint64_t since_ns)
{
	uint64_t now = twi_engine_now(engine);
	uint64_t wait = twi_max(engine->knobs.exhaust_wait_ns, (uint64_t)LOOK_NS);

	if (!twi_pool_degrades(engine->pool) || now < engine->room.pressed_ns + wait)
		return false;
	return bytes > twi_pool_longest(engine->pool) ||
	       now >= twi_max(since_ns, engine->room.found_ns) + wait;
}

static int take_room(struct tow_op *op, uint64_t bytes, void **memory_out)
{
	struct twi_engine *engine = op->engine;
	int status = twi_own_try(engine, bytes, 64, memory_out);

	if (status == TOW_OK)
		engine->room.found_ns = engine->room.look_at_ns;
	if (status != TOW_EEXHAUSTED || !(engine->room.pressing || op->impatient))
		return status;
	if (engine->room.pressing)
		engine->room.pressed_ns = twi_engine_now(engine);
	engine->room.pressing = false;
	return twi_own_need(engine, bytes, 64, op->site, memory_out);
}

int twi_view_room(struct tow_op *op, uint64_t bytes)
{
	void *memory;
	int status;

	twi_assert_held(op->engine);
	if (op->view == TWI_VIEW_PARTS)
		return TOW_OK; /* parts have their memory */
	if (op->view_release != NULL && op->bytes == bytes)
		return TOW_OK; /* twi_view_ready has taken the room */
	twi_view_drop(op);
	/* A message of no bytes has an address too. */
	status = take_room(op, bytes > 0 ? bytes : 1, &memory);
	if (status < 0)
		return twi_error(status,
				 "no room in the pool for a view of %llu bytes; raise "
				 "premap_memory_bytes",
				 (unsigned long long)bytes);
	op->data = memory;
	op->bytes = bytes;
	op->view_state = memory;
	op->view_release = free_room;
	return TOW_OK;
}

void twi_view_pass(struct tow_op *to, struct tow_op *from)
{
	to->data = from->data;
	to->moved = from->moved;
	to->view_state = from->view_state;
	to->view_release = from->view_release;
	from->view_release = NULL;
}

void twi_view_drop(struct tow_op *op)
{
	void (*release)(struct tow_op *) = op->view_release;

	op->view_release = NULL;
	if (release == NULL)
		return; /* op may never have been an operation of an engine */
	twi_assert_held(op->engine);
	release(op);
}

bool twi_view_ready(struct tow_op *op, uint64_t bytes)
{
	return twi_likely(!op->view) || op->impatient || twi_view_room(op, bytes) != TOW_EEXHAUSTED;
}

void twi_view_settled(struct tow_op *op)
{
	twi_assert_held(op->engine);
	op->roomless = false;
	twi_list_remove(&op->seq_link);
}

/*
 * Whether the pool will never have room for a view of `bytes`. That is so if it has none now, and
 * holds nothing but the library's own memory: then no user can give anything back.
 */
static bool is_hopeless(struct twi_engine *engine, uint64_t bytes)
{
	uint64_t left = twi_pool_growth_left(engine->pool), now = twi_engine_now(engine);
	struct twi_pool_stats stats;
	void *memory;

	if (bytes > twi_max(left, twi_pool_longest(engine->pool)))
		return true;
	if (bytes <= left || now < engine->room.weighed_ns + WEIGH_NS)
		return false;
	engine->room.weighed_ns = now;
	twi_pool_stats(engine->pool, &stats);
	if (stats.allocations > stats.own_allocations)
		return false;
	if (twi_own_try(engine, bytes, 64, &memory) < 0)
		return true;
	twi_own_give(engine, memory);
	return false;
}

static void look_for_room(struct tow_op *op, uint64_t since_ns)
{
	struct twi_engine *engine = op->engine;

	if (is_hopeless(engine, op->result_bytes)) {
		twi_error(TOW_EEXHAUSTED,
			  "a view of %llu bytes is longer than the pool can ever hold; raise %s, "
			  "or receive the message into a buffer: it is still available",
			  (unsigned long long)op->result_bytes,
			  twi_pool_degrades(engine->pool) ? "premap_limit_bytes"
							  : "premap_memory_bytes");
		twi_message_abort(op, TOW_EEXHAUSTED, true);
		return;
	}
	engine->room.pressing = must_grow_pool(engine, op->result_bytes, since_ns);
	twi_view_settled(op); /* it is held again if there is no room */
	op->peer->lane->ops->look_again(op->peer, op->tag, op->match.context);
	engine->room.pressing = false;
}

/* Looks for room if that is due. */
static unsigned retry_roomless(struct twi_engine *engine, struct twi_list *roomless)
{
	struct twi_list *entry, now_due;
	uint64_t now, since = engine->room.since_ns;

	twi_assert_held(engine);
	engine->now_ns = 0;
	now = twi_engine_now(engine);
	if (now < engine->room.look_at_ns)
		return 0;
	twi_list_init(&now_due);
	while ((entry = twi_list_first(roomless)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&now_due, entry);
	}
	engine->room.look_at_ns = now + LOOK_NS;
	while ((entry = twi_list_first(&now_due)) != NULL)
		look_for_room(twi_container_of(entry, struct tow_op, seq_link), since);
	engine->room.since_ns = since; /* views that are held again have waited all the time */
	return 0;
}

static uint64_t retry_at_ns(struct twi_engine *engine, struct twi_list *roomless, uint64_t next_ns)
{
	(void)roomless;
	return twi_min(next_ns, engine->room.look_at_ns);
}

static const struct twi_part_ops view_part = { .poll = retry_roomless, .deadline_ns = retry_at_ns };

void twi_view_wait(struct tow_op *op, uint64_t bytes)
{
	struct twi_engine *engine = op->engine;
	const struct twi_list *roomless = twi_part_items(engine->parts, TWI_PART_VIEWS);

	op->stage = TWI_STAGE_POSTED;
	op->seq = 0;
	op->data = NULL;
	op->bytes = TWI_WIRE_U63_MAX;
	op->result_bytes = bytes;
	op->roomless = true;
	if (twi_list_empty(roomless)) {
		engine->room.since_ns = twi_engine_batch_now(engine);
		engine->room.look_at_ns = engine->room.since_ns + LOOK_NS;
		engine->armed_since_enter = true; /* a sleeping thread must wake up for it */
	}
	twi_part_add(engine, TWI_PART_VIEWS, &view_part, &op->seq_link);
}
