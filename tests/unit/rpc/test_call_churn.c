/*
 * test_call_churn.c - threads of both sides connect, close, and start messages, calls and streams
 * with random deadlines and cancels, on peers that other threads close meanwhile. Over each lane.
 * Nothing hangs, every operation ends with a status that such a program expects, the memory of a
 * piece is not written to after its end, and a sanitizer finds no memory that is used after its
 * peer. TOW_TEST_SEED replays the choices of each thread.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <towline/rpc.h>

#include "lane_pair.h"
#include "twt_random.h"

#ifdef TWT_SANITIZED
#define TURNS 250u
#else
#define TURNS 1000u
#endif
#define WORKERS 6
#define SLOTS   4 /* peers of a side that its threads use */
#define LONG    200000u
#define MOST_US 2000u
#define END_NS  (20 * TWT_SECOND)
#define RARELY  8u
#define KEPT    128u /* pieces that have ended */
#define LATER   0xa5

/* One side's end of the connections, which its threads share. */
struct side {
	struct tow_peer *_Atomic peers[SLOTS];
	struct tow_call_in *_Atomic kept; /* a call that is answered later */
};

static struct twt_lane_pair pair;
static struct side sides[2];
static char addresses[2][TOW_ADDRESS_MAX];
static _Atomic unsigned working, wrong;
static uint64_t seed;

struct worker {
	unsigned side;
	uint64_t rng;
	uint8_t *memory[2]; /* of the pool, of malloc; LONG to send from, LONG to receive into */
};

static void expect(int status, const char *what)
{
	switch (status) {
	case TOW_EPEER:
	case TOW_ECLOSED:
	case TOW_EDEADLINE:
	case TOW_ECANCELED:
	case TOW_EREFUSED:
	case TOW_EBUSY:
	case TOW_EEXHAUSTED:
	case TOW_ETRUNCATED:
		return;
	default:
		if (status >= 0)
			return;
		fprintf(stderr, "%s: %s: %s\n", pair.lane->name, what, tow_error_message());
		atomic_fetch_add(&wrong, 1);
	}
}

static void put_peer(struct side *side, unsigned slot, struct tow_peer *peer)
{
	struct tow_peer *old = atomic_exchange(&side->peers[slot], peer);

	if (old != NULL)
		expect(tow_peer_close(old), "close");
}

static void answer(struct tow_call_in *call)
{
	if (call != NULL)
		expect(tow_reply_start(call, 0, NULL, 0, NULL, NULL), "answer");
}

/* --- what a side serves --- */

static void on_echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	expect(tow_reply_start(call, 0, request, bytes, NULL, NULL), "echo");
}

static void on_keep(struct tow_call_in *call, void *user)
{
	struct side *side = user;

	answer(atomic_exchange(&side->kept, call));
}

/* Memory of a piece whose operation has ended: nothing may write there any more. */
struct piece {
	uint64_t bytes;
	uint8_t data[];
};

static struct {
	pthread_mutex_t lock;
	struct piece *pieces[KEPT];
	unsigned next;
} ended = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void look_at(struct piece *piece)
{
	for (uint64_t i = 0; piece != NULL && i < piece->bytes; i++) {
		if (piece->data[i] == LATER)
			continue;
		fprintf(stderr, "%s: byte %llu of a piece of %llu was written after its end\n",
			pair.lane->name, (unsigned long long)i, (unsigned long long)piece->bytes);
		atomic_fetch_add(&wrong, 1);
		break;
	}
	free(piece);
}

/* Keeps the piece for a while, and looks at the one that was kept longest. */
static void keep_piece(struct piece *piece)
{
	struct piece *oldest;

	if (piece != NULL)
		memset(piece->data, LATER, piece->bytes);
	pthread_mutex_lock(&ended.lock);
	oldest = ended.pieces[ended.next];
	ended.pieces[ended.next] = piece;
	ended.next = (ended.next + 1) % KEPT;
	pthread_mutex_unlock(&ended.lock);
	look_at(oldest);
}

static void on_piece(struct tow_op *op, const struct tow_result *result)
{
	expect(result->status, "piece");
	keep_piece(result->user);
	TWT_OK(tow_op_release(op));
}

