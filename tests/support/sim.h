/*
 * sim.h - a simulated world for one seed: endpoints and links in one runtime with a virtual clock,
 * operations with what is known of each, and the rules that each must keep when it ends.
 *
 * A message of 8 bytes or more carries the number of its send in its first 8 bytes, so that a
 * receive can be traced to the send wherever it lands. Buffers outside the pool are freed the
 * moment their operation ends, so that ASan sees whoever touches them later.
 */
#ifndef TWT_SIM_H
#define TWT_SIM_H

#include "sim_wild.h"
#include "sim_world.h"

/* FNV-1a over the events of a run: two runs of one seed must have the same. */
static inline void sim_log(struct sim_world *world, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		world->log = (world->log ^ (value >> 8 * i & 255)) * 0x100000001b3ull;
}

static inline uint64_t sim_word(uint64_t id, uint64_t index)
{
	return index == 0 ? id : (id + 1) * 0x9e3779b97f4a7c15ull + index * 0xd6e8feb86659fd93ull;
}

static inline void sim_fill(uint8_t *data, uint64_t bytes, uint64_t id)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = sim_word(id, at / 8);

		memcpy(data + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
}

static inline bool sim_same(const uint8_t *data, uint64_t bytes, uint64_t id)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = sim_word(id, at / 8);

		if (memcmp(data + at, &word, bytes - at < 8 ? bytes - at : 8) != 0)
			return false;
	}
	return true;
}

static inline void sim_buffer(struct sim_world *world, struct sim_op *op)
{
	void *memory = NULL;

	op->pool = sim_chance(world, 400) &&
		   tow_alloc(world->runtime, op->bytes + 1, 0, &memory) == TOW_OK;
	op->data = op->pool ? memory : malloc(op->bytes + 1);
}

static inline void sim_buffer_end(struct sim_op *op)
{
	if (op->data == NULL)
		return;
	memset(op->data, 0xee, op->bytes < 64 ? op->bytes : 64);
	if (op->pool)
		tow_free(op->world->runtime, op->data);
	else
		free(op->data);
	op->data = NULL;
}

/* A receive ended with TOW_OK: its bytes are those of one send, which nobody has received yet. */
static inline void sim_delivered(struct sim_world *world, struct sim_op *op)
{
	struct sim_op *from;
	uint64_t id;

	memcpy(op->head, op->data, op->got < 8 ? op->got : 8);
	if (op->got < 8)
		return; /* traced by its rpc_id at the end */
	memcpy(&id, op->data, 8);
	SIM_CHECK(world, id < (uint64_t)world->op_count, "op %llu got the bytes of nothing",
		  (unsigned long long)op->id);
	from = &world->ops[id];
	SIM_CHECK(world,
		  from->send && from->conn == op->conn && from->side != op->side &&
			  from->tag == op->tag && from->space == op->space &&
			  from->bytes == op->got + op->dropped,
		  "op %llu got message %llu, which is another's", (unsigned long long)op->id,
		  (unsigned long long)id);
	SIM_CHECK(world, from->met == NULL, "message %llu was delivered twice",
		  (unsigned long long)id);
	SIM_CHECK(world, sim_same(op->data, op->got, id), "message %llu has wrong bytes",
		  (unsigned long long)id);
	from->met = op;
	op->met = from;
}

/* Did anybody give a cause for this status? Causes that need the whole history come later. */
static inline bool sim_may(struct sim_world *world, const struct sim_op *op, int status)
{
	const struct sim_conn *conn = &world->conns[op->conn];

	switch (status) {
	case TOW_OK:
		return true;
	case TOW_ETRUNCATED:
		return op->send ? op->bytes > world->eager_max : !op->truncate;
	case TOW_ECANCELED:
		return op->asked_cancel ||
		       (op->send && world->deadlines && op->bytes > world->eager_max);
	case TOW_EDEADLINE:
		return op->timed && world->engine->virtual_ns >= op->deadline_ns;
	case TOW_ECLOSED:
		return conn->closed[op->side] || world->closing || op->any;
	case TOW_ECORRUPT:
		return twi_loop_corrupted(world->engine) > 0 && op->bytes > world->eager_max;
	case TOW_EPEER:
		return conn->closed[1 - op->side] || twi_loop_faults(world->engine) > 0;
	default:
		return false;
	}
}

