/*
 * test_late_calls.c - calls that end by their deadline, or are canceled, while their request or
 * their response is under way. From its end on the memory of a call is the caller's: no lane writes
 * to it, and no server gets a request of what is written there later, nor sees it in one that it
 * has. Over every lane that joins processes, out of the pool and of other memory, and driven in
 * each way. TOW_TEST_SEED replays the times.
 */
#include <stdatomic.h>
#include <string.h>

#include <towline/group_message.h>
#include <towline/queue.h>
#include <towline/rpc.h>

#include "coll_team.h"
#include "pair.h"
#include "twt.h"
#include "twt_random.h"

#ifdef TWT_SANITIZED
#define CALLS 32u
#else
#define CALLS 64u
#endif
#define BYTES   (4u << 20)
#define MOST_US 2500u /* of a call, which takes about as long */
#define LATE_US 3000u /* a lane that goes on writes within this time */
#define READ_US 500u  /* how long a handler has a request */
#define SENT    0x55
#define REPLIED 0x33
#define LATER   0xaa

enum style { BY_WAIT, BY_TEST, BY_CALLBACK, BY_QUEUE, STYLES };

static uint64_t seed;

struct server {
	uint8_t *response;
	_Atomic bool is_over;
};

static bool is_all(const uint8_t *data, uint64_t bytes, uint8_t value)
{
	return bytes == 0 || (data[0] == value && memcmp(data, data + 1, bytes - 1) == 0);
}

static void on_get(struct tow_call_in *call, void *user)
{
	const struct server *server = user;

	TWT_OK(tow_reply_start(call, 0, server->response, BYTES, NULL, NULL));
}

static void on_put(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	TWT_TRUE(bytes == BYTES && is_all(request, bytes, SENT));
	usleep(READ_US);
	TWT_TRUE(is_all(request, bytes, SENT));
	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
}

static void on_over(struct tow_call_in *call, void *user)
{
	struct server *server = user;

	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
	atomic_store(&server->is_over, true);
}

static void serve(struct twt_rank *rank)
{
	struct server server = { .response = malloc(BYTES) };

	TWT_TRUE(server.response != NULL);
	memset(server.response, REPLIED, BYTES);
	TWT_OK(tow_method_register(rank->runtime, "get", on_get, &server, NULL));
	TWT_OK(tow_method_register(rank->runtime, "put", on_put, NULL, NULL));
	TWT_OK(tow_method_register(rank->runtime, "over", on_over, &server, NULL));
	twt_coll_meet(rank);
	while (!atomic_load(&server.is_over)) /* the rank has an alarm */
		TWT_TRUE(tow_progress(rank->runtime) >= 0);
	twt_coll_meet(rank);
	free(server.response);
}

/* The client, and what it has of a call. */
struct client {
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	struct tow_queue *queue;
	uint8_t *memory[2]; /* of malloc, of the pool */
	uint8_t *used;      /* by the call that is under way */
	uint64_t rng;
	_Atomic int told; /* to a callback; TOW_AGAIN: nothing yet */
};

static void on_end(struct tow_op *op, const struct tow_result *result)
{
	struct client *client = result->user;

	(void)op;
	if (result->status < 0) /* the memory is the caller's now, before the callback returns */
		memset(client->used, LATER, BYTES);
	atomic_store(&client->told, result->status);
}

static int take_from_queue(struct client *client)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count;

	while (tow_queue_take(client->queue, &result, 1, &count) == TOW_AGAIN)
		TWT_TRUE(tow_progress(client->runtime) >= 0);
	return result.status;
}

/* Returns how the call has ended. The rank has an alarm. */
static int await_end(struct client *client, struct tow_op *op, enum style style)
{
	int status = TOW_AGAIN;

	switch (style) {
	case BY_WAIT:
		status = tow_op_wait(op, 20 * TWT_SECOND);
		break;
	case BY_TEST:
		while ((status = tow_op_test(op)) == TOW_AGAIN)
			;
		break;
	case BY_CALLBACK: /* the library's own thread drives it */
		while ((status = atomic_load(&client->told)) == TOW_AGAIN)
			usleep(20);
		break;
	default:
		status = take_from_queue(client);
		break;
	}
	TWT_OK(tow_op_release(op));
	return status;
}

static void call_once(struct client *client, unsigned i)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	bool puts = i % 2 != 0, cancels = i / 2 % 2 != 0;
	uint8_t *memory = client->memory[i / 4 % 2];
	enum style style = (enum style)(i / 8 % STYLES);
	uint64_t us = twt_random_below(&client->rng, MOST_US) + 20;
	struct tow_op *op;
	int status;

	memset(memory, puts ? SENT : 0, BYTES);
	options.timeout_ns = cancels ? TOW_FOREVER : us * 1000;
	options.done = style == BY_CALLBACK ? on_end : NULL;
	options.queue = style == BY_QUEUE ? client->queue : NULL;
	options.user = client;
	client->used = memory;
	atomic_store(&client->told, TOW_AGAIN);
	if (puts)
		TWT_OK(tow_call_start(client->peer, "put", memory, BYTES, NULL, 0, &options, &op));
	else
		TWT_OK(tow_call_start(client->peer, "get", NULL, 0, memory, BYTES, &options, &op));
	if (cancels) {
		usleep((useconds_t)us);
		(void)tow_op_cancel(op);
	}
	status = await_end(client, op, style);
	if (status >= 0) {
		TWT_TRUE(puts || is_all(memory, BYTES, REPLIED));
		return;
	}
	TWT_TRUE(status == TOW_EDEADLINE || status == TOW_ECANCELED);
	if (style != BY_CALLBACK)
		memset(memory, LATER, BYTES);
	usleep(LATE_US);
	TWT_TRUE(is_all(memory, BYTES, LATER));
}

static void play(struct twt_rank *rank)
{
	struct client client = { .runtime = rank->runtime, .rng = seed };

	if (rank->rank != 0) {
		serve(rank);
		return;
	}
	client.memory[0] = malloc(BYTES);
	TWT_TRUE(client.memory[0] != NULL);
	TWT_OK(tow_alloc(rank->runtime, BYTES, 0, (void **)&client.memory[1]));
	TWT_OK(tow_queue_open(rank->runtime, 4, &client.queue));
	TWT_OK(tow_group_connect(rank->group, 1, 20 * TWT_SECOND, &client.peer));
	twt_coll_meet(rank);
	for (unsigned i = 0; i < CALLS; i++)
		call_once(&client, i);
	TWT_OK(tow_call(client.peer, "over", NULL, 0, NULL, 0, 20 * TWT_SECOND, NULL));
	twt_coll_meet(rank);
	TWT_OK(tow_queue_close(client.queue));
	TWT_OK(tow_free(rank->runtime, client.memory[1]));
	free(client.memory[0]);
}

static void test_late_calls(void **state)
{
	(void)state;
	seed = twt_seed();
	twt_ranks_by_lane(&(struct twt_job){ .ranks = 2, .run = play, .pool_bytes = 64 << 20 });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_late_calls) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