/* Pushes or pulls a piece, whose end a callback hears of. */
static void move_piece(struct tow_stream *stream, uint64_t *rng)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t bytes = twt_random_below(rng, LONG) + 1;
	struct piece *piece = malloc(sizeof(*piece) + bytes);
	struct tow_op *op;
	int status;

	assert_non_null(piece);
	piece->bytes = bytes;
	memset(piece->data, 0, bytes);
	options.done = on_piece;
	options.user = piece;
	if (twt_random_below(rng, 2) == 0)
		options.timeout_ns = twt_random_below(rng, MOST_US) * 1000;
	if (twt_random_below(rng, 2) == 0)
		status = tow_stream_push_start(stream, piece->data, bytes, &options, &op);
	else
		status = tow_stream_pull_start(stream, piece->data, bytes, &options, &op);
	expect(status, "stream");
	if (status < 0)
		free(piece);
}

static void on_flow(struct tow_call_in *call, void *user)
{
	struct tow_stream *stream = tow_call_in_stream(call);
	uint64_t rng = (uintptr_t)call + tow_call_remaining_ns(call);

	for (unsigned i = 0; i < 3 && stream != NULL; i++)
		move_piece(stream, &rng);
	if (stream != NULL && twt_random_below(&rng, 2) == 0)
		expect(tow_stream_end(stream), "end of a stream");
	if (twt_random_below(&rng, 3) == 0)
		on_keep(call, user);
	else
		answer(call);
}

/* --- what its threads do --- */

static void connect_one(struct worker *worker)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *op;
	int status;

	options.timeout_ns = TWT_SECOND;
	status = tow_connect_start(pair.endpoint[worker->side], addresses[!worker->side], &options,
				   &op);
	expect(status, "connect");
	if (status < 0)
		return;
	status = tow_op_wait(op, END_NS);
	expect(status, "connect");
	if (status >= 0 && tow_op_result(op, &result) >= 0)
		put_peer(&sides[worker->side], (unsigned)twt_random_below(&worker->rng, SLOTS),
			 result.peer);
	TWT_OK(tow_op_release(op));
}

/* Ends an operation, perhaps early. */
static void finish(struct worker *worker, struct tow_op *op, bool cancels, const char *what)
{
	if (cancels) {
		usleep((useconds_t)twt_random_below(&worker->rng, MOST_US / 4));
		expect(tow_op_cancel(op), "cancel");
	}
	expect(tow_op_wait(op, END_NS), what); /* TOW_ETIMEDOUT: it hangs, and is told */
	TWT_OK(tow_op_release(op));
}

static void message(struct worker *worker, struct tow_peer *peer)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t kind = twt_random_below(&worker->rng, 3);
	uint64_t tag = twt_random_below(&worker->rng, 3);
	uint64_t most = twt_random_below(&worker->rng, 2) == 0 ? LONG : 4000;
	uint64_t bytes = twt_random_below(&worker->rng, most) + 1;
	uint8_t *memory = worker->memory[twt_random_below(&worker->rng, 2)];
	struct tow_op *op;
	int status;

	options.timeout_ns = (twt_random_below(&worker->rng, MOST_US) + 1) * 1000;
	if (kind == 0)
		status = tow_send_start(peer, memory, bytes, tag, &options, &op);
	else if (kind == 1)
		status = tow_recv_start(peer, memory + LONG, bytes, tag, &options, &op);
	else
		status = tow_recv_view_start(peer, tag, &options, &op);
	expect(status, "message");
	if (status >= 0)
		finish(worker, op, twt_random_below(&worker->rng, 4) == 0, "message");
}

/* A call without a deadline is always canceled, since nobody may answer it soon. */
static void call(struct worker *worker, struct tow_peer *peer, bool flows)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	const char *method = flows                                    ? "flow"
			     : twt_random_below(&worker->rng, 2) == 0 ? "echo"
								      : "keep";
	uint64_t most = twt_random_below(&worker->rng, 2) == 0 ? LONG : 4000;
	uint64_t bytes = flows ? 0 : twt_random_below(&worker->rng, most) + 1;
	bool cancels = twt_random_below(&worker->rng, 2) == 0;
	uint8_t *memory = worker->memory[twt_random_below(&worker->rng, 2)];
	uint64_t pieces = twt_random_below(&worker->rng, 4);
	struct tow_op *op;
	int status;

	if (!cancels)
		options.timeout_ns = (twt_random_below(&worker->rng, MOST_US) + 1) * 1000;
	options.flags = flows ? TOW_CALL_STREAM : 0;
	options.flags |= twt_random_below(&worker->rng, 2) == 0 ? TOW_CALL_LEND : 0;
	options.flags |= twt_random_below(&worker->rng, 3) == 0 ? TOW_CALL_VIEW : 0;
	status = tow_call_start(peer, method, memory, bytes, memory + LONG, LONG, &options, &op);
	expect(status, method);
	if (status < 0)
		return;
	for (uint64_t i = 0; flows && i < pieces; i++)
		move_piece(tow_call_stream(op), &worker->rng);
	finish(worker, op, cancels, method);
}

