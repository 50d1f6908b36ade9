/*
 * sim_calls.h - the model of a simulated world of calls: what is known of each, and the rules that
 * it must keep when it ends. Include it in exactly one file of a program.
 */
#ifndef TWT_SIM_CALLS_H
#define TWT_SIM_CALLS_H

#include "twt.h"

#ifdef TWT_SANITIZED
#define SIM_CALLS_SEEDS 50u
#else
#define SIM_CALLS_SEEDS 100u
#endif

#include <errno.h>
#include <string.h>

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_table.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"
#include "transport/sim/loop_sim.h"

#define MS     1000000ull
#define CALLS  400
#define CONNS  3
#define PIECES 24

enum method { ECHO, LATER, FAIL, MAKE, FEW, NONE, STREAM, METHODS };

static const char *const names[METHODS] = {
	"echo", "later", "fail", "make", "few", "none", "stream"
};

struct piece {
	uint64_t bytes;
	uint8_t *data;
	bool open;
};

struct call {
	struct tow_op *op;
	enum method method;
	int conn, side;
	uint64_t id, bytes, answer_bytes, room, deadline_ns;
	bool timed, asked_cancel, ended, view, callback, released;
	int status, served;
	uint8_t *request, *response;
	/* a stream's client */
	struct tow_stream *stream;
	struct piece pieces[PIECES];
	int piece_count, pushed, pulled, operations;
	bool pull_open, end_seen;
};

/* A call in service. */
struct served {
	struct tow_call_in *in;
	struct call *call;
	uint64_t due_ns;
	bool used;
	/* a stream's server */
	struct tow_stream *stream;
	uint8_t *echo[PIECES];
	int pulled, pushing;
	bool end_seen, replied, pull_open;
};

struct conn {
	struct tow_peer *peers[2];
	bool closed[2];
};

static struct {
	uint64_t seed, random;
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_op *clock;
	struct conn conns[CONNS];
	int conn_count, call_count;
	struct call calls[CALLS];
	struct served served[TWI_RPC_RECORDS * 2];
	uint64_t bytes_max;
	bool deadlines, cancels, closes, closing, small_pool;
} world;

static uint64_t counts[METHODS][32];

#define FAIL_AT(...)                                                                               \
	do {                                                                                       \
		fprintf(stderr, "%s:%d: seed %llu: ", __FILE__, __LINE__,                          \
			(unsigned long long)world.seed);                                           \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fprintf(stderr, "\nreplay: TOW_TEST_SEED=%llu %s\n",                               \
			(unsigned long long)world.seed, program_invocation_name);                  \
		abort();                                                                           \
	} while (0)

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL_AT(__VA_ARGS__);                                                      \
	} while (0)

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&world.random, bound);
}

static bool chance(unsigned permille)
{
	return below(1000) < permille;
}

static uint8_t byte_of(uint64_t id, uint64_t at)
{
	return (uint8_t)((id + 1) * 0x9e3779b97f4a7c15ull >> 40) + (uint8_t)(at * 13);
}

/* The first 8 bytes are the id, the next 8 how long the answer is to be. */
static void fill(uint8_t *data, uint64_t bytes, uint64_t id, uint64_t answer)
{
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = i < 8    ? (uint8_t)(id >> 8 * i)
			  : i < 16 ? (uint8_t)(answer >> 8 * (i - 8))
				   : byte_of(id, i);
}

static uint64_t word(const uint8_t *data)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value |= (uint64_t)data[i] << 8 * i;
	return value;
}

static bool same(const uint8_t *data, uint64_t bytes, uint64_t id, uint64_t answer)
{
	for (uint64_t i = 0; i < bytes; i++) {
		uint8_t want = i < 8    ? (uint8_t)(id >> 8 * i)
			       : i < 16 ? (uint8_t)(answer >> 8 * (i - 8))
					: byte_of(id, i);

		if (data[i] != want)
			return false;
	}
	return true;
}

static uint64_t random_bytes(uint64_t least)
{
	switch (below(10)) {
	case 0:
		return least;
	case 1:
	case 2:
	case 3:
		return least + below(100);
	case 4:
	case 5:
		return least + below(6000);
	case 6:
		return 16384 - 32 + below(100);
	default:
		return least + below(world.bytes_max);
	}
}

/* Memory outside the pool is freed when its operation ends, so that ASan sees later touches. */
static uint8_t *buffer(uint64_t bytes)
{
	uint8_t *data = malloc(bytes + 1);

	CHECK(data != NULL, "no memory for a test");
	return data;
}

