/*
 * hunt_calls.c - an act: calls to other ranks, of all sizes, with views, streams, deadlines and
 * cancels. They are answered by the handler, or later by threads of their own.
 */
#include "hunt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS   6u
#define PIECES  12u
#define WORKERS 2
#define METHOD  "hunt.echo"

enum code { NO_MEMORY = 1, SO_BE_IT = 7 };

/* At the head of each request. */
struct ask {
	uint64_t id, bytes, answer_bytes;
	uint32_t later, fails, pieces, naps;
};

struct work {
	struct tow_call_in *call;
	struct work *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work *first, **last;
	pthread_t threads[WORKERS];
	struct hunt_side side[WORKERS];
	bool over;
} served = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

/* The answer to a call; its own memory goes back when the reply has ended. */
static void answer(struct hunt_side *side, struct tow_call_in *call, struct tow_op_options *options,
		   struct tow_op **op)
{
	uint64_t bytes;
	const uint8_t *data = tow_call_request(call, &bytes);
	struct ask ask;
	void *out = NULL;
	int status;

	if (bytes < sizeof(ask))
		hunt_bad(side, "a request of %llu bytes", (unsigned long long)bytes);
	memcpy(&ask, data, sizeof(ask));
	if (ask.bytes + sizeof(ask) != bytes || !hunt_same(data + sizeof(ask), ask.bytes, ask.id))
		hunt_bad(side, "a request of %llu bytes is wrong (canceled %d)",
			 (unsigned long long)bytes, tow_call_canceled(call));
	if (ask.fails != 0) {
		status = tow_reply_start(call, (int32_t)ask.fails, "so be it", 8, options, op);
	} else {
		bytes = ask.answer_bytes;
		if (bytes != 0 && tow_alloc(side->hunt->runtime, bytes, 0, &out) != TOW_OK)
			status = tow_reply_start(call, NO_MEMORY, "no memory", 9, options, op);
		else {
			hunt_fill(out, bytes, ask.id + 1);
			status = tow_reply_start(call, 0, out, bytes, options, op);
			tow_free(side->hunt->runtime, out);
		}
	}
	if (status != TOW_OK && status != TOW_EPEER && status != TOW_ECLOSED)
		hunt_bad(side, "reply: %s: %s", tow_status_name(status), tow_error_message());
}

static void handle(struct tow_call_in *call, void *user)
{
	struct hunt_side *side = user;
	struct work *work;
	struct ask ask;
	uint64_t bytes;

	memcpy(&ask, tow_call_request(call, &bytes), sizeof(ask));
	if (ask.later == 0) {
		answer(side, call, NULL, NULL);
		return;
	}
	work = calloc(1, sizeof(*work));
	work->call = call;
	pthread_mutex_lock(&served.lock);
	*served.last = work;
	served.last = &work->next;
	pthread_cond_signal(&served.more);
	pthread_mutex_unlock(&served.lock);
}

/* Takes all pieces of a stream, and gives as many back. */
static void serve_stream(struct hunt_side *side, struct tow_call_in *call, uint32_t naps)
{
	struct tow_stream *stream = tow_call_in_stream(call);
	uint64_t id = 0;

	for (uint64_t piece = 0; stream != NULL; piece++) {
		struct hunt_pend pend;
		struct tow_op_options options;
		int status;

		side->what = "pull at the server";
		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		hunt_started(&pend,
			     tow_stream_pull_start(stream, NULL, 0, &options, hunt_out(&pend)));
		status = hunt_finish(side, &pend);
		if (status < 0 || pend.result.bytes == 0) {
			hunt_drop(&pend);
			break;
		}
		if (pend.result.bytes >= 8)
			memcpy(&id, pend.result.data, 8);
		if (pend.result.bytes >= 8 &&
		    !hunt_same((const uint8_t *)pend.result.data + 8, pend.result.bytes - 8, id))
			hunt_bad(side, "piece %llu of %llu bytes is wrong",
				 (unsigned long long)piece, (unsigned long long)pend.result.bytes);
		if (naps != 0)
			hunt_nap(side, naps);
		hunt_drop(&pend);
		side->what = "push at the server";
		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		hunt_started(&pend,
			     tow_stream_push_start(stream, &piece, 8, &options, hunt_out(&pend)));
		hunt_finish(side, &pend);
		hunt_drop(&pend);
	}
}