static void take_turn(struct worker *worker)
{
	struct side *side = &sides[worker->side];
	unsigned slot = (unsigned)twt_random_below(&worker->rng, SLOTS);
	struct tow_peer *peer = atomic_load(&side->peers[slot]);
	uint64_t what = twt_random_below(&worker->rng, RARELY);

	if (peer == NULL || what == 0) {
		connect_one(worker);
		return;
	}
	if (what == 1) {
		if (twt_random_below(&worker->rng, RARELY) == 0)
			put_peer(side, slot, NULL);
		answer(atomic_exchange(&side->kept, NULL));
	} else if (what < 4) {
		message(worker, peer);
	} else {
		call(worker, peer, what < 6);
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (unsigned i = 0; i < TURNS; i++)
		take_turn(worker);
	atomic_fetch_sub(&working, 1);
	return NULL;
}

/* Accepts, and answers what was kept, until all others have ended: a kept call may hold one up. */
static void *accept_all(void *arg)
{
	struct worker *worker = arg;
	struct side *side = &sides[worker->side];
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.timeout_ns = TWT_SECOND / 50;
	while (atomic_load(&working) > 0) {
		struct tow_result result = TOW_RESULT_INIT;
		struct tow_op *op;

		TWT_OK(tow_accept_start(pair.endpoint[worker->side], &options, &op));
		if (tow_op_wait(op, END_NS) >= 0 && tow_op_result(op, &result) >= 0)
			put_peer(side, (unsigned)twt_random_below(&worker->rng, SLOTS),
				 result.peer);
		TWT_OK(tow_op_release(op));
		answer(atomic_exchange(&side->kept, NULL));
	}
	return NULL;
}

static void open_side(unsigned i)
{
	struct tow_runtime *runtime = pair.runtime[i];

	TWT_OK(tow_endpoint_address(pair.endpoint[i], addresses[i], sizeof(addresses[i])));
	if (i == 1 && pair.lane->one_runtime)
		return;
	TWT_OK(tow_method_register(runtime, "echo", on_echo, NULL, NULL));
	TWT_OK(tow_method_register(runtime, "keep", on_keep, &sides[i], NULL));
	TWT_OK(tow_method_register(runtime, "flow", on_flow, &sides[i], NULL));
}

static void run_threads(struct worker workers[WORKERS + 2])
{
	pthread_t threads[WORKERS + 2];

	atomic_store(&working, WORKERS);
	for (unsigned i = 0; i < WORKERS + 2; i++) {
		struct worker *worker = &workers[i];

		*worker = (struct worker){ .side = i % 2, .rng = seed + i };
		TWT_OK(tow_alloc(pair.runtime[worker->side], 2ull * LONG, 0,
				 (void **)&worker->memory[0]));
		worker->memory[1] = calloc(2, LONG);
		assert_int_equal(
			pthread_create(&threads[i], NULL, i < 2 ? accept_all : work, worker), 0);
	}
	for (unsigned i = 0; i < WORKERS + 2; i++)
		pthread_join(threads[i], NULL);
}

static void test_churn(void **state)
{
	struct worker workers[WORKERS + 2];

	seed = twt_seed();
	atomic_store(&wrong, 0);
	twt_lane_init(&pair, *state);
	for (int i = 0; i < 2; i++) {
		pair.options[i].premap_memory_bytes = 32 << 20;
		pair.options[i].background = 1;
	}
	if (!twt_lane_open(&pair))
		skip();
	open_side(0);
	open_side(1);
	run_threads(workers);
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		put_peer(&sides[i % 2], i / 2, NULL);
	for (unsigned i = 0; i < 2; i++)
		answer(atomic_exchange(&sides[i].kept, NULL));
	for (unsigned i = 0; i < WORKERS + 2; i++)
		TWT_OK(tow_free(pair.runtime[workers[i].side], workers[i].memory[0]));
	twt_lane_close(&pair);
	for (unsigned i = 0; i < KEPT; i++)
		keep_piece(NULL);
	for (unsigned i = 0; i < WORKERS + 2; i++)
		free(workers[i].memory[1]);
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	return twt_lane_main(test_churn);
}