static inline void sim_ended(struct sim_op *op, const struct tow_result *result)
{
	struct sim_world *world = op->world;

	if (op->wild)
		sim_bind(op, result);
	SIM_CHECK(world, op->end == SIM_OPEN, "op %llu ended twice", (unsigned long long)op->id);
	op->end = SIM_ENDED;
	op->status = result->status;
	op->got = result->bytes;
	op->dropped = result->dropped_bytes;
	op->rpc = result->rpc_id;
	sim_counts[op->send][-result->status]++;
	sim_log(world, op->id);
	sim_log(world, (uint64_t)-result->status);
	sim_log(world, result->bytes);
	sim_log(world, world->engine->virtual_ns);
	SIM_CHECK(world, sim_may(world, op, result->status),
		  "op %llu (%s of %llu) ended with %s: %s", (unsigned long long)op->id,
		  op->send ? "send" : "recv", (unsigned long long)op->bytes,
		  tow_status_name(result->status), tow_error_message());
	SIM_CHECK(world, result->tag == op->tag && result->latency_ns <= world->engine->virtual_ns,
		  "op %llu: the result is another's", (unsigned long long)op->id);
	if (!op->send && result->status == TOW_OK) {
		SIM_CHECK(world, result->bytes <= op->bytes, "op %llu got more than its buffer",
			  (unsigned long long)op->id);
		SIM_CHECK(world, op->dropped == 0 || (op->truncate && op->got == op->bytes),
			  "op %llu dropped %llu bytes", (unsigned long long)op->id,
			  (unsigned long long)op->dropped);
		sim_dropped += op->dropped > 0;
		sim_delivered(world, op);
	}
	if (op->send && result->status == TOW_OK)
		SIM_CHECK(world, result->bytes == op->bytes, "op %llu: sent other than asked",
			  (unsigned long long)op->id);
	sim_buffer_end(op);
}

static inline void sim_release(struct sim_op *op)
{
	struct tow_op *handle = op->op;

	op->op = NULL;
	SIM_CHECK(op->world, tow_op_release(handle) == TOW_OK, "release: %s", tow_error_message());
}

/* Looks whose operations have ended, of those without a callback. */
static inline void sim_reap(struct sim_world *world)
{
	for (int i = 0; i < world->op_count; i++) {
		struct sim_op *op = &world->ops[i];
		struct tow_result result = { .size = sizeof(result) };

		if (op->op == NULL)
			continue;
		if (tow_op_result(op->op, &result) == TOW_AGAIN)
			continue;
		if (op->end == SIM_OPEN && !op->callback)
			sim_ended(op, &result);
		sim_release(op);
	}
}

/* Lets virtual time pass. */
static inline void sim_sleep(struct sim_world *world, uint64_t ns)
{
	int status = tow_op_wait(world->clock, ns);

	SIM_CHECK(world, status == TOW_ETIMEDOUT, "the clock says %s", tow_status_name(status));
	sim_reap(world);
}

/* What a receiver holds is within the credit that it gave. */
static inline void sim_check_credit(struct sim_world *world)
{
	for (int i = 0; i < world->conn_count; i++) {
		for (int side = 0; side < 2; side++) {
			const struct twi_session *session;

			if (world->conns[i].closed[side])
				continue;
			session = twi_session_of(world->conns[i].peers[side]);
			SIM_CHECK(world,
				  session->inbox.credit.charged - session->inbox.credit.given <=
						  world->credit &&
					  session->inbox.kept_bytes <= world->credit &&
					  session->grant_count <= TWI_GRANTS_MAX &&
					  session->ready_grants <= TWI_READY_MAX,
				  "conn %d side %d holds more than its credit", i, side);
		}
	}
}

#endif