static void *worker(void *argument)
{
	struct hunt_side *side = argument;

	pthread_mutex_lock(&served.lock);
	while (!served.over || served.first != NULL) {
		struct work *work = served.first;
		struct tow_op_options options;
		struct hunt_pend pend;
		struct ask ask;
		uint64_t bytes;

		if (work == NULL) {
			pthread_cond_wait(&served.more, &served.lock);
			continue;
		}
		served.first = work->next;
		if (served.first == NULL)
			served.last = &served.first;
		pthread_mutex_unlock(&served.lock);
		memcpy(&ask, tow_call_request(work->call, &bytes), sizeof(ask));
		if (ask.naps != 0)
			hunt_nap(side, ask.naps);
		serve_stream(side, work->call, ask.naps);
		side->what = "reply";
		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		answer(side, work->call, &options, hunt_out(&pend));
		if (pend.op != NULL)
			hunt_finish(side, &pend);
		hunt_drop(&pend);
		free(work);
		pthread_mutex_lock(&served.lock);
	}
	pthread_mutex_unlock(&served.lock);
	return NULL;
}

void hunt_serve(struct hunt *hunt)
{
	served.last = &served.first;
	for (int i = 0; i < WORKERS; i++) {
		struct hunt_side *side = &served.side[i];

		*side = (struct hunt_side){ .hunt = hunt,
					    .index = 100 + (uint32_t)i,
					    .act = "serve",
					    .own = hunt->seed + hunt->rank };
		HUNT_TRUE(side, tow_queue_open(hunt->runtime, 64, &side->queue) == TOW_OK);
	}
	HUNT_TRUE(served.side,
		  tow_method_register(hunt->runtime, METHOD, handle, served.side, NULL) == TOW_OK);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&served.threads[i], NULL, worker, &served.side[i]);
}

void hunt_serve_end(struct hunt *hunt)
{
	tow_method_deregister(hunt->runtime, METHOD);
	pthread_mutex_lock(&served.lock);
	served.over = true;
	pthread_cond_broadcast(&served.more);
	pthread_mutex_unlock(&served.lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(served.threads[i], NULL);
}

/* --- who calls --- */

struct one {
	struct hunt_pend pend;
	struct hunt_memory request, response;
	struct ask ask;
	bool view, early, loose; /* loose: its pieces may end early with it */
};

/* Pushes pieces and pulls those that come back; all of this may end early with the call. */
static void play_stream(struct hunt_side *side, struct one *one, struct tow_op *op)
{
	struct tow_stream *stream = tow_call_stream(op);
	struct hunt_pend pend;
	struct tow_op_options options;
	uint8_t data[3000];

	side->what = "stream";
	HUNT_TRUE(side, stream != NULL);
	for (uint32_t i = 0; i < one->ask.pieces; i++) {
		uint64_t id = twt_random(&side->own), bytes = 8 + hunt_own(side, sizeof(data) - 8);
		int status;

		memcpy(data, &id, 8);
		hunt_fill(data + 8, bytes - 8, id);
		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		hunt_started(&pend,
			     tow_stream_push_start(stream, data, bytes, &options, hunt_out(&pend)));
		status = hunt_finish(side, &pend);
		if (!one->loose)
			hunt_well(side, &pend, status, "push");
		hunt_drop(&pend);
	}
	tow_stream_end(stream);
	for (uint64_t i = 0;; i++) {
		uint64_t piece = UINT64_MAX;
		int status;

		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		hunt_started(&pend,
			     tow_stream_pull_start(stream, &piece, 8, &options, hunt_out(&pend)));
		status = hunt_finish(side, &pend);
		if (!one->loose && hunt_well(side, &pend, status, "pull") && status >= 0)
			HUNT_TRUE(side, pend.result.bytes == 0 ? i == one->ask.pieces : piece == i);
		hunt_drop(&pend);
		if (status < 0 || pend.result.bytes == 0)
			break;
	}
}

static void start_one(struct hunt_side *side, struct one *one, struct tow_peer *peer, bool streams)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	uint64_t out;

	*one = (struct one){ .view = hunt_own(side, 3) == 0, .early = hunt_own(side, 6) == 0 };
	one->ask = (struct ask){ .id = twt_random(&side->own),
				 .later = hunt_own(side, 2) == 0,
				 .fails = hunt_own(side, 12) == 0 ? SO_BE_IT : 0 };
	one->loose = one->early || one->ask.fails != 0 || side->hunt->tight;
	one->ask.bytes = hunt_own(side, hunt_own(side, 6) == 0 ? 400000 : 3000);
	one->ask.answer_bytes = hunt_own(side, hunt_own(side, 6) == 0 ? 400000 : 3000);
	if (hunt_own(side, 8) == 0)
		one->ask.naps = 2000000;
	if (streams) {
		one->ask.later = 1;
		one->ask.pieces = 1 + (uint32_t)hunt_own(side, PIECES);
	}
	hunt_take(side, &one->request, sizeof(one->ask) + one->ask.bytes);
	memcpy(one->request.data, &one->ask, sizeof(one->ask));
	hunt_fill(one->request.data + sizeof(one->ask), one->ask.bytes, one->ask.id);
	out = one->view ? 0 : one->ask.answer_bytes;
	hunt_take(side, &one->response, out);
	hunt_way(side, &one->pend, true);
	one->pend.is_call = true;
	options.done = hunt_callback(&one->pend);
	options.queue = hunt_queue(side, &one->pend);
	options.user = &one->pend;
	options.flags = (one->view ? TOW_CALL_VIEW : 0) | (streams ? TOW_CALL_STREAM : 0) |
			(one->request.kind == HUNT_POOL && hunt_own(side, 2) ? TOW_CALL_LEND : 0);
	if (one->early && hunt_own(side, 2) == 0)
		options.timeout_ns = 1 + hunt_own(side, 2000000);
	else if (side->hunt->dying)
		options.timeout_ns = 5 * HUNT_NS;
	hunt_started(&one->pend, tow_call_start(peer, METHOD, one->request.data, one->request.bytes,
						one->view ? NULL : one->response.data, out,
						&options, hunt_out(&one->pend)));
}