/* Then a server gives up a stream whose piece it cannot take. */
static bool pool_may_be_full(void)
{
	return world.small_pool || world.bytes_max > 100000;
}

static bool may(const struct call *call, int status, const char *text)
{
	const struct conn *conn = &world.conns[call->conn];
	bool faults = twi_loop_faults(world.engine) > 0;

	switch (status) {
	case TOW_OK:
		return call->method != FAIL && call->method != NONE;
	case TOW_EREMOTE:
		return call->method == FAIL;
	case TOW_ENOTSUP:
		return call->method == NONE && text[0] != '\0';
	case TOW_EBUSY:
		return text[0] != '\0' &&
		       (call->method == FEW || strstr(text, "as it can") != NULL);
	case TOW_EEXHAUSTED:
		return pool_may_be_full();
	case TOW_ETRUNCATED:
		return !call->view && call->answer_bytes > call->room;
	case TOW_EDEADLINE:
		return call->timed;
	case TOW_ECANCELED:
		return call->asked_cancel || (call->method == STREAM && pool_may_be_full());
	case TOW_ECLOSED:
		return conn->closed[call->side] || world.closing;
	case TOW_EPEER:
		return conn->closed[1 - call->side] || faults;
	default:
		return false;
	}
}

static void call_ended(struct call *call, int status)
{
	struct tow_call_result result = { .size = sizeof(result) };

	CHECK(!call->ended, "call %llu ended twice", (unsigned long long)call->id);
	call->ended = true;
	call->status = status;
	counts[call->method][-status]++;
	CHECK(tow_call_result(call->op, &result) == TOW_OK && result.status == status,
	      "call %llu: its result does not say how it went", (unsigned long long)call->id);
	CHECK(may(call, status, result.text), "call %llu of %s ended with %s (%s) %s",
	      (unsigned long long)call->id, names[call->method], tow_status_name(status),
	      result.text, tow_error_message());
	CHECK(status != TOW_EDEADLINE || world.engine->virtual_ns >= call->deadline_ns,
	      "call %llu ended before its deadline", (unsigned long long)call->id);
	if (status == TOW_EREMOTE)
		CHECK(result.code == (int32_t)(call->id % 100) + 1 &&
			      strcmp(result.text, "as it was asked") == 0,
		      "call %llu: another failure", (unsigned long long)call->id);
	if (status == TOW_OK) {
		CHECK(call->served == 1, "call %llu was answered and served %d times",
		      (unsigned long long)call->id, call->served);
		CHECK(result.bytes == call->answer_bytes &&
			      same(result.data, result.bytes, call->id, call->answer_bytes),
		      "call %llu: %llu bytes that are not its answer of %llu",
		      (unsigned long long)call->id, (unsigned long long)result.bytes,
		      (unsigned long long)call->answer_bytes);
		CHECK(result.queue_ns + result.server_queue_ns + result.wire_ns + result.match_ns +
				      result.serve_ns ==
			      result.total_ns,
		      "call %llu: the parts of its time are not all of it",
		      (unsigned long long)call->id);
	}
	free(call->request);
	free(call->response);
	call->request = call->response = NULL;
}

static uint32_t length(const struct twi_list *list)
{
	uint32_t n = 0;

	for (const struct twi_list *at = list->next; at != list; at = at->next)
		n++;
	return n;
}

static void check_empty(void)
{
	struct twi_rpc *rpc = world.engine->rpc;
	struct twi_pool_stats stats;

	for (uint32_t i = 0; i < world.engine->ops->count; i++)
		CHECK(&world.engine->ops->rows[i] == world.clock ||
			      world.engine->ops->rows[i].wait.state == 0,
		      "row %u is in use", i);
	CHECK(length(&rpc->calls) == rpc->records, "records of calls are left");
	CHECK(length(&rpc->ins) == rpc->records, "calls in service are left");
	CHECK(length(&rpc->streams) == TWI_RPC_STREAMS, "streams are left");
	CHECK(length(&rpc->slots) == rpc->records, "slots are left");
	CHECK(twi_list_empty(&rpc->peers), "a peer's calls do not go");
	twi_pool_stats(world.engine->pool, &stats);
	CHECK(stats.leased == 0 && stats.allocated == world.engine->staging.bytes,
	      "pool memory is left");
}

#endif