static void end_one(struct hunt_side *side, struct one *one)
{
	int status = hunt_finish(side, &one->pend);
	const struct tow_call_result *call = &one->pend.call;

	if (status == TOW_EREMOTE && call->code == NO_MEMORY && side->hunt->tight)
		status = TOW_EEXHAUSTED;
	if (one->ask.fails != 0 && status == TOW_EREMOTE)
		HUNT_TRUE(side, call->code == SO_BE_IT);
	else if (status == TOW_EEXHAUSTED && side->hunt->tight)
		;
	else if (!(one->early && (status == TOW_EDEADLINE || status == TOW_ECANCELED)) &&
		 hunt_well(side, &one->pend, status, "call")) {
		if (one->pend.result.bytes != one->ask.answer_bytes)
			hunt_bad(side, "a response of %llu bytes, not %llu",
				 (unsigned long long)one->pend.result.bytes,
				 (unsigned long long)one->ask.answer_bytes);
		HUNT_TRUE(side, hunt_same(one->view ? one->pend.result.data : one->response.data,
					  one->ask.answer_bytes, one->ask.id + 1));
	}
	hunt_drop(&one->pend);
	hunt_give(side, &one->request);
	hunt_give(side, &one->response);
}

void hunt_calls(struct hunt_side *side)
{
	struct one ones[CALLS];
	uint32_t count = 1 + (uint32_t)hunt_own(side, CALLS), to;
	bool streams = hunt_own(side, 5) == 0;
	struct tow_peer *peer;

	if (side->hunt->ranks < 2)
		return;
	to = (side->hunt->rank + 1 + (uint32_t)hunt_own(side, side->hunt->ranks - 1)) %
	     side->hunt->ranks;
	side->what = "connect";
	if (!hunt_said(side, tow_group_connect(side->hunt->all, to, 20 * HUNT_NS, &peer),
		       "connect"))
		return;
	if (streams)
		count = 1;
	side->what = "call";
	for (uint32_t i = 0; i < count; i++)
		start_one(side, &ones[i], peer, streams);
	if (streams && ones[0].pend.op != NULL && ones[0].pend.way != BY_QUEUE)
		play_stream(side, &ones[0], ones[0].pend.op);
	else if (streams && ones[0].pend.op != NULL)
		tow_stream_end(tow_call_stream(ones[0].pend.op));
	side->what = "end of calls";
	for (uint32_t i = 0; i < count; i++)
		if (ones[i].early && ones[i].pend.op != NULL && hunt_own(side, 2) == 0 &&
		    !(ones[i].pend.way == BY_QUEUE && ones[i].pend.done))
			tow_op_cancel(ones[i].pend.op);
	for (uint32_t i = 0; i < count; i++)
		end_one(side, &ones[i]);
}
